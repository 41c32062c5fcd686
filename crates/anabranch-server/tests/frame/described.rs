//! Real answers of a running server are what its description says. (That it has the same routes and parameters as the
//! table is tested beside that, in `src/openapi.rs`.)

use crate::client::{Answer, Server};
use crate::filled::{Filled, filled};
use crate::on_both;
use crate::schema;
use crate::support::Db;
use anabranch_server::{NewToken, Scope};
use serde_json::Value;
use std::collections::BTreeSet;

on_both!(every_answer_is_as_described, a_worker_that_runs_is_as_described);

/// What is asked of each address: a method, the path as the description has it, the path that is asked for, a body.
fn asked(
    filled: &Filled,
    batches: &str,
) -> Vec<(&'static str, &'static str, String, &'static str)> {
    let task = filled.task;
    let plain = |path: &'static str| ("GET", path, path.to_owned(), "");
    let at = |path: &'static str, real: &str| ("GET", path, real.to_owned(), "");
    let mut all: Vec<_> = [
        "/livez",
        "/readyz",
        "/metrics",
        "/v1/openapi.json",
        "/v1/session",
        "/v1/tokens",
        "/v1/consumers",
        "/v1/workers",
        "/v1/replica-sets",
        "/v1/generations",
        "/v1/pools",
        "/v1/deliveries",
        "/v1/workflows",
        "/v1/plans",
        "/v1/journal",
    ]
    .map(plain)
    .into();
    all.extend([
        at("/v1/consumers", "/v1/consumers?limit=1"),
        at("/v1/consumers/{name}", "/v1/consumers/orders"),
        at("/v1/consumers/{name}", "/v1/consumers/others"),
        at("/v1/consumers/{name}/slots", "/v1/consumers/orders/slots"),
        at("/v1/consumers/{name}/explain", "/v1/consumers/orders/explain?key=Order:2"),
        at("/v1/consumers/{name}/explain", "/v1/consumers/others/explain?key=Order:2"),
        at("/v1/consumers/{name}/parked", "/v1/consumers/orders/parked"),
        at("/v1/consumers/{name}/parked/groups", "/v1/consumers/orders/parked/groups"),
        at("/v1/consumers/{name}/parked/{key}", "/v1/consumers/orders/parked/Order:2"),
        at("/v1/consumers/{name}/audit", "/v1/consumers/others/audit"),
        at("/v1/tasks", "/v1/tasks?pool=mails&limit=2"),
        at("/v1/tasks/{id}", &format!("/v1/tasks/{task}")),
        at("/v1/batches", &format!("/v1/batches?table={batches}")),
        at("/v1/batches/{job}/failed", &format!("/v1/batches/mails/failed?table={batches}")),
        at("/v1/workflows/{workflow}/{id}", "/v1/workflows/seats/12a"),
        at("/v1/workflows/{workflow}/{id}", "/v1/workflows/Order/1"),
        (
            "POST",
            "/v1/tokens",
            "/v1/tokens".to_owned(),
            r#"{"name": "made", "scopes": ["read-masked"]}"#,
        ),
        ("POST", "/v1/session", "/v1/session".to_owned(), r#"{"token": "TOKEN"}"#),
        ("DELETE", "/v1/session", "/v1/session".to_owned(), ""),
        ("DELETE", "/v1/tokens/{id}", "/v1/tokens/MADE".to_owned(), ""),
        // Of operations.
        (
            "POST",
            "/v1/plans",
            "/v1/plans".to_owned(),
            r#"{"do": "replay", "consumer": "others", "from": {"last": 2}}"#,
        ),
        at("/v1/plans/{id}", "/v1/plans/PLAN"),
        ("POST", "/v1/plans/{id}/apply", "/v1/plans/PLAN/apply".to_owned(), ""),
        ("POST", "/v1/plans/{id}/cancel", "/v1/plans/PLAN/cancel".to_owned(), ""),
        at("/v1/journal", "/v1/journal?target=orders&limit=1"),
        // Of events, tasks and commands.
        at("/v1/streams/{category}/{id}", "/v1/streams/Order/1"),
        at("/v1/events", "/v1/events?limit=2"),
        at("/v1/events/{id}", "/v1/events/1"),
        at("/v1/tasks/{id}/wait", &format!("/v1/tasks/{task}/wait?seconds=0")),
        (
            "POST",
            "/v1/streams/{category}/{id}",
            "/v1/streams/New/1".to_owned(),
            r#"{"events": [{"type": "A", "data": 1}]}"#,
        ),
        (
            "POST",
            "/v1/append",
            "/v1/append".to_owned(),
            r#"{"streams": [{"stream": "New:2", "events": [{"type": "A", "data": 1}]}]}"#,
        ),
        (
            "POST",
            "/v1/query",
            "/v1/query".to_owned(),
            r#"{"query": {"items": [{"types": ["Numbered"]}]}}"#,
        ),
        (
            "POST",
            "/v1/pools/{pool}/tasks",
            "/v1/pools/mails/tasks".to_owned(),
            r#"{"key": "k", "payload": 1}"#,
        ),
        (
            "POST",
            "/v1/workflows/{workflow}/{id}/commands",
            "/v1/workflows/seats/1/commands".to_owned(),
            r#"{"command": 1}"#,
        ),
    ]);
    all
}

async fn every_answer_is_as_described(db: Db) {
    let filled = filled(&db).await;
    let batches = crate::batches::handled(&db, &filled.log).await;
    let server = Server::start(&filled.log).await;
    let (made, _) = server.make(NewToken::new("to be revoked", [Scope::Read])).await;
    let whole = server.token(&[Scope::Read, Scope::Operate, Scope::Append]).await;
    let masked = server.token(&[Scope::ReadMasked, Scope::Operate, Scope::Append]).await;
    let document = server.ask("GET", "/v1/openapi.json", &[], "").await.good();
    let mut seen = BTreeSet::new();
    for (method, path, real, body) in asked(&filled, &batches) {
        for token in [&whole, &masked] {
            let mut real = real.replace("MADE", &made);
            if real.contains("PLAN") {
                real = real.replace("PLAN", &plan(&server, &whole).await);
            }
            let body = body.replace("TOKEN", token);
            let bearer = format!("Bearer {token}");
            let headers =
                [("authorization", bearer.as_str()), ("content-type", "application/json")];
            let answer = server.ask(method, &real, &headers, &body).await;
            let place = format!("{method} {real}");
            assert!(
                (200..300).contains(&answer.status),
                "{place}: {} {}",
                answer.status,
                answer.text
            );
            let operation = &document["paths"][path][method.to_lowercase()];
            compare(&document, operation, &answer)
                .unwrap_or_else(|wrong| panic!("{place}: {wrong}\n{}", answer.text));
            if let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema")
            {
                let body: Value = serde_json::from_str(&body).unwrap();
                schema::check(&document, schema, &body)
                    .unwrap_or_else(|wrong| panic!("the body of {place}: {wrong}"));
            }
        }
        seen.insert((method.to_owned(), path.to_owned()));
    }
    // A problem is as described, too.
    let problem = server.get("/v1/consumers/none", &whole).await;
    let schema = &document["components"]["schemas"]["Problem"];
    schema::check(&document, schema, &problem.json()).unwrap();
    // Nothing is described that is not asked for here, but for what never ends and what `rebuilds.rs` compares.
    let elsewhere = ["/v1/tail", "/v1/live", "/v1/consumers/{name}/rebuild"];
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let is_seen = seen.contains(&(method.to_uppercase(), path.clone()));
            let is_seen = is_seen || elsewhere.contains(&path.as_str());
            assert!(is_seen, "nothing asks for {method} {path} in this test");
        }
    }
}

async fn a_worker_that_runs_is_as_described(db: Db) {
    let log = db.log().await;
    let set = anabranch::prelude::ReplicaSet::new("main").projection(db.recorder("orders"));
    let running = crate::support::start(&log, set);
    let server = Server::start(&log).await;
    let (read, masked) =
        (server.token(&[Scope::Read]).await, server.token(&[Scope::ReadMasked]).await);
    let document = server.ask("GET", "/v1/openapi.json", &[], "").await.good();
    let worker = crate::support::until("a worker", async || {
        let workers = server.get("/v1/workers", &read).await.good();
        workers["items"].as_array().unwrap().first().cloned()
    })
    .await;
    let schema = log.database().newest_schema();
    assert_eq!((&worker["is_alive"], &worker["schema"]), (&true.into(), &schema.into()));
    let lease = |worker: &Value| worker["lease_until"].as_str().unwrap().parse::<jiff::Timestamp>();
    let first = lease(&worker).unwrap();
    assert!(first > worker["started_at"].as_str().unwrap().parse().unwrap());
    for (path, real) in [
        ("/v1/workers", "/v1/workers"),
        ("/v1/consumers", "/v1/consumers"),
        ("/v1/consumers/{name}", "/v1/consumers/orders"),
        ("/v1/consumers/{name}/slots", "/v1/consumers/orders/slots"),
        ("/v1/replica-sets", "/v1/replica-sets"),
        ("/v1/generations", "/v1/generations"),
    ] {
        for token in [&read, &masked] {
            let answer = server.get(real, token).await;
            compare(&document, &document["paths"][path]["get"], &answer)
                .unwrap_or_else(|wrong| panic!("{real}: {wrong}\n{}", answer.text));
        }
    }
    // A lease moves on; what it is a part of elsewhere does not change with it.
    assert!(!server.get("/v1/consumers/orders", &read).await.text.contains("lease_until"));
    crate::support::until("a heartbeat", async || {
        let workers = server.get("/v1/workers", &read).await.good();
        (lease(&workers["items"][0]).unwrap() > first).then_some(())
    })
    .await;
    running.stop().await;
}

/// A plan that nobody has applied.
async fn plan(server: &Server, token: &str) -> String {
    let retry = r#"{"do": "parked", "consumer": "orders", "action": "retry", "all": true, "per_second": 5}"#;
    let plan = server.post("/v1/plans", token, retry).await.good();
    plan["id"].as_str().unwrap().to_owned()
}

/// Whether an answer is what its operation says.
pub fn compare(document: &Value, operation: &Value, answer: &Answer) -> Result<(), String> {
    let described = &operation["responses"][answer.status.to_string()];
    if described.is_null() {
        return Err(format!("the status {} is not described", answer.status));
    }
    let Some(content) = described["content"].as_object() else {
        return if answer.text.is_empty() {
            Ok(())
        } else {
            Err("an answer where none is described".to_owned())
        };
    };
    let kind = answer.header("content-type").split(';').next().unwrap_or_default().to_owned();
    let described =
        content.get(&kind).ok_or_else(|| format!("the type `{kind}` is not described"))?;
    match kind.as_str() {
        "application/json" => schema::check(document, &described["schema"], &answer.json()),
        _ => Ok(()),
    }
}

//! What is refused before a database sees it, and what no client is told.

use crate::client::Server;
use crate::filled::filled;
use crate::on_both;
use crate::support::Db;
use anabranch::backend::database::{End, Statement};
use anabranch_server::{NewToken, Scope};
use serde_json::json;
use std::collections::BTreeSet;

on_both!(
    a_nul_is_refused_wherever_it_stands,
    clients_are_not_told_where_the_database_is,
    a_mask_hides_why_a_worker_cannot_run_a_consumer,
    a_plan_about_others_is_answered_as_none,
);

const JSON: [(&str, &str); 2] = [("content-type", "application/json"), ("x-anabranch", "1")];

async fn a_nul_is_refused_wherever_it_stands(db: Db) {
    let server = Server::start(&db.log().await).await;
    for path in [
        "/v1/consumers/a%00b",
        "/v1/consumers/%00/slots",
        "/v1/consumers/x/parked/%00",
        "/v1/consumers/x/explain?key=%00",
        "/v1/consumers?after=a%00",
        "/v1/tasks?pool=%00",
        "/v1/tasks?pool=mails&key=a%00b",
        "/v1/deliveries?key=%00",
        "/v1/batches?table=%00",
        "/v1/batches/%00/failed",
        "/v1/workflows/%00/x",
        "/v1/workflows/W/%00",
        "/v1/streams/S/%00",
        "/v1/events?types=%00",
        "/v1/events?tags=a%00",
        "/v1/events?category=%00",
        "/v1/events?tenant=%00",
        "/v1/plans?target=%00",
        "/v1/journal?target=%00",
        "/v1/generations?replica_set=%00",
    ] {
        server.ask("GET", path, &[], "").await.problem(400, "invalid_input");
    }
    let nul = "a\0b";
    for (path, body) in [
        ("/v1/plans", json!({"do": "pause", "consumer": nul})),
        (
            "/v1/plans",
            json!({"do": "parked", "consumer": "c", "action": "retry", "filter": {"key": nul}}),
        ),
        ("/v1/plans", json!({"do": "pause_key", "pool": "mails", "key": nul})),
        ("/v1/plans", json!({"do": "pause_key", "pool": nul, "key": "k"})),
        ("/v1/plans", json!({"do": "tasks", "action": "retry", "where": [format!("key={nul}")]})),
        ("/v1/plans", json!({"do": "rebalance", "replica_set": nul})),
        ("/v1/pools/mails/tasks", json!({"key": nul, "payload": 1})),
        ("/v1/pools/mails/tasks", json!({"key": "k", "payload": 1, "unique": nul})),
        ("/v1/query", json!({"query": {"items": [{"types": [nul]}]}})),
        ("/v1/query", json!({"tenants": [nul]})),
        ("/v1/tokens", json!({"name": nul, "scopes": ["read"]})),
    ] {
        let refused = server.ask("POST", path, &JSON, &body.to_string()).await;
        assert_eq!(refused.status, 400, "{path} {body}: {}", refused.text);
    }
    server.ask("POST", "/v1/pools/%00/tasks", &JSON, "{}").await.problem(400, "invalid_input");
    // A backslash and five letters are none.
    let fine = json!({"key": "a\\u0000", "payload": "%00"}).to_string();
    server.ask("POST", "/v1/pools/mails/tasks", &JSON, &fine).await.good();
    server.ask("GET", "/v1/consumers/%2500", &[], "").await.problem(404, "no_such_consumer");
}

async fn clients_are_not_told_where_the_database_is(db: Db) {
    let filled = filled(&db).await;
    let server = Server::start(&filled.log).await;
    let at = filled.log.at().to_owned();
    for path in [
        "/v1/consumers/none",
        "/v1/consumers/none/parked",
        "/v1/consumers/none/explain?key=k",
        "/v1/consumers/orders/audit",
        "/v1/generations?replica_set=none",
    ] {
        let answer = server.ask("GET", path, &[], "").await;
        assert!(answer.status >= 400 && !answer.text.contains(&at), "{path}: {}", answer.text);
    }
    let none = server.ask("GET", "/v1/consumers/none", &[], "").await.json();
    assert!(none["detail"].as_str().unwrap().starts_with("there is no consumer `none`"), "{none}");
    for body in [
        json!({"do": "pause", "consumer": "none"}),
        json!({"do": "rebalance", "replica_set": "none"}),
        json!({"do": "parked", "consumer": "orders", "action": "retry", "filter": {"key": "none"}}),
        json!({"do": "replay_key", "consumer": "orders", "key": "none"}),
    ] {
        let answer = server.ask("POST", "/v1/plans", &JSON, &body.to_string()).await;
        assert!(answer.status >= 400 && !answer.text.contains(&at), "{body}: {}", answer.text);
    }
    // Nor when it cannot do it.
    let tasks = filled.log.database().dialect().table("tasks");
    let gone = Statement::new(format!("ALTER TABLE {tasks} RENAME TO elsewhere"), vec![]);
    filled.log.database().control().run(vec![gone], End::Commit).await.unwrap();
    let answer = server.ask("GET", "/v1/tasks?pool=mails", &[], "").await;
    assert!(answer.status >= 500 && !answer.text.contains(&at), "{}", answer.text);
}

async fn a_mask_hides_why_a_worker_cannot_run_a_consumer(db: Db) {
    let filled = filled(&db).await;
    let server = Server::start(&filled.log).await;
    // As workers of earlier versions have written it.
    let generations = filled.log.database().dialect().table("generations");
    let reason = "host/1 joined; host/2 cannot run `orders` for now: the card 4111 was refused";
    let update = format!("UPDATE {generations} SET reason = '{reason}'");
    let update = Statement::new(update, vec![]);
    filled.log.database().control().run(vec![update], End::Commit).await.unwrap();
    let (read, masked) =
        (server.token(&[Scope::Read]).await, server.token(&[Scope::ReadMasked]).await);
    let of = async |token: &str| {
        let list = server.get("/v1/generations", token).await.good();
        list["items"][0]["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(of(&read).await, reason);
    assert_eq!(of(&masked).await, "host/1 joined; host/2 cannot run `orders` for now");
}

async fn a_plan_about_others_is_answered_as_none(db: Db) {
    let filled = filled(&db).await;
    let server = Server::start(&filled.log).await;
    let consumers = Some(BTreeSet::from(["others".to_owned()]));
    let limited = NewToken { consumers, ..NewToken::new("limited", [Scope::Operate]) };
    let (_, limited) = server.make(limited).await;
    let whole = server.token(&[Scope::Operate]).await;
    let pause = json!({"do": "pause", "consumer": "orders"}).to_string();
    let hidden = server.post("/v1/plans", &whole, &pause).await.good()["id"].to_string();
    let hidden = hidden.trim_matches('"').to_owned();
    let none = uuid::Uuid::now_v7().to_string();
    let asked = [("GET", ""), ("POST", "/apply"), ("POST", "/cancel")];
    for (method, what) in asked {
        let ask = async |id: &str| {
            let (path, bearer) = (format!("/v1/plans/{id}{what}"), format!("Bearer {limited}"));
            let answer = server.ask(method, &path, &[("authorization", &bearer)], "").await;
            answer.problem(404, "no_such_plan");
            answer.text.replace(id, "ID")
        };
        assert_eq!(ask(&hidden).await, ask(&none).await, "{method} {what}");
    }
}

//! Operations over HTTP: planned, applied once, refused when they are not true any more, by whom the journal says.

use crate::client::Server;
use crate::filled::filled;
use crate::on_both;
use crate::support::{Db, fill, status, until};
use anabranch_server::{NewToken, Scope};
use serde_json::{Value, json};

on_both!(
    what_is_planned_is_applied_once_and_by_name,
    a_plan_that_is_not_true_any_more_is_refused,
    what_is_about_many_says_which,
    who_may_only_read_plans_nothing,
    a_token_that_is_limited_operates_on_what_it_sees,
    what_goes_step_by_step_goes_on_after_the_answer,
);

const PAUSE: &str = r#"{"do": "pause", "consumer": "others"}"#;

async fn made(server: &Server, token: &str, request: &str) -> String {
    let answer = server.post("/v1/plans", token, request).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.good()["id"].as_str().unwrap().to_owned()
}

fn apply(id: &str) -> String {
    format!("/v1/plans/{id}/apply")
}

async fn what_is_planned_is_applied_once_and_by_name(db: Db) {
    let server = Server::start(&filled(&db).await.log).await;
    let new = NewToken::new("joe", [Scope::Operate]);
    let (_, token) = server.make(new).await;
    let id = made(&server, &token, PAUSE).await;
    assert!(!status(&server.log, "others").await.paused, "a plan changes nothing");
    let applied = server.post(&apply(&id), &token, "").await.good();
    assert_eq!((&applied["state"], &applied["done"]), (&json!("done"), &json!(1)));
    assert!(status(&server.log, "others").await.paused);
    server.post(&apply(&id), &token, "").await.problem(409, "plan_used");
    let journal = server.get("/v1/journal", &token).await.good();
    let entry = &journal["items"][0];
    assert_eq!(
        (&entry["verb"], &entry["who"], &entry["via"], &entry["plan"]),
        (&json!("pause"), &json!("joe"), &json!("api"), &json!(id))
    );
    assert_eq!(journal["items"].as_array().unwrap().len(), 1);
    // A browser that is logged in is the console.
    let login = format!(r#"{{"token": "{token}"}}"#);
    let logged_in = server.post("/v1/session", &token, &login).await;
    let cookie = logged_in.header("set-cookie").split(';').next().unwrap().to_owned();
    let headers =
        [("cookie", cookie.as_str()), ("content-type", "application/json"), ("x-anabranch", "1")];
    let resume = r#"{"do": "resume", "consumer": "others"}"#;
    let plan = server.ask("POST", "/v1/plans", &headers, resume).await.good();
    let id = plan["id"].as_str().unwrap();
    server.ask("POST", &apply(id), &headers, "").await.good();
    let journal = server.get("/v1/journal?limit=1", &token).await.good();
    assert_eq!(journal["items"][0]["via"], "console");
    assert!(journal["next"].is_string(), "there is one more");
    let before = format!("/v1/journal?before={}", journal["next"].as_str().unwrap());
    let older = server.get(&before, &token).await.good();
    assert_eq!((&older["items"][0]["verb"], &older["next"]), (&json!("pause"), &Value::Null));
}

async fn a_plan_that_is_not_true_any_more_is_refused(db: Db) {
    let server = Server::start(&filled(&db).await.log).await;
    let token = server.token(&[Scope::Operate]).await;
    let (first, second) = (made(&server, &token, PAUSE).await, made(&server, &token, PAUSE).await);
    server.post(&apply(&first), &token, "").await.good();
    let problem = server.post(&apply(&second), &token, "").await.problem(409, "plan_outdated");
    let said = problem["detail"].as_str().unwrap();
    assert!(said.contains("its state was not paused and is paused"), "{said}");
    let none = "0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11";
    server.post(&apply(none), &token, "").await.problem(404, "no_such_plan");
    server.post(&apply("1"), &token, "").await.problem(400, "invalid_input");
    for wrong in [
        r#"{"do": "explode", "consumer": "others"}"#,
        r#"{"do": "pause", "consumer": "others", "force": true}"#,
        r#"{"do": "parked", "consumer": "orders", "action": "retry", "filter": {"kye": "1"}}"#,
    ] {
        server.post("/v1/plans", &token, wrong).await.problem(400, "invalid_json");
    }
    let nobody = r#"{"do": "pause", "consumer": "nobody"}"#;
    server.post("/v1/plans", &token, nobody).await.problem(404, "no_such_consumer");
}

/// A filter that was forgotten would be everything.
async fn what_is_about_many_says_which(db: Db) {
    let server = Server::start(&filled(&db).await.log).await;
    let token = server.token(&[Scope::Operate]).await;
    let plan = async |rest: &str| server.post("/v1/plans", &token, &format!("{{{rest}}}")).await;
    let parked = r#""do": "parked", "consumer": "orders", "action": "skip_all""#;
    let resend = r#""do": "resend", "consumer": "orders""#;
    let tasks = r#""do": "tasks", "action": "cancel""#;
    for (of, narrow) in [
        (parked, r#""filter": {"state": "parked"}"#),
        (resend, r#""filter": {"state": "failed"}"#),
        (tasks, r#""where": ["pool=mails"]"#),
    ] {
        let mut nothing = vec![of.to_owned(), format!(r#"{of}, "all": false"#)];
        let none = if of == tasks { r#""where": []"# } else { r#""filter": {}"# };
        nothing.push(format!("{of}, {none}"));
        for nothing in nothing {
            let problem = plan(&nothing).await.problem(400, "invalid_input");
            let said = problem["detail"].as_str().unwrap();
            assert!(said.contains(r#""all": true"#), "{nothing}: {said}");
        }
        let both = plan(&format!(r#"{of}, {narrow}, "all": true"#)).await;
        let said = both.problem(400, "invalid_input")["detail"].to_string();
        assert!(said.contains("give one of them"), "{said}");
        if of != resend {
            plan(&format!(r#"{of}, {narrow}"#)).await.good();
            plan(&format!(r#"{of}, "all": true"#)).await.good();
            plan(&format!(r#"{of}, {none}, "all": true"#)).await.good();
        }
    }
    let yesterday = r#""do": "replay", "consumer": "orders", "from": {"time": "yesterday"}"#;
    let said = plan(yesterday).await.problem(400, "invalid_json")["detail"].to_string();
    assert!(said.contains("`from.time`: write the time with its zone"), "{said}");
    plan(r#""do": "tasks", "action": "cancel", "state": "ready""#)
        .await
        .problem(400, "invalid_input");
    plan(r#""do": "pause", "consumer": "orders", "all": true"#).await.problem(400, "invalid_input");
    for empty in ["key_contains", "error_contains", "key"] {
        let of = r#""do": "parked", "consumer": "orders", "action": "skip""#;
        let nothing = plan(&format!(r#"{of}, "filter": {{"{empty}": ""}}"#)).await;
        let said = nothing.problem(400, "invalid_input")["detail"].to_string();
        assert!(said.contains("is empty"), "{said}");
    }
    for wrong in [
        r#""do": "pause", "consumer": "orders", "consumer": "others""#,
        r#""do": "tasks", "action": "cancel", "all": 1"#,
        r#""do": "parked", "consumer": "orders", "action": "retry", "filter": ["1"]"#,
    ] {
        plan(wrong).await.problem(400, "invalid_json");
    }
}

async fn who_may_only_read_plans_nothing(db: Db) {
    let server = Server::start(&filled(&db).await.log).await;
    let whole = server.token(&[Scope::Operate]).await;
    let id = made(&server, &whole, PAUSE).await;
    for scopes in [&[Scope::Read][..], &[Scope::ReadMasked], &[Scope::Append]] {
        let token = server.token(scopes).await;
        server.post("/v1/plans", &token, PAUSE).await.problem(403, "not_allowed");
        server.post(&apply(&id), &token, "").await.problem(403, "not_allowed");
        let cancel = format!("/v1/plans/{id}/cancel");
        server.post(&cancel, &token, "").await.problem(403, "not_allowed");
    }
    // What handlers have said is not to be guessed.
    let by_error = r#"{"do": "parked", "consumer": "orders", "action": "retry", "filter": {"error_contains": "p"}}"#;
    server.post("/v1/plans", &whole, by_error).await.problem(403, "not_allowed");
    let may_read = server.token(&[Scope::Operate, Scope::Read]).await;
    server.post("/v1/plans", &may_read, by_error).await.good();
    let reader = server.token(&[Scope::ReadMasked]).await;
    server.get(&format!("/v1/plans/{id}"), &reader).await.good();
    assert!(!status(&server.log, "others").await.paused);
}

async fn a_token_that_is_limited_operates_on_what_it_sees(db: Db) {
    let filled = filled(&db).await;
    let server = Server::start(&filled.log).await;
    let whole = server.token(&[Scope::Operate]).await;
    let mut new = NewToken::new("limited", [Scope::Operate]);
    new.consumers = Some(["orders".to_owned()].into());
    let (_, token) = server.make(new).await;
    let mine = made(&server, &token, r#"{"do": "pause", "consumer": "orders"}"#).await;
    let theirs = made(&server, &whole, PAUSE).await;
    let task = format!(r#"{{"do": "task", "action": "cancel", "id": "{}"}}"#, filled.task);
    let tasks = r#"{"do": "tasks", "action": "cancel", "all": true}"#;
    let of_pool = r#"{"do": "tasks", "action": "cancel", "where": ["pool=mails"]}"#;
    let two = r#"{"do": "tasks", "action": "cancel", "where": ["pool~o", "pool=orders"]}"#;
    for hidden in [PAUSE, &task, tasks, of_pool] {
        server.post("/v1/plans", &token, hidden).await.problem(404, "no_such_consumer");
    }
    // Both conditions hold, so only their own pool is meant.
    server.post("/v1/plans", &token, two).await.problem(404, "no_such_pool");
    server.get(&format!("/v1/plans/{theirs}"), &token).await.problem(404, "no_such_plan");
    server.post(&apply(&theirs), &token, "").await.problem(404, "no_such_plan");
    server.get("/v1/plans", &token).await.problem(400, "invalid_input");
    let listed = server.get("/v1/plans?target=others", &token).await.good();
    assert_eq!(listed["items"], json!([]));
    let rebalance = r#"{"do": "rebalance", "replica_set": "orders"}"#;
    server.post("/v1/plans", &token, rebalance).await.problem(404, "no_such_consumer");
    let listed = server.get("/v1/plans?target=orders", &token).await.good();
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|plan| &plan["id"]).collect();
    assert_eq!(ids, [&json!(mine)]);
    server.post(&apply(&mine), &token, "").await.good();
    server.post(&apply(&theirs), &whole, "").await.good();
    server.get("/v1/journal", &token).await.problem(400, "invalid_input");
    let journal = server.get("/v1/journal?target=orders", &token).await.good();
    assert_eq!(journal["items"].as_array().unwrap().len(), 1);
    let journal = server.get("/v1/journal?target=others", &token).await.good();
    assert_eq!(journal["items"], json!([]));
    let mut new = NewToken::new("of a tenant", [Scope::Operate]);
    new.tenants = Some(["acme".to_owned()].into());
    let (_, tenant) = server.make(new).await;
    server.post("/v1/plans", &tenant, PAUSE).await.problem(403, "not_allowed");
    server.get("/v1/journal", &tenant).await.problem(403, "not_allowed");
}

async fn what_goes_step_by_step_goes_on_after_the_answer(db: Db) {
    let filled = filled(&db).await;
    let server = Server::start(&filled.log).await;
    let token = server.token(&[Scope::Operate]).await;
    let tasks = r#"{"do": "tasks", "action": "cancel", "where": ["pool=mails"], "per_second": 1}"#;
    let id = made(&server, &token, tasks).await;
    let answer = server.post(&apply(&id), &token, "").await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    assert_eq!(answer.good()["state"], "running");
    let show = format!("/v1/plans/{id}");
    let done = async || server.get(&show, &token).await.good()["done"].as_u64();
    until("a second step", async || (done().await >= Some(2)).then_some(())).await;
    let cancelled = server.post(&format!("/v1/plans/{id}/cancel"), &token, "").await.good();
    assert_eq!(cancelled["state"], "cancelled");
    let stopped = cancelled["done"].as_u64().unwrap();
    assert!(stopped < 4, "{cancelled}");
    fill(&filled.log, 0..1, 5..=5).await;
    assert_eq!(done().await, Some(stopped));
    let journal = server.get(&format!("/v1/journal?plan={id}"), &token).await.good();
    let stages: Vec<_> =
        journal["items"].as_array().unwrap().iter().map(|entry| &entry["stage"]).collect();
    assert_eq!(stages, ["cancelled", "began"]);
}

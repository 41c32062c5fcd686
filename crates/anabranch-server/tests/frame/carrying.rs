//! Plans that a server carries out: gone on with if one has left them, never in the way of what is urgent, and answered
//! before a request may take no longer.

use crate::client::Server;
use crate::filled::filled;
use crate::support::{Db, query, status, until};
use crate::{on_both, on_postgres};
use anabranch::Log;
use anabranch::backend::database::{End, Session, Statement};
use anabranch::operate::Consumers;
use anabranch::operations::{By, Operations, Plan, PlanState, Request};
use anabranch::params;
use anabranch::workpool::{NewTask, TaskAction, Tasks};
use anabranch_server::{NewToken, Scope, ServerLimits};
use serde_json::json;
use std::num::NonZeroU32;
use std::time::Duration;

on_both!(
    what_a_server_has_left_is_gone_on_with,
    what_was_left_and_is_out_of_date_has_failed,
    plans_at_a_rate_keep_nothing_urgent_waiting,
    what_is_not_finished_in_time_may_still_be_done,
    a_plan_of_another_version_is_shown_as_such,
);
on_postgres!(one_change_that_takes_long_goes_on_after_the_answer);

const PAUSE: &str = r#"{"do": "pause", "consumer": "others"}"#;

fn table(log: &Log, name: &str) -> String {
    log.database().dialect().table(name)
}

fn cancel(pool: &str, per_second: u32) -> Request {
    Request::Tasks {
        action: TaskAction::Cancel,
        state: None,
        conditions: vec![format!("pool={pool}")],
        per_second: NonZeroU32::new(per_second),
    }
}

/// Some tasks of a pool, each of a key of its own.
async fn enqueue(log: &Log, pool: &str, number: u64) {
    let tasks = (0..number).map(|key| NewTask::new(format!("k{key}"), &key)).collect();
    Tasks::new(log, pool).enqueue_all(tasks).await.unwrap();
}

/// Begins a plan that one has made, in the name of another, and leaves it, as a process does that dies.
async fn left(log: &Log, request: &Request, made: By, applied: By) -> Plan {
    let plan = Operations::new(log, made).plan(request).await.unwrap();
    let (operations, id) = (Operations::new(log, applied), plan.id);
    let applying = {
        let operations = operations.clone();
        tokio::spawn(async move { operations.apply(id, |_| {}).await })
    };
    until("a step", async || (operations.get(id).await.unwrap().done > 0).then_some(())).await;
    applying.abort();
    let _ = applying.await;
    let plans = table(log, "plans");
    query(log, &format!("UPDATE {plans} SET runner_until_us = made_us"), vec![]).await;
    operations.get(id).await.unwrap()
}

async fn what_a_server_has_left_is_gone_on_with(db: Db) {
    let log = db.log().await;
    enqueue(&log, "slow", 8).await;
    enqueue(&log, "theirs", 8).await;
    let (api, cli) = (|who| By::new(who, "api"), |who| By::new(who, "cli"));
    // Who applies it counts, not who has made it.
    let theirs = left(&log, &cancel("theirs", 4), api("joe"), cli("mary@ops1")).await;
    let plan = left(&log, &cancel("slow", 4), cli("joe@ops1"), api("mary")).await;
    assert!((1..8).contains(&plan.done), "{}", plan.done);
    let server = Server::start(&log).await;
    let token = server.token(&[Scope::Operate]).await;
    let show =
        async |plan: &Plan| server.get(&format!("/v1/plans/{}", plan.id), &token).await.good();
    let ended = async || {
        let plan = show(&plan).await;
        (plan["state"] == "done").then_some(plan)
    };
    let ended = until("its end", ended).await;
    assert_eq!((&ended["done"], &ended["gone"]), (&json!(8), &json!(0)));
    assert_eq!((&ended["who"], &ended["applied_by"]), (&json!("joe@ops1"), &json!("mary")));
    let journal = server.get(&format!("/v1/journal?plan={}", plan.id), &token).await.good();
    let told: Vec<_> = journal["items"].as_array().unwrap().iter().collect();
    let told: Vec<_> = told.iter().map(|entry| (&entry["stage"], &entry["who"])).collect();
    assert_eq!(told, [(&json!("done"), &json!("mary")), (&json!("began"), &json!("mary"))]);
    let now = show(&theirs).await;
    assert_eq!((&now["state"], &now["done"]), (&json!("running"), &json!(theirs.done)));
}

async fn what_was_left_and_is_out_of_date_has_failed(db: Db) {
    let filled = filled(&db).await;
    let parked = r#"{"do": "parked", "consumer": "orders", "action": "retry", "per_second": 1}"#;
    let parked: Request = serde_json::from_str(parked).unwrap();
    let mary = By::new("mary", "api");
    let plan = left(&filled.log, &parked, mary.clone(), mary).await;
    Consumers::new(&filled.log).pause("orders").await.unwrap();
    let server = Server::start(&filled.log).await;
    let operations = Operations::new(&server.log, By::new("test", "library"));
    let state = async || operations.get(plan.id).await.unwrap();
    let ended = async || {
        let plan = state().await;
        (plan.state != PlanState::Running).then_some(plan)
    };
    let ended = until("its end", ended).await;
    assert_eq!(ended.state, PlanState::Failed);
    assert!(ended.problem.unwrap().contains("its state was not paused and is paused"));
}

async fn plans_at_a_rate_keep_nothing_urgent_waiting(db: Db) {
    let log = filled(&db).await.log;
    enqueue(&log, "slow", 2_000).await;
    let server = Server::start(&log).await;
    let token = server.token(&[Scope::Operate]).await;
    let operations = Operations::new(&log, By::new("test", "library"));
    let mut plans = Vec::new();
    for _ in 0..17 {
        plans.push(operations.plan(&cancel("slow", 1)).await.unwrap().id);
    }
    let apply =
        async |id: uuid::Uuid| server.post(&format!("/v1/plans/{id}/apply"), &token, "").await;
    let all = plans[..16].iter().map(|id| apply(*id));
    for answer in futures_util::future::join_all(all).await {
        assert_eq!(answer.status, 202, "{}", answer.text);
    }
    apply(plans[16]).await.problem(429, "too_many_requests");
    let again = apply(plans[0]).await;
    assert!(["plan_used", "too_many_requests"].iter().any(|code| again.text.contains(code)));
    let urgent = server.post("/v1/plans", &token, PAUSE).await.good();
    let id = urgent["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(apply(id).await.good()["state"], "done");
    assert!(status(&log, "others").await.paused);
    for id in &plans[..16] {
        operations.cancel(*id).await.unwrap();
    }
}

/// A transaction that keeps a row from others, on SQLite everything.
async fn holding(log: &Log, sql: String) -> Box<dyn Session> {
    let mut session = log.database().begin();
    let end = End::Open { idle: Duration::from_secs(60) };
    session.run(vec![Statement::new(sql, vec![])], end).await.unwrap();
    session
}

async fn what_is_not_finished_in_time_may_still_be_done(db: Db) {
    let log = filled(&db).await.log;
    let time = Duration::from_millis(300);
    let server = Server::with(&log, ServerLimits::default(), |api| api.time_limit(time)).await;
    let token = server.token(&[Scope::Operate]).await;
    let plan = server.post("/v1/plans", &token, PAUSE).await.good();
    let plans = table(&log, "plans");
    let held = holding(&log, format!("UPDATE {plans} SET id = id")).await;
    let cancel = format!("/v1/plans/{}/cancel", plan["id"].as_str().unwrap());
    let problem = server.post(&cancel, &token, "").await.problem(503, "request_too_slow");
    let said = problem["detail"].as_str().unwrap();
    assert_eq!(said, "it did not finish in 0.3 s; what it was to do may still be done");
    drop(held);
}

/// (On SQLite nothing is read of a plan either while another one writes.)
async fn one_change_that_takes_long_goes_on_after_the_answer(db: Db) {
    let log = filled(&db).await.log;
    let time = Duration::from_millis(300);
    let server = Server::with(&log, ServerLimits::default(), |api| api.time_limit(time)).await;
    let token = server.token(&[Scope::Operate]).await;
    let plan = server.post("/v1/plans", &token, PAUSE).await.good();
    let consumers = table(&log, "consumers");
    let held = holding(&log, format!("UPDATE {consumers} SET name = name")).await;
    let path = format!("/v1/plans/{}", plan["id"].as_str().unwrap());
    let answer = server.post(&format!("{path}/apply"), &token, "").await;
    assert_eq!((answer.status, &answer.good()["state"]), (202, &json!("open")));
    drop(held);
    let done = async || (server.get(&path, &token).await.good()["state"] == "done").then_some(());
    until("its end", done).await;
    assert!(status(&log, "others").await.paused);
}

async fn a_plan_of_another_version_is_shown_as_such(db: Db) {
    let server = Server::start(&filled(&db).await.log).await;
    let token = server.token(&[Scope::Operate]).await;
    let plan = server.post("/v1/plans", &token, PAUSE).await.good();
    let id = plan["id"].as_str().unwrap();
    let plans = table(&server.log, "plans");
    let update = format!("UPDATE {plans} SET request = $1");
    query(&server.log, &update, params![r#"{"do": "explode", "consumer": "others"}"#]).await;
    let listed = server.get("/v1/plans", &token).await.good();
    let shown = &listed["items"][0];
    assert_eq!((&shown["id"], &shown["request"]), (&json!(id), &json!(null)));
    let description: serde_json::Value =
        serde_json::from_str(include_str!("../../openapi.json")).unwrap();
    let schema = json!({ "$ref": "#/components/schemas/PlanList" });
    crate::schema::check(&description, &schema, &listed).unwrap();
    let apply = format!("/v1/plans/{id}/apply");
    server.post(&apply, &token, "").await.problem(409, "plan_unreadable");
    // What it is about is known to nobody, so not to be theirs either.
    let mut new = NewToken::new("limited", [Scope::Operate]);
    new.consumers = Some(["others".to_owned()].into());
    let (_, limited) = server.make(new).await;
    server.get(&format!("/v1/plans/{id}"), &limited).await.problem(404, "no_such_plan");
    let listed = server.get("/v1/plans?target=others", &limited).await.good();
    assert_eq!(listed["items"], json!([]));
    let cancelled = server.post(&format!("/v1/plans/{id}/cancel"), &token, "").await.good();
    assert_eq!(cancelled["state"], "cancelled");
}

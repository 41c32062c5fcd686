//! Tasks over HTTP: enqueued once, run by workers, waited for.

use crate::client::Server;
use crate::on_both;
use crate::support::{Db, start, until};
use anabranch::prelude::*;
use anabranch::workpool::{OutsidePool, Run, Task, TaskState, Tasks};
use anabranch_server::Scope;
use serde_json::json;
use std::time::{Duration, Instant};

on_both!(
    a_task_is_run_and_waited_for,
    a_task_that_is_sent_again_is_enqueued_once,
    what_no_program_can_read_is_compared_byte_for_byte,
    payloads_pass_through_byte_for_byte,
    a_wait_ends_by_itself,
    what_is_wrong_with_a_task_is_said,
);

struct Doubles;

impl OutsidePool for Doubles {
    type Output = u64;

    fn name(&self) -> &str {
        "doubles"
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult<u64> {
        Ok(2 * task.payload::<u64>()?)
    }
}

async fn a_task_is_run_and_waited_for(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let answer = client.post("/v1/pools/doubles/tasks", r#"{"key": "k", "payload": 21}"#).await;
    assert_eq!(answer.status, 202);
    let answer = answer.good();
    assert_eq!(answer["is_new"], true);
    let note = answer["note"].as_str().unwrap();
    assert!(note.contains("no worker has run the pool `doubles`"), "{note}");
    let wait = format!("{}?seconds=60", answer["wait"].as_str().unwrap());
    let waiting = tokio::spawn(async move { client.get(&wait).await });
    let worker = start(&log, ReplicaSet::new("s").outside_pool(Doubles).lanes(1));
    let task = waiting.await.unwrap().good();
    assert_eq!((&task["state"], &task["result"]), (&"done".into(), &42.into()));
    let masked = server.with_scopes(&[Scope::ReadMasked]).await;
    let task = masked.get(answer["wait"].as_str().unwrap()).await.good();
    assert_eq!((&task["result"], &task["masked"]), (&json!(null), &true.into()));
    worker.stop().await;
    let client = server.anybody();
    for _ in 0..2 {
        let known = client.post("/v1/pools/doubles/tasks", r#"{"key": "k", "payload": 21}"#).await;
        assert_eq!(known.good()["note"], json!(null));
    }
    let tomorrow = r#"{"key": "k", "payload": 1, "run_at": "tomorrow"}"#;
    let problem =
        client.post("/v1/pools/doubles/tasks", tomorrow).await.problem(400, "invalid_json");
    let said = problem["detail"].as_str().unwrap();
    assert!(said.contains("`run_at`: write the time with its zone"), "{said}");
}

async fn a_task_that_is_sent_again_is_enqueued_once(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let id = uuid::Uuid::now_v7();
    let by_id = format!(r#"{{"key": "k", "payload": 1, "id": "{id}"}}"#);
    let unique = r#"{"key": "k", "payload": 1, "unique": "u"}"#;
    let plain = r#"{"key": "k", "payload": 1}"#;
    let key = [("idempotency-key", "k1")];
    let cases = [(&[][..], by_id.as_str()), (&[][..], unique), (&key[..], plain)];
    for (headers, body) in cases {
        let first = client.post_with("/v1/pools/p/tasks", headers, body).await.good();
        let again = client.post_with("/v1/pools/p/tasks", headers, body).await.good();
        assert_eq!((&first["is_new"], &again["is_new"]), (&true.into(), &false.into()), "{body}");
        assert_eq!(first["id"], again["id"]);
        if body != unique {
            // However it is written it is the same; with something else in it, it is not.
            let spaced = body.replace("\"payload\": 1", "\"payload\":  1");
            client.post_with("/v1/pools/p/tasks", headers, spaced).await.good();
            let other = body.replace("\"payload\": 1", "\"payload\": 2");
            let refused = client.post_with("/v1/pools/p/tasks", headers, other).await;
            refused.problem(409, "id_reused");
        }
    }
    client.post("/v1/pools/q/tasks", by_id.as_str()).await.problem(409, "id_reused");
    // The same key means another task in another pool.
    let other = client.post_with("/v1/pools/q/tasks", &key, plain).await.good();
    assert_eq!(other["is_new"], true);
    assert_eq!(Tasks::new(&log, "p").list(TaskState::Ready, 10).await.unwrap().len(), 3);
}

/// A number that is too large for every type is JSON all the same, but no value that could be compared.
async fn what_no_program_can_read_is_compared_byte_for_byte(db: Db) {
    let server = Server::start(&db.log().await).await;
    let client = server.anybody();
    let key = [("idempotency-key", "k1")];
    for (path, name) in
        [("/v1/pools/p/tasks", "payload"), ("/v1/workflows/w/i/commands", "command")]
    {
        let body = |b: u8| format!(r#"{{"{name}": {{"a": 1e999, "b": {b}}}}}"#);
        let body = |b: u8| match name {
            "payload" => body(b).replacen('{', r#"{"key": "k", "#, 1),
            _ => body(b),
        };
        assert_eq!(client.post_with(path, &key, body(1)).await.good()["is_new"], true);
        assert_eq!(client.post_with(path, &key, body(1)).await.good()["is_new"], false);
        client.post_with(path, &key, body(2)).await.problem(409, "id_reused");
        let readable = body(1).replace("1e999", "1");
        client.post_with(path, &key, readable).await.problem(409, "id_reused");
    }
}

async fn payloads_pass_through_byte_for_byte(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let payload = r#"{"a": 12345678901234567890123.10, "b":1}"#;
    let body = format!(r#"{{"key": "k", "payload": {payload}}}"#);
    let answer = server.anybody().post("/v1/pools/p/tasks", body).await.good();
    let id = answer["id"].as_str().unwrap().parse().unwrap();
    let task = Tasks::new(&log, "p").details(id).await.unwrap().unwrap();
    assert_eq!(task.payload.get(), payload);
}

async fn a_wait_ends_by_itself(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let later = r#"{"key": "k", "payload": 1, "delay_ms": 3600000}"#;
    let answer = client.post("/v1/pools/p/tasks", later).await.good();
    let began = Instant::now();
    let task = client.get(&format!("{}?seconds=1", answer["wait"].as_str().unwrap())).await.good();
    assert_eq!(task["state"], "scheduled");
    assert!(began.elapsed() >= Duration::from_secs(1));
    let none = uuid::Uuid::now_v7();
    client.get(&format!("/v1/tasks/{none}/wait")).await.problem(404, "no_such_task");
    client.get("/v1/tasks/x/wait").await.problem(400, "invalid_input");
    client.get(&format!("/v1/tasks/{none}/wait?seconds=61")).await.problem(400, "invalid_input");
    // Who goes away does not keep a place.
    until("it goes on", async || {
        let status = client.get(&format!("/v1/tasks/{none}/wait?seconds=0")).await.status;
        (status == 404).then_some(())
    })
    .await;
}

async fn what_is_wrong_with_a_task_is_said(db: Db) {
    let server = Server::start(&db.log().await).await;
    let client = server.anybody();
    for (wrong, code) in [
        (r#"{"key": "", "payload": 1}"#, "invalid_input"),
        (r#"{"key": "k"}"#, "invalid_json"),
        (r#"{"key": "k", "payload": 1, "delay": 5}"#, "invalid_json"),
        (
            r#"{"key": "k", "payload": 1, "delay_ms": 5, "run_at": "2030-01-01T00:00:00Z"}"#,
            "invalid_input",
        ),
        (r#"{"key": "k", "payload": 1, "delay_ms": 9999999999999999}"#, "invalid_input"),
        (r#"{"key": "k", "payload": "\u0000"}"#, "invalid_json"),
    ] {
        client.post("/v1/pools/p/tasks", wrong).await.problem(400, code);
    }
    let at = r#"{"key": "k", "payload": 1, "run_at": "2090-01-01T00:00:00Z"}"#;
    let answer = client.post("/v1/pools/p/tasks", at).await.good();
    let wait = format!("{}?seconds=0", answer["wait"].as_str().unwrap());
    assert_eq!(client.get(&wait).await.good()["run_at"], "2090-01-01T00:00:00Z");
}

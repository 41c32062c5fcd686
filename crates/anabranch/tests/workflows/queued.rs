//! Commands of programs that do not have the code: enqueued by name, carried out by a worker, once.

use crate::on_both;
use crate::support::{Account, Accounts, Command, Db, PATIENCE, accounts, start};
use anabranch::prelude::*;
use anabranch::workflow::{CommandQueue, Workflows};
use anabranch::workpool::TaskState;
use serde_json::json;
use uuid::Uuid;

on_both!(
    a_command_is_carried_out_once_by_who_has_the_code,
    what_is_no_command_is_said_and_holds_up_nobody,
    what_is_not_json_is_refused_at_once,
);

fn set(accounts: &Workflows<Accounts>) -> ReplicaSet {
    ReplicaSet::new("accounts").workflow(accounts).lanes(2)
}

async fn balance(accounts: &Workflows<Accounts>, id: &str) -> i64 {
    let state: Option<Account> = accounts.state(id).await.unwrap().map(|found| found.state);
    state.map_or(0, |account| account.balance)
}

async fn a_command_is_carried_out_once_by_who_has_the_code(db: Db) {
    let log = db.log().await;
    let queue = CommandQueue::new(&log, "accounts");
    let id = Uuid::now_v7();
    // Nobody runs yet. One id, twice for one instance and once for another.
    let first = queue.enqueue("a", id, r#"{"Put": 9007199254740993}"#).await.unwrap();
    let again = queue.enqueue("a", id, r#"{"Put": 9007199254740993}"#).await.unwrap();
    let other = queue.enqueue("b", id, r#"{"Put": 2}"#).await.unwrap();
    assert_eq!((first.is_new, again.is_new, other.is_new), (true, false, true));
    assert_eq!(first.task, again.task);
    let spaced = queue.enqueue("a", id, r#"{"Put":9007199254740993}"#).await.unwrap();
    let another = queue.enqueue("a", id, r#"{"Put": 3}"#).await.unwrap();
    assert_eq!((again.is_other, spaced.is_other, another.is_other), (false, false, true));
    let accounts = accounts(&log);
    let worker = start(&log, set(&accounts));
    let done = queue.tasks().wait(first.task, PATIENCE).await.unwrap();
    assert_eq!(done.state, TaskState::Done);
    assert_eq!(done.result, Some(json!({"done": {"events": 1, "version": 1}})));
    queue.tasks().wait(other.task, PATIENCE).await.unwrap();
    assert_eq!(balance(&accounts, "a").await, 9_007_199_254_740_993);
    assert_eq!(balance(&accounts, "b").await, 2);
    // A program with the code sends the same command: it is known.
    let sent = accounts.send_as(id, "b", Command::Put(2)).await.unwrap();
    assert!(sent.repeated);
    assert_eq!(balance(&accounts, "b").await, 2);
    worker.stop().await;
}

async fn what_is_no_command_is_said_and_holds_up_nobody(db: Db) {
    let log = db.log().await;
    let queue = CommandQueue::new(&log, "accounts");
    let accounts = accounts(&log);
    let worker = start(&log, set(&accounts));
    let mut tasks = Vec::new();
    for command in [r#"{"Steal": 5}"#, r#"{"Take": 1}"#, r#"{"Put": 3}"#] {
        tasks.push(queue.enqueue("a", Uuid::now_v7(), command).await.unwrap().task);
    }
    let mut results = Vec::new();
    for task in tasks {
        let ended = queue.tasks().wait(task, PATIENCE).await.unwrap();
        assert_eq!((ended.state, ended.attempts), (TaskState::Done, 0));
        results.push(ended.result.unwrap());
    }
    let why = results[0]["unreadable"]["why"].as_str().unwrap();
    assert!(why.contains("Steal"), "{why}");
    assert_eq!(results[1], json!({"rejected": {"why": "there is only 0"}}));
    assert_eq!(results[2], json!({"done": {"events": 1, "version": 1}}));
    worker.stop().await;
}

async fn what_is_not_json_is_refused_at_once(db: Db) {
    let log = db.log().await;
    let queue = CommandQueue::new(&log, "accounts");
    let error = queue.enqueue("a", Uuid::now_v7(), "{Put: 3").await.unwrap_err();
    assert_eq!(error.code().name(), "invalid_json");
    assert!(error.to_string().contains("command for `a`"), "{error}");
}

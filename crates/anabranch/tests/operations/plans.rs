//! Plans: they change nothing, are applied once, and are refused when they are out of date.

use crate::many::{is_odd, parked};
use crate::meddled::Meddling;
use crate::on_both;
use crate::support::*;
use crate::{asked, handled, operations, pause, table};
use anabranch::Options;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, ParkedAction};
use anabranch::operations::{Begin, JournalFilter, OperationError, PlanState, Request};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Tasks};

on_both! {
    a_plan_changes_nothing_until_it_is_applied,
    a_plan_is_applied_once,
    a_plan_that_is_out_of_date_is_refused,
    what_changes_while_it_is_applied_is_found_in_the_transaction,
    a_plan_expires,
    a_plan_of_what_is_not_there_is_refused,
    the_hash_is_of_what_is_asked_for_and_never_of_positions,
    a_replay_of_the_last_events_begins_before_them,
    what_is_run_is_not_forgotten,
    a_log_that_is_older_is_operated_without_a_journal,
}

async fn a_plan_changes_nothing_until_it_is_applied(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 5, |_| false).await;
    let plan = operations(&log).plan(&pause("orders")).await.unwrap();
    assert_eq!((plan.verb, &*plan.target, plan.state), ("pause", "orders", PlanState::Open));
    assert!(plan.effect.says.contains("`orders` would stand still"), "{}", plan.effect.says);
    assert!(!status(&log, "orders").await.paused);
    assert!(operations(&log).journal(&JournalFilter::default()).await.unwrap().is_empty());

    let done = operations(&log).apply(plan.id, |_| {}).await.unwrap();
    assert_eq!((done.state, done.done, done.total), (PlanState::Done, 1, 1));
    assert!(status(&log, "orders").await.paused);
}

/// Of a key: nothing that it was made on is changed by it, so only that it is applied refuses the others.
async fn a_plan_is_applied_once(db: Db) {
    let log = db.log().await;
    Tasks::new(&log, "mails").enqueue(NewTask::new("k", &1)).await.unwrap();
    let key = Request::PauseKey { pool: "mails".to_owned(), key: "k".to_owned() };
    let plan = operations(&log).plan(&key).await.unwrap();
    let all: Vec<_> = (0..8)
        .map(|_| {
            let (operations, id) = (operations(&log), plan.id);
            tokio::spawn(async move { operations.apply(id, |_| {}).await })
        })
        .collect();
    let mut applied = 0;
    for one in all {
        match one.await.unwrap() {
            Ok(_) => applied += 1,
            Err(error) => assert_eq!(error.code(), ErrorCode::PlanUsed, "{error}"),
        }
    }
    assert_eq!(applied, 1);
    assert_eq!(operations(&log).journal(&JournalFilter::default()).await.unwrap().len(), 1);
}

async fn a_plan_that_is_out_of_date_is_refused(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 2, |_| false).await;
    let plan = operations(&log).plan(&pause("orders")).await.unwrap();
    Consumers::new(&log).pause("orders").await.unwrap();
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert!(
        matches!(&error, OperationError::Outdated { what, .. }
            if what == &["its state was not paused and is paused"]),
        "{error}"
    );
    assert!(operations(&log).journal(&JournalFilter::default()).await.unwrap().is_empty());
    let plan = operations(&log).get(plan.id).await.unwrap();
    assert_eq!(plan.state, PlanState::Open, "it may be true again");
    Consumers::new(&log).resume("orders").await.unwrap();
    operations(&log).apply(plan.id, |_| {}).await.unwrap();

    // A consumer of that name with another version is another thing.
    let replay = Request::Replay {
        consumer: "orders".to_owned(),
        from: Begin::Start,
        accept_missing: false,
        new_ids: false,
    };
    let plan = operations(&log).plan(&replay).await.unwrap();
    let consumers = table(&log, "consumers");
    query(&log, &format!("UPDATE {consumers} SET version = 7 WHERE name = 'orders'"), vec![]).await;
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PlanOutdated);
    assert!(error.to_string().contains("its version was 1 and is 7"), "{error}");
    assert_eq!(status(&log, "orders").await.replay_from, None);
}

/// The look before it is not what holds: the statement in the transaction is.
async fn what_changes_while_it_is_applied_is_found_in_the_transaction(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 9, is_odd).await;
    let retry = parked(ParkedAction::Retry, Default::default(), None);
    // One change, and the beginning of many.
    for (version, request, text) in [
        (7, pause("orders"), "SET state = 'done', began_us"),
        (8, retry, "SET state = 'running', began_us"),
    ] {
        let plan = operations(&log).plan(&request).await.unwrap();
        let (others, consumers) = (log.clone(), table(&log, "consumers"));
        let change = Meddling::first(text, move || {
            let (others, consumers) = (others.clone(), consumers.clone());
            Box::pin(async move {
                let update = format!("UPDATE {consumers} SET version = $1 WHERE name = 'orders'");
                query(&others, &update, params![version]).await;
            })
        });
        let error = operations(&change.with(&log)).apply(plan.id, |_| {}).await.unwrap_err();
        assert!(change.is_over());
        assert_eq!(error.code(), ErrorCode::PlanOutdated, "{error}");
        let said = format!("and is {version}");
        assert!(error.to_string().contains(&said), "{error}");
        assert_eq!(operations(&log).get(plan.id).await.unwrap().state, PlanState::Open);
    }
    assert!(!status(&log, "orders").await.paused);
    assert_eq!(asked(&log).await, 0);
    assert!(operations(&log).journal(&JournalFilter::default()).await.unwrap().is_empty());
}

async fn a_plan_expires(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 2, |_| false).await;
    let plan = operations(&log).plan(&pause("orders")).await.unwrap();
    let plans = table(&log, "plans");
    query(&log, &format!("UPDATE {plans} SET expires_us = made_us"), vec![]).await;
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PlanExpired);
    assert!(!status(&log, "orders").await.paused);
    // A day later nobody wants to know of it.
    query(&log, &format!("UPDATE {plans} SET expires_us = 0"), vec![]).await;
    operations(&log).plan(&pause("orders")).await.unwrap();
    let error = operations(&log).get(plan.id).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NoSuchPlan);
}

async fn a_plan_of_what_is_not_there_is_refused(db: Db) {
    let log = db.log().await;
    let code = async |request: &Request| operations(&log).plan(request).await.unwrap_err().code();
    assert_eq!(code(&pause("nobody")).await, ErrorCode::NoSuchConsumer);
    let key = Request::PauseKey { pool: "nothing".to_owned(), key: "k".to_owned() };
    assert_eq!(code(&key).await, ErrorCode::NoSuchPool);
    handled(&db, &log, 2, |_| false).await;
    let parked = r#"{"do": "parked", "consumer": "orders", "action": "retry", "filter": {"key": "Order:9"}}"#;
    assert_eq!(code(&serde_json::from_str(parked).unwrap()).await, ErrorCode::NoSuchKey);
    let new_ids = r#"{"do": "replay", "consumer": "orders", "from": "start", "new_ids": true}"#;
    assert_eq!(code(&serde_json::from_str(new_ids).unwrap()).await, ErrorCode::InvalidArguments);
    let state = r#"{"do": "tasks", "action": "cancel", "state": "dead"}"#;
    assert_eq!(code(&serde_json::from_str(state).unwrap()).await, ErrorCode::WrongTaskState);
}

async fn the_hash_is_of_what_is_asked_for_and_never_of_positions(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 4, |_| false).await;
    let first = operations(&log).plan(&pause("orders")).await.unwrap();
    fill(&log, 0..4, 3..=3).await;
    ReplicaSet::new("s").projection(recorder).catch_up(&log).await.unwrap();
    let second = operations(&log).plan(&pause("orders")).await.unwrap();
    assert_eq!(first.hash, second.hash, "only positions have moved");
    let resume = Request::Resume { consumer: "orders".to_owned() };
    assert_ne!(operations(&log).plan(&resume).await.unwrap().hash, first.hash);
    operations(&log).apply(first.id, |_| {}).await.unwrap();
}

async fn a_replay_of_the_last_events_begins_before_them(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 10, |_| false).await;
    // Not of its category.
    let other = StreamId::new("Other", "1").unwrap();
    let events: Vec<_> = (1..=5).map(numbered).collect();
    log.append(&other, Expected::Any, events).await.unwrap();
    let replay = |last| Request::Replay {
        consumer: "orders".to_owned(),
        from: Begin::Last(last),
        accept_missing: false,
        new_ids: false,
    };
    let after = async |last| {
        let plan = operations(&log).plan(&replay(last)).await.unwrap();
        plan.replays_after().unwrap().get()
    };
    assert_eq!(after(3).await, 17);
    assert_eq!(after(20).await, 0);
    assert_eq!(after(1_000).await, 0, "there are not as many");
    let error = operations(&log).plan(&replay(1_000_000_000)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidInput);
    // Its hook may be able to undo everything only, and nobody but its workers knows.
    for (last, is_open) in [(3, true), (20, false)] {
        let notes = operations(&log).plan(&replay(last)).await.unwrap().effect.notes;
        assert_eq!(notes.iter().any(|note| note.contains("only its workers know")), is_open);
    }
}

async fn what_is_run_is_not_forgotten(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 2, |_| false).await;
    let forget = Request::Forget { consumer: "orders".to_owned() };
    let plan = operations(&log).plan(&forget).await.unwrap();
    let running = start(&log, ReplicaSet::new("s").projection(recorder));
    until("a worker", async || status(&log, "orders").await.is_run().then_some(())).await;
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StillRunning);
    running.stop().await;
    operations(&log).apply(plan.id, |_| {}).await.unwrap();
    assert!(Consumers::new(&log).status("orders").await.is_err());
    let journal = operations(&log).journal(&JournalFilter::default()).await.unwrap();
    assert_eq!(journal.iter().map(|entry| &*entry.verb).collect::<Vec<_>>(), ["forget"]);
}

async fn a_log_that_is_older_is_operated_without_a_journal(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 3, |id| id == "1").await;
    let migrations = table(&log, "migrations");
    for name in ["journal", "plans", "tokens", "sessions"] {
        query(&log, &format!("DROP TABLE {}", table(&log, name)), vec![]).await;
    }
    query(&log, &format!("DELETE FROM {migrations} WHERE version > 13"), vec![]).await;
    let namespace = db.options.namespace.clone();
    let options = Options { namespace, migrate: false, take_older: true, ..Options::default() };
    let old = anabranch::connect_with(&db.url, &options).await.unwrap();
    let operations = operations(&old);
    assert!(!operations.has_journal());
    operations.carry_out(&pause("orders"), |_| {}).await.unwrap();
    assert!(status(&old, "orders").await.paused);
    let retry = r#"{"do": "parked", "consumer": "orders", "action": "retry"}"#;
    let done = operations.carry_out(&serde_json::from_str(retry).unwrap(), |_| {}).await.unwrap();
    assert_eq!((done.done, asked(&old).await), (1, 1));
    let error = operations.plan(&pause("orders")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SchemaTooOld, "{error}");
}

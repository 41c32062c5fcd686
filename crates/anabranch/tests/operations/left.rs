//! Plans that go step by step and were left: kept for whoever is at them, found by those whose they are, gone on with, or
//! ended when they are out of date.

use crate::many::{is_odd, parked, stages};
use crate::on_both;
use crate::support::*;
use crate::{asked, handled, operations, table};
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, ParkedAction};
use anabranch::operations::{By, JournalFilter, Operations, Plan, PlanState, Stage};
use anabranch::prelude::*;
use std::sync::mpsc;

on_both! {
    what_was_left_is_taken_up_where_it_was,
    a_turn_is_kept_while_a_step_takes_long,
    what_was_left_and_is_out_of_date_has_failed,
    what_was_left_of_a_consumer_that_is_gone_has_failed,
    plans_are_left_by_whoever_applies_them,
    others_hide_no_plan_that_was_left,
    what_nobody_goes_on_with_is_removed,
}

/// Begins a plan and leaves it, as a process does that dies.
async fn leave(operations: Operations, plan: &Plan) {
    let id = plan.id;
    let applying = {
        let operations = operations.clone();
        tokio::spawn(async move { operations.apply(id, |_| {}).await })
    };
    until("a step", async || (operations.get(id).await.unwrap().done > 0).then_some(())).await;
    applying.abort();
    let _ = applying.await;
}

/// The turns of all are over.
async fn end_turns(log: &Log) {
    let plans = table(log, "plans");
    query(log, &format!("UPDATE {plans} SET runner_until_us = 0"), vec![]).await;
}

async fn what_was_left_is_taken_up_where_it_was(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 80, is_odd).await;
    let request = parked(ParkedAction::Retry, Default::default(), Some(40));
    let plan = operations(&log).plan(&request).await.unwrap();
    leave(operations(&log), &plan).await;
    end_turns(&log).await;
    let before = asked(&log).await;
    assert!((1..40).contains(&before), "{before}");
    let mut first = None;
    let done = operations(&log)
        .apply(plan.id, |plan| {
            first.get_or_insert(plan.done);
        })
        .await
        .unwrap();
    assert_eq!(first, Some(before as u64), "it goes on where it was");
    assert_eq!((done.done, done.gone, asked(&log).await), (40, 0, 40));
    assert_eq!(stages(&log).await, [Stage::Began, Stage::Done]);
}

/// Nothing is committed while it takes long, and still nobody else may begin the same step.
async fn a_turn_is_kept_while_a_step_takes_long(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 8, is_odd).await;
    let request = parked(ParkedAction::Retry, Default::default(), None);
    let plan = operations(&log).plan(&request).await.unwrap();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let applying = {
        let (operations, id) = (operations(&log), plan.id);
        let slow = move |_: &Plan| {
            // Its thread has others to serve.
            let _ = tokio::task::block_in_place(|| may_go_on.recv());
        };
        tokio::spawn(async move { operations.apply(id, slow).await })
    };
    let plans = table(&log, "plans");
    let turn = format!("SELECT coalesce(max(runner_until_us), 0) FROM {plans}");
    until("its beginning", async || (number(&log, &turn).await > 0).then_some(())).await;
    let first = number(&log, &turn).await;
    until("a longer turn", async || (number(&log, &turn).await > first).then_some(())).await;
    assert_eq!(operations(&log).get(plan.id).await.unwrap().done, 0);
    drop(go_on);
    let done = applying.await.unwrap().unwrap();
    assert_eq!((done.state, done.done), (PlanState::Done, 4));
}

async fn what_was_left_and_is_out_of_date_has_failed(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 40, is_odd).await;
    let request = parked(ParkedAction::Retry, Default::default(), Some(20));
    let plan = operations(&log).plan(&request).await.unwrap();
    leave(operations(&log), &plan).await;
    Consumers::new(&log).pause("orders").await.unwrap();
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PlanUsed, "somebody may be at it: {error}");
    assert_eq!(operations(&log).get(plan.id).await.unwrap().state, PlanState::Running);
    end_turns(&log).await;
    let before = asked(&log).await;
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PlanOutdated, "{error}");
    let ended = operations(&log).get(plan.id).await.unwrap();
    assert_eq!((ended.state, ended.done as i64), (PlanState::Failed, before));
    assert!(ended.problem.unwrap().contains("its state was not paused and is paused"));
    assert_eq!(stages(&log).await, [Stage::Began, Stage::Failed]);
    assert_eq!(operations(&log).abandoned(&["library"]).await.unwrap().len(), 0);
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!((error.code(), asked(&log).await), (ErrorCode::PlanUsed, before));
}

async fn what_was_left_of_a_consumer_that_is_gone_has_failed(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 40, is_odd).await;
    let request = parked(ParkedAction::Retry, Default::default(), Some(20));
    let plan = operations(&log).plan(&request).await.unwrap();
    leave(operations(&log), &plan).await;
    end_turns(&log).await;
    Consumers::new(&log).forget("orders").await.unwrap();
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NoSuchConsumer, "{error}");
    assert_eq!(operations(&log).get(plan.id).await.unwrap().state, PlanState::Failed);
    assert_eq!(stages(&log).await, [Stage::Began, Stage::Failed]);
}

async fn plans_are_left_by_whoever_applies_them(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 80, is_odd).await;
    let by = |who: &str, via: &str| Operations::new(&log, By::new(who, via));
    let request = parked(ParkedAction::Retry, Default::default(), Some(20));
    let plan = by("joe", "cli").plan(&request).await.unwrap();
    assert_eq!(plan.applied_by, None);
    leave(by("mary", "api"), &plan).await;
    let ids = async |via: &str| {
        let left = operations(&log).abandoned(&[via]).await.unwrap();
        left.iter().map(|plan| plan.id).collect::<Vec<_>>()
    };
    assert!(ids("api").await.is_empty(), "it may not be left yet");
    end_turns(&log).await;
    assert_eq!((ids("api").await, ids("cli").await), (vec![plan.id], vec![]));
    let now = operations(&log).get(plan.id).await.unwrap();
    assert_eq!((&*now.who, &*now.via), ("joe", "cli"), "who has made it");
    assert_eq!(
        (now.applied_by.as_deref(), now.applied_via.as_deref()),
        (Some("mary"), Some("api"))
    );

    // Whoever goes on with it by hand takes it from the servers.
    leave_again(&log, by("ann", "cli"), &plan).await;
    end_turns(&log).await;
    assert_eq!((ids("api").await, ids("cli").await), (vec![], vec![plan.id]));
    by("ann", "cli").apply(plan.id, |_| {}).await.unwrap();
    let all = operations(&log).journal(&JournalFilter::default()).await.unwrap();
    let told: Vec<_> = all.iter().map(|entry| (entry.stage, &*entry.who, &*entry.via)).collect();
    assert_eq!(told, [(Stage::Done, "ann", "cli"), (Stage::Began, "mary", "api")]);
}

/// The same for a plan that has done something already.
async fn leave_again(log: &Log, operations: Operations, plan: &Plan) {
    let before = asked(log).await;
    let applying = {
        let (operations, id) = (operations.clone(), plan.id);
        tokio::spawn(async move { operations.apply(id, |_| {}).await })
    };
    until("another step", async || (asked(log).await > before).then_some(())).await;
    applying.abort();
    let _ = applying.await;
}

async fn others_hide_no_plan_that_was_left(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 40, is_odd).await;
    let request = parked(ParkedAction::Retry, Default::default(), Some(20));
    let plan = operations(&log).plan(&request).await.unwrap();
    leave(Operations::new(&log, By::new("mary", "api")), &plan).await;
    end_turns(&log).await;
    // Older ones, of commands that nobody repeats, and one that only another version can read.
    let plans = table(&log, "plans");
    let columns =
        "basis, effect, who, via, state, expires_us, total, target, applied_by, runner_until_us";
    for number in 0..=100 {
        let (via, request) = match number {
            0 => ("api", r#"'{"do":"explode"}'"#),
            _ => ("cli", "request"),
        };
        let copy = format!(
            "INSERT INTO {plans} (id, made_us, applied_via, request, {columns}) \
             SELECT $1, $2, '{via}', {request}, {columns} FROM {plans} WHERE id = $3"
        );
        let id = uuid::Uuid::now_v7().to_string();
        query(&log, &copy, params![id, number, plan.id.to_string()]).await;
    }
    let left = operations(&log).abandoned(&["api", "console"]).await.unwrap();
    assert_eq!(left.iter().map(|left| left.id).collect::<Vec<_>>(), [plan.id]);
    let left = operations(&log).abandoned(&["cli"]).await.unwrap();
    assert_eq!(left.len(), 100);
}

async fn what_nobody_goes_on_with_is_removed(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 40, is_odd).await;
    let request = parked(ParkedAction::Retry, Default::default(), Some(20));
    let (first, second) = (
        operations(&log).plan(&request).await.unwrap(),
        operations(&log).plan(&request).await.unwrap(),
    );
    leave(operations(&log), &first).await;
    end_turns(&log).await;
    operations(&log).plan(&request).await.unwrap();
    let error = operations(&log).get(first.id).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NoSuchPlan, "{error}");
    leave(operations(&log), &second).await;
    operations(&log).plan(&request).await.unwrap();
    assert_eq!(operations(&log).get(second.id).await.unwrap().state, PlanState::Running);
}

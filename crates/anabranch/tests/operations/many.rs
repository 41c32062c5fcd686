//! Operations on many: by filter, up to where they were planned, at a rate, and cancelled.

use crate::on_both;
use crate::support::*;
use crate::{asked, handled, operations, table};
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, ParkedAction, ParkedFilter};
use anabranch::operations::{JournalFilter, PlanState, Request, Stage};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, TaskAction, TaskState, Tasks};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

on_both! {
    keys_are_meant_by_filter,
    what_comes_later_is_left_out_and_what_is_gone_is_counted,
    a_rate_is_kept_and_it_can_be_cancelled,
    tasks_are_meant_by_filter_up_to_the_plan,
    several_pages_are_each_done_once,
}

pub fn parked(action: ParkedAction, filter: ParkedFilter, per_second: Option<u32>) -> Request {
    let per_second = per_second.and_then(NonZeroU32::new);
    Request::Parked { consumer: "orders".to_owned(), action, filter, per_second }
}

/// Where all fail it is the consumer that stops, and no key is to blame.
pub fn is_odd(id: &str) -> bool {
    id.ends_with(['1', '3', '5', '7', '9'])
}

pub async fn stages(log: &Log) -> Vec<Stage> {
    let all = operations(log).journal(&JournalFilter::default()).await.unwrap();
    all.iter().rev().map(|entry| entry.stage).collect()
}

async fn keys_are_meant_by_filter(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 30, |id| id.starts_with('1')).await;
    let count = async |filter: ParkedFilter| {
        operations(&log).plan(&parked(ParkedAction::Retry, filter, None)).await.unwrap().total
    };
    assert_eq!(count(ParkedFilter::default()).await, 11, "1 and 10 to 19");
    let contains =
        |text: &str| ParkedFilter { key_contains: Some(text.to_owned()), ..Default::default() };
    assert_eq!(count(contains("Order:1")).await, 11);
    assert_eq!(count(contains("9")).await, 1);
    assert_eq!(count(contains("%")).await, 0, "nothing in it is a pattern");
    let error =
        |text: &str| ParkedFilter { error_contains: Some(text.to_owned()), ..Default::default() };
    assert_eq!(count(error("no room for 12")).await, 1);
    assert_eq!(count(error("No room")).await, 0);

    let plan =
        operations(&log).plan(&parked(ParkedAction::SkipAll, contains("9"), None)).await.unwrap();
    assert_eq!((plan.effect.counts["keys"], plan.effect.counts["events"]), (1, 2));
    assert_eq!(plan.effect.first, ["Order:19"]);
    assert!(plan.effect.is_final);
    let done = operations(&log).apply(plan.id, |_| {}).await.unwrap();
    assert_eq!((done.done, done.gone, asked(&log).await), (1, 0, 1));
    assert_eq!(stages(&log).await, [Stage::Began, Stage::Done]);
}

async fn what_comes_later_is_left_out_and_what_is_gone_is_counted(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 8, |id| id != "0").await;
    let plan = operations(&log)
        .plan(&parked(ParkedAction::Retry, Default::default(), None))
        .await
        .unwrap();
    assert_eq!(plan.total, 7);
    // One more fails, and two are gone: left out, and handled after all.
    fill(&log, 50..51, 1..=1).await;
    let left = left_by(ReplicaSet::new("s").projection(recorder.clone()), &log).await;
    assert_eq!(left.parked_keys, 8);
    let skip = ParkedFilter { key_contains: Some("r:2".to_owned()), ..Default::default() };
    let skip = parked(ParkedAction::SkipAll, skip, None);
    operations(&log).carry_out(&skip, |_| {}).await.unwrap();
    let skip = parked(ParkedAction::SkipAll, ParkedFilter::of_key("Order:3"), None);
    operations(&log).carry_out(&skip, |_| {}).await.unwrap();
    left_by(ReplicaSet::new("s").projection(recorder), &log).await;

    let done = operations(&log).apply(plan.id, |_| {}).await.unwrap();
    assert_eq!((done.done, done.gone, done.total), (5, 2, 7));
    let keys = table(&log, "parked_keys");
    let left = query(&log, &format!("SELECT key FROM {keys} WHERE asked IS NULL"), vec![]).await;
    assert_eq!(left.len(), 1);
    assert_eq!(
        left[0].get::<String>(0).unwrap(),
        "Order:50",
        "it was not there when that was planned"
    );
}

async fn a_rate_is_kept_and_it_can_be_cancelled(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 120, is_odd).await;
    let request = parked(ParkedAction::Retry, Default::default(), Some(20));
    let plan = operations(&log).plan(&request).await.unwrap();
    assert_eq!(plan.effect.seconds, Some(3.0));
    let (seen, began) = (Arc::new(AtomicU64::new(0)), std::time::Instant::now());
    let applying = {
        let (operations, id, seen) = (operations(&log), plan.id, Arc::clone(&seen));
        tokio::spawn(async move {
            operations.apply(id, |plan| seen.store(plan.done, Ordering::SeqCst)).await
        })
    };
    until("some of them", async || (seen.load(Ordering::SeqCst) >= 8).then_some(())).await;
    let asked_then = seen.load(Ordering::SeqCst);
    // The first step comes at once, and each is a fifth of a second's.
    let most = 4.0 + 20.0 * began.elapsed().as_secs_f64();
    assert!(asked_then as f64 <= most, "{asked_then} of {most}");
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PlanUsed, "somebody else is at it");
    let cancelled = operations(&log).cancel(plan.id).await.unwrap();
    let ended = applying.await.unwrap().unwrap();
    assert_eq!((ended.state, ended.done), (PlanState::Cancelled, cancelled.done));
    assert_eq!(asked(&log).await, cancelled.done as i64, "nothing was asked after that");
    assert!(cancelled.done < 60);
    assert_eq!(stages(&log).await, [Stage::Began, Stage::Cancelled]);
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PlanUsed);
}

/// Tasks that are dead already, by hand: what becomes of them is what is tested here.
async fn die(log: &Log, ids: &[uuid::Uuid]) {
    let (tasks, held) = (table(log, "tasks"), table(log, "held_keys"));
    let now = log.database().dialect().now_us();
    for id in ids {
        let update = format!(
            "UPDATE {tasks} SET state = 3, attempts = 5, error = 'no', finished_us = {now} WHERE id = $1"
        );
        query(log, &update, params![*id]).await;
        let hold = format!(
            "INSERT INTO {held} (pool, key, slot, why, since_us) \
             SELECT pool, key, slot, 'dead', {now} FROM {tasks} WHERE id = $1"
        );
        query(log, &hold, params![*id]).await;
    }
}

async fn enqueue(log: &Log, pool: &str, keys: std::ops::Range<u64>) -> Vec<uuid::Uuid> {
    let tasks = keys.map(|key| NewTask::new(format!("k{key}"), &key)).collect();
    let all = Tasks::new(log, pool).enqueue_all(tasks).await.unwrap();
    all.into_iter().map(|task| task.id).collect()
}

async fn states(log: &Log, ids: &[uuid::Uuid]) -> Vec<TaskState> {
    let (tasks, mut states) = (Tasks::new(log, ""), Vec::new());
    for id in ids {
        states.push(tasks.status(*id).await.unwrap().unwrap().state);
    }
    states
}

async fn tasks_are_meant_by_filter_up_to_the_plan(db: Db) {
    let log = db.log().await;
    let (mails, calls) = (enqueue(&log, "mails", 0..4).await, enqueue(&log, "calls", 0..2).await);
    die(&log, &mails[..3]).await;
    die(&log, &calls).await;
    let tasks = |action, conditions: &[&str]| Request::Tasks {
        action,
        state: None,
        conditions: conditions.iter().map(ToString::to_string).collect(),
        per_second: None,
    };
    let request = tasks(TaskAction::Retry, &["pool=mails"]);
    let plan = operations(&log).plan(&request).await.unwrap();
    assert_eq!(plan.effect.says, "3 dead tasks would be tried again: 3 of pool `mails`");
    // One dies later, though it was enqueued before; one is discarded.
    die(&log, &mails[3..]).await;
    let one = Request::Task { action: TaskAction::Discard, id: mails[0], force: false };
    operations(&log).carry_out(&one, |_| {}).await.unwrap();
    let done = operations(&log).apply(plan.id, |_| {}).await.unwrap();
    assert_eq!((done.done, done.gone), (2, 1));
    let (ready, dead, cancelled) = (TaskState::Ready, TaskState::Dead, TaskState::Cancelled);
    assert_eq!(states(&log, &mails).await, [cancelled, ready, ready, dead]);

    let request = tasks(TaskAction::Discard, &["pool=calls", "error~n"]);
    let done = operations(&log).carry_out(&request, |_| {}).await.unwrap();
    assert_eq!((done.done, states(&log, &calls).await), (2, vec![cancelled, cancelled]));
    let request = tasks(TaskAction::Cancel, &["pool=mails"]);
    let done = operations(&log).carry_out(&request, |_| {}).await.unwrap();
    assert_eq!((done.done, states(&log, &mails[1..]).await), (2, vec![cancelled, cancelled, dead]));
    assert_eq!(Consumers::new(&log).list().await.unwrap().len(), 0, "no worker was needed");
}

async fn several_pages_are_each_done_once(db: Db) {
    let log = db.log().await;
    let all = enqueue(&log, "mails", 0..1_203).await;
    let request = Request::Tasks {
        action: TaskAction::Cancel,
        state: Some(TaskState::Ready),
        conditions: vec!["pool=mails".to_owned()],
        per_second: None,
    };
    let mut told = Vec::new();
    let done = operations(&log).carry_out(&request, |plan| told.push(plan.done)).await.unwrap();
    assert_eq!((done.done, done.gone), (1_203, 0));
    assert_eq!(told, [0, 500, 1_000, 1_203]);
    let last = states(&log, &all[1_200..]).await;
    assert!(last.iter().all(|state| *state == TaskState::Cancelled), "{last:?}");
}

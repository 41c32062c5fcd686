//! Events behind keys that are set aside are left out up to where somebody has looked, and no further.

use crate::many::parked;
use crate::on_both;
use crate::support::*;
use crate::{handled, operations, table};
use anabranch::backend::database::{End, Statement};
use anabranch::operate::{Consumers, ParkedAction, ParkedFilter};
use anabranch::prelude::*;

on_both! {
    what_comes_behind_a_key_after_the_plan_is_tried,
    what_comes_behind_a_key_after_it_was_asked_for_is_tried,
    a_first_event_that_was_handled_meanwhile_takes_no_other_with_it,
    a_skip_is_proven_by_an_audit,
}

const KEY: &str = "Order:1";

async fn run(log: &Log, sql: String) {
    let statements = vec![Statement::new(sql, vec![])];
    log.database().control().run(statements, End::Commit).await.unwrap();
}

/// The positions behind the key.
async fn behind(log: &Log) -> Vec<i64> {
    let events = table(log, "parked_events");
    let sql = format!("SELECT position FROM {events} WHERE key = '{KEY}' ORDER BY position");
    query(log, &sql, vec![]).await.iter().map(|row| row.get(0).unwrap()).collect()
}

/// Three more events of the key, set aside behind it.
async fn more(log: &Log, recorder: &Recorder) {
    fill(log, 1..2, 3..=5).await;
    left_by(ReplicaSet::new("s").projection(recorder.clone()), log).await;
    assert_eq!(behind(log).await.len(), 5);
}

/// The handler is mended, and does what was asked for.
async fn mended(log: &Log, recorder: Recorder) -> Proof {
    let table = recorder.table.clone();
    let mended = recorder.hook(|_| Ok(()));
    ReplicaSet::new("s").projection(mended).catch_up(log).await.unwrap();
    assert!(behind(log).await.is_empty());
    proof(log, &table).await
}

async fn what_comes_behind_a_key_after_the_plan_is_tried(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 6, |id| id == "1").await;
    let request = parked(ParkedAction::SkipAll, ParkedFilter::of_key(KEY), None);
    let plan = operations(&log).plan(&request).await.unwrap();
    assert_eq!(plan.effect.counts["events"], 2);
    more(&log, &recorder).await;
    let done = operations(&log).apply(plan.id, |_| {}).await.unwrap();
    assert_eq!((done.done, done.gone), (1, 0));
    let proof = mended(&log, recorder).await;
    assert_eq!((proof.handled, proof.doubled), (5 * 2 + 3, 0), "two were planned to be left out");
}

async fn what_comes_behind_a_key_after_it_was_asked_for_is_tried(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 6, |id| id == "1").await;
    Consumers::new(&log).skip_all_parked("orders", KEY).await.unwrap();
    // Until the owner of the slot hears of it, it puts events behind the key as they come.
    let keys = table(&log, "parked_keys");
    run(&log, format!("UPDATE {keys} SET asked = NULL")).await;
    more(&log, &recorder).await;
    run(&log, format!("UPDATE {keys} SET asked = 'skip-all'")).await;
    let proof = mended(&log, recorder).await;
    assert_eq!((proof.handled, proof.doubled), (5 * 2 + 3, 0));
}

async fn a_first_event_that_was_handled_meanwhile_takes_no_other_with_it(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 6, |id| id == "1").await;
    more(&log, &recorder).await;
    Consumers::new(&log).skip_parked("orders", KEY).await.unwrap();
    // By a retry that was under way.
    let (first, events) = (behind(&log).await[0], table(&log, "parked_events"));
    run(&log, format!("DELETE FROM {events} WHERE position = {first}")).await;
    let proof = mended(&log, recorder).await;
    assert_eq!(proof.handled, 5 * 2 + 4, "the first one is gone, and no other was to be skipped");
}

async fn a_skip_is_proven_by_an_audit(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 6, |id| id == "1").await;
    let consumers = Consumers::new(&log);
    consumers.start_audit("orders").await.unwrap();
    let request = parked(ParkedAction::SkipAll, ParkedFilter::of_key(KEY), None);
    let plan = operations(&log).plan(&request).await.unwrap();
    more(&log, &recorder).await;
    operations(&log).apply(plan.id, |_| {}).await.unwrap();
    mended(&log, recorder).await;
    consumers.audit("orders", |_| {}).await.unwrap();
}

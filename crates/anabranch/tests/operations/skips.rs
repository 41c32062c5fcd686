//! Skipping what is not handled: up to the end that somebody was shown, and no further.

use crate::on_both;
use crate::support::*;
use crate::{handled, operations};
use anabranch::operate::Consumers;
use anabranch::operations::Request;
use anabranch::prelude::*;

on_both! {
    what_is_appended_after_the_plan_is_handled,
    slots_that_have_come_further_stay_and_lose_their_old_failures,
    an_audited_consumer_is_proven_after_a_skip,
}

fn skip() -> Request {
    Request::SkipToHead { consumer: "orders".to_owned() }
}

async fn what_is_appended_after_the_plan_is_handled(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 4, |_| false).await;
    fill(&log, 0..4, 3..=4).await;
    let plan = operations(&log).plan(&skip()).await.unwrap();
    assert_eq!(plan.effect.counts["events"], 8);
    fill(&log, 0..4, 5..=5).await;
    operations(&log).apply(plan.id, |_| {}).await.unwrap();
    assert_eq!(status(&log, "orders").await.position.get(), 16);
    ReplicaSet::new("s").projection(recorder.clone()).catch_up(&log).await.unwrap();
    let proof = proof(&log, &recorder.table).await;
    assert_eq!((proof.handled, proof.doubled), (8 + 4, 0), "3 and 4 were left out, 5 was not");
}

async fn slots_that_have_come_further_stay_and_lose_their_old_failures(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 6, |id| id == "1" || id == "9").await;
    let plan = operations(&log).plan(&skip()).await.unwrap();
    assert_eq!(plan.effect.counts["keys"], 1);
    // All slots pass the end that was shown, and another key fails behind it.
    fill(&log, 0..10, 3..=3).await;
    left_by(ReplicaSet::new("s").projection(recorder.clone()), &log).await;
    let before = status(&log, "orders").await;
    assert_eq!((before.parked_keys, before.parked_events), (2, 4));
    operations(&log).apply(plan.id, |_| {}).await.unwrap();
    let after = status(&log, "orders").await;
    assert_eq!(after.position, before.position, "nothing goes back");
    let parked = Consumers::new(&log).parked("orders").await.unwrap();
    let left: Vec<_> = parked.iter().map(|key| (&*key.key, key.events)).collect();
    assert_eq!(left, [("Order:1", 1), ("Order:9", 1)], "what failed later waits on");
    left_by(ReplicaSet::new("s").projection(recorder.clone()), &log).await;
    let proof = proof(&log, &recorder.table).await;
    assert_eq!((proof.handled, proof.doubled), (10 + 8, 0));
}

async fn an_audited_consumer_is_proven_after_a_skip(db: Db) {
    let log = db.log().await;
    let recorder = handled(&db, &log, 6, |id| id == "1" || id == "9").await;
    let consumers = Consumers::new(&log);
    consumers.start_audit("orders").await.unwrap();
    let plan = operations(&log).plan(&skip()).await.unwrap();
    fill(&log, 0..10, 3..=3).await;
    left_by(ReplicaSet::new("s").projection(recorder.clone()), &log).await;
    operations(&log).apply(plan.id, |_| {}).await.unwrap();
    consumers.audit("orders", |_| {}).await.unwrap();
    fill(&log, 0..10, 4..=4).await;
    left_by(ReplicaSet::new("s").projection(recorder.clone()), &log).await;
    consumers.audit("orders", |_| {}).await.unwrap();
    // And where slots do jump.
    fill(&log, 0..10, 5..=5).await;
    operations(&log).carry_out(&skip(), |_| {}).await.unwrap();
    let proof = consumers.audit("orders", |_| {}).await.unwrap();
    assert_eq!(proof.kind, "projection");
}

//! A worker that joins in an outage may bring the cure: it tries once, at once, whenever the next try is due.

use crate::crew::quick;
use crate::on_both;
use crate::support::*;
use anabranch::operate::{Consumers, Outage};
use anabranch::prelude::*;
use anabranch::{Failure, HandlerError, Retry, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    a_cured_worker_that_joins_ends_the_outage_at_once,
    a_worker_that_fails_too_tries_once,
    a_cured_worker_tries_the_event_that_stops_as_soon_as_it_owns_it,
}

const KEYS: u64 = 400;
const ALL: Proof = Proof { handled: KEYS as i64, doubled: 0, keys: KEYS as i64, wrong: 0 };

/// Nobody tries again before the test is over, unless there is a reason.
fn seldom() -> Tuning {
    let hour = Duration::from_secs(3600);
    quick().probes(hour, hour)
}

fn fails(_: &Event) -> HandlerResult {
    Err(HandlerError::new("a bug"))
}

fn set(recorder: &Recorder) -> ReplicaSet {
    ReplicaSet::new("s").projection(recorder.clone()).tuning(seldom()).lanes(2)
}

async fn until_out(log: &Log) -> Outage {
    until("an outage", async || Consumers::new(log).status("orders").await.ok()?.outage).await
}

async fn a_cured_worker_that_joins_ends_the_outage_at_once(db: Db) {
    let log = db.log().await;
    fill(&log, 0..KEYS, 1..=1).await;
    let cured = db.recorder("orders").worker("cured");
    let old = start(&db.log().await, set(&cured.clone().hook(fails)));
    until_out(&log).await;
    let new = start(&db.log().await, set(&cured));
    // The old one fails on, so it hands over what it has.
    until("all", async || (proof(&log, &cured.table).await == ALL).then_some(())).await;
    assert!(status(&log, "orders").await.outage.is_none());
    old.stop().await;
    new.stop().await;
}

async fn a_worker_that_fails_too_tries_once(db: Db) {
    let log = db.log().await;
    fill(&log, 0..KEYS, 1..=1).await;
    let bad = db.recorder("orders").hook(fails);
    let first = start(&db.log().await, set(&bad));
    let began = until_out(&log).await;
    // What had begun when it stopped may end meanwhile; those who join have a count of their own.
    let calls = Arc::new(AtomicU64::new(0));
    let mut joined = Vec::new();
    for workers in 1..=3 {
        let bad = Recorder { handled: Arc::clone(&calls), ..bad.clone() };
        joined.push(start(&db.log().await, set(&bad)));
        let tried = async || Some(until_out(&log).await).filter(|outage| outage.probes >= workers);
        let outage = until("its try", tried).await;
        assert_eq!(outage.since, began.since, "it goes on");
        assert!(outage.next_ms > Some(3_000_000), "{outage}");
        until("its call", async || (calls.load(Ordering::SeqCst) >= workers).then_some(())).await;
    }
    for worker in joined {
        worker.stop().await;
    }
    first.stop().await;
    // A call for each try, and a try for each of them; one that lost its slots in its try to the next tries again.
    let (calls, probes) = (calls.load(Ordering::SeqCst), until_out(&log).await.probes);
    assert!(calls <= probes && probes <= 2 * 3, "{calls} calls, {probes} tries");
}

/// Nothing passes that event, so only its owner can try it.
async fn a_cured_worker_tries_the_event_that_stops_as_soon_as_it_owns_it(db: Db) {
    let log = db.log().await;
    fill(&log, 0..KEYS, 1..=1).await;
    let settings = Settings::default().retry(Retry::never().then(Failure::Stop));
    let cured = db.recorder("orders").settings(settings).worker("cured");
    let old = start(&db.log().await, set(&cured.clone().hook(fails)));
    until_out(&log).await;
    let new = start(&db.log().await, set(&cured));
    until("two workers", async || {
        (Consumers::new(&log).workers().await.unwrap().len() == 2).then_some(())
    })
    .await;
    old.stop().await;
    until("all", async || (proof(&log, &cured.table).await == ALL).then_some(())).await;
    new.stop().await;
}

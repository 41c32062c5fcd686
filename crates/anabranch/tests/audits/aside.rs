//! What is set aside, tried again, skipped, put back or passed is in the record, and proven with it.

use crate::on_both;
use crate::proofs::{STREAMS, proven};
use crate::support::{Db, fill, proof, start, status, until};
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use anabranch::running::Guarantee;
use anabranch::{Delivery, Failure, HandlerError, Retry, ViewColumn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    parked_keys_are_tried_again_and_skipped,
    what_fails_a_few_times_is_proven,
    what_is_skipped_by_policy_is_counted,
    what_was_set_aside_before_the_audit_is_known,
    replays_and_jumps_are_proven,
    subscribers_are_proven,
    views_are_proven,
}

fn never() -> Settings {
    Settings::default().audit(true).retry(Retry::never()).batch_size(9)
}

/// Fails for three orders while it is ill.
fn ill(is_ill: &Arc<AtomicBool>) -> impl Fn(&Event) -> HandlerResult + Send + Sync + 'static {
    let is_ill = Arc::clone(is_ill);
    move |event: &Event| {
        let is_bad = ["3", "7", "20"].contains(&event.stream_id()) && event.version() > 2;
        match is_bad && is_ill.load(Ordering::Relaxed) {
            true => Err(HandlerError::new("ill")),
            false => Ok(()),
        }
    }
}

async fn parked_keys_are_tried_again_and_skipped(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let is_ill = Arc::new(AtomicBool::new(true));
    let recorder = db.recorder("orders").settings(never()).hook(ill(&is_ill));
    let table = recorder.table.clone();
    let running = start(&log, ReplicaSet::new("s").projection(recorder).lanes(3));
    let consumers = Consumers::new(&log);
    let parked = async |keys: usize, events: u64| {
        until("keys to be parked", async || {
            let status = consumers.status("orders").await.ok()?;
            let rest = status.lag == status.parked_events;
            let is_so = (status.parked_keys, status.parked_events) == (keys, events);
            (rest && is_so && status.retrying_keys == 0).then_some(())
        })
        .await;
    };
    parked(3, 24).await;
    let first = proven(&log, "orders").await.proven;
    assert_eq!((first.handed, first.aside, first.skipped), (376, 24, 0));
    fill(&log, 0..STREAMS, 11..=12).await;
    parked(3, 30).await;
    consumers.skip_parked("orders", "Order:3").await.unwrap();
    parked(3, 29).await;
    let second = proven(&log, "orders").await.proven;
    assert_eq!((second.handed, second.aside, second.skipped), (74, 29, 1));
    consumers.skip_all_parked("orders", "Order:7").await.unwrap();
    parked(2, 19).await;
    is_ill.store(false, Ordering::Relaxed);
    consumers.retry_parked("orders", "Order:20").await.unwrap();
    parked(1, 9).await;
    let third = proven(&log, "orders").await.proven;
    assert_eq!((third.handed, third.aside, third.skipped), (10, 9, 10));
    consumers.retry_parked("orders", "Order:3").await.unwrap();
    parked(0, 0).await;
    running.stop().await;
    let last = proven(&log, "orders").await.proven;
    assert_eq!((last.handed, last.aside, last.skipped), (9, 0, 0));
    assert_eq!(proof(&log, &table).await.handled, 480 - 11);
}

/// Batch by batch something fails once or twice, in two workers that take turns.
async fn what_fails_a_few_times_is_proven(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=20).await;
    let calls = Arc::new(AtomicU64::new(0));
    let hook = move |_: &Event| match calls.fetch_add(1, Ordering::Relaxed) % 13 {
        12 => Err(HandlerError::new("now and then")),
        _ => Ok(()),
    };
    let retry = Retry::default().first(Duration::from_millis(1)).attempts(50);
    let settings = Settings::default().audit(true).retry(retry).batch_size(10);
    let recorder = db.recorder("orders").settings(settings).hook(hook);
    let table = recorder.table.clone();
    for lanes in [3, 2] {
        let running = start(&log, ReplicaSet::new("s").projection(recorder.clone()).lanes(lanes));
        until("half of it", async || {
            let lag = anabranch::operate::Consumers::new(&log).status("orders").await.ok()?.lag;
            (lag <= if lanes == 3 { 500 } else { 100 }).then_some(())
        })
        .await;
        running.stop().await;
        proven(&log, "orders").await;
    }
    ReplicaSet::new("s").projection(recorder).catch_up(&log).await.unwrap();
    assert_eq!(proven(&log, "orders").await.proven.aside, 0);
    assert_eq!(proof(&log, &table).await.doubled, 0);
}

async fn what_is_skipped_by_policy_is_counted(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let retry = Retry::default().first(Duration::from_millis(1)).attempts(2).then(Failure::Skip);
    for (name, retry, lanes) in
        [("at_once", Retry::never().then(Failure::Skip), 2), ("later", retry, 1)]
    {
        let hook = ill(&Arc::new(AtomicBool::new(true)));
        let settings = Settings::default().audit(true).batch_size(50).retry(retry);
        let recorder = db.recorder(name).settings(settings).hook(hook);
        ReplicaSet::new("s").projection(recorder).lanes(lanes).catch_up(&log).await.unwrap();
        let proven = proven(&log, name).await.proven;
        assert_eq!((proven.handed, proven.skipped, proven.aside), (376, 24, 0), "{name}");
    }
}

async fn what_was_set_aside_before_the_audit_is_known(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let is_ill = Arc::new(AtomicBool::new(true));
    let recorder = db.recorder("orders").settings(never().audit(false)).hook(ill(&is_ill));
    let set = || ReplicaSet::new("s").projection(recorder.clone()).lanes(2);
    assert!(set().catch_up(&log).await.is_err(), "three keys are parked");
    let consumers = Consumers::new(&log);
    consumers.start_audit("orders").await.unwrap();
    let first = proven(&log, "orders").await.proven;
    assert_eq!((first.handed, first.aside), (0, 24));
    is_ill.store(false, Ordering::Relaxed);
    for order in ["3", "7", "20"] {
        consumers.retry_parked("orders", &format!("Order:{order}")).await.unwrap();
    }
    set().catch_up(&log).await.unwrap();
    let last = proven(&log, "orders").await.proven;
    assert_eq!((last.handed, last.aside), (24, 0));
}

async fn replays_and_jumps_are_proven(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let is_ill = Arc::new(AtomicBool::new(true));
    let recorder = db.recorder("orders").settings(never()).hook(ill(&is_ill));
    let set = || ReplicaSet::new("s").projection(recorder.clone()).lanes(3);
    assert!(set().catch_up(&log).await.is_err(), "three keys are parked");
    let consumers = Consumers::new(&log);
    consumers.replay("orders", ReplayFrom::Start).await.unwrap();
    assert!(set().catch_up(&log).await.is_err(), "they are again");
    let twice = proven(&log, "orders").await.proven;
    assert_eq!((twice.handed, twice.aside), (752, 24), "a replay hands over again");
    fill(&log, 0..STREAMS, 11..=20).await;
    consumers.skip_to_head("orders").await.unwrap();
    fill(&log, 0..STREAMS, 21..=21).await;
    is_ill.store(false, Ordering::Relaxed);
    set().catch_up(&log).await.unwrap();
    let jumped = proven(&log, "orders").await.proven;
    assert_eq!((jumped.handed, jumped.aside), (40, 0), "what is passed by a jump is left out");
    consumers.replay("orders", ReplayFrom::Start).await.unwrap();
    set().catch_up(&log).await.unwrap();
    assert_eq!(proven(&log, "orders").await.proven.handed, STREAMS * 21);
    assert_eq!(status(&log, "orders").await.lag, 0);
}

struct Outside(&'static str, Guarantee, AtomicU64);

impl Subscriber for Outside {
    fn name(&self) -> &str {
        self.0
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        let retry = Retry::default().first(Duration::from_millis(1)).attempts(50);
        Settings::default().audit(true).retry(retry)
    }
    fn guarantee(&self) -> Guarantee {
        self.1
    }
    async fn deliver(&self, _: &Delivery<'_>) -> HandlerResult {
        match self.2.fetch_add(1, Ordering::Relaxed) % 11 {
            10 => Err(HandlerError::new("away")),
            _ => Ok(()),
        }
    }
}

/// What was delivered before the one that failed is not delivered again, and is in the record.
async fn subscribers_are_proven(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    for (name, guarantee) in
        [("at_least_once", Guarantee::AtLeastOnce), ("at_most_once", Guarantee::AtMostOnce)]
    {
        let outside = Outside(name, guarantee, AtomicU64::new(0));
        ReplicaSet::new("s").subscriber(outside).lanes(2).catch_up(&log).await.unwrap();
        let proven = proven(&log, name).await.proven;
        assert_eq!((proven.handed, proven.aside), (400, 0), "{name}");
    }
}

struct Counts;

impl View for Counts {
    type State = u64;
    fn name(&self) -> &str {
        "counts"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    fn apply(&self, count: &mut u64, event: &Event) -> HandlerResult {
        *count += 1;
        match event.stream_id() == "5" && event.version() == 4 {
            true => Err(HandlerError::new("cannot fold")),
            false => Ok(()),
        }
    }
    fn columns(&self) -> Vec<ViewColumn<u64>> {
        vec![ViewColumn::int("count", |count: &u64| *count as i64)]
    }
}

async fn views_are_proven(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    assert!(ReplicaSet::new("s").view(Counts).lanes(3).catch_up(&log).await.is_err());
    let proven = proven(&log, "counts").await.proven;
    assert_eq!((proven.handed, proven.aside), (393, 7));
}

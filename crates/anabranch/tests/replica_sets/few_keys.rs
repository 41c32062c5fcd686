//! Outages that show in few keys, or few keys on each lane: whether the handler fails is counted over all lanes
//! of a consumer, whatever its policy.

use crate::crew::{quick, until_proven, until_shared};
use crate::on_both;
use crate::support::*;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Failure, HandlerError, Retry, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    an_event_that_must_not_be_passed_stops_all_workers,
    nothing_is_skipped_while_everything_fails,
    the_keys_of_a_bad_canary_are_done_by_others,
    errors_that_say_when_stop_nobody,
}

fn tuning() -> Tuning {
    quick().probes(Duration::from_millis(30), Duration::from_millis(120))
}

fn fast() -> Retry {
    Retry::default().first(Duration::from_millis(2)).longest(Duration::from_millis(9))
}

/// `Failure::Stop`, and one event that fails wherever it is tried: handing it over must come to an end.
async fn an_event_that_must_not_be_passed_stops_all_workers(db: Db) {
    let log = db.log().await;
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let settings = Settings::default().retry(fast().then(Failure::Stop));
    let recorder = db.recorder("orders").settings(settings).hook(move |event| {
        match is_broken.load(Ordering::SeqCst) && event.position().get() == 100 {
            true => Err(HandlerError::new("this one must not be passed")),
            false => Ok(()),
        }
    });
    let mut workers = Vec::new();
    for _ in 0..3 {
        // The usual lease: an owner that is slow is not gone.
        let probes = (Duration::from_millis(30), Duration::from_millis(120));
        let tuning = Tuning::default().probes(probes.0, probes.1);
        let set = ReplicaSet::new("s").projection(recorder.clone()).lanes(2).tuning(tuning);
        workers.push(start(&db.log().await, set));
    }
    until_shared(&log, "orders", 3).await;
    fill(&log, 0..60, 1..=3).await;
    let outage = async || status(&log, "orders").await.outage;
    until("an outage", async || outage().await.filter(|outage| outage.probes >= 3)).await;
    // Everything stands still, and what is appended now as well.
    let before = proof(&log, &recorder.table).await.handled;
    fill(&log, 0..60, 4..=4).await;
    until("more tries", async || outage().await.filter(|outage| outage.probes >= 6)).await;
    assert_eq!(proof(&log, &recorder.table).await.handled, before, "nothing passes it");
    broken.store(false, Ordering::SeqCst);
    until_proven(&log, &recorder.table, 60, 4).await;
    for worker in workers {
        worker.stop().await;
    }
}

/// `Failure::Skip` says what becomes of an event that fails, not of all events while the world is down.
async fn nothing_is_skipped_while_everything_fails(db: Db) {
    let log = db.log().await;
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let settings = Settings::default().retry(Retry::never().then(Failure::Skip));
    let recorder = db.recorder("orders").settings(settings).hook(move |_| {
        match is_broken.load(Ordering::SeqCst) {
            true => Err(HandlerError::new("down")),
            false => Ok(()),
        }
    });
    fill(&log, 0..60, 1..=2).await;
    let set = ReplicaSet::new("s").projection(recorder.clone()).lanes(4).tuning(tuning());
    let worker = start(&log, set);
    let consumers = Consumers::new(&log);
    until("an outage", async || consumers.status("orders").await.ok()?.outage).await;
    broken.store(false, Ordering::SeqCst);
    until("the end", async || {
        let now = status(&log, "orders").await;
        (now.outage.is_none() && now.lag == 0).then_some(())
    })
    .await;
    // Nine at the most before it was noticed, on each of the lanes that met the tenth together, and one for
    // each try.
    let skipped = 120 - proof(&log, &recorder.table).await.handled;
    assert!(skipped < 40, "{skipped} of 120 were left out");
    worker.stop().await;
}

/// Fewer than a hundred keys in all, on several lanes of one worker that fails alone.
async fn the_keys_of_a_bad_canary_are_done_by_others(db: Db) {
    let log = db.log().await;
    let recorder =
        db.recorder("orders").settings(Settings::default().retry(fast().attempts(1_000)));
    let mut workers = Vec::new();
    for worker in 0..3 {
        let mut recorder = recorder.clone();
        if worker == 0 {
            recorder = recorder.hook(|_| Err(HandlerError::new("no route to the bank")));
        }
        let set = ReplicaSet::new("s").projection(recorder).lanes(2).tuning(tuning());
        workers.push(start(&db.log().await, set));
    }
    until_shared(&log, "orders", 3).await;
    // Twenty keys or so for each worker: it takes ten seconds in which nothing works.
    fill(&log, 0..60, 1..=2).await;
    until_proven(&log, &recorder.table, 60, 2).await;
    assert_eq!(status(&log, "orders").await.parked_keys, 0);
    for worker in workers {
        worker.stop().await;
    }
}

/// A receiver that asks for patience is not away: its tasks wait, and others are done.
async fn errors_that_say_when_stop_nobody(db: Db) {
    let log = db.log().await;
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let recorder = db.recorder("orders").hook(move |event| {
        if event.stream().id().ends_with('7') {
            counted.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        Err(HandlerError::try_after(Duration::from_secs(600), "not settled yet"))
    });
    fill(&log, 0..300, 1..=1).await;
    let worker = start(&log, ReplicaSet::new("s").projection(recorder).tuning(tuning()));
    until("the others", async || (done.load(Ordering::SeqCst) >= 30).then_some(())).await;
    until("all to be tried", async || {
        let now = status(&log, "orders").await;
        (now.retrying_keys >= 270).then_some(())
    })
    .await;
    assert!(status(&log, "orders").await.outage.is_none());
    worker.stop().await;
}

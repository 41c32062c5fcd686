//! What is tried while a consumer is stopped, or about to be: one event at a time, and none that was done.

use crate::attempts::Outside;
use crate::fail_apart::{quick, until_tried};
use crate::gates::never;
use crate::on_both;
use crate::support::{Db, fill, proof, start, status, until};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Failure, HandlerError, Retry};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both! {
    a_subscriber_that_stops_has_an_outage_soon_and_delivers_nothing_again,
    a_pause_ends_the_wait_for_an_event_that_stops,
    a_try_that_fails_for_good_parks_one_key,
    a_worker_that_fails_fast_ends_nobodys_outage,
    a_try_that_is_asked_for_patience_has_it,
    an_outage_begins_with_the_patience_that_was_asked_for,
    one_event_has_nobody_wait_for_a_day,
    keys_that_fail_for_ever_keep_out_nobody,
}

/// Delivers as a test says; nothing passes an event that fails.
fn strict(deliver: impl Fn(&Event) -> HandlerResult + Send + Sync + 'static) -> Outside {
    Outside::new(Settings::default().retry(Retry::outside().then(Failure::Stop)), deliver)
}

/// The default for effects outside would try it for three days where it stands.
async fn a_subscriber_that_stops_has_an_outage_soon_and_delivers_nothing_again(db: Db) {
    let log = db.log().await;
    fill(&log, 0..30, 1..=1).await;
    let on = Arc::new(AtomicBool::new(false));
    let calls: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let (is_on, called) = (Arc::clone(&on), Arc::clone(&calls));
    let strict = strict(move |event| {
        *called.lock().unwrap().entry(event.stream_id().to_owned()).or_default() += 1;
        match event.stream_id() == "13" && !is_on.load(Ordering::SeqCst) {
            true => Err(HandlerError::new("the endpoint refuses connections")),
            false => Ok(()),
        }
    });
    let running = start(&log, ReplicaSet::new("s").tuning(quick()).subscriber(strict));
    until_tried(&log, "outside", 2).await;
    let before = calls.lock().unwrap().clone();
    assert!(before.len() > 1 && before.len() < 30, "{before:?}");
    assert!(before.contains_key("0") && !before.contains_key("29"), "{before:?}");
    on.store(true, Ordering::SeqCst);
    until("all", async || (calls.lock().unwrap().len() == 30).then_some(())).await;
    until("no outage", async || status(&log, "outside").await.outage.is_none().then_some(())).await;
    running.stop().await;
    let mut calls = calls.lock().unwrap().clone();
    assert!(calls.remove("13").is_some_and(|calls| calls > 5));
    assert!(calls.values().all(|calls| *calls == 1), "{calls:?}");
}

async fn a_pause_ends_the_wait_for_an_event_that_stops(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let (calls, knows) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (called, known) = (Arc::clone(&calls), Arc::clone(&knows));
    let strict = strict(move |_| match called.fetch_add(1, Ordering::SeqCst) {
        0 => Err(HandlerError::try_after(Duration::from_secs(3600), "come back in an hour")),
        _ => Ok(()),
    });
    let set = ReplicaSet::new("s").tuning(quick()).subscriber(strict);
    let set = set.on_progress(move |progress| {
        known.store(progress.consumers[0].paused, Ordering::SeqCst);
    });
    let running = start(&log, set);
    until("a call", async || (calls.load(Ordering::SeqCst) == 1).then_some(())).await;
    let consumers = Consumers::new(&log);
    consumers.pause("outside").await.unwrap();
    until("it to know", async || knows.load(Ordering::SeqCst).then_some(())).await;
    consumers.resume("outside").await.unwrap();
    until("all", async || (calls.load(Ordering::SeqCst) == 4).then_some(())).await;
    running.stop().await;
}

/// The world is broken, and some say that it is their event's fault.
async fn a_try_that_fails_for_good_parks_one_key(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let (on, for_good) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let hook = {
        let (on, for_good) = (Arc::clone(&on), Arc::clone(&for_good));
        move |_: &Event| match (on.load(Ordering::SeqCst), for_good.load(Ordering::SeqCst)) {
            (true, _) => Ok(()),
            (false, true) => Err(HandlerError::for_good("404")),
            (false, false) => Err(HandlerError::new("502")),
        }
    };
    let retry = Retry::default().attempts(3).first(Duration::from_millis(5));
    let bad = db.recorder("bad").hook(hook).settings(Settings::default().retry(retry));
    let table = bad.table.clone();
    let running = start(&log, ReplicaSet::new("s").tuning(quick()).projection(bad));
    until_tried(&log, "bad", 1).await;
    for_good.store(true, Ordering::SeqCst);
    let before = status(&log, "bad").await.outage.unwrap();
    until_tried(&log, "bad", before.probes + 6).await;
    let now = status(&log, "bad").await;
    let (parked, outage) = (now.parked_keys as u64, now.outage.unwrap());
    assert_eq!(outage.since, before.since, "it goes on");
    let tries = outage.probes - before.probes;
    assert!(parked > 0 && parked <= tries + 1, "{parked} keys after {tries} tries");
    on.store(true, Ordering::SeqCst);
    until("no outage", async || status(&log, "bad").await.outage.is_none().then_some(())).await;
    let parked = status(&log, "bad").await.parked_keys as i64;
    let all = 500 - parked;
    until("the others", async || (proof(&log, &table).await.handled == all).then_some(())).await;
    running.stop().await;
}

/// A supervisor starts it again and again: that is not everybody's reason to call a broken endpoint.
async fn a_worker_that_fails_fast_ends_nobodys_outage(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let on = Arc::new(AtomicBool::new(false));
    let is_on = Arc::clone(&on);
    let bad = db.recorder("bad").hook(move |_| match is_on.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err(HandlerError::new("502")),
    });
    let retry = Retry::default().attempts(50).first(Duration::from_millis(5));
    let bad = bad.settings(Settings::default().retry(retry.longest(Duration::from_millis(20))));
    let table = bad.table.clone();
    let set = || ReplicaSet::new("s").tuning(quick()).projection(bad.clone());
    let patient = start(&log, set());
    until_tried(&log, "bad", 1).await;
    let before = status(&log, "bad").await.outage.unwrap();
    for _ in 0..2 {
        let error = start(&log, set().fail_fast()).ended().await.unwrap_err().to_string();
        assert!(error.contains("it has stopped by itself: 502"), "{error}");
    }
    let outage = status(&log, "bad").await.outage.unwrap();
    assert_eq!(outage.since, before.since, "it goes on");
    patient.stop().await;
    // Nobody else would try it.
    on.store(true, Ordering::SeqCst);
    let fast = start(&log, set().fail_fast());
    until("all", async || (proof(&log, &table).await.handled == 500).then_some(())).await;
    assert!(status(&log, "bad").await.outage.is_none());
    fast.stop().await;
}

/// When a consumer is tried next, as it is stored, once its outage says so.
async fn next_try(log: &Log, name: &str, said: &str) -> Duration {
    let next = until(said, async || {
        let outage = Consumers::new(log).status(name).await.ok()?.outage?;
        outage.error.contains(said).then_some(outage.next_ms?)
    });
    Duration::from_millis(next.await)
}

const HALF_AN_HOUR: Duration = Duration::from_secs(1800);

/// Its next try comes when the endpoint said, though the pauses are short; so does that of its key.
async fn a_try_that_is_asked_for_patience_has_it(db: Db) {
    let log = db.log().await;
    fill(&log, 0..300, 1..=1).await;
    let (on, asks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let hook = {
        let (on, asks) = (Arc::clone(&on), Arc::clone(&asks));
        move |_: &Event| match (on.load(Ordering::SeqCst), asks.load(Ordering::SeqCst)) {
            (true, _) => Ok(()),
            (false, true) => Err(HandlerError::try_after(HALF_AN_HOUR, "503, come back later")),
            (false, false) => Err(HandlerError::new("502")),
        }
    };
    let bad = db.recorder("bad").hook(hook);
    let running = start(&log, ReplicaSet::new("s").tuning(quick()).projection(bad.clone()));
    until_tried(&log, "bad", 2).await;
    asks.store(true, Ordering::SeqCst);
    let next = next_try(&log, "bad", "come back later").await;
    assert!(next > HALF_AN_HOUR / 2 && next <= HALF_AN_HOUR, "{next:?}");
    on.store(true, Ordering::SeqCst);
    Consumers::new(&log).resume("bad").await.unwrap();
    until("all, or all but the key that is to wait", async || {
        (proof(&log, &bad.table).await.handled >= 299).then_some(())
    })
    .await;
    running.stop().await;
}

async fn an_outage_begins_with_the_patience_that_was_asked_for(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let said = |_: &Event| Err(HandlerError::try_after(HALF_AN_HOUR, "503, come back later"));
    let settings = Settings::default().retry(Retry::never().then(Failure::Stop));
    let bad = db.recorder("bad").hook(said).settings(settings);
    let running = start(&log, ReplicaSet::new("s").tuning(quick()).projection(bad.clone()));
    let next = next_try(&log, "bad", "come back later").await;
    assert!(next > HALF_AN_HOUR / 2 && next <= HALF_AN_HOUR, "{next:?}");
    assert_eq!(bad.handled.load(Ordering::SeqCst), 1);
    running.stop().await;
}

async fn one_event_has_nobody_wait_for_a_day(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let day = Duration::from_secs(86_400);
    let said = move |_: &Event| Err(HandlerError::try_after(day, "tomorrow"));
    let settings = Settings::default().retry(Retry::never().then(Failure::Stop));
    let bad = db.recorder("bad").hook(said).settings(settings);
    let running = start(&log, ReplicaSet::new("s").tuning(quick()).projection(bad));
    let next = next_try(&log, "bad", "tomorrow").await;
    assert!(next > HALF_AN_HOUR && next <= HALF_AN_HOUR * 2, "{next:?}");
    running.stop().await;
}

/// They stop the consumer, since nothing else was there to show that it works; what comes then is found by its
/// tries, whichever lane of whichever worker owns it.
async fn keys_that_fail_for_ever_keep_out_nobody(db: Db) {
    let log = db.log().await;
    // Few are enough where each would be given up; each try passes one of them, at most.
    let orders = db.recorder("orders").settings(never()).hook(|event| {
        match event.stream_id().parse::<u32>().is_ok_and(|order| order < 24) {
            true => Err(HandlerError::new("this account is closed")),
            false => Ok(()),
        }
    });
    let set = || ReplicaSet::new("s").tuning(quick()).projection(orders.clone()).lanes(3);
    let (one, other) = (start(&log, set()), start(&db.log().await, set()));
    fill(&log, 0..24, 1..=1).await;
    until_tried(&log, "orders", 2).await;
    fill(&log, 200..220, 1..=1).await;
    until("the good ones", async || (proof(&log, &orders.table).await.handled == 20).then_some(()))
        .await;
    one.stop().await;
    other.stop().await;
}

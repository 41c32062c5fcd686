//! A handler that says that it cannot run at all: no event is to blame, however few keys there are.

use crate::fail_apart::{quick, until_tried};
use crate::on_both;
use crate::support::{Db, Proof, fill, proof, start, status, until};
use anabranch::prelude::*;
use anabranch::{Failure, HandlerError, Retry, RunError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

on_both! {
    it_parks_nothing_and_goes_on_when_it_can,
    it_skips_nothing_and_goes_on_when_it_can,
    it_stops_at_no_event_and_goes_on_when_it_can,
    a_catch_up_ends_with_what_it_lacks,
}

const ALL: Proof = Proof { handled: 6, doubled: 0, keys: 2, wrong: 0 };

async fn goes_on(db: Db, then: Failure) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=3).await;
    let able = Arc::new(AtomicBool::new(false));
    let is_able = Arc::clone(&able);
    let settings = Settings::default().retry(Retry::never().then(then));
    let recorder =
        db.recorder("p").settings(settings).hook(move |_| match is_able.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(HandlerError::unable("there is no key to sign with")),
        });
    let running = start(&log, ReplicaSet::new("s").tuning(quick()).projection(recorder.clone()));
    until_tried(&log, "p", 4).await;
    let now = status(&log, "p").await;
    assert_eq!((now.parked_keys, now.retrying_keys), (0, 0), "{now:?}");
    let error = now.outage.unwrap().error;
    assert!(error.contains("there is no key to sign with"), "{error}");
    able.store(true, Ordering::SeqCst);
    until("all events", async || (proof(&log, &recorder.table).await == ALL).then_some(())).await;
    running.stop().await;
}

async fn it_parks_nothing_and_goes_on_when_it_can(db: Db) {
    goes_on(db, Failure::Park).await;
}

async fn it_skips_nothing_and_goes_on_when_it_can(db: Db) {
    goes_on(db, Failure::Skip).await;
}

async fn it_stops_at_no_event_and_goes_on_when_it_can(db: Db) {
    goes_on(db, Failure::Stop).await;
}

/// Also where it lacks that from the second event of a batch on.
async fn a_catch_up_ends_with_what_it_lacks(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=3).await;
    let recorder = db.recorder("p");
    let lacking = recorder.clone().hook(|event| match event.data::<u64>()? {
        1 => Ok(()),
        _ => Err(HandlerError::unable("there is no key to sign with")),
    });
    let set = |recorder| ReplicaSet::new("s").tuning(quick()).projection(recorder);
    let ended = set(lacking).catch_up(&log).await.unwrap_err();
    assert!(matches!(ended, RunError::Stopped { .. }), "{ended:?}");
    for part in ["there is no key to sign with", "cannot run, whatever the event is"] {
        assert!(ended.to_string().contains(part), "{part} in: {ended}");
    }
    let now = status(&log, "p").await;
    assert_eq!((now.parked_keys, now.retrying_keys), (0, 0), "{now:?}");
    set(recorder.clone()).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &recorder.table).await, ALL);
}

//! Operations on both databases: planned, refused if the plan is out of date, written in the journal with the change.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod answers;
mod aside;
mod journal;
mod left;
mod many;
mod meddled;
mod plans;
mod skips;
mod stored;
#[path = "../consumers/support.rs"]
mod support;

use anabranch::operations::{By, Operations, Request};
use anabranch::prelude::*;
use anabranch::{HandlerError, Retry};
use support::*;

/// The operations on a log, by somebody.
pub fn operations(log: &Log) -> Operations {
    Operations::new(log, By::new("mary", "library"))
}

/// That a consumer is paused.
pub fn pause(consumer: &str) -> Request {
    Request::Pause { consumer: consumer.to_owned() }
}

/// A consumer that has handled events of some orders, all but those that its hook refuses: their keys are parked.
pub async fn handled(db: &Db, log: &Log, orders: u64, refuses: fn(&str) -> bool) -> Recorder {
    fill(log, 0..orders, 1..=2).await;
    let never = Settings::default().retry(Retry::never());
    let recorder =
        db.recorder("orders").settings(never).hook(move |event| match refuses(event.stream_id()) {
            true => Err(HandlerError::new(format!("no room for {}", event.stream_id()))),
            false => Ok(()),
        });
    let _ = ReplicaSet::new("s").projection(recorder.clone()).catch_up(log).await;
    recorder
}

/// A table of the log, as statements name it.
pub fn table(log: &Log, name: &str) -> String {
    log.database().dialect().table(name)
}

/// How many keys somebody has asked something of.
pub async fn asked(log: &Log) -> i64 {
    let keys = table(log, "parked_keys");
    number(log, &format!("SELECT count(*) FROM {keys} WHERE asked IS NOT NULL")).await
}

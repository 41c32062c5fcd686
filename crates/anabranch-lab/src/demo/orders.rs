//! The stream of orders: as fast as it goes, or at a pace that a person can watch.

use anabranch::AppendError;
use anabranch::prelude::*;
use anyhow::Context;
use serde_json::json;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

const ORDERS: u64 = 2_000;
/// How many events are appended in one go.
const BATCH: u64 = 100;

/// A postcode that no carrier knows at first.
pub(super) const NEW_POSTCODE: &str = "00000";
/// The orders that go to such a one. Always the same, so that the keys that are parked do not become more and more.
const TO_NEW_POSTCODES: [u64; 5] = [137, 512, 1_033, 1_402, 1_777];
/// They do so in one of so many rounds through all orders, beginning with the second.
const ROUNDS: u64 = 25;

/// How many events are appended in one go, and how often, while somebody watches.
const POUR: u64 = 100;
const POURED_EVERY: Duration = Duration::from_millis(50);
/// After so many there are far fewer, so that neither the disk nor the proof is in trouble if nobody ends it.
const PLENTY: u64 = 500_000;
const DRIP: u64 = 2;

/// Appends events until there are so many.
pub(super) struct Orders(JoinHandle<Result<(), AppendError>>);

impl Orders {
    pub(super) fn start(log: &Log, events: u64) -> Self {
        let log = log.clone();
        Self(tokio::spawn(async move {
            let mut number = 0;
            while number < events {
                let end = (number + BATCH).min(events);
                log.append_all(batch(number..end, |_| None)?).await?;
                number = end;
            }
            Ok(())
        }))
    }

    pub(super) async fn finish(self) -> anyhow::Result<()> {
        Ok(self.0.await??)
    }
}

/// Appends events at a bearable rate until it is stopped.
pub(super) struct Flow {
    task: JoinHandle<Result<(), AppendError>>,
    appended: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
}

impl Flow {
    pub(super) fn start(log: &Log) -> Self {
        let (appended, stops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (log, count, stopped) = (log.clone(), Arc::clone(&appended), Arc::clone(&stops));
        let task = tokio::spawn(async move {
            let mut clock = tokio::time::interval(POURED_EVERY);
            clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut number = 0;
            loop {
                clock.tick().await;
                let end = number + in_one_go(number);
                log.append_all(batch(number..end, postcode)?).await?;
                number = end;
                count.store(number, Ordering::Relaxed);
                // At the end: a log without events would prove nothing.
                if stopped.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        });
        Self { task, appended, stops }
    }

    /// How many events there are.
    pub(super) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// How many there will be in so much time, more or less.
    pub(super) fn within(&self, time: Duration) -> u64 {
        in_one_go(self.appended()) * (time.as_millis() / POURED_EVERY.as_millis()) as u64
    }

    /// Whether it flows; it does not if an append has failed.
    pub(super) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// Stops it, and says how many events there are.
    pub(super) async fn finish(self) -> anyhow::Result<u64> {
        self.stops.store(true, Ordering::Relaxed);
        self.task.await?.context("orders could not be appended")?;
        Ok(self.appended.load(Ordering::Relaxed))
    }
}

fn in_one_go(appended: u64) -> u64 {
    if appended < PLENTY { POUR } else { DRIP }
}

/// The postcode of an event's order, if it is a new one.
fn postcode(event: u64) -> Option<&'static str> {
    let is_new = TO_NEW_POSTCODES.contains(&(event % ORDERS)) && event / ORDERS % ROUNDS == 1;
    is_new.then_some(NEW_POSTCODE)
}

fn batch(
    numbers: Range<u64>,
    postcode: impl Fn(u64) -> Option<&'static str>,
) -> Result<Append, AppendError> {
    let mut append = Append::new();
    for event in numbers {
        let order = StreamId::new("Order", format!("ord-{}", event % ORDERS))?;
        let mut line = json!({ "sku": format!("sku-{}", event % 700), "cents": event % 5000 });
        if let Some(postcode) = postcode(event) {
            line["postcode"] = postcode.into();
        }
        let name = if event < ORDERS { "OrderPlaced" } else { "LineAdded" };
        append = append.to(&order, Expected::Any, [NewEvent::new(name, line)]);
    }
    Ok(append)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_orders_go_where_no_carrier_knows_the_postcode() {
        let in_a_minute = (0..120_000).filter(|event| postcode(*event).is_some());
        let in_a_minute: Vec<u64> = in_a_minute.collect();
        assert_eq!(in_a_minute[..2], [2_137, 2_512], "the first in the second second");
        assert_eq!(in_a_minute.len(), 3 * TO_NEW_POSTCODES.len());
    }
}

//! How many messages an endpoint gets in a second, from all workers together.
//!
//! The turns of an endpoint are one after the other, and its row says when the next one is free. A process takes a few of
//! them at a time, for a tenth of a second at most, and uses each in its moment.

use crate::tables::Tables;
use anabranch_core::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// For how long turns are taken at a time, and how late one may be used.
const AHEAD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Rate {
    tables: Tables,
    consumer: Arc<str>,
    interval: Duration,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    next: Instant,
    left: u32,
}

impl Rate {
    pub(crate) fn new(tables: Tables, consumer: Arc<str>, per_second: f64) -> Self {
        let interval = Duration::from_secs_f64(1.0 / per_second.clamp(1.0 / 86_400.0, 1e6));
        let taken = Mutex::new(Taken { next: Instant::now(), left: 0 });
        Self { tables, consumer, interval, taken }
    }

    /// Waits for the next turn.
    pub(crate) async fn turn(&self) -> Result<(), StoreError> {
        let at = {
            let mut taken = self.taken.lock().await;
            let is_late = taken.next + AHEAD.max(self.interval) < Instant::now();
            if taken.left == 0 || is_late {
                let turns = (AHEAD.as_micros() / self.interval.as_micros().max(1)).max(1) as u32;
                let span = self.interval * turns;
                let wait = self.tables.take_turns(&self.consumer, span).await?;
                *taken = Taken { next: Instant::now() + wait, left: turns };
            }
            let at = taken.next;
            taken.next += self.interval;
            taken.left -= 1;
            at
        };
        tokio::time::sleep_until(at).await;
        Ok(())
    }
}

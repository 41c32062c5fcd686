//! How many messages an endpoint gets in a second, from all workers together.
//!
//! The turns of an endpoint are one after the other, and its row says when the next one is free. A process takes a few of
//! them at a time, for a tenth of a second at most, and uses each in its moment. Who waits for a turn and gives up leaves
//! it to the next one: else deliveries that are not begun would use up the endpoint's time.

use crate::tables::Tables;
use anabranch_core::StoreError;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex as Shared, PoisonError};
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
    /// One waits for its turn at a time, so that no more is taken than is used soon.
    gate: Mutex<()>,
    stock: Arc<Stock>,
}

/// Turns that were taken and not used.
#[derive(Debug)]
struct Stock {
    turns: Shared<BTreeSet<Instant>>,
    /// One takes turns from the database at a time.
    filling: Mutex<()>,
    /// How late a turn may be used: later ones would come in a burst.
    lateness: Duration,
}

impl Stock {
    fn of(interval: Duration) -> Arc<Self> {
        let (turns, filling) = (Shared::default(), Mutex::new(()));
        Arc::new(Self { turns, filling, lateness: AHEAD.max(interval) })
    }

    /// The first turn that can still be used.
    fn next(self: &Arc<Self>, now: Instant) -> Option<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let at = turns.pop_first()?;
            if at + self.lateness >= now {
                return Some(Turn { stock: Arc::clone(self), at, is_used: false });
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn put(&self, turns: impl IntoIterator<Item = Instant>) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).extend(turns);
    }
}

/// A turn. It goes back if it is not used.
struct Turn {
    stock: Arc<Stock>,
    at: Instant,
    is_used: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_used {
            self.stock.put([self.at]);
        }
    }
}

impl Rate {
    pub(crate) fn new(tables: Tables, consumer: Arc<str>, per_second: f64) -> Self {
        let interval = Duration::from_secs_f64(1.0 / per_second.clamp(1.0 / 86_400.0, 1e6));
        let stock = Stock::of(interval);
        Self { tables, consumer, interval, gate: Mutex::new(()), stock }
    }

    /// Waits for the next turn.
    pub(crate) async fn turn(&self) -> Result<(), StoreError> {
        let _gate = self.gate.lock().await;
        let mut turn = loop {
            match self.stock.next(Instant::now()) {
                Some(turn) => break turn,
                None => self.fill().await?,
            }
        };
        tokio::time::sleep_until(turn.at).await;
        turn.is_used = true;
        Ok(())
    }

    /// Takes turns from the database, in a task of its own: what it takes is there for the next one if this one gives
    /// up meanwhile.
    async fn fill(&self) -> Result<(), StoreError> {
        let (tables, consumer) = (self.tables.clone(), Arc::clone(&self.consumer));
        let (stock, interval) = (Arc::clone(&self.stock), self.interval);
        let filled = tokio::spawn(async move {
            let _filling = stock.filling.lock().await;
            if !stock.is_empty() {
                return Ok(());
            }
            let turns = (AHEAD.as_micros() / interval.as_micros().max(1)).max(1) as u32;
            let wait = tables.take_turns(&consumer, interval * turns).await?;
            let first = Instant::now() + wait;
            stock.put((0..turns).map(|turn| first + interval * turn));
            Ok(())
        });
        // It is not cancelled, and ends with the runtime only.
        filled.await.unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_is_not_used_goes_back_and_an_old_one_is_over() {
        let interval = Duration::from_millis(10);
        let (stock, now) = (Stock::of(interval), Instant::now());
        stock.put((0..3).map(|turn| now + interval * turn));
        let first = stock.next(now).unwrap();
        assert_eq!(first.at, now);
        drop(first);
        let mut first = stock.next(now).unwrap();
        assert_eq!(first.at, now, "it is the next one's");
        first.is_used = true;
        drop(first);
        let late = now + AHEAD + interval + Duration::from_millis(5);
        assert_eq!(stock.next(late).map(|turn| turn.at), Some(now + interval * 2));
        assert!(stock.next(late + interval).is_none() && stock.is_empty());
    }
}

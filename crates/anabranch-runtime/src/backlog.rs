//! What a consumer has not handled: positions that its cursors have not passed, keys that wait for
//! their next attempt or for somebody, tasks of a pool.
//!
//! All of it comes from cursors and from the rows of keys that failed, never from the log.

use crate::consumer::follows_log;
use crate::tables::Tables;
use crate::tables::parked::{Aside, ParkedKey};
use anabranch_core::{Position, Slot, SlotSet, StoreError};

/// What is set aside of a consumer, and what a pool has to do.
pub(crate) struct Backlog {
    /// The keys that are parked or retrying.
    pub(crate) keys: Vec<ParkedKey>,
    /// Of a pool: how many tasks could be run.
    tasks: Option<Vec<(Slot, u64)>>,
    /// Where the lowest cursor stands.
    lowest: Position,
}

/// How much is not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lag {
    /// All of it.
    pub(crate) all: u64,
    /// What workers could do: all but what is parked.
    pub(crate) ready: u64,
}

impl Backlog {
    /// Counted with cursors of which the lowest stands there.
    pub(crate) async fn of(
        tables: &Tables,
        name: &str,
        kind: &str,
        lowest: Position,
    ) -> Result<Self, StoreError> {
        Self::between(tables, name, follows_log(kind), (lowest, Position::END)).await
    }

    /// With events up to a position; a pool has none.
    pub(crate) async fn up_to(
        tables: &Tables,
        name: &str,
        follows_log: bool,
        position: Position,
    ) -> Result<Self, StoreError> {
        Self::between(tables, name, follows_log, (position, position)).await
    }

    async fn between(
        tables: &Tables,
        name: &str,
        follows_log: bool,
        (lowest, up_to): (Position, Position),
    ) -> Result<Self, StoreError> {
        Ok(match follows_log {
            true => {
                let keys = tables.parked_up_to(name, up_to, lowest).await?;
                Self { keys, tasks: None, lowest }
            }
            false => Self::of_rows(tables, name).await?,
        })
    }

    /// Of a pool.
    pub(crate) async fn of_rows(tables: &Tables, name: &str) -> Result<Self, StoreError> {
        let (keys, tasks) = (tables.held(name).await?, Some(tables.ready(name).await?));
        // It has no positions that some of it could lie before.
        Ok(Self { keys, tasks, lowest: Position::END })
    }

    /// What is set aside of some slots.
    pub(crate) fn aside(&self, slots: &SlotSet) -> Aside {
        Aside::of(self.keys.iter().filter(|key| slots.contains(key.slot)))
    }

    /// How many tasks of some slots could be run.
    pub(crate) fn tasks(&self, slots: &SlotSet) -> u64 {
        let tasks = self.tasks.iter().flatten().filter(|(slot, _)| slots.contains(*slot));
        tasks.map(|(_, tasks)| tasks).sum()
    }

    /// How much of some slots is not handled, if the last of them stands there, so many positions behind the
    /// log. Where others are further on, events that these have set aside lie between: those are counted once.
    pub(crate) fn lag(&self, slots: &SlotSet, position: Position, behind: u64) -> Lag {
        let mut all = behind + self.tasks(slots);
        for key in self.keys.iter().filter(|key| slots.contains(key.slot)) {
            // The tasks that wait for their next attempt are among those that could be run.
            if self.tasks.is_none() || key.is_parked() {
                all += if position <= self.lowest { key.passed } else { key.events };
            }
        }
        // No worker helps with what is parked, wherever it lies.
        Lag { all, ready: all.saturating_sub(self.aside(slots).parked_events) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(slot: u16, retry_in: Option<Duration>, events: u64, passed: u64) -> ParkedKey {
        ParkedKey {
            key: slot.to_string(),
            slot: Slot::new(slot).unwrap(),
            attempts: 1,
            error: String::new(),
            since_us: 0,
            retry_in,
            asked: None,
            asked_to: None,
            events,
            passed,
            first: None,
        }
    }

    fn of(slots: &[u16]) -> SlotSet {
        slots.iter().filter_map(|slot| Slot::new(*slot)).collect()
    }

    #[test]
    fn an_event_that_a_faster_cursor_has_set_aside_is_counted_once() {
        let (soon, at) = (Some(Duration::ZERO), |position| Position::new(position));
        // One cursor stands at 0, the other at 1200, the end of the log.
        let keys = vec![key(1, soon, 18, 0), key(2, None, 7, 0)];
        let (slow, fast) = (of(&[3]), of(&[1, 2]));
        let backlog = Backlog { keys, tasks: None, lowest: at(0) };
        let lag = |slots: &SlotSet, position| backlog.lag(slots, at(position), 1200 - position);
        assert_eq!(lag(&SlotSet::all(), 0), Lag { all: 1200, ready: 1193 });
        assert_eq!(lag(&slow, 0), Lag { all: 1200, ready: 1200 });
        assert_eq!(lag(&fast, 1200), Lag { all: 25, ready: 18 });
        // Both have passed some of them.
        let keys = vec![key(1, soon, 18, 10), key(2, None, 7, 2)];
        let backlog = Backlog { keys, tasks: None, lowest: at(600) };
        assert_eq!(backlog.lag(&SlotSet::all(), at(600), 600), Lag { all: 612, ready: 605 });
    }

    #[test]
    fn tasks_that_wait_for_an_attempt_are_among_those_that_could_be_run() {
        let keys = vec![key(1, Some(Duration::ZERO), 2, 2), key(2, None, 7, 7)];
        let tasks = Some(vec![(Slot::new(1).unwrap(), 5)]);
        let backlog = Backlog { keys, tasks, lowest: Position::END };
        let lag = backlog.lag(&SlotSet::all(), Position::END, 0);
        assert_eq!(lag, Lag { all: 12, ready: 5 });
    }
}

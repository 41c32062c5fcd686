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
    pub(crate) async fn of(tables: &Tables, name: &str, kind: &str) -> Result<Self, StoreError> {
        Self::up_to(tables, name, follows_log(kind), Position::END).await
    }

    /// With events up to a position; a pool has none.
    pub(crate) async fn up_to(
        tables: &Tables,
        name: &str,
        follows_log: bool,
        position: Position,
    ) -> Result<Self, StoreError> {
        Ok(match follows_log {
            true => Self { keys: tables.parked_up_to(name, position).await?, tasks: None },
            false => Self::of_rows(tables, name).await?,
        })
    }

    /// Of a pool.
    pub(crate) async fn of_rows(tables: &Tables, name: &str) -> Result<Self, StoreError> {
        let keys = tables.held(name).await?;
        Ok(Self { keys, tasks: Some(tables.ready(name).await?) })
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

    /// How much of some slots is not handled, if they are so many positions behind the log.
    pub(crate) fn lag(&self, slots: &SlotSet, behind: u64) -> Lag {
        let aside = self.aside(slots);
        // The tasks that wait for their next attempt are among those that could be run.
        let retrying = if self.tasks.is_none() { aside.retrying_events } else { 0 };
        let ready = behind + self.tasks(slots) + retrying;
        Lag { all: ready + aside.parked_events, ready }
    }
}

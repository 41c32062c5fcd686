//! How the consumers stand: who owns which slots, how far they are, and why one does not advance.

use crate::consumer::follows_log;
use crate::reason::{Reason, reasons};
use crate::report::Report;
use crate::tables::Tables;
use crate::tables::consumers::Registered;
use crate::tables::parked::ParkedKey;
use crate::tables::replica_sets::GenerationMember;
use anabranch_core::{Cursor, Position, SlotSet, StoreError};
use anabranch_store::Log;
use anabranch_store::database::Blocked;
use serde::Serialize;

/// How a consumer stands.
#[derive(Clone, Debug, Serialize)]
pub struct ConsumerStatus {
    /// Its name.
    pub name: String,
    /// Projection, view, subscriber, or what else it calls itself.
    pub kind: String,
    /// How its keys become slots.
    pub strategy: String,
    /// The version of its tables.
    pub version: u32,
    /// Whether it is paused.
    pub paused: bool,
    /// Where somebody has asked it to begin again.
    pub replay_from: Option<Position>,
    /// What could not be done for it, such as a replay that its hook refused.
    pub problem: Option<String>,
    /// All events up to here are done, parked ones apart.
    pub position: Position,
    /// The end of the log.
    pub head: Position,
    /// How many positions lie between; never 0 for one that stands beyond the log
    /// ([`Reason::BeyondLog`]).
    pub lag: u64,
    /// How many keys are parked.
    pub parked_keys: usize,
    /// How many events, or tasks, wait behind them.
    pub parked_events: u64,
    /// Its cursors.
    pub cursors: Vec<CursorStatus>,
}

/// How a cursor stands.
#[derive(Clone, Debug, Serialize)]
pub struct CursorStatus {
    /// Which slots, in words.
    pub slots: String,
    /// How many they are.
    pub slot_count: usize,
    /// All their events up to here are done.
    pub position: Position,
    /// How many positions lie between that and the end of the log, also if it stands beyond it
    /// ([`Reason::BeyondLog`]).
    pub lag: u64,
    /// How often it has changed hands.
    pub epoch: i64,
    /// Who moves it on.
    pub owner: Owner,
    /// Why it does not advance, or not as it should; empty if all is well.
    pub reasons: Vec<Reason>,
    #[serde(skip)]
    pub(crate) set: SlotSet,
}

/// Who owns a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// Nobody: no running worker wants these slots.
    Unassigned,
    /// A worker.
    Worker(WorkerStatus),
    /// A worker whose lease is over: the next one that wants these slots takes them.
    Dead(String),
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerStatus {
    /// Its id.
    pub id: String,
    /// Its replica set.
    pub replica_set: String,
    /// Where it runs.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// What it wants: everything, or a partition.
    pub runs: String,
    /// How many lanes it has.
    pub lanes: usize,
    /// Since when, in microseconds since 1970.
    pub started_us: i64,
    /// Whether its lease is good.
    pub is_alive: bool,
    /// What it says of itself.
    pub report: Report,
}

/// What runs, in one look: who is alive, who should own what, who waits for a lock.
pub(crate) struct Situation {
    pub(crate) workers: Vec<WorkerStatus>,
    /// The members of each set's current generation.
    pub(crate) members: Vec<(String, GenerationMember)>,
    pub(crate) blocked: Vec<Blocked>,
}

impl Situation {
    pub(crate) async fn of(tables: &Tables) -> Result<Self, StoreError> {
        Ok(Self {
            members: tables.members().await?,
            workers: tables.workers().await?,
            blocked: tables.database.blocked().await?,
        })
    }

    pub(crate) async fn status(
        &self,
        log: &Log,
        tables: &Tables,
        registered: Registered,
    ) -> Result<ConsumerStatus, StoreError> {
        // Before the end of the log: they may move on meanwhile, and a lag is never negative.
        let cursors = tables.cursors(&registered.name).await?;
        let head = log.head().await?;
        // After the cursors, too: none that is as it should be lies beyond it.
        let drawn = log.store().drawn().await?;
        // Whoever finds its work elsewhere is never behind the log.
        let is_behind = follows_log(&registered.kind);
        let at = |cursor: &Cursor| if is_behind { cursor.position } else { head };
        let position = cursors.iter().map(at).min().unwrap_or_default();
        let parked = match is_behind {
            true => tables.parked(&registered.name).await?,
            false => tables.held(&registered.name).await?,
        };
        let lag = |position: Position| match position > drawn {
            true => position.get() - head.get(),
            false => head.get().saturating_sub(position.get()),
        };
        let cursor = |cursor: &Cursor| CursorStatus {
            slots: cursor.slots.to_string(),
            slot_count: cursor.slots.len(),
            position: at(cursor),
            lag: lag(at(cursor)),
            epoch: cursor.epoch,
            owner: owner(cursor, &self.workers),
            reasons: reasons(self, &registered, cursor, &parked, (lag(at(cursor)), drawn)),
            set: cursor.slots.clone(),
        };
        let events = |key: &ParkedKey| key.events;
        Ok(ConsumerStatus {
            lag: cursors.iter().map(|cursor| lag(at(cursor))).max().unwrap_or_default(),
            position,
            head,
            parked_keys: parked.len(),
            parked_events: parked.iter().map(events).sum(),
            cursors: cursors.iter().map(cursor).collect(),
            kind: registered.kind,
            strategy: registered.strategy,
            version: registered.version,
            paused: registered.paused,
            replay_from: registered.reset_to,
            problem: registered.problem,
            name: registered.name,
        })
    }

    pub(crate) fn worker(&self, id: &str) -> Option<&WorkerStatus> {
        self.workers.iter().find(|worker| worker.id == id)
    }
}

/// Who owns a cursor.
pub(crate) fn owner(cursor: &Cursor, workers: &[WorkerStatus]) -> Owner {
    match &cursor.owner {
        None => Owner::Unassigned,
        Some(id) => match workers.iter().find(|worker| worker.id == *id) {
            Some(worker) if worker.is_alive => Owner::Worker(worker.clone()),
            _ => Owner::Dead(id.clone()),
        },
    }
}

//! What a lane is told, and what it says.

use crate::run_error::RunError;
use crate::tables::parked::Asked;
use anabranch_core::{Again, Cursor, Position, Slot, StoreError};
use anabranch_store::database::Who;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// What a lane is told. `_unheard` is there until it has heard it.
#[derive(Debug)]
pub(crate) enum Order {
    /// These cursors are yours; those that you know already may be among them. How often the lane had
    /// been fenced when they were claimed: what was claimed before the last time may not be its own. Since when
    /// nobody may have handled their events.
    Take { cursors: Vec<Cursor>, losses: u64, since: Instant, _unheard: Arc<()> },
    /// Nothing is yours any more.
    Forget,
    /// You work for this worker from now on.
    Serve(Who),
    /// Stop or go on with taking events, since somebody wants it.
    Pause(bool),
    /// Stop calling the handler: it fails, here or everywhere.
    Halt,
    /// Go on with it. If so many keys fail before something works, it is stopped again.
    GoOn { patience: usize },
    /// Try one event, though it is stopped: so many were tried before. Whether the lane owns what failed.
    Probe { before: i64, is_owner: bool },
    /// Somebody wants something of parked keys.
    Asked { keys: Vec<Wish>, _unheard: Arc<()> },
    /// Finish the batch and end.
    Stop,
}

/// What somebody wants of a key.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) key: String,
    pub(crate) slot: Slot,
    pub(crate) asked: Asked,
    /// Up to which event, if that is to skip some.
    pub(crate) up_to: Option<Position>,
}

/// What a lane, or the feed of its consumer, says.
#[derive(Debug)]
pub(crate) enum Report {
    /// It was fenced, or cannot know what it holds: tell it.
    Lost,
    /// Its handler fails, so it has stopped calling it.
    Halted(Halt),
    /// What became of the event that it was to try.
    Probed(Probed),
    /// It cannot go on, and has ended.
    Failed(RunError),
    /// The feed cannot go on, and has ended.
    FeedFailed(StoreError),
    /// It has ended.
    Ended,
}

/// How a handler has failed.
#[derive(Debug)]
pub(crate) struct Halt {
    pub(crate) error: RunError,
    /// Of the event that failed.
    pub(crate) slot: Slot,
    /// How long it asked for patience.
    pub(crate) patience: Duration,
    /// Whether it would be the same on every worker.
    pub(crate) is_everywhere: bool,
}

impl Halt {
    pub(crate) fn new(error: RunError, slot: Slot, again: Again) -> Self {
        let patience = match again {
            Again::After(wait) => wait,
            Again::AsSet | Again::Never => Duration::ZERO,
        };
        Self { error, slot, patience, is_everywhere: false }
    }
}

/// What became of a try.
#[derive(Debug)]
pub(crate) enum Probed {
    /// An event was handled.
    Worked,
    /// It failed again.
    Failed(Halt),
    /// There was nothing to try.
    Nothing,
    /// Nobody knows: the lane was fenced, or told to release what it was to try.
    Over,
}

/// What somebody said: which consumer of the set, and in which of its lives.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) of: usize,
    pub(crate) life: u64,
    pub(crate) report: Report,
}

/// Where a lane says what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    pub(crate) of: usize,
    pub(crate) life: u64,
    pub(crate) reports: mpsc::UnboundedSender<Said>,
}

impl Reporter {
    pub(crate) fn say(&self, report: Report) {
        let Self { of, life, reports } = self;
        // Nobody listens any more if the run is over.
        let _ = reports.send(Said { of: *of, life: *life, report });
    }
}

//! The handle that users hold.

use crate::Workflow;
use crate::cache::Cache;
use crate::load::{Loaded, Mode};
use crate::snapshots::Snapshots;
use crate::turns::Turns;
use anabranch_core::{EventSchema, StoreError};
use anabranch_store::Log;
use std::fmt;
use std::sync::Arc;

/// How many states are kept in memory.
const MAX_CACHED: usize = 10_000;
/// What to do where log and tasks are on two servers.
pub(crate) const REMEDY: &str = "keep its events, tasks and snapshots in one database (the log without \
                                 Log::with_database)";

/// The instances of a workflow. Cheap to clone; clones share what they know.
///
/// ```
/// # use anabranch_store::Log;
/// # use anabranch_workflow::{Workflow, Workflows};
/// # async fn f<W: Workflow>(log: Log, orders: W, place: W::Command) -> Result<(), Box<dyn std::error::Error>> {
/// let orders = Workflows::new(&log, orders);
/// let sent = orders.send("ord-123", place).await?;
/// let order = orders.state("ord-123").await?.expect("it has begun");
/// assert_eq!(order.version, sent.version);
/// # Ok(()) }
/// ```
pub struct Workflows<W: Workflow> {
    pub(crate) inner: Arc<Inner<W>>,
}

pub(crate) struct Inner<W: Workflow> {
    pub(crate) log: Log,
    pub(crate) workflow: W,
    pub(crate) schema: EventSchema<W::Event>,
    pub(crate) cache: Cache<Arc<Loaded<W::State>>>,
    /// States right after the event that was reacted to last.
    pub(crate) reacted: Cache<Loaded<W::State>>,
    pub(crate) turns: Turns,
    /// After how many events a snapshot is kept, and where.
    pub(crate) snapshots: Option<(u64, Arc<Snapshots>)>,
}

/// An instance at one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance<S> {
    /// Its id.
    pub id: String,
    /// The version of its last event.
    pub version: u64,
    /// What its events add up to.
    pub state: S,
    /// Whether it takes commands.
    pub mode: Mode,
}

impl<S: Clone> Instance<S> {
    pub(crate) fn of(id: &str, loaded: &Loaded<S>) -> Self {
        let Loaded { version, mode, state, .. } = loaded;
        Self { id: id.to_owned(), version: *version, state: state.clone(), mode: *mode }
    }
}

impl<W: Workflow> Workflows<W> {
    /// The instances of a workflow in a log.
    pub fn new(log: &Log, workflow: W) -> Self {
        Self::with_cache(log, workflow, MAX_CACHED)
    }

    /// The same with room for so many states in memory; the default is 10,000.
    pub fn with_cache(log: &Log, workflow: W, states: usize) -> Self {
        let snapshots = || Arc::new(Snapshots::of(log, workflow.name(), workflow.state_version()));
        let inner = Inner {
            log: log.clone(),
            schema: workflow.schema(),
            cache: Cache::of(states),
            reacted: Cache::of(states),
            turns: Turns::default(),
            snapshots: workflow.snapshot_every().map(|every| (every.max(1), snapshots())),
            workflow,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The workflow.
    #[must_use]
    pub fn workflow(&self) -> &W {
        &self.inner.workflow
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.inner.log
    }

    /// Waits until the snapshots that are on their way are kept. Nothing is lost without it: a
    /// snapshot only saves time.
    pub async fn flush(&self) {
        if let Some((_, snapshots)) = &self.inner.snapshots {
            snapshots.flush().await;
        }
    }
}

impl<W: Workflow> Inner<W> {
    /// Refuses a log whose consumers are on another server: a log that is wound back there would leave snapshots,
    /// timers and actions of events that never were.
    pub(crate) fn must_be_one(&self) -> Result<(), StoreError> {
        match self.log.is_apart() {
            false => Ok(()),
            true => Err(StoreError::TwoServers {
                at: self.log.database().at().to_owned(),
                log: self.log.at().into(),
                what: "a workflow",
                remedy: REMEDY,
            }),
        }
    }
}

impl<W: Workflow> Clone for Workflows<W> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<W: Workflow> fmt::Debug for Workflows<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workflows({} in {})", self.inner.workflow.name(), self.inner.log.at())
    }
}

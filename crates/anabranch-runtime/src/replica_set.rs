//! A replica set: consumers that run together, and how they are run.

mod changes;
mod handle;
mod refusals;

pub use changes::ConsumerChange;
pub use handle::SetHandle;
pub(crate) use handle::{Exchange, Exchanges};
pub use refusals::SetCheck;

use crate::consumer::Consumer;
use crate::courier::Courier;
use crate::interference::Interference;
use crate::projection::Projection;
use crate::rollup::Rollup;
use crate::rows::RowConsumer;
use crate::run_error::RunError;
use crate::subscriber::Subscriber;
use crate::tuning::Tuning;
use crate::view::View;
use crate::worker::{self, Plan};
use anabranch_core::generation::Rollout;
use anabranch_core::{FixedPartition, Position, StoreError};
use anabranch_store::{Log, Observer};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const MAX_LANES: usize = 256;

/// A named group of consumers that scale together.
///
/// [`run`](Self::run) started in any number of processes is enough: they share the slots, hand them
/// over when one comes or goes, and take over those of one that dies. The environment or
/// [`partition`](Self::partition) makes a process one fixed partition of several instead; a second
/// process with the same partition is a hot standby.
///
/// ```
/// # use anabranch_runtime::{Projection, ReplicaSet, RunError};
/// # async fn f<P: Projection>(log: anabranch_store::Log, order_summary: P) -> Result<(), RunError> {
/// ReplicaSet::new("main-projections").projection(order_summary).lanes(4).run(&log).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a replica set does nothing until it is run"]
pub struct ReplicaSet {
    name: String,
    consumers: Vec<Consumer>,
    lanes: usize,
    partition: Option<FixedPartition>,
    rollout: Rollout,
    tuning: Tuning,
    grace: Duration,
    observers: Vec<ProgressObserver>,
    events: Vec<Arc<dyn Observer>>,
    checks_rows: bool,
    fail_fast: bool,
    interference: Option<Arc<dyn Interference>>,
    /// What needs log and consumers in one database, and what to do where they are not.
    in_one_database: Option<(&'static str, &'static str)>,
    handle: Option<SetHandle>,
}

/// Called every now and then with how far the set is.
pub(crate) type ProgressObserver = Arc<dyn Fn(&Progress) + Send + Sync>;

/// How far a replica set is in this process.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Its consumers.
    pub consumers: Vec<ConsumerProgress>,
    /// Whether these are the last words: the set has ended in this process, and says nothing more.
    pub has_ended: bool,
}

/// How far a consumer is in this process. When the set has ended, it is how the slots stand that this
/// process had last, or wanted if it had none.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConsumerProgress {
    /// Its name.
    pub name: String,
    /// Whether it runs tasks: they have no positions, and all of them are counted in `handled`.
    pub has_tasks: bool,
    /// Events, or tasks, that this process has handled and committed.
    pub handled: u64,
    /// Transactions that this process has committed.
    pub batches: u64,
    /// Everything of its slots up to here is done, events of parked and retrying keys apart.
    pub position: Position,
    /// The end of the log when that was looked up last.
    pub head: Position,
    /// How many slots this process holds, of those that it wants.
    pub slots: usize,
    /// How many it wants.
    pub wanted: usize,
    /// Keys of these slots that have failed and wait for somebody to retry or skip them.
    pub parked: usize,
    /// Keys of these slots that have failed and are tried again by themselves.
    pub retrying: usize,
    /// Workers that hold what this process waits for.
    pub waiting_for: Vec<String>,
    /// Whether it is paused.
    pub paused: bool,
    /// Why it does not run in this process, if it has stopped by itself, here or everywhere, or is refused.
    pub trouble: Option<String>,
    /// Why it waits for its database, if it does: it is away, full or read-only, or the role has no rights.
    pub away: Option<String>,
}

impl ReplicaSet {
    /// An empty set. Its name is what workers are listed under.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            consumers: Vec::new(),
            lanes: 1,
            partition: None,
            rollout: Rollout::Cooperative,
            tuning: Tuning::default(),
            grace: Duration::from_secs(10),
            observers: Vec::new(),
            events: Vec::new(),
            checks_rows: false,
            fail_fast: false,
            interference: None,
            in_one_database: None,
            handle: None,
        }
    }

    /// Adds a projection.
    pub fn projection(mut self, projection: impl Projection) -> Self {
        self.consumers.push(Consumer::projection(projection));
        self
    }

    /// Adds a subscriber.
    pub fn subscriber(mut self, subscriber: impl Subscriber) -> Self {
        self.consumers.push(Consumer::subscriber(subscriber));
        self
    }

    /// Adds a consumer that delivers several keys at the same time.
    #[doc(hidden)]
    pub fn courier(mut self, courier: impl Courier) -> Self {
        self.consumers.push(Consumer::courier(courier));
        self
    }

    /// Adds a view.
    pub fn view(mut self, view: impl View) -> Self {
        self.consumers.push(Consumer::view(view));
        self
    }

    /// Adds a rollup.
    pub fn rollup(mut self, rollup: impl Rollup) -> Self {
        self.consumers.push(Consumer::rollup(rollup));
        self
    }

    /// Adds a consumer of rows of its own, such as a pool of tasks.
    pub fn rows(mut self, rows: impl RowConsumer) -> Self {
        self.consumers.push(Consumer::rows(rows));
        self
    }

    /// Adds a projection as the new version of one that may exist: the same program before, during and
    /// after the switch.
    ///
    /// What is stored decides. Beside an older version it is built under `NAME.next`, in tables that end in
    /// `_next`; after the [switch](crate::Rebuild::switch) the same run serves it under its own name. If its
    /// own version is stored, or none, it serves at once. If a newer one is stored, it is refused.
    ///
    /// A set may also have the old version, as a [`projection`](Self::projection) of the same name: then it
    /// serves that one until the switch.
    ///
    /// ```
    /// # use anabranch_runtime::{Projection, ReplicaSet};
    /// # fn f<P: Projection>(order_summary: P) -> ReplicaSet {
    /// // `order_summary` has settings with `version(2)`.
    /// ReplicaSet::new("main-projections").rebuild(order_summary)
    /// # }
    /// ```
    pub fn rebuild(mut self, projection: impl Projection) -> Self {
        self.consumers.push(Consumer::projection(projection).rebuilding());
        self
    }

    /// Adds a view as the new version of one that may exist, as [`rebuild`](Self::rebuild) does.
    pub fn rebuild_view(mut self, view: impl View) -> Self {
        self.consumers.push(Consumer::view(view).rebuilding());
        self
    }

    /// Adds a rollup as the new version of one that may exist, as [`rebuild`](Self::rebuild) does.
    pub fn rebuild_rollup(mut self, rollup: impl Rollup) -> Self {
        self.consumers.push(Consumer::rollup(rollup).rebuilding());
        self
    }

    /// How many lanes each consumer has: they run at the same time, each with slots and a transaction
    /// of its own. Default 1.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes;
        self
    }

    /// Handles only this partition of several. Without it the environment decides: `PARTITION_KEY` or
    /// `PARTITION_INDEX`, and `TOTAL_PARTITIONS`.
    pub fn partition(mut self, partition: FixedPartition) -> Self {
        self.partition = Some(partition);
        self
    }

    /// How the set goes from one assignment of slots to the next when workers come and go. Default:
    /// only the slots that move pause.
    pub fn rollout(mut self, rollout: Rollout) -> Self {
        self.rollout = rollout;
        self
    }

    /// How the workers of the set keep together: leases, heartbeats, time-outs.
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// How long others wait for a process that shows no sign of life before they take what it owns.
    /// Default 5 s; a sign is given five times as often. A process that is gone is noticed earlier.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.tuning = self.tuning.lease(lease);
        self
    }

    /// How long handlers may take to finish when the process is told to stop. Default 10 s; what is
    /// not finished then is rolled back.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// A debug mode for its projections: finds rows that events of different slots write, which two
    /// lanes could write at once. Such a row fails the second event, with its name and both slots.
    ///
    /// For each table that a projection [declares](Projection::tables), which must have a primary key,
    /// it makes triggers that note which slot has written each row; events are handled one by one. All
    /// that is slow, so use it on a copy or in development, with all workers of the set in this mode. A
    /// later run without it removes the triggers.
    pub fn check_rows(mut self) -> Self {
        self.checks_rows = true;
        self
    }

    /// Ends the run with an error as soon as one of its consumers cannot go on.
    ///
    /// Otherwise a consumer that fails stops alone, and goes on by itself when what it needs is back; the
    /// others never notice. With this, a supervisor that restarts the process learns of it at once. While
    /// other workers wait for the end of an outage, it ends as soon as it starts, and they go on waiting.
    ///
    /// ```
    /// # use anabranch_runtime::{Projection, ReplicaSet, RunError};
    /// # async fn f<P: Projection>(log: anabranch_store::Log, orders: P) -> Result<(), RunError> {
    /// ReplicaSet::new("main").projection(orders).fail_fast().run(&log).await?;
    /// # Ok(()) }
    /// ```
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Lets a test interfere with the calls of its handlers: for `anabranch::testing`.
    #[doc(hidden)]
    pub fn interfere(mut self, interference: Arc<dyn Interference>) -> Self {
        self.interference = Some(interference);
        self
    }

    /// Refuses to run on a log whose consumers are on another server ([`Log::with_database`]): for something that
    /// is made of consumers and needs both in one transaction, such as a workflow. `remedy` says what to do.
    pub fn in_one_database(mut self, what: &'static str, remedy: &'static str) -> Self {
        self.in_one_database = Some((what, remedy));
        self
    }

    /// Lets its consumers be exchanged while it runs: see [`SetHandle`].
    pub fn handle(mut self, handle: &SetHandle) -> Self {
        self.handle = Some(handle.clone());
        self
    }

    /// Calls a function several times a second with how far the set is, and once when it has ended,
    /// with how it stands then.
    pub fn on_progress(mut self, observer: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Sees what happens in the set while it runs: workers that come and go, slots that move, batches, failures,
    /// outages. See [`Observer`]; `docs/events-of-the-engine.md` has them all. It also sees what happens in the
    /// backend of the log. When the run ends, it gets what is still queued, within a second.
    ///
    /// ```
    /// # use anabranch_core::engine_event::{EngineEvent, Happening};
    /// # use anabranch_runtime::ReplicaSet;
    /// let set = ReplicaSet::new("main").observer(|event: &EngineEvent| {
    ///     if let Happening::EventParked { key, error, .. } = &event.what {
    ///         eprintln!("{key} needs somebody: {error}");
    ///     }
    /// });
    /// # drop(set);
    /// ```
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.events.push(Arc::new(observer));
        self
    }

    /// Runs until the process is told to stop (SIGTERM, SIGINT, Ctrl-C), then finishes its batches,
    /// hands its slots over and returns.
    ///
    /// A consumer whose handler fails, or that is refused, stops alone and is tried again; the others go
    /// on. The run ends with an error only if all of its consumers are refused, or with
    /// [`fail_fast`](Self::fail_fast).
    pub async fn run(self, log: &Log) -> Result<Progress, RunError> {
        self.run_until(log, shutdown_signal()).await
    }

    /// Runs until a future resolves, then ends as [`run`](Self::run) does.
    ///
    /// ```
    /// # use anabranch_runtime::{ReplicaSet, RunError};
    /// # async fn f(set: ReplicaSet, log: anabranch_store::Log) -> Result<(), RunError> {
    /// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    /// let workers = tokio::spawn(async move {
    ///     set.run_until(&log, async { drop(stopped.await) }).await
    /// });
    /// // What else the program does, until it is to end.
    /// drop(stop);
    /// workers.await.expect("it does not panic")?;
    /// # Ok(()) }
    /// ```
    pub async fn run_until(
        self,
        log: &Log,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Progress, RunError> {
        self.check_servers(log)?;
        let plan = self.plan(false)?;
        worker::run(log, plan, stop).await
    }

    /// Runs until everything is handled that was in the log when it began, by this process or by others, and what
    /// the consumers of this process appended meanwhile by [`Tx::append`](crate::Tx::append): so a pipeline of
    /// consumers that make events of each other's events is done to its end.
    ///
    /// `Ok` means just that. An event that fails is tried again as its [`Retry`](anabranch_core::Retry)
    /// says, and `catch_up` waits for it. If something is left in the end, it is
    /// [`RunError::Incomplete`]: events of parked keys, in this run or before; dead tasks of a pool; or
    /// whatever was not handled yet when the process was told to stop (SIGTERM, SIGINT, Ctrl-C). If one of
    /// its consumers fails or is refused, the others are caught up, and then its error is returned.
    pub async fn catch_up(self, log: &Log) -> Result<Progress, RunError> {
        self.catch_up_until(log, shutdown_signal()).await
    }

    /// The same, and gives up when a future resolves.
    pub async fn catch_up_until(
        self,
        log: &Log,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Progress, RunError> {
        self.check_servers(log)?;
        let plan = self.plan(true)?;
        worker::run(log, plan, stop).await
    }

    /// Refuses what needs log and consumers in one database, where they are not.
    fn check_servers(&self, log: &Log) -> Result<(), StoreError> {
        let Some((what, remedy)) = self.in_one_database.filter(|_| log.is_apart()) else {
            return Ok(());
        };
        let (at, log) = (log.database().at().to_owned(), log.at().into());
        Err(StoreError::TwoServers { at, log, what, remedy })
    }

    /// Refuses what can never run.
    fn plan(self, catch_up: bool) -> Result<Plan, RunError> {
        if let Some(refusal) = self.check().into_iter().next() {
            return Err(refusal);
        }
        let partition = match self.partition {
            Some(partition) => Some(partition),
            None => FixedPartition::from_env(|name| std::env::var(name).ok())?,
        };
        Ok(Plan {
            consumers: self.prepared(),
            name: self.name,
            lanes: self.lanes,
            fixed: partition.map(FixedPartition::slots),
            runs: partition.map_or_else(|| "a share".to_owned(), |fixed| fixed.to_string()),
            rollout: self.rollout,
            tuning: self.tuning,
            grace: self.grace,
            observers: self.observers,
            events: self.events,
            catch_up,
            fail_fast: self.fail_fast,
            exchanges: self.handle.map(|handle| handle.exchanges()),
        })
    }

    /// Its consumers, as it runs them.
    fn prepared(&self) -> Vec<Arc<Consumer>> {
        let prepared = self.consumers.iter().map(|consumer| {
            let interference = self.interference.clone();
            let consumer = consumer.clone().sized(self.tuning.batch_size);
            let consumer = Consumer { interference, ..consumer };
            Arc::new(if self.checks_rows { consumer.checking_rows() } else { consumer })
        });
        prepared.collect()
    }
}

/// Resolves when the process is told to stop (SIGTERM, SIGINT, Ctrl-C), for whatever runs until a future
/// resolves.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

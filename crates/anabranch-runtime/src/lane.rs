//! A lane: takes events of its slots, runs the handler, commits effects and cursor together.
//!
//! | module | subject |
//! |---|---|
//! | `pending` | what was read and is not begun with |
//! | `batch` | what the lane works on at a time, to its end |
//! | `shed` | slots that others should own: let go |
//! | `transact` | one transaction: handler, parked events, fence |
//! | `aside` | the keys that are set aside, in memory |
//! | `parking` | keys that failed: set aside, tried again, parked, let go |

mod aside;
mod batch;
mod parking;
mod pending;
mod shed;
mod transact;

use crate::consumer::{Code, Consumer};
use crate::feed::{Chunk, FeedHandle, Order as FeedOrder};
use crate::handler::LaneHandler;
use crate::key_samples::Sampler;
use crate::report::Doing;
use crate::row_watch::WatchedLane;
use crate::run_error::RunError;
use crate::tables::Tables;
use crate::tables::parked::Asked;
use anabranch_core::cursor::{Cursor, Parts};
use anabranch_core::{Failure, HashRule, Position, SlotSet, StoreError, Strategy};
use anabranch_store::database::Who;
use anabranch_store::{Backoff, Log};
use aside::Parking;
use batch::Batch;
use pending::Pending;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use transact::Outcome;

/// How soon a lane without events of its own writes down how far it has looked.
const WATERMARK: Duration = Duration::from_secs(1);
/// Parts are numbered as they come; after so many the lane begins to count anew.
const MAX_PARTS: usize = 64;
/// If so many keys fail one after the other and nothing works in between, the handler is broken and
/// not the keys: parking them all would only hide it.
const MAX_FAILING_KEYS: u32 = 100;

/// What a lane is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// These cursors are yours; those that you know already may be among them. How often the lane had
    /// been fenced when they were claimed: what was claimed before the last time may not be its own.
    Take { cursors: Vec<Cursor>, losses: u64 },
    /// Nothing is yours any more.
    Forget,
    /// You work for this worker from now on.
    Serve(Who),
    /// Stop or go on with taking events.
    Pause(bool),
    /// Somebody wants something of a parked key.
    Asked { key: String, asked: Asked },
    /// Finish the batch and end.
    Stop,
}

/// What a lane says.
#[derive(Debug)]
pub(crate) enum Report {
    /// It was fenced, or cannot know what it holds: tell it.
    Lost,
    /// It cannot go on.
    Failed(RunError),
}

/// What others may see of a lane.
#[derive(Debug, Default)]
pub(crate) struct LaneStats {
    /// Events handled and committed.
    pub(crate) handled: AtomicU64,
    /// Everything up to here is done; 0 while it holds nothing.
    pub(crate) position: AtomicU64,
    /// Where the furthest of its cursors stands; 0 while it holds none.
    pub(crate) furthest: AtomicU64,
    /// How many slots it holds.
    pub(crate) slots: AtomicUsize,
    /// How many keys are parked: they wait for somebody.
    pub(crate) parked: AtomicUsize,
    /// How many keys are tried again by themselves.
    pub(crate) retrying: AtomicUsize,
    /// How many batches were committed.
    pub(crate) batches: AtomicU64,
    /// How often it was fenced.
    pub(crate) losses: AtomicU64,
    doing: Mutex<State>,
}

/// What a lane does, since when, and with which cursors.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) doing: Doing,
    pub(crate) since: Instant,
    /// By id and epoch.
    pub(crate) cursors: Vec<(i64, i64)>,
    pub(crate) slots: Arc<SlotSet>,
}

impl Default for State {
    fn default() -> Self {
        let (cursors, slots) = (Vec::new(), Arc::new(SlotSet::empty()));
        Self { doing: Doing::Idle, since: Instant::now(), cursors, slots }
    }
}

impl LaneStats {
    pub(crate) fn state(&self) -> State {
        self.doing.lock().map(|state| state.clone()).unwrap_or_default()
    }

    /// The lane was fenced.
    pub(crate) fn fenced(&self, consumer: &str, lane: usize) {
        tracing::info!(consumer, lane, "fenced: its cursors have another owner");
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// The lane waits for a database that is away: for how long.
    pub(crate) fn waits(
        &self,
        consumer: &str,
        lane: usize,
        outage: &mut Backoff,
        error: &StoreError,
    ) -> Duration {
        let wait = outage.wait();
        if outage.complains() {
            tracing::warn!(consumer, lane, %error, "a lane waits");
        }
        self.does(Doing::Waiting { error: Doing::cut(&error.to_string()) }, false);
        wait
    }

    /// What the lane waits for, if the database cannot do it now.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let state = self.doing.lock().ok()?;
        match &state.doing {
            Doing::Waiting { error } => Some(error.clone()),
            _ => None,
        }
    }

    /// Says what the lane holds.
    pub(crate) fn holds(&self, parts: &Parts) {
        let slots = parts.slots();
        self.slots.store(slots.len(), Ordering::Relaxed);
        if let Ok(mut state) = self.doing.lock() {
            state.cursors = parts.rows();
            if *state.slots != slots {
                state.slots = Arc::new(slots);
            }
        }
    }

    /// Says what the lane does. Whoever fails or waits does so since the first time, until something
    /// works.
    pub(crate) fn does(&self, doing: Doing, has_worked: bool) {
        let Ok(mut state) = self.doing.lock() else { return };
        let is_trouble =
            |doing: &Doing| matches!(doing, Doing::Failing { .. } | Doing::Waiting { .. });
        if has_worked || !is_trouble(&state.doing) {
            state.since = Instant::now();
        }
        if has_worked || !is_trouble(&state.doing) || is_trouble(&doing) {
            state.doing = doing;
        }
    }
}

/// What a lane is made of.
pub(crate) struct LaneSetup {
    pub(crate) number: usize,
    /// Which consumer of the set it belongs to.
    pub(crate) of: usize,
    pub(crate) log: Log,
    pub(crate) tables: Tables,
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) code: Arc<dyn Code>,
    pub(crate) feed: FeedHandle,
    pub(crate) chunks: mpsc::UnboundedReceiver<Chunk>,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    /// The slots that it should hold, of those that it does.
    pub(crate) keep: watch::Receiver<Arc<SlotSet>>,
    /// Whose transactions its are.
    pub(crate) who: Who,
    pub(crate) reports: mpsc::UnboundedSender<(usize, Report)>,
    pub(crate) stats: Arc<LaneStats>,
    /// How long a transaction may be open without a statement.
    pub(crate) idle: Duration,
    /// Whether somebody waits for its end.
    pub(crate) catches_up: bool,
    /// Told whenever the lane has come further.
    pub(crate) moved: Arc<Notify>,
}

impl LaneSetup {
    /// The handler of a lane that knows nothing yet.
    fn handler(&self, rule: HashRule) -> Box<dyn LaneHandler> {
        let handler = self.code.lane(rule);
        match self.consumer.checks_rows {
            true => Box::new(WatchedLane::new(handler, &self.consumer, &self.tables, rule)),
            false => handler,
        }
    }
}

pub(crate) struct Lane {
    setup: LaneSetup,
    handler: Box<dyn LaneHandler>,
    rule: HashRule,
    /// Whether events may be without a key.
    may_lack_key: bool,
    parts: Parts,
    parking: Parking,
    pending: Pending,
    /// How often it has let go of slots: chunks that were read before hold events of those.
    sheds: u64,
    /// Since when it has come further than what is stored.
    dirty_since: Option<Instant>,
    /// What somebody wants of parked keys. It is done between batches: a batch holds back events of
    /// keys that were parked when it began.
    asked: VecDeque<(String, Asked)>,
    paused: bool,
    stopping: bool,
    failing_keys: u32,
    /// So many events are handled one at a time, since nobody knows which of them fails.
    singly: usize,
    outage: Backoff,
    /// Chooses the events whose keys are kept.
    sampler: Sampler,
}

impl Lane {
    pub(crate) fn new(setup: LaneSetup) -> Self {
        let rule = setup.log.hash_rule();
        let handler = setup.handler(rule);
        let strategy = setup.consumer.partition.strategy();
        Self {
            handler,
            rule,
            may_lack_key: !matches!(strategy, Strategy::Entity | Strategy::Global),
            parts: Parts::default(),
            parking: Parking::default(),
            pending: Pending::default(),
            sheds: 0,
            dirty_since: None,
            asked: VecDeque::new(),
            paused: false,
            stopping: false,
            failing_keys: 0,
            singly: 0,
            outage: Backoff::default(),
            sampler: Sampler::of(&setup.consumer.partition),
            setup,
        }
    }

    pub(crate) async fn run(mut self) {
        if let Err(error) = self.work().await {
            let _ = self.setup.reports.send((self.setup.of, Report::Failed(error)));
        }
    }

    async fn work(&mut self) -> Result<(), RunError> {
        loop {
            while let Ok(order) = self.setup.orders.try_recv() {
                self.obey(order).await?;
            }
            self.shed().await?;
            if self.stopping {
                return self.write_watermark().await;
            }
            if !self.paused {
                while let Some((key, asked)) = self.asked.pop_front() {
                    self.do_asked(&key, asked).await?;
                }
                if self.parking.next_due().is_some_and(|due| due <= Instant::now()) {
                    self.retry_due().await?;
                }
                self.take_queued();
                if self.pending.has_events() {
                    self.handle_next().await?;
                    continue;
                }
                self.look_only();
            }
            let due = self.parking.next_due().filter(|_| !self.paused);
            let watermark = self.dirty_since.map(|since| since + WATERMARK);
            let until = due.into_iter().chain(watermark).min();
            tokio::select! {
                biased;
                order = self.setup.orders.recv() => match order {
                    Some(order) => self.obey(order).await?,
                    None => self.stopping = true,
                },
                chunk = self.setup.chunks.recv(), if !self.paused => match chunk {
                    Some(chunk) => self.accept(chunk),
                    None => self.paused = true, // The feed has ended; the run is about to.
                },
                Ok(()) = self.setup.keep.changed() => {}
                () = sleep_until(until) => {
                    if self.dirty_since.is_some_and(|since| since.elapsed() >= WATERMARK) {
                        self.write_watermark().await?;
                    }
                }
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Result<(), RunError> {
        match order {
            Order::Take { cursors, losses } => {
                if losses == self.setup.stats.losses.load(Ordering::Relaxed) {
                    self.take(cursors).await?;
                }
            }
            Order::Forget => self.forget(),
            Order::Serve(who) => self.setup.who = who,
            Order::Pause(paused) => self.paused = paused,
            Order::Asked { key, asked } => {
                if !self.asked.iter().any(|(known, _)| *known == key) {
                    self.asked.push_back((key, asked));
                }
            }
            Order::Stop => self.stopping = true,
        }
        Ok(())
    }

    /// Takes over cursors: their parked keys first, then their events.
    async fn take(&mut self, cursors: Vec<Cursor>) -> Result<(), RunError> {
        if self.parts.has_lost(&cursors) || self.parts.len() > MAX_PARTS {
            self.forget();
        }
        if self.parts.unknown(cursors.clone()).is_empty() {
            return Ok(());
        }
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let parked = loop {
            match tables.parked(&name).await {
                Ok(parked) => break parked,
                Err(error) => self.wait_out(error).await?,
            }
        };
        // Only now: while it waited, it may have been told of some of them again.
        for cursor in self.parts.unknown(cursors) {
            self.parking.load(&parked, &cursor.slots);
            let (slots, at) = (cursor.slots.clone(), cursor.position);
            let (lane, tenure) = (self.setup.number, self.parts.tenure());
            let part = self.parts.add(cursor);
            self.setup.feed.tell(FeedOrder::Add { lane, part, tenure, slots, at });
        }
        self.publish();
        Ok(())
    }

    /// Forgets all it had: somebody else may have it now.
    fn forget(&mut self) {
        self.setup.feed.tell(FeedOrder::Forget { lane: self.setup.number });
        self.parts.clear();
        self.dirty_since = None;
        self.parking.clear();
        self.pending.clear();
        self.asked.clear();
        // What it knows about keys may be out of date when it gets them back.
        self.handler = self.setup.handler(self.rule);
        self.publish();
    }

    /// It was fenced: nothing that it did since its last commit is stored.
    fn lost(&mut self) {
        self.forget();
        self.setup.stats.fenced(&self.setup.consumer.name, self.setup.number);
        let _ = self.setup.reports.send((self.setup.of, Report::Lost));
    }

    /// Writes down how far it has looked where that is further than its last event.
    async fn write_watermark(&mut self) -> Result<(), RunError> {
        for part in self.parts.dirty() {
            let batch = self.nothing_of(part);
            match self.transact(&batch, 0, Vec::new()).await {
                Outcome::Committed { .. } => {}
                Outcome::Fenced => {
                    self.lost();
                    return Ok(());
                }
                Outcome::Away(error) if self.stopping => {
                    tracing::debug!(%error, "how far a lane has looked is not written down");
                    return Ok(());
                }
                // The next look will write it down.
                Outcome::Away(error) => return self.wait_out(error).await,
                Outcome::Broken(error) => return Err(error.into()),
                Outcome::Failed { error, .. } => {
                    tracing::warn!(error, "how far a lane has looked is not written down");
                    return Ok(());
                }
            }
        }
        self.publish();
        Ok(())
    }

    /// Waits for a database that is away, or gives up if it never will be back.
    async fn wait_out(&mut self, error: StoreError) -> Result<(), RunError> {
        if !is_waited_for(&error, self.setup.catches_up) {
            return Err(error.into());
        }
        let (consumer, lane) = (&self.setup.consumer.name, self.setup.number);
        let wait = self.setup.stats.waits(consumer, lane, &mut self.outage, &error);
        self.pause_for(wait).await
    }

    /// Waits, but obeys.
    async fn pause_for(&mut self, wait: Duration) -> Result<(), RunError> {
        let until = Instant::now() + wait;
        while !self.stopping && Instant::now() < until {
            tokio::select! {
                biased;
                order = self.setup.orders.recv() => match order {
                    Some(order) => Box::pin(self.obey(order)).await?,
                    None => self.stopping = true,
                },
                Ok(()) = self.setup.keep.changed() => if self.must_shed() {
                    return Ok(());
                },
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
        Ok(())
    }

    fn publish(&self) {
        let stats = &self.setup.stats;
        stats.position.store(self.parts.lowest().map_or(0, Position::get), Ordering::Relaxed);
        stats.furthest.store(self.parts.furthest().map_or(0, Position::get), Ordering::Relaxed);
        stats.holds(&self.parts);
        stats.parked.store(self.parking.parked(), Ordering::Relaxed);
        stats.retrying.store(self.parking.retrying(), Ordering::Relaxed);
        self.setup.moved.notify_one();
    }

    /// What the consumer's policy makes of a failure for good.
    fn policy(&self) -> Failure {
        self.setup.consumer.settings.retry.then
    }
}

/// Whether a lane waits for somebody to cure it. Who waits for the end of a catch-up is told of a right that is
/// missing: that is theirs to grant.
pub(crate) fn is_waited_for(error: &StoreError, catches_up: bool) -> bool {
    error.is_worth_waiting() && !(catches_up && matches!(error, StoreError::Denied { .. }))
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

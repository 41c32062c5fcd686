//! A lane: takes events of its slots, runs the handler, commits effects and cursor together.
//!
//! | module | subject |
//! |---|---|
//! | `pending` | what was read and is not begun with |
//! | `batch` | what the lane works on at a time, to its end |
//! | `shed` | slots that others should own: let go |
//! | `transact` | one transaction: handler, parked events, fence |
//! | `aside` | the keys that are set aside, in memory |
//! | `asked` | what somebody asks for of such a key |
//! | `parking` | keys that failed: set aside, tried again, parked, let go |
//! | `replaying` | a key whose events are handled again: collected, undone, tried |
//! | `strict` | an event that must not be passed: tried a few times where it stands |
//! | `room` | how many events one transaction has room for |
//! | `streak` | whether it is the handler that fails, or single events |
//! | `halt` | a handler that fails whatever the key: stopped, and tried with one event |
//! | `words` | what a lane is told, and what it says |
//! | `stats` | what others may see of a lane |

mod aside;
mod asked;
mod batch;
mod halt;
mod parking;
mod pending;
mod replaying;
mod room;
mod shed;
mod stats;
mod streak;
mod strict;
mod transact;
mod words;

pub(crate) use batch::key_or_stream;
pub(crate) use halt::OVERLOAD;
pub(crate) use parking::parked_event;
pub(crate) use replaying::AUDITED;
pub(crate) use stats::LaneStats;
pub(crate) use streak::{FEW, Streak};
pub(crate) use words::{Halt, Order, Probed, Report, Reporter, Said, Wish};

use crate::consumer::{Code, Consumer};
use crate::feed::{Chunk, FeedHandle, Order as FeedOrder};
use crate::handler::LaneHandler;
use crate::interference::WatchedCalls;
use crate::key_samples::Sampler;
use crate::permits::{Leased, Permits};
use crate::row_watch::WatchedLane;
use crate::run_error::RunError;
use crate::tables::Tables;
use crate::too_busy::TooBusy;
use anabranch_core::cursor::{Anchor, Cursor, Parts, Point};
use anabranch_core::{
    Event, Failure, Happening, HashRule, Notice, Position, SlotSet, StoreError, Strategy,
};
use anabranch_store::database::Who;
use anabranch_store::{Backoff, Emitter, Log};
use aside::Parking;
use batch::Batch;
use futures_util::FutureExt;
use halt::Why;
use pending::Pending;
use replaying::KeyReplay;
use room::Room;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use transact::{Extra, Outcome};

/// How soon a lane without events of its own writes down how far it has looked.
const WATERMARK: Duration = Duration::from_secs(1);
/// Parts are numbered as they come; after so many the lane begins to count anew.
const MAX_PARTS: usize = 64;

/// What a lane is made of.
pub(crate) struct LaneSetup {
    pub(crate) number: usize,
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
    /// Says what happens in the lane.
    pub(crate) events: Emitter,
    pub(crate) reporter: Reporter,
    pub(crate) stats: Arc<LaneStats>,
    /// Of all lanes of the consumer here.
    pub(crate) streak: Arc<Streak>,
    /// Of all lanes of the consumer here, where all processes share a limit.
    pub(crate) permits: Option<Arc<Leased>>,
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
        let permits = Permits::new(self.permits.clone());
        let mut handler = self.code.lane(rule, permits);
        handler.seen_by(&self.events);
        let handler = WatchedCalls::wrap(handler, &self.consumer);
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
    room: Room,
    /// How often it has let go of slots: chunks that were read before hold events of those.
    sheds: u64,
    /// Since when it has come further than what is stored.
    dirty_since: Option<Instant>,
    /// What somebody wants of parked keys. It is done between batches: a batch holds back events of
    /// keys that were parked when it began.
    asked: VecDeque<Wish>,
    /// The key whose events are being collected, to be handled again.
    replay: Option<KeyReplay>,
    paused: bool,
    /// The handler fails, here or everywhere, and is not called.
    halted: bool,
    /// One event is to be tried although: so many were before.
    probe: Option<i64>,
    /// That event is being tried.
    trying: bool,
    /// How many more keys may fail in this try for reasons of their own.
    tries_left: usize,
    /// The last of those that have.
    tried: Option<(Event, Why)>,
    stopping: bool,
    /// How many keys have failed one after the other.
    /// So many events are handled one at a time, since nobody knows which of them fails.
    singly: usize,
    outage: Backoff,
    too_busy: TooBusy,
    /// Chooses the events whose keys are kept.
    sampler: Sampler,
    /// How long the handler took with what is to be committed.
    handling: Duration,
    /// What is being handled, as a trace has it, until its commit.
    traced: Option<anabranch_store::trace::Work>,
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
            room: Room::default(),
            sheds: 0,
            dirty_since: None,
            asked: VecDeque::new(),
            replay: None,
            paused: false,
            halted: false,
            probe: None,
            trying: false,
            tries_left: 0,
            tried: None,
            stopping: false,
            singly: 0,
            outage: Backoff::default(),
            too_busy: TooBusy::default(),
            sampler: Sampler::of(&setup.consumer.partition),
            handling: Duration::ZERO,
            traced: None,
            setup,
        }
    }

    pub(crate) async fn run(mut self) {
        let reporter = self.setup.reporter.clone();
        let consumer = self.setup.consumer.name.clone();
        let ended = AssertUnwindSafe(self.work()).catch_unwind().await;
        let ended = ended.unwrap_or_else(|_| Err(RunError::panicked(&consumer)));
        reporter.say(ended.map_or_else(Report::Failed, |()| Report::Ended));
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
            if self.halted && !self.paused {
                self.wait_halted().await?;
            }
            if !self.paused && !self.halted {
                while let Some(wish) = self.asked.pop_front() {
                    self.do_asked(wish).await?;
                }
                self.collect().await?;
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
            let due = self.parking.next_due().filter(|_| !self.paused && !self.halted);
            let watermark = self.dirty_since.map(|since| since + WATERMARK);
            let collect = self.collects_next().filter(|_| !self.paused && !self.halted);
            let until = due.into_iter().chain(watermark).chain(collect).min();
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
            Order::Take { cursors, losses, since, .. } => {
                if losses == self.setup.stats.losses.load(Ordering::Relaxed) {
                    self.take(cursors, since).await?;
                }
            }
            Order::Forget => self.forget(),
            Order::Serve(who) => {
                self.setup.events = self.setup.events.clone().by_worker(&who.worker);
                self.setup.who = who;
            }
            Order::Pause(paused) => self.paused = paused,
            Order::Halt => self.halted = true,
            Order::GoOn { patience } => self.go_on(patience),
            Order::Probe { before, .. } => self.probe = Some(before),
            Order::Asked { keys, .. } => {
                for wish in keys {
                    if !self.asked.iter().any(|known| known.key == wish.key) {
                        self.asked.push_back(wish);
                    }
                }
            }
            Order::Stop => self.stopping = true,
        }
        Ok(())
    }

    /// Takes over cursors: their parked keys first, then their events.
    async fn take(&mut self, cursors: Vec<Cursor>, since: Instant) -> Result<(), RunError> {
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
        let mut claimed = SlotSet::empty();
        for cursor in self.parts.unknown(cursors) {
            claimed = claimed.union(&cursor.slots);
            self.parking.load(&parked, &cursor.slots, &tables.database.clock());
            let (slots, at) = (cursor.slots.clone(), cursor.point());
            let (lane, tenure) = (self.setup.number, self.parts.tenure());
            let part = self.parts.add(cursor);
            self.setup.feed.tell(FeedOrder::Add { lane, part, tenure, slots, at });
        }
        self.setup.events.emit(Happening::slots_claimed(claimed, since.elapsed()));
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
        self.replay = None;
        // What it knows about keys may be out of date when it gets them back.
        self.handler = self.setup.handler(self.rule);
        self.publish();
    }

    /// It was fenced: nothing that it did since its last commit is stored.
    fn lost(&mut self) {
        self.forget();
        self.setup.stats.fenced(&self.setup.events);
        self.setup.reporter.say(Report::Lost);
    }

    /// Writes down how far it has looked where that is further than its last event.
    async fn write_watermark(&mut self) -> Result<(), RunError> {
        for part in self.parts.dirty() {
            let batch = self.nothing_of(part);
            match self.transact(&batch, 0, Extra::default()).await {
                Outcome::Committed { .. } => {}
                Outcome::Fenced => {
                    self.lost();
                    return Ok(());
                }
                Outcome::Away(error) if self.stopping => {
                    self.notice(Notice::WatermarkNotStored, &error);
                    return Ok(());
                }
                // The next look will write it down.
                Outcome::Away(error) => return self.wait_out(error).await,
                Outcome::Broken(error) => return Err(error.into()),
                Outcome::Failed { error, .. } => {
                    self.notice(Notice::WatermarkRefused, &error);
                    return Ok(());
                }
            }
        }
        self.publish();
        Ok(())
    }

    fn notice(&self, kind: Notice, error: &impl std::fmt::Display) {
        self.setup.events.emit(Happening::failed(kind, error));
    }

    /// Waits for a database that is away, or gives up if it never will be back.
    async fn wait_out(&mut self, error: StoreError) -> Result<(), RunError> {
        if !is_waited_for(&error, self.setup.catches_up) {
            return Err(error.into());
        }
        let wait = self.setup.stats.waits(&self.setup.events, &mut self.outage, &error);
        self.pause_for(wait).await
    }

    /// Waits, but obeys: no longer once it is told to stop or go on with taking events.
    async fn pause_for(&mut self, wait: Duration) -> Result<(), RunError> {
        let (until, before) = (Instant::now() + wait, (self.paused, self.halted));
        while !self.stopping && Instant::now() < until && before == (self.paused, self.halted) {
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

    /// The place of an event, with the event itself where the log is elsewhere.
    fn point_of(&self, event: &Event) -> Point {
        match self.setup.log.is_apart() {
            true => Anchor::of(event).into(),
            false => event.position().into(),
        }
    }

    /// What the consumer's policy makes of a failure for good.
    fn policy(&self) -> Failure {
        self.setup.consumer.retry.then
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

//! The feed: one reader for all lanes of a consumer in this process.
//!
//! Lanes at the same position are read together, in pages that the database filters by their slots.
//! A lane that falls behind is read apart from the others, up to where they are, and then together
//! with them again. So the cost of reading grows with the events and not with the lanes, and a slow
//! lane holds up nobody. Slots that were claimed at another position than the rest of their lane are
//! the same case.

mod checked;
mod chunk;
mod stall;
mod stats;

use crate::consumer::Consumer;
use crate::lane::{Report, Reporter};
use crate::run_error::RunError;
use crate::tables::Tables;
use anabranch_core::cursor::{Anchor, Point};
use anabranch_core::engine_event::OutageOf;
use anabranch_core::{Event, Happening, Position, SLOTS, SlotSet, StoreError};
use anabranch_store::log_store::SlotFilter;
use anabranch_store::{Backoff, Emitter, Log, Page, PageEnd, ReadRequest, Scope};
use checked::{Checked, Witness};
pub(crate) use chunk::{Chunk, Place};
use futures_util::FutureExt;
use stall::Stall;
pub(crate) use stats::FeedStats;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};

/// How many chunks wait in front of a lane; one for each of its units at least.
const QUEUE: usize = 5;
/// How soon to look again at appends in flight: an append that is rolled back wakes nobody.
const PENDING_POLL: Duration = Duration::from_millis(5);
const PENDING_POLL_MAX: Duration = Duration::from_millis(40);
/// How soon to look at a log that is gone.
const GONE_POLL: Duration = Duration::from_millis(50);
/// How long lanes that are ready wait for those that are not, before they are read without them.
const TOGETHER: Duration = Duration::from_millis(20);
/// How long a lane that begins waits for its sisters, which begin at about the same time.
const GATHER: Duration = Duration::from_millis(5);

/// What the feed is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// A lane takes over slots at a position.
    Add { lane: usize, part: usize, tenure: u64, slots: SlotSet, at: Point },
    /// A lane has released slots, for the nth time.
    Shed { lane: usize, sheds: u64, slots: SlotSet },
    /// A lane has lost all it had.
    Forget { lane: usize },
}

/// How lanes talk to the feed.
#[derive(Clone, Debug)]
pub(crate) struct FeedHandle {
    orders: mpsc::UnboundedSender<Order>,
}

impl FeedHandle {
    pub(crate) fn tell(&self, order: Order) {
        // A feed that is gone has said so, and this lane is about to be stopped.
        let _ = self.orders.send(order);
    }
}

/// Slots of one lane at one position.
struct Unit {
    lane: usize,
    parts: Vec<usize>,
    tenure: u64,
    slots: SlotSet,
    at: Position,
    /// The last event of the log up to there, if that is elsewhere.
    anchor: Option<Anchor>,
    /// When it was read last, as a count of reads: who waited longest is next.
    served: u64,
    /// Nothing to read before this, unless a wake comes.
    not_before: Instant,
    wake_seen: u64,
    /// It was at the end of the log, so only a wake or a poll can bring more.
    idle: bool,
    pending: Duration,
    /// How many chunks of it the lane has not begun with.
    queued: Arc<AtomicUsize>,
}

pub(crate) struct Feed {
    log: Log,
    consumer: Arc<Consumer>,
    lanes: Vec<mpsc::UnboundedSender<Chunk>>,
    /// How often each lane has released slots.
    sheds: Vec<u64>,
    /// The lane of each slot.
    lane_of: Vec<Option<u16>>,

    units: Vec<Unit>,
    orders: mpsc::UnboundedReceiver<Order>,
    room: Arc<Notify>,
    wake: watch::Receiver<u64>,
    reads: u64,
    outage: Backoff,
    /// How soon to look for new events when no wake comes.
    poll: Duration,
    stats: Arc<FeedStats>,
    events: Emitter,
    stall: Stall,
    /// What is known of a log that is elsewhere.
    witness: Witness,
}

/// What can be done next.
enum Next {
    /// Read for the units at this position; for those whose lanes are ready only, if so.
    Read(Position),
    /// What could be read is for lanes of which some are full.
    AwaitRoom { since: Instant },
    /// Nothing to read before then.
    Sleep(Instant),
}

impl Feed {
    pub(crate) fn new(
        (log, tables): (&Log, &Tables),
        consumer: Arc<Consumer>,
        lanes: Vec<mpsc::UnboundedSender<Chunk>>,
        (poll, stats): (Duration, Arc<FeedStats>),
        events: Emitter,
    ) -> (Self, FeedHandle) {
        // Unbounded: lanes and feed would wait for each other. A lane says what the keeper has handed to it or wants
        // back, once each; and while the feed hangs in a read, lanes run out of events to commit.
        let (sender, orders) = mpsc::unbounded_channel();
        let handle = FeedHandle { orders: sender };
        let feed = Self {
            log: log.clone(),
            consumer,
            sheds: vec![0; lanes.len()],
            lanes,
            lane_of: vec![None; usize::from(SLOTS)],
            units: Vec::new(),
            orders,
            room: Arc::default(),
            wake: log.store().wake(),
            reads: 0,
            outage: Backoff::default(),
            poll,
            stats,
            events,
            stall: Stall::default(),
            witness: Witness::new(tables),
        };
        (feed, handle)
    }

    /// Reads until the lanes are gone, or an error comes that waiting does not cure, and says so.
    pub(crate) async fn run(self, reporter: Reporter) {
        let consumer = Arc::clone(&self.consumer);
        let ended = AssertUnwindSafe(self.read_all()).catch_unwind().await;
        match ended {
            // It ends with its lanes.
            Ok(Ok(())) => {}
            Ok(Err(error)) => reporter.say(Report::FeedFailed(error)),
            Err(_) => reporter.say(Report::Failed(RunError::panicked(&consumer.name))),
        }
    }

    async fn read_all(mut self) -> Result<(), StoreError> {
        let mut waiting_since: Option<Instant> = None;
        loop {
            while let Ok(order) = self.orders.try_recv() {
                self.obey(order);
            }
            let next = self.next(waiting_since);
            match next {
                Next::Read(at) => {
                    waiting_since = None;
                    if let Some(wait) = self.read(at).await? {
                        tokio::time::sleep(wait).await;
                    }
                }
                Next::AwaitRoom { since } => {
                    waiting_since = Some(since);
                    let left = TOGETHER.saturating_sub(since.elapsed());
                    if !self.wait(Instant::now() + left.max(Duration::from_millis(1))).await {
                        return Ok(());
                    }
                }
                Next::Sleep(until) => {
                    waiting_since = None;
                    if !self.wait(until).await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Waits for room, a wake, an order or the time; `false` when nobody is left to read for.
    async fn wait(&mut self, until: Instant) -> bool {
        tokio::select! {
            order = self.orders.recv() => match order {
                Some(order) => self.obey(order),
                None => return false,
            },
            () = self.room.notified() => {}
            changed = self.wake.changed() => if changed.is_err() {
                // The log is gone, and the poll will say so.
                tokio::time::sleep(GONE_POLL).await;
            },
            () = tokio::time::sleep_until(until.into()) => {}
        }
        true
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Add { lane, part, tenure, slots, at } => {
                self.witness.ask_again();
                self.route(&slots, Some(lane));
                self.units.push(Unit {
                    lane,
                    parts: vec![part],
                    tenure,
                    slots,
                    at: at.position,
                    anchor: at.anchor,
                    served: self.reads,
                    not_before: Instant::now() + GATHER,
                    wake_seen: *self.wake.borrow(),
                    idle: false,
                    pending: PENDING_POLL,
                    queued: Arc::default(),
                });
                self.join_up();
            }
            Order::Shed { lane, sheds, slots } => {
                self.sheds[lane] = sheds;
                self.route(&slots, None);
                for unit in self.units.iter_mut().filter(|unit| unit.lane == lane) {
                    unit.slots = unit.slots.difference(&slots);
                }
                self.units.retain(|unit| !unit.slots.is_empty());
            }
            Order::Forget { lane } => self.units.retain(|unit| unit.lane != lane),
        }
    }

    fn route(&mut self, slots: &SlotSet, lane: Option<usize>) {
        let lane = lane.map(|lane| lane as u16);
        slots.iter().for_each(|slot| self.lane_of[usize::from(slot.get())] = lane);
    }

    /// Each unit has places of its own: one that has waited for nothing so far, since it was handed
    /// over a moment ago, must not stand behind all that was read for the others.
    fn has_room(&self, unit: &Unit) -> bool {
        let units = self.units.iter().filter(|other| other.lane == unit.lane).count();
        unit.queued.load(Ordering::Relaxed) < (QUEUE / units.max(1)).max(1)
    }

    fn next(&mut self, waiting_since: Option<Instant>) -> Next {
        let now = Instant::now();
        let wake = *self.wake.borrow();
        let mut sleep = now + self.poll;
        let mut incomplete = false;
        let mut choice: Option<(u64, Position)> = None;
        let patient = waiting_since.is_none_or(|since| since.elapsed() < TOGETHER);
        let mut groups: BTreeMap<Position, Vec<&Unit>> = BTreeMap::new();
        for unit in &self.units {
            groups.entry(unit.at).or_default().push(unit);
        }
        for (at, units) in groups {
            let ready = units.iter().any(|unit| wake != unit.wake_seen || now >= unit.not_before);
            if !ready {
                sleep = units.iter().map(|unit| unit.not_before).fold(sleep, Instant::min);
                continue;
            }
            let with_room = units.iter().filter(|unit| self.has_room(unit)).count();
            if with_room == 0 {
                // A lane that makes room says so.
                continue;
            }
            if patient && with_room < units.len() {
                incomplete = true;
                continue;
            }
            let served = units.iter().map(|unit| unit.served).min().unwrap_or(0);
            if choice.is_none_or(|(best, _)| served < best) {
                choice = Some((served, at));
            }
        }
        match choice {
            Some((_, at)) => Next::Read(at),
            None if incomplete => Next::AwaitRoom { since: waiting_since.unwrap_or(now) },
            None => Next::Sleep(sleep),
        }
    }

    /// Reads a page for the units at a position whose lanes have room. Returns how long to wait if
    /// the database is away.
    async fn read(&mut self, at: Position) -> Result<Option<Duration>, StoreError> {
        let wake_seen = *self.wake.borrow_and_update();
        let group = self.group(at);
        let slots = group
            .iter()
            .fold(SlotSet::empty(), |sum, number| sum.union(&self.units[*number].slots));
        let up_to = self.units.iter().map(|unit| unit.at).filter(|other| *other > at).min();
        let request = self.request(&slots, at, up_to.unwrap_or(Position::END));
        let read = match self.log.is_apart() {
            true => self.read_checked(&group, request).await,
            false => self.log.store().read(request).await.map(Checked::from),
        };
        let Checked { page, anchor } = match read {
            Ok(read) => read,
            Err(error) if error.is_worth_waiting() => {
                self.stats.waits_for(Some(&error));
                self.events.outage(&mut self.outage, OutageOf::Feed, &error);
                return Ok(Some(self.outage.wait()));
            }
            Err(error) => return Err(error),
        };
        if self.outage.is_under_way() {
            self.events.outage_over(&mut self.outage, OutageOf::Feed);
            self.stats.waits_for(None);
        }
        self.deliver(&group, &slots, (page, anchor), wake_seen);
        self.join_up();
        Ok(None)
    }

    /// The units at a position whose lanes have room: one of each lane, since a page holds the events of
    /// a lane once.
    fn group(&self, at: Position) -> Vec<usize> {
        let mut of_lane: Vec<Option<usize>> = vec![None; self.lanes.len()];
        for (number, unit) in self.units.iter().enumerate() {
            let chosen = &mut of_lane[unit.lane];
            let waits_longer = chosen.is_none_or(|other| unit.served < self.units[other].served);
            if unit.at == at && waits_longer && self.has_room(unit) {
                *chosen = Some(number);
            }
        }
        of_lane.into_iter().flatten().collect()
    }

    fn request(&self, slots: &SlotSet, at: Position, up_to: Position) -> ReadRequest {
        let consumer = &self.consumer;
        let mut filter = consumer.settings.scope.filter(consumer.partition.category());
        let column = consumer.partition.server_slot(self.log.hash_rule());
        filter.slots = column.filter(|_| *slots != SlotSet::all()).map(|column| {
            let slots = Arc::new(slots.clone());
            SlotFilter { column, slots }
        });
        ReadRequest {
            scope: Scope::Log(consumer.settings.scope.query().clone()),
            filter,
            cursor: at.get(),
            up_to,
            backwards: false,
            max_events: Page::MAX_EVENTS,
        }
    }

    /// Hands each lane its events, and tells it how far the page went.
    fn deliver(
        &mut self,
        group: &[usize],
        slots: &SlotSet,
        (page, anchor): (Page, Option<Anchor>),
        wake_seen: u64,
    ) {
        self.reads += 1;
        let up_to = Position::new(page.cursor);
        let now = Instant::now();
        let rule = self.log.hash_rule();
        self.count_unannounced(group, &page, wake_seen);
        self.stall.has_read(&self.events, up_to, page.end);
        let expected = page.events.len() / group.len().max(1) + 16;
        let mut of_lane: Vec<Vec<Event>> = self.lanes.iter().map(|_| Vec::new()).collect();
        group.iter().for_each(|number| {
            of_lane[self.units[*number].lane].reserve(expected.min(page.events.len()));
        });
        for event in page.events {
            let slot = self.consumer.partition.slot(&event, rule);
            // Where the database could not filter by slot, others' events come along.
            if let Some(lane) = self.lane_of[usize::from(slot.get())]
                && slots.contains(slot)
            {
                self.stats.count(slot, 1);
                of_lane[usize::from(lane)].push(event);
            }
        }
        for number in group {
            let unit = &mut self.units[*number];
            unit.served = self.reads;
            let moved = up_to > unit.at;
            if moved {
                (unit.at, unit.anchor) = (up_to, anchor);
            }
            unit.idle = page.end == PageEnd::Last;
            match page.end {
                PageEnd::More => (unit.not_before, unit.pending) = (now, PENDING_POLL),
                PageEnd::Last => {
                    (unit.not_before, unit.pending) = (now + self.poll, PENDING_POLL);
                    unit.wake_seen = wake_seen;
                }
                PageEnd::Pending => {
                    unit.not_before = now + unit.pending;
                    unit.pending = (unit.pending * 2).min(PENDING_POLL_MAX);
                    unit.wake_seen = wake_seen;
                }
            }
            if moved {
                let events = std::mem::take(&mut of_lane[unit.lane]);
                let (parts, tenure) = (unit.parts.clone(), unit.tenure);
                let sheds = self.sheds[unit.lane];
                let _place = Place::take(&unit.queued, &self.room);
                let up_to = Point { position: up_to, anchor };
                let chunk = Chunk { parts, tenure, sheds, events, up_to, _place };
                // A lane that is gone has said so.
                let _ = self.lanes[unit.lane].send(chunk);
            }
        }
    }

    /// Counts events that a poll has found though no wake had told of them, until a wake does.
    fn count_unannounced(&self, group: &[usize], page: &Page, wake_seen: u64) {
        if page.events.is_empty() || !group.iter().all(|number| self.units[*number].idle) {
            return;
        }
        let unannounced = &self.stats.unannounced;
        if group.iter().any(|number| self.units[*number].wake_seen != wake_seen) {
            unannounced.store(0, Ordering::Relaxed);
        } else {
            unannounced.fetch_add(page.events.len() as u64, Ordering::Relaxed);
            self.events.emit(Happening::wake_missed(page.events.len()));
        }
    }

    /// Units of one lane that have met are one from now on.
    fn join_up(&mut self) {
        let mut joined: Vec<Unit> = Vec::with_capacity(self.units.len());
        for unit in self.units.drain(..) {
            let is_queued = |unit: &Unit| unit.queued.load(Ordering::Relaxed) > 0;
            // One that has nothing in front of it must not stand behind what was read for the other.
            let same = |other: &&mut Unit| {
                other.lane == unit.lane
                    && other.at == unit.at
                    && other.anchor == unit.anchor
                    && other.tenure == unit.tenure
                    && is_queued(other) == is_queued(&unit)
            };
            match joined.iter_mut().find(same) {
                Some(other) => {
                    other.slots = other.slots.union(&unit.slots);
                    other.parts.extend(unit.parts);
                    other.not_before = other.not_before.min(unit.not_before);
                    other.wake_seen = other.wake_seen.min(unit.wake_seen);
                    other.idle &= unit.idle;
                }
                None => joined.push(unit),
            }
        }
        self.units = joined;
    }
}

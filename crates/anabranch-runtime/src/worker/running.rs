//! One consumer as it runs here: its feed and its lanes, and which slots each of them should hold.

use super::Plan;
use super::orders::Orders;
use super::trouble::Trouble;
use crate::consumer::{Consumer, follows_log};
use crate::feed::{Feed, FeedStats};
use crate::holding::{self, HoldingSetup};
use crate::key_samples::Checked;
use crate::lane::{Lane, LaneSetup, LaneStats, Order, Reporter, Said, Streak};
use crate::permits::{self, Leased};
use crate::replica_set::ConsumerProgress;
use crate::report::{Doing, LaneReport};
use crate::rows::Work;
use crate::tables::Tables;
use anabranch_core::cursor::Cursor;
use anabranch_core::generation::Rollout;
use anabranch_core::{Happening, Position, Slot, SlotSet, Weights, plan};
use anabranch_store::Log;
use anabranch_store::database::Who;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

/// A transaction that takes longer than this is worth a report.
const LONG: Duration = Duration::from_secs(1);

/// One consumer as it runs here.
pub(super) struct Running {
    /// Whether its handler fails here, over all lanes.
    streak: Arc<Streak>,
    /// By which its lanes name it: it keeps it when others are gone.
    pub(super) number: usize,
    pub(super) consumer: Arc<Consumer>,
    /// What this process may ever hold of it.
    pub(super) universe: SlotSet,
    /// What each lane should hold now.
    pub(super) lane_slots: Vec<SlotSet>,
    /// The slots that each lane has ever had here: they come back to it, since a lane may still be
    /// about to let go of one.
    homes: Vec<SlotSet>,
    keep: Vec<watch::Sender<Arc<SlotSet>>>,
    /// How many slots it wants.
    pub(super) wanted: usize,
    pub(super) lanes: Vec<Orders>,
    pub(super) lane_tasks: JoinSet<()>,
    /// The feed, or the keeper of permits, ends with the lanes.
    pub(super) feed_task: JoinSet<()>,
    permits: Option<Arc<Leased>>,
    /// How often they were started: what those of a former life say does not count.
    pub(super) life: u64,
    pub(super) stats: Vec<Arc<LaneStats>>,
    pub(super) feed: Arc<FeedStats>,
    pub(super) waiting_for: Vec<String>,
    pub(super) generation: Option<i64>,
    pub(super) paused: bool,
    /// Why this process cannot run it for the time being, as others know; it can if there is none.
    pub(super) unable: Option<String>,
    /// Why its lanes have no session, if they have had none for a while.
    pub(super) lacks_session: Option<String>,
    /// What it owned then is to be released.
    pub(super) must_release: bool,
    /// Whether it may hold anything of the current generation yet.
    pub(super) may_hold: bool,
    /// Claim again as soon as can be.
    pub(super) claim: bool,
    /// Keys of handled events that its function answers with, too.
    pub(super) checked_keys: Checked,
    /// What keeps it from running here.
    pub(super) trouble: Option<Trouble>,
    /// When this worker last wrote about an outage: what was read before may not tell of it.
    pub(super) written: Instant,
    /// How often in a row it could not run here.
    pub(super) tries: u32,
    /// How much its lanes had handled when it was last tried here: more ends the probation.
    pub(super) on_probation: Option<u64>,
    /// Since when its lanes run.
    pub(super) begun: Instant,
    /// Whether it has been registered by this worker.
    pub(super) is_known: bool,
    /// Whether others run it without the limit that this worker knows.
    pub(super) is_unlimited: bool,
    /// When its lanes last lost slots other than to a new generation: one was fenced, all were to forget theirs, or they
    /// were stopped to be others. Nobody handled those since then, however old the generation is.
    pub(super) lost: Option<Instant>,
}

/// What a consumer is started with.
pub(super) struct Start<'a> {
    pub(super) number: usize,
    pub(super) log: &'a Log,
    pub(super) tables: &'a Tables,
    pub(super) plan: &'a Plan,
    pub(super) worker: &'a str,
    pub(super) moved: &'a Arc<Notify>,
    pub(super) reports: &'a mpsc::UnboundedSender<Said>,
}

/// The tasks of a consumer in one of its lives, and how to talk to them.
struct Lanes {
    orders: Vec<Orders>,
    keep: Vec<watch::Sender<Arc<SlotSet>>>,
    lane_tasks: JoinSet<()>,
    feed_task: JoinSet<()>,
    permits: Option<Arc<Leased>>,
}

impl Start<'_> {
    /// Starts the feed and the lanes of a consumer whose former ones have ended; what they hold comes with
    /// the first claim.
    pub(super) fn lanes_of(&self, running: &mut Running) {
        running.life += 1;
        running.begun = Instant::now();
        running.generation = None;
        running.waiting_for.clear();
        running.homes.fill(SlotSet::empty());
        running.lane_slots.fill(SlotSet::empty());
        running.checked_keys = Checked::default();
        running.stats.iter().for_each(|lane| lane.ended());
        let Lanes { orders, keep, lane_tasks, feed_task, permits } = self.spawn(running);
        let consumer = &running.consumer;
        let started = Happening::consumer_started(consumer.kind, follows_log(consumer.kind));
        self.tables.events.of(&consumer.name).emit(started);
        (running.lanes, running.keep) = (orders, keep);
        (running.lane_tasks, running.feed_task) = (lane_tasks, feed_task);
        running.permits = permits;
        let paused = running.paused;
        running.tell_all(|_| Order::Pause(paused));
    }

    fn spawn(&self, running: &Running) -> Lanes {
        let (consumer, count) = (&running.consumer, self.plan.lanes);
        let (mut orders, mut keep) = (Vec::new(), Vec::new());
        let (mut lane_tasks, mut feed_task) = (JoinSet::new(), JoinSet::new());
        let mut kits = Vec::new();
        for stats in &running.stats {
            let (sender, received) = Orders::new();
            let (keep_sender, kept) = watch::channel(Arc::new(SlotSet::empty()));
            kits.push((received, kept, Arc::clone(stats)));
            orders.push(sender);
            keep.push(keep_sender);
        }
        let kits = kits.into_iter().enumerate();
        let who = |number| Who::lane(self.worker, &consumer.name, number);
        let idle = self.plan.tuning.lease / 2;
        let (of, life, reports) = (self.number, running.life, self.reports.clone());
        let reporter = Reporter { of, life, reports };
        // As many as can be counted, which is no limit any more.
        let limit = consumer.max_parallelism().map(|limit| limit.min(Semaphore::MAX_PERMITS));
        let permits = limit.map(|limit| Leased::new(limit, self.worker));
        if let Some(leased) = permits.clone() {
            let (tables, name) = (self.tables.clone(), consumer.name.clone());
            feed_task.spawn(permits::keep(leased, tables, name, self.plan.tuning.poll));
        }
        match &consumer.work {
            Work::Events(code) => {
                // Unbounded: the feed reads for all lanes, and must not wait for one. It reads for a lane only while
                // few chunks wait before it (`Feed::has_room`).
                let (queues, chunks): (Vec<_>, Vec<_>) =
                    (0..count).map(|_| mpsc::unbounded_channel()).unzip();
                let poll = (self.plan.tuning.poll, Arc::clone(&running.feed));
                let events = self.tables.events.of(&consumer.name);
                let (feed, handle) = Feed::new(
                    (self.log, self.tables),
                    Arc::clone(consumer),
                    queues,
                    poll,
                    events.clone(),
                );
                feed_task.spawn(feed.run(reporter.clone()));
                for ((number, (orders, keep, stats)), chunks) in kits.zip(chunks) {
                    let setup = LaneSetup {
                        number,
                        log: self.log.clone(),
                        tables: self.tables.clone(),
                        consumer: Arc::clone(consumer),
                        code: Arc::clone(code),
                        feed: handle.clone(),
                        chunks,
                        orders,
                        keep,
                        who: who(number),
                        events: events.clone().on_lane(number),
                        reporter: reporter.clone(),
                        stats,
                        streak: Arc::clone(&running.streak),
                        permits: permits.clone(),
                        idle,
                        catches_up: self.plan.catch_up,
                        moved: Arc::clone(self.moved),
                    };
                    lane_tasks.spawn(Lane::new(setup).run());
                }
            }
            Work::Rows(code) => {
                for (number, (orders, keep, stats)) in kits {
                    let setup = HoldingSetup {
                        number,
                        log: self.log.clone(),
                        tables: self.tables.clone(),
                        consumer: Arc::clone(consumer),
                        orders,
                        keep,
                        who: who(number),
                        events: self.tables.events.of(&consumer.name).on_lane(number),
                        reporter: reporter.clone(),
                        stats,
                        streak: Arc::clone(&running.streak),
                        permits: permits.clone(),
                        counts: Arc::clone(&running.feed),
                        idle,
                        catches_up: self.plan.catch_up,
                        poll: self.plan.tuning.poll,
                        moved: Arc::clone(self.moved),
                    };
                    lane_tasks.spawn(holding::run(Arc::clone(code), setup));
                }
            }
        }
        Lanes { orders, keep, lane_tasks, feed_task, permits }
    }
}

impl Running {
    /// A consumer that does not run yet.
    pub(super) fn of(number: usize, consumer: &Arc<Consumer>, plan: &Plan) -> Self {
        let count = plan.lanes;
        let asked = plan.fixed.clone().unwrap_or_else(SlotSet::all);
        let keep = (0..count).map(|_| watch::channel(Arc::new(SlotSet::empty())).0);
        Self {
            streak: Arc::default(),
            number,
            consumer: Arc::clone(consumer),
            universe: consumer.partition.slots().intersection(&asked),
            lane_slots: vec![SlotSet::empty(); count],
            homes: vec![SlotSet::empty(); count],
            keep: keep.collect(),
            wanted: 0,
            lanes: Vec::new(),
            lane_tasks: JoinSet::new(),
            feed_task: JoinSet::new(),
            permits: None,
            life: 0,
            stats: (0..count).map(|_| Arc::default()).collect(),
            feed: Arc::default(),
            waiting_for: Vec::new(),
            generation: None,
            paused: false,
            unable: None,
            lacks_session: None,
            must_release: false,
            may_hold: plan.rollout == Rollout::Cooperative,
            claim: false,
            checked_keys: Checked::default(),
            trouble: None,
            written: Instant::now(),
            tries: 0,
            on_probation: None,
            begun: Instant::now(),
            is_known: false,
            is_unlimited: false,
            lost: None,
        }
    }

    /// Whether its work is in tables of its own, and not in the log.
    pub(super) fn has_rows(&self) -> bool {
        self.consumer.has_rows()
    }

    /// Whether its lanes run, though perhaps they are paused.
    pub(super) fn is_up(&self) -> bool {
        !matches!(self.trouble, Some(Trouble::Broken(_) | Trouble::Moving | Trouble::Exchanged(_)))
    }

    /// Whether its lanes run, or will in a moment.
    pub(super) fn goes_on(&self) -> bool {
        !matches!(self.trouble, Some(Trouble::Broken(_)))
    }

    /// How many events its lanes have handled.
    pub(super) fn handled(&self) -> u64 {
        self.stats.iter().map(|lane| lane.handled.load(Ordering::Relaxed)).sum()
    }

    /// It works here again, if it has handled something since it was tried.
    pub(super) fn end_probation(&mut self) {
        if self.on_probation.is_some_and(|before| self.handled() > before) {
            (self.on_probation, self.tries) = (None, 0);
        }
    }

    /// Lets its lanes forget what they hold.
    pub(super) fn forget_all(&mut self) {
        self.lost = Some(Instant::now());
        self.tell_all(|_| Order::Forget);
    }

    /// Its lanes serve this worker from now on. Permits do so at once: a lane whose handler waits for one hears
    /// nothing before it has it, and under the old worker's lease there are none.
    pub(super) fn serve(&mut self, worker: &str) {
        if let Some(permits) = &self.permits {
            permits.serve(worker);
        }
        let name = self.consumer.name.clone();
        self.tell_all(|lane| Order::Serve(Who::lane(worker, &name, lane)));
    }

    pub(super) fn tell_all(&mut self, order: impl Fn(usize) -> Order) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            lane.tell(order(number));
        }
    }

    /// It should hold these slots from now on. What it holds beyond them its lanes let go at their
    /// next commit; what it lacks has to be claimed.
    pub(super) fn want(&mut self, assigned: &SlotSet, weights: &Weights, is_fixed: bool) {
        let nothing = SlotSet::empty();
        let slots = self.universe.intersection(if self.is_up() { assigned } else { &nothing });
        let known = self.homes.iter().fold(SlotSet::empty(), |sum, home| sum.union(home));
        let at_home: Vec<SlotSet> =
            self.homes.iter().map(|home| home.intersection(&slots)).collect();
        self.lane_slots = plan::deal(&at_home, &slots.difference(&known), weights);
        for (home, slots) in self.homes.iter_mut().zip(&self.lane_slots) {
            *home = home.union(slots);
        }
        for (keep, slots) in self.keep.iter().zip(&self.lane_slots) {
            keep.send_replace(Arc::new(slots.clone()));
        }
        self.wanted = if is_fixed && self.is_up() { self.universe.len() } else { slots.len() };
        self.claim |= self.lacks_slots();
    }

    /// The lane that a slot belongs to.
    pub(super) fn lane_of(&self, slot: Slot) -> Option<usize> {
        self.homes.iter().position(|home| home.contains(slot))
    }

    /// The lane that holds a slot, if one does.
    pub(super) fn owner_of(&self, slot: Slot) -> Option<usize> {
        let holds = |lane: &usize| self.stats[*lane].state().slots.contains(slot);
        self.lane_of(slot).filter(holds)
    }

    /// Whether a lane has something that it could try: rows are looked for when they are tried.
    pub(super) fn can_try(&self, lane: usize) -> bool {
        let stats = &self.stats[lane];
        match self.has_rows() {
            true => stats.slots.load(Ordering::Relaxed) > 0,
            false => stats.can_try.load(Ordering::Relaxed),
        }
    }

    /// One of the lanes that have something they could try, another each time.
    pub(super) fn lane_in_turn(&self, turn: i64) -> Option<usize> {
        let lanes: Vec<usize> = (0..self.lanes.len()).filter(|lane| self.can_try(*lane)).collect();
        let place = usize::try_from(turn).unwrap_or(0) % lanes.len().max(1);
        lanes.get(place).copied()
    }

    /// Hands each lane what it has, of the cursors that are this worker's.
    pub(super) fn hand_out(&mut self, cursors: &[Cursor], losses: &[u64], made: Instant) {
        let since = self.lost.map_or(made, |lost| lost.max(made));
        let mut of_lanes: Vec<Vec<Cursor>> = vec![Vec::new(); self.lanes.len()];
        for cursor in cursors {
            // A cursor never spans lanes: it was claimed for one, or is a part of such a one.
            let lane = cursor.slots.iter().next().and_then(|slot| self.lane_of(slot));
            // One that no lane here has ever wanted is let go by any.
            of_lanes[lane.unwrap_or(0)].push(cursor.clone());
        }
        for ((lane, cursors), losses) in self.lanes.iter_mut().zip(of_lanes).zip(losses) {
            if !cursors.is_empty() {
                lane.take(cursors, *losses, since);
            }
        }
    }

    pub(super) fn held(&self) -> usize {
        self.stats.iter().map(|lane| lane.slots.load(Ordering::Relaxed)).sum()
    }

    /// Whether its lanes hold what the tables say that this worker owns: so many cursors, and the sum of
    /// their epochs. An answer may have been lost, or a claim that nobody waited for any more may have
    /// gone through after all.
    pub(super) fn holds(&self, (count, epochs): (i64, i64)) -> bool {
        let cursors = self.stats.iter().flat_map(|lane| lane.state().cursors);
        let held = cursors.fold((0, 0), |sum, (_, epoch)| (sum.0 + 1, sum.1 + epoch));
        held == (count, epochs)
    }

    /// How often each lane was fenced.
    pub(super) fn losses(&self) -> Vec<u64> {
        self.stats.iter().map(|lane| lane.losses.load(Ordering::Relaxed)).collect()
    }

    /// Whether something that it wants is not held by its lanes. What they hold beyond that, and are
    /// about to let go, does not count.
    pub(super) fn lacks_slots(&self) -> bool {
        let lacks =
            |(lane, slots): (&Arc<LaneStats>, &SlotSet)| !slots.is_subset(&lane.state().slots);
        let is_standby = self.wanted > self.lane_slots.iter().map(SlotSet::len).sum();
        is_standby || self.stats.iter().zip(&self.lane_slots).any(lacks)
    }

    /// Whether no key is about to be tried again.
    pub(super) fn is_settled(&self) -> bool {
        self.stats.iter().all(|lane| lane.retrying.load(Ordering::Relaxed) == 0)
    }

    /// Whether it may have appended to the log since this was last asked.
    pub(super) fn has_appended(&self) -> bool {
        // Each is asked, so that each begins anew.
        let asked = |any, lane: &Arc<LaneStats>| lane.has_appended() | any;
        self.stats.iter().fold(false, asked)
    }

    /// Whether its lanes hold all that they should, and have done it up to a position.
    pub(super) fn is_done(&self, target: Position) -> bool {
        // Rows have no position: their lanes say so when nothing is left to do.
        let target = if self.has_rows() { u64::MAX } else { target.get() };
        let done = |(lane, slots): (&Arc<LaneStats>, &SlotSet)| {
            slots.is_empty()
                || (lane.slots.load(Ordering::Relaxed) == slots.len()
                    && lane.position.load(Ordering::Relaxed) >= target)
        };
        self.stats.iter().zip(&self.lane_slots).all(done)
    }

    /// The slots that its lanes should hold now.
    pub(super) fn share(&self) -> SlotSet {
        self.lane_slots.iter().fold(SlotSet::empty(), |sum, slots| sum.union(slots))
    }

    /// Whether nobody else holds any of it.
    pub(super) fn is_alone(&self) -> bool {
        let should: usize = self.lane_slots.iter().map(SlotSet::len).sum();
        should == self.universe.len()
    }

    /// What its lanes have to say.
    pub(super) fn report(&self) -> Vec<LaneReport> {
        let lanes = self.stats.iter().enumerate().filter_map(|(lane, stats)| {
            let state = stats.state();
            let lasts = state.since.elapsed();
            let is_worth = match state.doing {
                Doing::Idle => false,
                Doing::Handling => lasts >= LONG,
                Doing::Failing { .. } | Doing::Waiting { .. } => true,
            };
            is_worth.then(|| LaneReport {
                consumer: self.consumer.name.clone(),
                lane,
                cursors: state.cursors.into_iter().map(|(id, _)| id).collect(),
                doing: state.doing,
                for_ms: lasts.as_millis() as u64,
            })
        });
        lanes.collect()
    }

    pub(super) fn progress(&self, head: Position) -> ConsumerProgress {
        let sum = |of: fn(&LaneStats) -> u64| self.stats.iter().map(|lane| of(lane)).sum();
        let holding = self.stats.iter().filter(|lane| lane.slots.load(Ordering::Relaxed) > 0);
        let position = holding.map(|lane| lane.position.load(Ordering::Relaxed)).min();
        // Whoever has no work to do stands at the end.
        let position = position.map(|at| if self.has_rows() { at.min(head.get()) } else { at });
        ConsumerProgress {
            name: self.consumer.name.clone(),
            has_tasks: self.has_rows(),
            handled: self.handled(),
            batches: sum(|lane| lane.batches.load(Ordering::Relaxed)),
            position: Position::new(position.unwrap_or(0)),
            head,
            slots: self.held(),
            wanted: self.wanted,
            parked: sum(|lane| lane.parked.load(Ordering::Relaxed) as u64) as usize,
            retrying: sum(|lane| lane.retrying.load(Ordering::Relaxed) as u64) as usize,
            waiting_for: self.waiting_for.clone(),
            paused: self.paused,
            trouble: self.trouble.as_ref().map(Trouble::reason),
            away: self.stats.iter().find_map(|lane| lane.waits_for()).or_else(|| self.feed.away()),
        }
    }
}

//! One consumer as it runs here: its feed and its lanes.

use super::Plan;
use crate::consumer::Consumer;
use crate::feed::{Feed, QUEUE};
use crate::lane::{Lane, LaneSetup, LaneStats, Order, Report};
use crate::replica_set::ConsumerProgress;
use crate::tables::Tables;
use anabranch_core::{Position, SlotSet, StoreError};
use anabranch_store::Log;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// One consumer as it runs here.
pub(super) struct Running {
    pub(super) consumer: Arc<Consumer>,
    pub(super) lane_slots: Vec<SlotSet>,
    pub(super) wanted: usize,
    pub(super) lanes: Vec<mpsc::UnboundedSender<Order>>,
    pub(super) stats: Vec<Arc<LaneStats>>,
    pub(super) waiting_for: Vec<String>,
    pub(super) generation: Option<i64>,
    pub(super) paused: bool,
    /// Claim again as soon as can be.
    pub(super) claim: bool,
}

/// What a consumer is started with.
pub(super) struct Start<'a> {
    pub(super) number: usize,
    pub(super) log: &'a Log,
    pub(super) tables: &'a Tables,
    pub(super) plan: &'a Plan,
    pub(super) moved: &'a Arc<Notify>,
}

impl Start<'_> {
    /// Starts the feed and the lanes of a consumer; what they hold comes with the first claim.
    pub(super) fn consumer(
        &self,
        consumer: &Arc<Consumer>,
        (lane_tasks, feed_tasks): (&mut JoinSet<()>, &mut JoinSet<Result<(), StoreError>>),
        reports: &mpsc::UnboundedSender<(usize, Report)>,
    ) -> Running {
        let wanted = consumer.partition.slots().intersection(&self.plan.slots);
        let lane_slots = wanted.deal(self.plan.lanes);
        let (queues, chunks): (Vec<_>, Vec<_>) =
            lane_slots.iter().map(|_| mpsc::channel(QUEUE)).unzip();
        let (feed, handle) = Feed::new(self.log, Arc::clone(consumer), &lane_slots, queues);
        feed_tasks.spawn(feed.run());
        let (mut lanes, mut stats) = (Vec::new(), Vec::new());
        for (number, chunks) in chunks.into_iter().enumerate() {
            let (orders, received) = mpsc::unbounded_channel();
            let lane_stats = Arc::new(LaneStats::default());
            let setup = LaneSetup {
                number,
                of: self.number,
                log: self.log.clone(),
                tables: self.tables.clone(),
                consumer: Arc::clone(consumer),
                feed: handle.clone(),
                chunks,
                orders: received,
                reports: reports.clone(),
                stats: Arc::clone(&lane_stats),
                idle: self.plan.lease / 2,
                moved: Arc::clone(self.moved),
            };
            lane_tasks.spawn(Lane::new(setup).run());
            lanes.push(orders);
            stats.push(lane_stats);
        }
        Running {
            consumer: Arc::clone(consumer),
            lane_slots,
            wanted: wanted.len(),
            lanes,
            stats,
            waiting_for: Vec::new(),
            generation: None,
            paused: false,
            claim: true,
        }
    }
}

impl Running {
    pub(super) fn tell_all(&self, order: impl Fn() -> Order) {
        for lane in &self.lanes {
            let _ = lane.send(order());
        }
    }

    pub(super) fn slots(&self) -> SlotSet {
        self.lane_slots.iter().fold(SlotSet::empty(), |sum, slots| sum.union(slots))
    }

    /// Whether something that it wants is not held by its lanes.
    pub(super) fn lacks_slots(&self) -> bool {
        let held: usize = self.stats.iter().map(|lane| lane.slots.load(Ordering::Relaxed)).sum();
        held < self.wanted
    }

    /// Whether no key is about to be tried again.
    pub(super) fn is_settled(&self) -> bool {
        self.stats.iter().all(|lane| lane.retrying.load(Ordering::Relaxed) == 0)
    }

    pub(super) fn is_done(&self, target: Position) -> bool {
        let done = |(lane, slots): (&Arc<LaneStats>, &SlotSet)| {
            slots.is_empty()
                || (lane.slots.load(Ordering::Relaxed) == slots.len()
                    && lane.position.load(Ordering::Relaxed) >= target.get())
        };
        self.stats.iter().zip(&self.lane_slots).all(done)
    }

    pub(super) fn progress(&self, head: Position) -> ConsumerProgress {
        let sum = |of: fn(&LaneStats) -> u64| self.stats.iter().map(|lane| of(lane)).sum();
        let holding = self.stats.iter().filter(|lane| lane.slots.load(Ordering::Relaxed) > 0);
        let position = holding.map(|lane| lane.position.load(Ordering::Relaxed)).min();
        ConsumerProgress {
            name: self.consumer.name.clone(),
            handled: sum(|lane| lane.handled.load(Ordering::Relaxed)),
            batches: sum(|lane| lane.batches.load(Ordering::Relaxed)),
            position: position.unwrap_or(0),
            head: head.get(),
            slots: sum(|lane| lane.slots.load(Ordering::Relaxed) as u64) as usize,
            wanted: self.wanted,
            parked: sum(|lane| lane.parked.load(Ordering::Relaxed) as u64) as usize,
            waiting_for: self.waiting_for.clone(),
            paused: self.paused,
        }
    }
}

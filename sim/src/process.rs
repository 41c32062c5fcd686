//! A process that is a worker: what it knows, and its tasks, of which each takes a step at a time.

use crate::lane::Lane;
use crate::mutant::Mutant;
use crate::scenario::Scenario;
use crate::store::{Store, View};
use crate::wire::Answer;
use anabranch_core::{SlotSet, Weights, plan};

/// The task that shows signs of life.
pub(crate) const HEART: usize = 0;
/// The task that claims.
pub(crate) const KEEPER: usize = 1;

/// Which lane of which consumer in which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) process: usize,
    pub(crate) consumer: usize,
    pub(crate) lane: usize,
}

/// A task has one step ahead of it, and waits for one answer at most.
#[derive(Debug, Default)]
pub(crate) struct Task {
    /// Steps with another token are void.
    pub(crate) token: u64,
    pub(crate) due: u64,
    pub(crate) awaiting: Option<u64>,
    pub(crate) answer: Option<Answer>,
}

/// One consumer as it runs in a process.
#[derive(Debug)]
pub(crate) struct Running {
    /// Whether there may be something to claim.
    pub(crate) claim: bool,
    pub(crate) lanes: Vec<Lane>,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) is_up: bool,
    /// Raised with every start: what was meant for another life is void.
    pub(crate) life: u32,
    pub(crate) paused_until: u64,
    pub(crate) tasks: Vec<Task>,
    /// The worker that it is.
    pub(crate) id: String,
    pub(crate) has_joined: bool,
    pub(crate) is_leaving: bool,
    /// Whether the others know that it leaves.
    pub(crate) has_said_so: bool,
    /// A wake came while it waited for an answer.
    pub(crate) was_woken: bool,
    pub(crate) generation: i64,
    /// Which lane each slot belongs to, for as long as the process lives.
    pub(crate) lane_slots: Vec<SlotSet>,
    /// What each lane of each consumer should hold.
    pub(crate) keep: Vec<Vec<SlotSet>>,
    pub(crate) running: Vec<Running>,
}

impl Process {
    /// A process that does not run.
    pub(crate) fn down() -> Self {
        Self {
            is_up: false,
            life: 0,
            paused_until: 0,
            tasks: Vec::new(),
            id: String::new(),
            has_joined: false,
            is_leaving: false,
            has_said_so: false,
            was_woken: false,
            generation: 0,
            lane_slots: Vec::new(),
            keep: Vec::new(),
            running: Vec::new(),
        }
    }

    /// The same process, started again.
    pub(crate) fn started(life: u32, id: String, scenario: &Scenario, mutant: Mutant) -> Self {
        let running = || Running {
            claim: true,
            lanes: (0..scenario.lanes).map(|_| Lane::new(mutant)).collect(),
        };
        let tasks = 2 + 2 * scenario.lanes * scenario.consumers;
        Self {
            is_up: true,
            life,
            id,
            tasks: (0..tasks).map(|_| Task::default()).collect(),
            lane_slots: vec![SlotSet::empty(); scenario.lanes],
            keep: vec![vec![SlotSet::empty(); scenario.lanes]; scenario.consumers],
            running: (0..scenario.consumers).map(|_| running()).collect(),
            ..Self::down()
        }
    }

    pub(crate) fn lane(&mut self, at: At) -> &mut Lane {
        &mut self.running[at.consumer].lanes[at.lane]
    }

    /// A lane, and what it should hold.
    pub(crate) fn lane_and_keep(&mut self, at: At) -> (&mut Lane, &SlotSet) {
        (&mut self.running[at.consumer].lanes[at.lane], &self.keep[at.consumer][at.lane])
    }

    /// The number of the task that feeds a lane; the lane's own follows.
    pub(crate) fn feed_task(&self, at: At) -> usize {
        2 + 2 * (at.consumer * self.lane_slots.len() + at.lane)
    }

    /// Which lane a task is of, and whether it is the lane's own.
    pub(crate) fn lane_of(&self, process: usize, task: usize) -> (At, bool) {
        let (number, lanes) = ((task - 2) / 2, self.lane_slots.len());
        (At { process, consumer: number / lanes, lane: number % lanes }, task % 2 == 1)
    }

    /// Whether its lanes hold nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.iter().flat_map(|running| &running.lanes).all(Lane::is_empty)
    }

    /// Learns what it should own: whether that is news, and whether there is something to claim.
    pub(crate) fn digest(&mut self, view: &View, weights: &Weights) -> (bool, bool) {
        self.generation = view.generation;
        let mut keep = vec![vec![SlotSet::empty(); self.lane_slots.len()]; self.keep.len()];
        for (keep, (assigned, may_hold)) in
            keep.iter_mut().zip(view.assigned.iter().zip(&view.may_hold))
        {
            if *may_hold && !assigned.is_empty() {
                self.lane_slots = plan::deal(&self.lane_slots, assigned, weights);
                for (keep, lane) in keep.iter_mut().zip(&self.lane_slots) {
                    *keep = lane.intersection(assigned);
                }
            }
        }
        let is_news = keep != self.keep;
        self.keep = keep;
        let mut claims = false;
        let each = self.running.iter_mut().zip(&self.keep).zip(&view.owned);
        for ((running, keep), owned) in each {
            let wanted: usize = keep.iter().map(SlotSet::len).sum();
            let held: usize = running.lanes.iter().map(Lane::held).sum();
            let mut cursors: Vec<_> = running.lanes.iter().flat_map(Lane::cursors).collect();
            cursors.sort_unstable();
            // What it owns may be something else than its lanes believe: an answer was lost, or a
            // claim that it gave up waiting for came after the next one.
            running.claim |= held < wanted || cursors != *owned;
            claims |= running.claim;
        }
        (is_news, claims)
    }

    /// A cursor of its own that none of its lanes has as it is stored: nobody would move it on.
    pub(crate) fn mistaken(&self, store: &Store) -> Option<String> {
        let id = Some(self.id.as_str()).filter(|_| self.is_up);
        for (running, table) in self.running.iter().zip(&store.consumers) {
            for row in table.rows.iter().filter(|row| row.owner.as_deref() == id) {
                let slot = row.slots.iter().next()?;
                let mut holders = running.lanes.iter().filter_map(|lane| lane.parts.holder(slot));
                if !holders.any(|held| (held.id, held.epoch) == (row.id, row.epoch)) {
                    return Some(format!("no lane of {} has {row:?}", self.id));
                }
            }
        }
        None
    }

    /// The lane that a cursor belongs to.
    pub(crate) fn lane_for(&self, slots: &SlotSet) -> Option<usize> {
        self.lane_slots.iter().position(|lane| slots.is_subset(lane))
    }
}

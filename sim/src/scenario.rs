//! What a seed stands for: how large the world is, and how nasty.

use crate::rng::Rng;
use anabranch_core::generation::Rollout;
use anabranch_core::{Rates, Slot, SlotSet, Weights};

/// The most processes that there can be at once.
const PROCESSES: u64 = 6;

/// What a process runs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The slots that it asks for.
    pub(crate) fixed: Option<SlotSet>,
    /// How its clock runs, in percent.
    pub(crate) pace: u64,
    /// Whether it runs each of the consumers.
    pub(crate) runs: Vec<bool>,
}

impl Program {
    /// One that takes a share of everything.
    pub(crate) fn whole(consumers: usize) -> Self {
        Self { fixed: None, pace: 100, runs: vec![true; consumers] }
    }
}

/// The world of a seed.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) universe: SlotSet,
    pub(crate) slots: u16,
    pub(crate) consumers: usize,
    pub(crate) lanes: usize,
    pub(crate) weights: Weights,
    pub(crate) is_even: bool,
    pub(crate) rollout: Rollout,
    pub(crate) processes: Vec<Program>,
    /// How many of them begin.
    pub(crate) begin: usize,
    pub(crate) lease: u64,
    /// Whether peers see at once that a process is gone.
    pub(crate) notices: bool,
    pub(crate) batch: usize,
    pub(crate) page: usize,
    pub(crate) appenders: usize,
    /// How many appends each of them makes.
    pub(crate) appends: usize,
    /// When the faults end.
    pub(crate) calm_at: u64,
    /// How long from one fault to the next, at most.
    pub(crate) fault_every: u64,
    /// Of a hundred transactions, how many are slow, how many never arrive, and of how many the
    /// answer is lost; of a hundred wakes, how many are lost and how many late; of a hundred appends,
    /// how many are rolled back.
    pub(crate) slow: u64,
    pub(crate) lost_requests: u64,
    pub(crate) lost_answers: u64,
    pub(crate) lost_wakes: u64,
    pub(crate) late_wakes: u64,
    pub(crate) rolled_back: u64,
}

impl Scenario {
    pub(crate) fn of(rng: &mut Rng) -> Self {
        let slots = rng.between(6, 24) as u16;
        // Small worlds are quick and find most; a few are large.
        let largest = if rng.chance(25) { PROCESSES } else { 3 };
        let processes = rng.between(1, largest) as usize;
        let has_fixed = rng.chance(15);
        let total = rng.between(1, 3) as u16;
        let consumers = if rng.chance(35) { 2 } else { 1 };
        let differ = consumers > 1 && rng.chance(60);
        let process = |rng: &mut Rng| {
            let is_fixed = has_fixed && rng.chance(50);
            let index = rng.below(usize::from(total)) as u16;
            let mut runs = vec![true; consumers];
            if differ && rng.chance(60) {
                runs[rng.below(consumers)] = false;
            }
            let fixed = is_fixed.then(|| SlotSet::partition(index, total));
            Program { fixed, pace: rng.between(60, 180), runs }
        };
        let is_even = !rng.chance(10);
        Self {
            universe: (0..slots).filter_map(Slot::new).collect(),
            slots,
            consumers,
            lanes: rng.between(1, 3) as usize,
            weights: if is_even { Weights::even() } else { uneven(slots, rng) },
            is_even,
            rollout: if rng.chance(25) { Rollout::Recreate } else { Rollout::Cooperative },
            processes: (0..processes).map(|_| process(rng)).collect(),
            begin: rng.between(1, processes as u64) as usize,
            lease: rng.between(50, 120),
            notices: rng.chance(50),
            batch: rng.between(1, 5) as usize,
            page: rng.between(1, 6) as usize,
            appenders: rng.between(1, 3) as usize,
            appends: rng.between(1, 15) as usize,
            calm_at: rng.between(150, 400),
            fault_every: rng.between(8, 80),
            slow: rng.between(0, 15),
            lost_requests: rng.between(0, 6),
            lost_answers: rng.between(0, 20),
            lost_wakes: rng.between(0, 40),
            late_wakes: rng.between(0, 40),
            rolled_back: rng.between(0, 40),
        }
    }
}

fn uneven(slots: u16, rng: &mut Rng) -> Weights {
    let mut rates = Rates::default();
    for slot in (0..slots).filter_map(Slot::new) {
        rates.set(slot, rng.between(0, 50) as f32);
    }
    Weights::from_rates(&rates)
}

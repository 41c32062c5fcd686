//! How elastic members share slots: they keep what they have, take the orphans, and level.
//!
//! Levelling decides each move by the state it finds and not by how it came about, and after a move
//! both members carry something between what the two carried before. That makes its end a fixed
//! point: who levels again moves nothing.

use super::{Assignment, heaviest_first};
use crate::{Slot, SlotSet, Weights};
use std::cmp::Reverse;

/// What one member has while the plan is made.
struct Share {
    slots: Vec<Slot>,
    load: u64,
    /// Whether the slots are in the order in which they are given away, last one first.
    is_scattered: bool,
    /// Whether it has nothing to give that would pay. This stays so, because the gap to the least
    /// loaded only narrows.
    is_stuck: bool,
}

/// Shares the slots among the members with these ids.
pub(super) fn share(
    slots: &SlotSet,
    ids: &[&str],
    current: &Assignment,
    weights: &Weights,
) -> impl Iterator<Item = (String, SlotSet)> {
    let mut orphans = slots.clone();
    let mut shares = Vec::with_capacity(ids.len());
    for id in ids {
        let kept = current.get(*id).map_or_else(SlotSet::empty, |has| has.intersection(&orphans));
        orphans = orphans.difference(&kept);
        shares.push(Share::new(&kept, weights));
    }
    for slot in heaviest_first(&orphans, weights) {
        if let Some(lightest) = lightest(&shares) {
            shares[lightest].take(slot, weights);
        }
    }
    level(&mut shares, fair_load(slots, ids.len(), weights), weights);
    let ids = ids.iter().map(|id| (*id).to_owned());
    ids.zip(shares.into_iter().map(|share| share.slots.into_iter().collect()))
}

/// What each of so many members should carry, apart from those that have a slot which is heavier
/// than that: these carry their slot, and the others share the rest.
pub(super) fn fair_load(slots: &SlotSet, members: usize, weights: &Weights) -> u64 {
    let (mut rest, mut members) = (weights.sum(slots), members.max(1) as u64);
    if !weights.is_even() {
        for slot in heaviest_first(slots, weights) {
            let weight = u64::from(weights.get(slot));
            if members == 1 || weight * members <= rest {
                break;
            }
            rest -= weight;
            members -= 1;
        }
    }
    rest / members
}

/// Moves one slot at a time from the heaviest loaded to the least loaded, while it pays.
fn level(shares: &mut [Share], fair: u64, weights: &Weights) {
    let tolerance = if weights.is_even() { 1 } else { fair / 20 };
    while let (Some(heaviest), Some(lightest)) = (heaviest(shares), lightest(shares)) {
        let least = shares[lightest].load;
        if shares[heaviest].load - least <= tolerance {
            return;
        }
        match shares[heaviest].give(fair, least, weights) {
            Some(slot) => shares[lightest].take(slot, weights),
            None => shares[heaviest].is_stuck = true,
        }
    }
}

/// The heaviest loaded that may have something to give; the first of equals.
fn heaviest(shares: &[Share]) -> Option<usize> {
    let able = (0..shares.len()).filter(|at| !shares[*at].is_stuck);
    able.min_by_key(|at| Reverse(shares[*at].load))
}

/// The least loaded; the first of equals.
fn lightest(shares: &[Share]) -> Option<usize> {
    (0..shares.len()).min_by_key(|at| shares[*at].load)
}

impl Share {
    fn new(slots: &SlotSet, weights: &Weights) -> Self {
        let load = weights.sum(slots);
        Self { slots: slots.iter().collect(), load, is_scattered: false, is_stuck: false }
    }

    fn take(&mut self, slot: Slot, weights: &Weights) {
        let at = if self.is_scattered {
            self.slots.partition_point(|other| scattered(*other) > scattered(slot))
        } else {
            self.slots.len()
        };
        self.slots.insert(at, slot);
        self.load += u64::from(weights.get(slot));
    }

    /// Takes out a slot for a member with the load `least`, if that pays.
    fn give(&mut self, fair: u64, least: u64, weights: &Weights) -> Option<Slot> {
        if !self.is_scattered {
            self.slots.sort_unstable_by_key(|slot| Reverse(scattered(*slot)));
            self.is_scattered = true;
        }
        let weight = |at: usize| u64::from(weights.get(self.slots[at]));
        // A slot that brings both nearer to a fair load is no detour, whichever it is.
        let room = self.load.saturating_sub(fair).min(fair.saturating_sub(least));
        let in_turn = (0..self.slots.len()).rev();
        let at = in_turn.clone().find(|at| weight(*at) <= room).or_else(|| {
            // Else the one that brings them nearest to each other, if that is near enough: what is
            // moved is then at most three times what is won.
            let gap = self.load - least;
            let paying = in_turn.filter(|at| 4 * weight(*at) <= 3 * gap);
            paying.min_by_key(|at| (2 * weight(*at)).abs_diff(gap))
        })?;
        let slot = self.slots.remove(at);
        self.load -= u64::from(weights.get(slot));
        Some(slot)
    }
}

/// The place of a slot in the order in which slots are given away: a bijection without pattern, by
/// the multipliers of MurmurHash3. The lanes of a worker hold its slots in strides, and each should
/// lose its part of what is given away.
fn scattered(slot: Slot) -> u32 {
    let mixed = u32::from(slot.get()).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 13)
}

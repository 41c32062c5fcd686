//! The planner: which slots each worker of a replica set should own, and which lane within a worker.
//!
//! Plans are sticky: a slot moves only where balance needs it. They are a function of what goes in
//! and of nothing else, so it does not matter which worker makes one.

mod share;

use crate::cursor::union;
use crate::{Slot, SlotSet, Weights};
use share::{fair_load, share};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A worker that wants slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The worker.
    pub id: String,
    /// Exactly the slots it wants (a fixed partition), or a fair share if it does not say.
    pub fixed: Option<SlotSet>,
}

/// Which slots each worker should own.
pub type Assignment = BTreeMap<String, SlotSet>;

/// Plans who should own which of the `slots`. Every member has an entry, maybe an empty one.
///
/// `members` come oldest first; that is what settles ties. `current` is the plan so far; its sets
/// are disjoint, and the slots of workers that are no members any more are orphans.
///
/// A slot that fixed members ask for goes to the one of them that has it, else to the first, so a
/// second process with the same partition stands by with nothing. The other members share the other
/// slots: each keeps what it has, the orphans go to the least loaded, heaviest slot first, and then
/// the heaviest loaded give to the least loaded while that pays:
///
/// - with even weights, until they differ by one slot at most, with the fewest moves that do it;
/// - else until they differ by a twentieth of a fair load at most, or no slot is light enough to
///   narrow the gap by a quarter. So the owner of a slot that is heavier than a fair load keeps it,
///   and the others take what else it had.
///
/// A plan of its own result is that result.
///
/// ```
/// use anabranch_core::plan::{Assignment, Member, plan};
/// use anabranch_core::{SlotSet, Weights};
/// let member = |id: &str| Member { id: id.to_owned(), fixed: None };
/// let (all, even) = (SlotSet::all(), Weights::even());
///
/// let one = plan(&all, &[member("a")], &Assignment::new(), &even);
/// assert_eq!(one["a"], all);
/// let two = plan(&all, &[member("a"), member("b")], &one, &even);
/// assert_eq!((two["a"].len(), two["b"].len()), (2520, 2520));
/// // When `a` goes, `b` keeps what it has and takes the rest.
/// assert_eq!(plan(&all, &[member("b")], &two, &even)["b"], all);
/// ```
#[must_use]
pub fn plan(
    slots: &SlotSet,
    members: &[Member],
    current: &Assignment,
    weights: &Weights,
) -> Assignment {
    let mut planned = pin(slots, members, current);
    let elastic: Vec<_> = elastic(members).collect();
    planned.extend(share(&shared(slots, members), &elastic, current, weights));
    debug_assert_eq!(planned.len(), members.len(), "members have ids of their own");
    planned
}

/// Whether the load is so uneven that it is worth moving slots although no worker has come or gone.
///
/// It is if a member carries more than a quarter above a fair load and [`plan`] would take off at
/// least a fifth of what is above. A fair load leaves aside the slots that are heavier than it. After
/// the plan is carried out the answer is no until weights or members change, because a plan of its
/// own result takes nothing off; so slots do not go to and fro.
///
/// ```
/// use anabranch_core::plan::{Assignment, Member, is_lopsided, plan};
/// use anabranch_core::{Rates, SlotSet, Weights};
/// let members = ["a", "b"].map(|id| Member { id: id.to_owned(), fixed: None });
/// let all = SlotSet::all();
/// let current = plan(&all, &members, &Assignment::new(), &Weights::even());
/// let mut rates = Rates::default();
/// for slot in current["a"].iter() {
///     rates.set(slot, 10.0);
/// }
/// let weights = Weights::from_rates(&rates);
/// assert!(is_lopsided(&all, &members, &current, &weights));
/// let next = plan(&all, &members, &current, &weights);
/// assert!(!is_lopsided(&all, &members, &next, &weights));
/// ```
#[must_use]
pub fn is_lopsided(
    slots: &SlotSet,
    members: &[Member],
    current: &Assignment,
    weights: &Weights,
) -> bool {
    let shared = shared(slots, members);
    let fair = fair_load(&shared, elastic(members).count(), weights);
    let load = |of: &Assignment, id| {
        of.get(id).map_or(0, |slots| weights.sum(&slots.intersection(&shared)))
    };
    let heavy: Vec<_> = elastic(members)
        .map(|id| (id, load(current, id)))
        .filter(|(_, load)| 4 * load > 5 * fair)
        .collect();
    // Most of the time there are none, and then there is no need for a plan.
    if heavy.is_empty() {
        return false;
    }
    let next = plan(slots, members, current, weights);
    heavy.iter().any(|(id, now)| 5 * now.saturating_sub(load(&next, id)) >= now - fair)
}

/// Deals new slots onto the lanes of a worker: `lanes` are what they have, the result is what they
/// have then. Lanes keep their slots and never exchange any; each new slot goes to the lane with the
/// least weight, heaviest slot first.
///
/// ```
/// use anabranch_core::plan::deal;
/// use anabranch_core::{SlotSet, Weights};
/// let lanes = [SlotSet::partition(0, 4), SlotSet::empty()];
/// let dealt = deal(&lanes, &SlotSet::all(), &Weights::even());
/// assert_eq!((dealt[0].len(), dealt[1].len()), (2520, 2520));
/// assert!(lanes[0].is_subset(&dealt[0]));
/// ```
#[must_use]
pub fn deal(lanes: &[SlotSet], new: &SlotSet, weights: &Weights) -> Vec<SlotSet> {
    let mut dealt = lanes.to_vec();
    let mut loads: Vec<_> = lanes.iter().map(|lane| weights.sum(lane)).collect();
    for slot in heaviest_first(&new.difference(&union(lanes)), weights) {
        if let Some(lane) = (0..lanes.len()).min_by_key(|lane| loads[*lane]) {
            dealt[lane].insert(slot);
            loads[lane] += u64::from(weights.get(slot));
        }
    }
    dealt
}

/// The slots of the fixed members.
fn pin(slots: &SlotSet, members: &[Member], current: &Assignment) -> Assignment {
    let mut taken = SlotSet::empty();
    let mut pinned = Assignment::new();
    for (id, asked) in fixed(members) {
        let has = current.get(id).map_or_else(SlotSet::empty, |has| has.intersection(asked));
        let kept = has.intersection(slots).difference(&taken);
        taken = taken.union(&kept);
        pinned.insert(id.to_owned(), kept);
    }
    for (id, asked) in fixed(members) {
        let rest = asked.intersection(slots).difference(&taken);
        if let Some(kept) = pinned.get_mut(id).filter(|_| !rest.is_empty()) {
            *kept = kept.union(&rest);
            taken = taken.union(&rest);
        }
    }
    pinned
}

/// The slots that no fixed member asks for.
fn shared(slots: &SlotSet, members: &[Member]) -> SlotSet {
    fixed(members).fold(slots.clone(), |rest, (_, asked)| rest.difference(asked))
}

fn fixed(members: &[Member]) -> impl Iterator<Item = (&str, &SlotSet)> {
    members.iter().filter_map(|member| Some((member.id.as_str(), member.fixed.as_ref()?)))
}

fn elastic(members: &[Member]) -> impl Iterator<Item = &str> {
    members.iter().filter(|member| member.fixed.is_none()).map(|member| member.id.as_str())
}

/// The slots by weight; those of one weight ascending, so that even ones are dealt in strides.
fn heaviest_first(slots: &SlotSet, weights: &Weights) -> Vec<Slot> {
    let mut sorted: Vec<_> = slots.iter().collect();
    if !weights.is_even() {
        sorted.sort_by_key(|slot| Reverse(weights.get(*slot)));
    }
    sorted
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;

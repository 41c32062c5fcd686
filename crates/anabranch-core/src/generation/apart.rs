//! Consumers that not all members of a set can run: each has an assignment of its own, over those who can.
//!
//! A member of the last version does not know of such assignments. Of all that it runs it owns what the
//! set's assignment gives it; the others share what is left of each consumer. What only such members run
//! nobody else can complete: while there is such a consumer, the set's assignment is theirs alone.

use super::{Assignments, Known, Load};
use crate::cursor::union;
use crate::plan::{Assignment, Member, plan};
use crate::{SlotSet, Weights};
use std::collections::{BTreeMap, BTreeSet};

/// The members that share the set's assignment.
pub(super) fn sharing(members: &[&Known]) -> Vec<Member> {
    members
        .iter()
        .filter(|member| shares(members, member))
        .map(|member| Member::from(*member))
        .collect()
}

fn shares(members: &[&Known], member: &Known) -> bool {
    let only_old = |consumer: &&String| {
        members.iter().all(|other| other.follows_set || !other.runs.contains_key(*consumer))
    };
    let mut of_last_version = members.iter().filter(|member| member.follows_set);
    let is_any = of_last_version.any(|old| old.runs.keys().any(|name| only_old(&name)));
    !is_any || (member.follows_set && member.runs.keys().any(|name| only_old(&name)))
}

/// Whether nobody else has slots of the set's assignment.
pub(super) fn suits(set: &Assignment, members: &[&Known]) -> bool {
    let has_none = |member: &&&Known| set.get(&member.id).is_none_or(SlotSet::is_empty);
    members.iter().filter(|member| !shares(members, member)).all(|member| has_none(&member))
}

/// Plans the set's assignment.
pub(super) fn plan_set(
    slots: &SlotSet,
    members: &[&Known],
    current: &Assignment,
    weights: &Weights,
) -> Assignment {
    let mut planned = plan(slots, &sharing(members), current, weights);
    for member in members {
        planned.entry(member.id.clone()).or_insert_with(SlotSet::empty);
    }
    planned
}

/// The assignments of all consumers that not all members can run. Those of which the same workers own the
/// same slots together as before stay as they are.
pub(super) fn plan_apart(
    slots: &SlotSet,
    members: &[&Known],
    set: &Assignment,
    current: &Assignments,
    load: &Load,
) -> BTreeMap<String, Assignment> {
    let consumers: BTreeSet<&String> = members.iter().flat_map(|m| m.runs.keys()).collect();
    let all_share = members.iter().all(|member| shares(members, member));
    let follows_set = |consumer: &str| all_share && is_run_by_all(members, consumer);
    let differing = consumers.into_iter().filter(|consumer| !follows_set(consumer));
    let one = |consumer: &String| {
        let so_far = current.of(consumer);
        let planned = plan_one(slots, members, set, so_far, (consumer, load.of(consumer)));
        let is_kept = current.apart.contains_key(consumer)
            && planned.keys().eq(so_far.keys())
            && is_same_together(members, consumer, (&planned, so_far));
        (consumer.clone(), if is_kept { so_far.clone() } else { planned })
    };
    differing.map(one).collect()
}

/// Whether all members run a consumer and are as able as each other: the set's assignment does then.
fn is_run_by_all(members: &[&Known], consumer: &str) -> bool {
    let mut able = members.iter().map(|member| member.runs.get(consumer));
    let first = able.next().flatten();
    first.is_some() && able.all(|is_able| is_able == first)
}

/// Whether those who are able own the same slots together in both, and those of the last version each the
/// same.
fn is_same_together(
    members: &[&Known],
    consumer: &str,
    (one, other): (&Assignment, &Assignment),
) -> bool {
    let able = || members.iter().filter(|member| member.runs.get(consumer) == Some(&true));
    let together = |of: &Assignment| {
        let slots: Vec<SlotSet> = able().filter_map(|member| of.get(&member.id).cloned()).collect();
        union(&slots)
    };
    let mut old = able().filter(|member| member.follows_set);
    together(one) == together(other) && old.all(|m| one.get(&m.id) == other.get(&m.id))
}

/// Which slots of a consumer its members of this version share, and those of them that are able to run it.
pub(super) fn movable(
    slots: &SlotSet,
    members: &[&Known],
    set: &Assignment,
    consumer: &str,
) -> (SlotSet, Vec<Member>) {
    let old = members.iter().filter(|m| m.follows_set && m.runs.contains_key(consumer));
    let rest = old.filter_map(|m| set.get(&m.id)).fold(slots.clone(), |rest, s| rest.difference(s));
    (rest, of_this_version(members, consumer, true))
}

fn of_this_version(members: &[&Known], consumer: &str, is_able: bool) -> Vec<Member> {
    let new = members.iter().filter(|member| !member.follows_set);
    new.filter(|m| m.runs.get(consumer) == Some(&is_able)).map(|m| Member::from(*m)).collect()
}

/// Plans one consumer. Slots that nobody who is able takes stay with those who are not: they are the ones
/// to find out when they are again. A worker that is able has an entry, maybe an empty one.
pub(super) fn plan_one(
    slots: &SlotSet,
    members: &[&Known],
    set: &Assignment,
    current: &Assignment,
    (consumer, weights): (&str, &Weights),
) -> Assignment {
    let (rest, able) = movable(slots, members, set, consumer);
    let mut planned = plan(&rest, &able, current, weights);
    let taken = union(&planned.values().cloned().collect::<Vec<_>>());
    let unable = of_this_version(members, consumer, false);
    let left = plan(&rest.difference(&taken), &unable, current, weights);
    planned.extend(left.into_iter().filter(|(_, slots)| !slots.is_empty()));
    for old in members.iter().filter(|m| m.follows_set && m.runs.contains_key(consumer)) {
        let has = set.get(&old.id).map_or_else(SlotSet::empty, |has| has.intersection(slots));
        planned.insert(old.id.clone(), has);
    }
    planned
}

#[cfg(test)]
mod tests;

//! Generations of a replica set: when its members change, or what they can run, who should own which slots
//! from then on.
//!
//! One assignment holds for all consumers that every member runs. A consumer that some of them do not run, or
//! cannot run for the time being, has one of its own (`apart`).

mod apart;

use crate::plan::{self, Assignment, Member};
use crate::{SlotSet, UnknownName, Weights};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How a replica set goes from one assignment to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rollout {
    /// Only the slots that move pause, each for its own hand-over.
    #[default]
    Cooperative,
    /// All workers release everything, then all claim what they should own: for handlers that must
    /// never overlap with those of another assignment.
    Recreate,
}

impl Rollout {
    /// Its name, as it is stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cooperative => "cooperative",
            Self::Recreate => "recreate",
        }
    }

    /// Whether a worker may own slots of a generation. `settled` are the generations of which its
    /// living members hold nothing older: for `Recreate` all of them must have released everything.
    pub fn may_hold(self, generation: i64, settled: impl IntoIterator<Item = i64>) -> bool {
        self == Self::Cooperative || settled.into_iter().all(|settled| settled >= generation)
    }
}

impl FromStr for Rollout {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let unknown = || UnknownName::new("rollout", name, "cooperative or recreate");
        let mut all = [Self::Cooperative, Self::Recreate].into_iter();
        all.find(|each| each.name() == name).ok_or_else(unknown)
    }
}

impl fmt::Display for Rollout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A worker of the set, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub id: String,
    /// The slots that it asks for; a fair share if there are none.
    pub fixed: Option<SlotSet>,
    /// Whether its lease is good.
    pub is_alive: bool,
    /// Whether it has said that it is about to leave.
    pub is_leaving: bool,
    /// The consumers that it runs, and whether it is able to for the time being.
    pub runs: BTreeMap<String, bool>,
    /// Whether its program is of the last version: of all that it runs it owns what the set's assignment
    /// gives it, whatever others run that.
    pub follows_set: bool,
}

impl Known {
    /// Whether it takes part: it is alive, and not about to leave.
    fn stays(&self) -> bool {
        self.is_alive && !self.is_leaving
    }
}

impl From<&Known> for Member {
    fn from(known: &Known) -> Self {
        Self { id: known.id.clone(), fixed: known.fixed.clone() }
    }
}

/// Who should own what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignments {
    /// The set's assignment: it holds for every consumer that has none of its own. Each member has an
    /// entry.
    pub set: Assignment,
    /// The assignments of consumers that not all members can run.
    pub apart: BTreeMap<String, Assignment>,
}

impl Assignments {
    /// Who should own what of a consumer.
    #[must_use]
    pub fn of(&self, consumer: &str) -> &Assignment {
        self.apart.get(consumer).unwrap_or(&self.set)
    }
}

/// How heavy the slots are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// For all consumers that follow the set's assignment together.
    pub set: Weights,
    /// For consumers that have an assignment of their own, as far as that is known.
    pub apart: BTreeMap<String, Weights>,
}

impl Load {
    /// Every slot weighs the same.
    #[must_use]
    pub fn even() -> Self {
        Self { set: Weights::even(), apart: BTreeMap::new() }
    }

    /// How heavy the slots of a consumer are.
    #[must_use]
    pub fn of(&self, consumer: &str) -> &Weights {
        self.apart.get(consumer).unwrap_or(&self.set)
    }
}

/// The next assignments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// Who should own what.
    pub assignments: Assignments,
    /// Members that are new.
    pub joined: Vec<String>,
    /// Members that have left by themselves.
    pub left: Vec<String>,
    /// Members whose lease is over, or whose process is gone.
    pub died: Vec<String>,
}

/// The next assignments, if the members are no longer those of the current ones, or what they can run has
/// changed. `known` are the workers of the set, the oldest first.
///
/// Only what has to change is planned anew: the set's assignment when members come or go, that of a
/// consumer when those who can run it do.
///
/// ```
/// use anabranch_core::SlotSet;
/// use anabranch_core::generation::{Assignments, Known, Load, next};
/// let worker = |id: &str, runs: &[&str]| Known {
///     id: id.to_owned(), fixed: None, is_alive: true, is_leaving: false,
///     runs: runs.iter().map(|consumer| ((*consumer).to_owned(), true)).collect(),
///     follows_set: false,
/// };
/// let (all, load) = (SlotSet::all(), Load::even());
/// let known = [worker("a", &["orders", "mails"])];
/// let alone = next(&all, &known, &Assignments::default(), &load).unwrap().assignments;
/// assert_eq!(alone.of("orders")["a"].len(), 5040);
/// // The second one runs only one of the two.
/// let known = [known[0].clone(), worker("b", &["orders"])];
/// let both = next(&all, &known, &alone, &load).unwrap().assignments;
/// assert_eq!(both.of("orders")["b"].len(), 2520);
/// assert_eq!(both.of("mails")["a"].len(), 5040);
/// assert_eq!(next(&all, &known, &both, &load), None);
/// ```
#[must_use]
pub fn next(slots: &SlotSet, known: &[Known], current: &Assignments, load: &Load) -> Option<Next> {
    let members = members(known);
    let is_member = |id: &String| members.iter().any(|member| member.id == *id);
    let joined: Vec<String> = members
        .iter()
        .filter(|member| !current.set.contains_key(&member.id))
        .map(|member| member.id.clone())
        .collect();
    let gone: Vec<&String> = current.set.keys().filter(|id| !is_member(id)).collect();
    let set = match joined.is_empty() && gone.is_empty() {
        true if apart::suits(&current.set, &members) => current.set.clone(),
        _ => apart::plan_set(slots, &members, &current.set, &load.set),
    };
    let apart = apart::plan_apart(slots, &members, &set, current, load);
    let assignments = Assignments { set, apart };
    if joined.is_empty() && gone.is_empty() && assignments == *current {
        return None;
    }
    let is_dead = |id: &str| known.iter().any(|worker| worker.id == id && !worker.is_alive);
    let (died, left): (Vec<_>, Vec<_>) = gone.into_iter().cloned().partition(|id| is_dead(id));
    Some(Next { assignments, joined, left, died })
}

/// The assignments after slots have moved for their load, and which of them did: those of consumers, by
/// name, and the set's if there is none. Nothing if that is not worth it. `may_move` says whether one may
/// change now; members and what they can run are those of the current assignments.
#[must_use]
pub fn level(
    slots: &SlotSet,
    known: &[Known],
    current: &Assignments,
    load: &Load,
    may_move: impl Fn(Option<&str>) -> bool,
) -> Option<(Assignments, Vec<Option<String>>)> {
    let members = members(known);
    let (mut levelled, mut moved) = (current.clone(), Vec::new());
    let sharing = apart::sharing(&members);
    if may_move(None) && plan::is_lopsided(slots, &sharing, &current.set, &load.set) {
        levelled.set = apart::plan_set(slots, &members, &current.set, &load.set);
        moved.push(None);
    }
    for (consumer, assignment) in &current.apart {
        let (rest, able) = apart::movable(slots, &members, &current.set, consumer);
        let weights = load.of(consumer);
        if may_move(Some(consumer)) && plan::is_lopsided(&rest, &able, assignment, weights) {
            let planned =
                apart::plan_one(slots, &members, &current.set, assignment, (consumer, weights));
            levelled.apart.insert(consumer.clone(), planned);
            moved.push(Some(consumer.clone()));
        }
    }
    if moved.is_empty() {
        return None;
    }
    // Members of the last version take what the set's assignment gives them, wherever they run.
    levelled.apart = apart::plan_apart(slots, &members, &levelled.set, &levelled, load);
    Some((levelled, moved))
}

/// The workers that take part: alive, and not about to leave.
#[must_use]
pub fn members(known: &[Known]) -> Vec<&Known> {
    known.iter().filter(|worker| worker.stays()).collect()
}

/// The living workers that run a consumer, those about to leave included.
pub fn runners<'a>(known: &'a [Known], consumer: &'a str) -> impl Iterator<Item = &'a Known> {
    known.iter().filter(move |worker| worker.is_alive && worker.runs.contains_key(consumer))
}

#[cfg(test)]
mod tests;

//! Generations of a replica set: when its members change, who should own which slots from then on.

use crate::SlotSet;
use crate::Weights;
use crate::plan::{self, Assignment, Member};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// How a replica set goes from one assignment to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rollout {
    /// Only the slots that move pause, each for its own hand-over.
    #[default]
    Cooperative,
    /// All workers let go of everything, then all take what they should own: for handlers that must
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
    /// living members hold nothing older: for `Recreate` all of them must have let go.
    pub fn may_hold(self, generation: i64, settled: impl IntoIterator<Item = i64>) -> bool {
        self == Self::Cooperative || settled.into_iter().all(|settled| settled >= generation)
    }
}

impl FromStr for Rollout {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        [Self::Cooperative, Self::Recreate].into_iter().find(|each| each.name() == name).ok_or(())
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
}

/// The next assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// Who should own what.
    pub assignment: Assignment,
    /// Members that are new.
    pub joined: Vec<String>,
    /// Members that have left by themselves.
    pub left: Vec<String>,
    /// Members whose lease is over, or whose process is gone.
    pub died: Vec<String>,
}

/// The next assignment, if the members are no longer those of the current one. `known` are the workers
/// of the set, the oldest first.
///
/// ```
/// use anabranch_core::generation::{Known, next};
/// use anabranch_core::plan::Assignment;
/// use anabranch_core::{SlotSet, Weights};
/// let worker = |id: &str| Known {
///     id: id.to_owned(), fixed: None, is_alive: true, is_leaving: false,
/// };
/// let alone = next(&SlotSet::all(), &[worker("a")], &Assignment::new(), &Weights::even()).unwrap();
/// assert_eq!(alone.assignment["a"].len(), 5040);
/// let known = [worker("a"), worker("b")];
/// let both = next(&SlotSet::all(), &known, &alone.assignment, &Weights::even()).unwrap();
/// assert_eq!(both.assignment["b"].len(), 2520);
/// assert_eq!(next(&SlotSet::all(), &known, &both.assignment, &Weights::even()), None);
/// ```
#[must_use]
pub fn next(
    slots: &SlotSet,
    known: &[Known],
    current: &Assignment,
    weights: &Weights,
) -> Option<Next> {
    let members = members(known);
    let joined: Vec<String> = members
        .iter()
        .filter(|member| !current.contains_key(&member.id))
        .map(|member| member.id.clone())
        .collect();
    let is_member = |id: &String| members.iter().any(|member| member.id == *id);
    let gone: Vec<&String> = current.keys().filter(|id| !is_member(id)).collect();
    if joined.is_empty() && gone.is_empty() {
        return None;
    }
    let is_dead = |id: &str| known.iter().any(|worker| worker.id == id && !worker.is_alive);
    let (died, left): (Vec<_>, Vec<_>) = gone.into_iter().cloned().partition(|id| is_dead(id));
    let assignment = plan::plan(slots, &members, current, weights);
    Some(Next { assignment, joined, left, died })
}

/// The workers that take part: alive, and not about to leave.
#[must_use]
pub fn members(known: &[Known]) -> Vec<Member> {
    let staying = known.iter().filter(|worker| worker.is_alive && !worker.is_leaving);
    staying.map(|worker| Member { id: worker.id.clone(), fixed: worker.fixed.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(id: &str) -> Known {
        Known { id: id.to_owned(), fixed: None, is_alive: true, is_leaving: false }
    }

    fn assigned(known: &[Known]) -> Assignment {
        next(&SlotSet::all(), known, &Assignment::new(), &Weights::even()).unwrap().assignment
    }

    #[test]
    fn says_who_joined_left_and_died() {
        let current = assigned(&[worker("a"), worker("b"), worker("c"), worker("d")]);
        let known = [
            Known { is_alive: false, ..worker("a") },
            Known { is_leaving: true, ..worker("b") },
            worker("c"),
            worker("e"),
        ];
        let next = next(&SlotSet::all(), &known, &current, &Weights::even()).unwrap();
        assert_eq!(next.joined, ["e"]);
        assert_eq!(next.left, ["b", "d"]);
        assert_eq!(next.died, ["a"]);
        assert_eq!(next.assignment.keys().collect::<Vec<_>>(), ["c", "e"]);
    }

    #[test]
    fn the_last_one_leaves_an_empty_assignment() {
        let current = assigned(&[worker("a")]);
        let next = next(&SlotSet::all(), &[], &current, &Weights::even()).unwrap();
        assert!(next.assignment.is_empty());
    }

    #[test]
    fn only_recreate_waits_for_all() {
        assert!(Rollout::Cooperative.may_hold(5, [1, 5]));
        assert!(!Rollout::Recreate.may_hold(5, [4, 5]));
        assert!(Rollout::Recreate.may_hold(5, [5, 6]));
        assert_eq!("recreate".parse(), Ok(Rollout::Recreate));
        assert_eq!("blue".parse::<Rollout>(), Err(()));
    }
}

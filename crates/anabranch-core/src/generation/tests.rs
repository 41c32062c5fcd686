//! Generations by case: who has joined, left and died, and what waits for whom.

use super::*;

pub(super) fn worker(id: &str) -> Known {
    Known {
        id: id.to_owned(),
        fixed: None,
        is_alive: true,
        is_leaving: false,
        runs: BTreeMap::new(),
        follows_set: false,
    }
}

fn assigned(known: &[Known]) -> Assignments {
    next(&SlotSet::all(), known, &Assignments::default(), &Load::even()).unwrap().assignments
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
    let next = next(&SlotSet::all(), &known, &current, &Load::even()).unwrap();
    assert_eq!(next.joined, ["e"]);
    assert_eq!(next.left, ["b", "d"]);
    assert_eq!(next.died, ["a"]);
    assert_eq!(next.assignments.set.keys().collect::<Vec<_>>(), ["c", "e"]);
}

#[test]
fn the_last_one_leaves_an_empty_assignment() {
    let current = assigned(&[worker("a")]);
    let next = next(&SlotSet::all(), &[], &current, &Load::even()).unwrap();
    assert!(next.assignments.set.is_empty());
}

#[test]
fn only_recreate_waits_for_all() {
    assert!(Rollout::Cooperative.may_hold(5, [1, 5]));
    assert!(!Rollout::Recreate.may_hold(5, [4, 5]));
    assert!(Rollout::Recreate.may_hold(5, [5, 6]));
    assert_eq!("recreate".parse(), Ok(Rollout::Recreate));
    let unknown = "blue".parse::<Rollout>().unwrap_err().to_string();
    assert_eq!(unknown, "there is no rollout `blue`; use cooperative or recreate");
}

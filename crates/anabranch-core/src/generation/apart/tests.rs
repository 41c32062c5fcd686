//! Consumers that not all can run, by property: every slot once, few moves, at rest once carried out, and
//! members of the last version get exactly what the set's assignment gives them.

use super::*;
use crate::generation::{Next, level, members, next};
use crate::{Rates, Slot};
use proptest::collection::vec;
use proptest::prelude::*;

const CONSUMERS: [&str; 3] = ["a", "b", "c"];

/// What a worker runs of each consumer: not at all, not for now, or it can.
type Runs = [Option<bool>; 3];

/// What it runs, its fixed partition, and whether it is of the last version.
type Drawn = (Runs, Option<(u16, u16)>, bool);

fn worker(number: usize, runs: Runs) -> Known {
    let named = CONSUMERS.into_iter().zip(runs);
    Known {
        id: format!("worker-{number}"),
        fixed: None,
        is_alive: true,
        is_leaving: false,
        runs: named.filter_map(|(name, able)| Some((name.to_owned(), able?))).collect(),
        follows_set: false,
    }
}

/// A program of the last version is able to do all that it runs, as far as anybody knows.
fn of_last_version(mut known: Known) -> Known {
    known.follows_set = true;
    known.runs.values_mut().for_each(|able| *able = true);
    known
}

fn any_worker() -> impl Strategy<Value = Drawn> {
    let runs = prop_oneof![2 => Just(None), 5 => Just(Some(true)), 1 => Just(Some(false))];
    let fixed = prop_oneof![4 => Just(None), 1 => (0..3_u16).prop_map(|index| Some((index, 3)))];
    ([runs.clone(), runs.clone(), runs], fixed, prop::bool::weighted(0.2))
}

fn known_of(workers: &[Drawn], first: usize) -> Vec<Known> {
    let one = |(number, (runs, fixed, is_old)): (usize, &Drawn)| {
        let fixed = fixed.map(|(index, total)| SlotSet::partition(index, total));
        let known = Known { fixed, ..worker(first + number, *runs) };
        if *is_old { of_last_version(known) } else { known }
    };
    workers.iter().enumerate().map(one).collect()
}

fn any_load() -> impl Strategy<Value = Load> {
    let weights = || {
        prop_oneof![
            Just(Weights::even()),
            (0..48_u16, 1..200_u32).prop_map(|(slot, rate)| {
                let mut rates = Rates::default();
                Slot::new(slot).into_iter().for_each(|slot| rates.set(slot, rate as f32));
                Weights::from_rates(&rates)
            })
        ]
    };
    (weights(), weights()).prop_map(|(set, one)| {
        let apart = BTreeMap::from([("b".to_owned(), one)]);
        Load { set, apart }
    })
}

/// As few as a simulation has.
fn slots() -> SlotSet {
    (0..48).filter_map(Slot::new).collect()
}

/// The slots of a consumer that somebody would take who can be told to.
fn within_reach(assignments: &Assignments, known: &[Known], consumer: &str) -> SlotSet {
    let runners = known.iter().filter(|known| known.runs.contains_key(consumer));
    let one = |known: &Known| match (&known.fixed, known.follows_set) {
        (_, true) => assignments.set.get(&known.id).cloned().unwrap_or_else(SlotSet::empty),
        (Some(fixed), false) => fixed.intersection(&slots()),
        (None, false) => slots(),
    };
    union(&runners.map(one).collect::<Vec<_>>())
}

fn check(assignments: &Assignments, known: &[Known]) {
    for consumer in CONSUMERS {
        let runs = |id: &str| {
            let known = known.iter().find(|known| known.id == id);
            known.and_then(|known| known.runs.get(consumer).copied())
        };
        // A worker that runs it looks here, and no other does.
        let assignment = assignments.of(consumer);
        let shares: Vec<_> = assignment.iter().filter(|(id, _)| runs(id).is_some()).collect();
        let sets: Vec<SlotSet> = shares.iter().map(|(_, slots)| (*slots).clone()).collect();
        let count: usize = sets.iter().map(SlotSet::len).sum();
        assert_eq!(union(&sets).len(), count, "a slot of {consumer} twice: {assignments:?}");
        let reached = within_reach(assignments, known, consumer);
        assert_eq!(union(&sets), reached, "slots of {consumer} in {assignments:?} of {known:?}");
        for old in known.iter().filter(|known| known.follows_set && runs(&known.id).is_some()) {
            assert_eq!(assignment[&old.id], assignments.set[&old.id], "{consumer} of {old:?}");
        }
        // Nobody who cannot has what somebody takes who can.
        let unable = shares.iter().filter(|(id, _)| runs(id) == Some(false));
        let able_runs = known.iter().filter(|known| known.runs.get(consumer) == Some(&true));
        let elastic = able_runs.filter(|known| known.fixed.is_none() && !known.follows_set);
        if elastic.count() > 0 {
            assert!(unable.into_iter().all(|(_, slots)| slots.is_empty()), "{assignments:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_slot_once_for_each_consumer_whoever_comes_and_goes(
        first in vec(any_worker(), 1..5),
        second in vec(any_worker(), 0..4),
        stays in vec(any::<bool>(), 5),
        (load, other) in (any_load(), any_load()),
    ) {
        let known = known_of(&first, 0);
        let next_of = |known: &[Known], current: &Assignments| next(&slots(), known, current, &load);
        let begun = next_of(&known, &Assignments::default()).unwrap().assignments;
        check(&begun, &known);
        prop_assert_eq!(next_of(&known, &begun), None, "a plan of its own result is that result");
        let weighed = next(&slots(), &known, &begun, &other);
        prop_assert_eq!(weighed, None, "a load alone is no reason for a generation");

        let mut later: Vec<Known> = known.into_iter().zip(stays).filter(|(_, stays)| *stays)
            .map(|(known, _)| known).collect();
        later.extend(known_of(&second, 10));
        let gone_on = next_of(&later, &begun).map_or_else(|| begun.clone(), |next| next.assignments);
        check(&gone_on, &later);
        prop_assert_eq!(next_of(&later, &gone_on), None);
        // What the same workers run as before has not moved.
        for (consumer, assignment) in &begun.apart {
            let same = gone_on.apart.get(consumer).filter(|now| now.keys().eq(assignment.keys()));
            let is_new = |known: &&Known| !known.follows_set && known.runs.contains_key(consumer);
            let all_new = later.iter().filter(|known| known.runs.contains_key(consumer));
            let all_new = all_new.clone().count() == later.iter().filter(is_new).count();
            if let Some(now) = same.filter(|_| all_new) {
                prop_assert_eq!(now, assignment, "{}", consumer);
            }
        }
    }

    #[test]
    fn moving_for_the_load_keeps_all_that_and_comes_to_rest(
        workers in vec(any_worker(), 2..5),
        load in any_load(),
    ) {
        let known = known_of(&workers, 0);
        let begun = next(&slots(), &known, &Assignments::default(), &Load::even()).unwrap();
        let Some((levelled, moved)) = level(&slots(), &known, &begun.assignments, &load, |_| true)
        else {
            return Ok(());
        };
        prop_assert!(!moved.is_empty());
        check(&levelled, &known);
        prop_assert_eq!(next(&slots(), &known, &levelled, &load), None);
        prop_assert_eq!(level(&slots(), &known, &levelled, &load, |_| true), None);
        let none = level(&slots(), &known, &begun.assignments, &load, |_| false);
        prop_assert_eq!(none, None, "nothing moves that may not");
    }

    /// One that cannot any more and can again: the others take exactly its slots, and it gets as many back.
    #[test]
    fn an_inability_moves_its_slots_only(count in 2..6_usize, which in 0..6_usize) {
        let load = Load::even();
        let mut known: Vec<Known> =
            (0..count).map(|number| worker(number, [Some(true), Some(true), None])).collect();
        let next_of = |known: &[Known], current: &Assignments| next(&slots(), known, current, &load);
        let before = next_of(&known, &Assignments::default()).unwrap().assignments;
        prop_assert!(before.apart.is_empty(), "all run all");
        let unable = which % count;
        known[unable].runs.insert("b".to_owned(), false);
        let Next { assignments: during, joined, left, died } = next_of(&known, &before).unwrap();
        prop_assert!(joined.is_empty() && left.is_empty() && died.is_empty());
        prop_assert_eq!(&during.set, &before.set, "other consumers stay");
        let of_b = during.of("b");
        prop_assert!(!of_b.contains_key(&known[unable].id));
        for other in members(&known).iter().filter(|other| other.id != known[unable].id) {
            prop_assert!(before.set[&other.id].is_subset(&of_b[&other.id]), "nothing else moves");
        }
        known[unable].runs.insert("b".to_owned(), true);
        prop_assert_eq!(next_of(&known, &during).unwrap().assignments, before);
    }
}

/// What only members of the last version run is theirs alone, or half of it would stand still.
#[test]
fn what_only_the_last_version_runs_is_complete() {
    let old = |number| of_last_version(worker(number, [Some(true), None, None]));
    let new = worker(3, [None, Some(true), None]);
    let load = Load::even();
    let mut known = vec![old(1), old(2), new];
    let planned = next(&slots(), &known, &Assignments::default(), &load).unwrap().assignments;
    check(&planned, &known);
    assert_eq!(planned.set["worker-3"].len(), 0);
    assert_eq!(planned.of("a")["worker-1"].len(), 24);
    assert_eq!(planned.of("b")["worker-3"].len(), 48);
    // One of them plans for all alike; that is put right.
    let plain: Vec<Member> = known.iter().map(Member::from).collect();
    let set = plan(&slots(), &plain, &planned.set, &Weights::even());
    assert_eq!(set["worker-3"].len(), 16);
    let by_old = Assignments { set, apart: BTreeMap::new() };
    let completed = next(&slots(), &known, &by_old, &load).unwrap().assignments;
    check(&completed, &known);
    assert_eq!(completed.set["worker-3"].len(), 0);
    // When a new one runs it, too, they share it.
    known.push(worker(4, [Some(true), None, None]));
    let shared = next(&slots(), &known, &completed, &load).unwrap().assignments;
    check(&shared, &known);
    assert!(shared.of("a")["worker-4"].len() >= 12, "{shared:?}");
}

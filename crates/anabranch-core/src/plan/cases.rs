//! Plans in the cases that people ask about: lanes, hot slots, standby, fixed beside elastic.

use super::tests::{Loads, checked, elastic_members, fixed_member, rates};
use super::*;

/// With weights that do not change, a join takes a fair load from the others and not much more.
#[test]
fn a_join_moves_a_fair_load() {
    let weights = Weights::from_rates(&rates(9, |x| 20.0 * x));
    let all = SlotSet::all();
    let mut current = Assignment::new();
    for count in 1..=40 {
        let members = elastic_members(count);
        let next = plan(&all, &members, &current, &weights);
        let ids: Vec<_> = elastic(&members).collect();
        let loads = Loads::of(&all, &ids, &current, &next, &weights);
        let fair = loads.total / count as u64;
        if count > 1 {
            assert!(loads.moved <= fair + fair / 10, "{count}: {} for {fair}", loads.moved);
        }
        current = next;
    }
}

#[test]
fn each_lane_loses_its_part() {
    let (all, even) = (SlotSet::all(), Weights::even());
    for lanes in 2..=8 {
        let mut current = plan(&all, &elastic_members(1), &Assignment::new(), &even);
        // Half goes to the second, a third of what is left to the third, and so on.
        for count in 2..=6 {
            current = plan(&all, &elastic_members(count), &current, &even);
            let left: Vec<_> = (all.deal(lanes).iter())
                .map(|lane| lane.intersection(&current["worker-0"]).len())
                .collect();
            let (most, least) = (left.iter().max().unwrap(), left.iter().min().unwrap());
            let mean = left.iter().sum::<usize>() / lanes;
            // Chance has more to say about fewer slots.
            let percent = if count == 2 { 15 } else { 40 };
            assert!(most - least <= mean * percent / 100, "{count} workers: {left:?}");
        }
    }
}

#[test]
fn a_hot_slot_stays_where_it_is_and_the_others_take_the_rest() {
    let all = SlotSet::all();
    let hot = Slot::new(4_711).unwrap();
    let mut rates = rates(3, |_| 1.0);
    rates.set(hot, 5_040.0);
    let weights = Weights::from_rates(&rates);
    let mut current = checked(&all, &elastic_members(1), &Assignment::new(), &weights);
    for count in 2..=12 {
        let members = elastic_members(count);
        current = checked(&all, &members, &current, &weights);
        let owner = &current["worker-0"];
        assert!(owner.contains(hot), "{count} workers");
        if count > 2 {
            assert_eq!(owner.len(), 1, "{count} workers");
        }
        let others = current.iter().filter(|(id, _)| *id != "worker-0");
        let sizes: Vec<_> = others.map(|(_, slots)| slots.len()).collect();
        let (most, least) = (sizes.iter().max().unwrap(), sizes.iter().min().unwrap());
        assert!(most - least <= most / 19, "{sizes:?}");
    }
}

#[test]
fn load_is_moved_only_if_that_is_worth_it() {
    let (all, members) = (SlotSet::all(), elastic_members(4));
    let current = plan(&all, &members, &Assignment::new(), &Weights::even());
    let busy = |factor: f32| {
        let mut rates = rates(1, |_| 1.0);
        for slot in current["worker-2"].iter() {
            rates.set(slot, factor);
        }
        Weights::from_rates(&rates)
    };
    for (factor, is_worth_it) in
        [(0.0, true), (0.5, false), (1.0, false), (1.3, false), (1.6, true)]
    {
        let is = is_lopsided(&all, &members, &current, &busy(factor));
        assert_eq!(is, is_worth_it, "slots of one worker {factor} times as busy");
    }
    // One slot is as busy as all the others: they can go elsewhere, and then nothing is left to win.
    let mut rates = rates(1, |_| 1.0);
    rates.set(Slot::ZERO, 5_040.0);
    let weights = Weights::from_rates(&rates);
    assert!(is_lopsided(&all, &members, &current, &weights));
    let alone = checked(&all, &members, &current, &weights);
    assert!(alone.values().any(|slots| *slots == SlotSet::from_slot(Slot::ZERO)));
    assert!(!is_lopsided(&all, &members, &alone, &weights));
}

#[test]
fn a_second_process_with_the_same_partition_stands_by() {
    let (all, even) = (SlotSet::all(), Weights::even());
    let [a, b, c] = [("a", 0), ("b", 0), ("c", 1)].map(|(id, index)| fixed_member(id, index, 3));
    let members = [a, b.clone(), c.clone()];
    let first = checked(&all, &members, &Assignment::new(), &even);
    assert_eq!(first["a"], SlotSet::partition(0, 3));
    assert!(first["b"].is_empty());
    assert_eq!(first["c"], SlotSet::partition(1, 3));
    let heir = checked(&all, &[b.clone(), c.clone()], &first, &even);
    assert_eq!(heir["b"], SlotSet::partition(0, 3));
    // An older one that comes back does not take from who has it.
    let back = checked(&all, &[fixed_member("a", 0, 3), b, c], &heir, &even);
    assert!(back["a"].is_empty());
    assert_eq!(back["b"], SlotSet::partition(0, 3));
}

#[test]
fn elastic_members_share_what_no_partition_asks_for() {
    let (all, even) = (SlotSet::all(), Weights::even());
    let mut members = elastic_members(2);
    let before = checked(&all, &members, &Assignment::new(), &even);
    members.push(fixed_member("fixed", 1, 4));
    let mixed = checked(&all, &members, &before, &even);
    assert_eq!(mixed["fixed"].len(), 1_260);
    assert_eq!((mixed["worker-0"].len(), mixed["worker-1"].len()), (1_890, 1_890));
    let alone = checked(&all, &members[2..], &mixed, &even);
    assert_eq!(alone["fixed"], SlotSet::partition(1, 4));
}

#[test]
fn nobody_and_nothing_can_be_planned() {
    let even = Weights::even();
    assert!(plan(&SlotSet::all(), &[], &Assignment::new(), &even).is_empty());
    assert!(!is_lopsided(&SlotSet::all(), &[], &Assignment::new(), &even));
    let none = checked(&SlotSet::empty(), &elastic_members(2), &Assignment::new(), &even);
    assert!(none.values().all(SlotSet::is_empty));
    assert!(deal(&[], &SlotSet::all(), &even).is_empty());
}

//! Whatever the numbers and the positions: every slot once, and where it stood.

use super::*;
use crate::{Slot, SlotSet};
use proptest::prelude::*;

/// Partitions of `total`, the one with index i at position 100 + 10 * i.
fn stood(total: u16) -> Vec<Cursor> {
    let position = |index: u16| Position::new(100 + 10 * u64::from(index));
    (0..total).map(|i| Cursor::free(SlotSet::partition(i, total), position(i))).collect()
}

fn at(position: u64) -> Option<Position> {
    Some(Position::new(position))
}

#[test]
fn three_become_five_and_each_gets_a_fifth_of_every_old_one() {
    let moves = moves(&stood(3), 3, 5);
    assert_eq!(moves.len(), 15);
    for one in &moves {
        let old = at(100 + 10 * u64::from(one.from));
        assert_eq!(one.extent, Extent { slots: 336, lowest: old, highest: old }, "{one:?}");
    }
    let staying: usize = moves.iter().filter(|one| one.stays()).map(|one| one.extent.slots).sum();
    assert_eq!(staying, 3 * 336);
    let after = extents(&stood(3), 5);
    assert_eq!(after, [Extent { slots: 1008, lowest: at(100), highest: at(120) }; 5]);
}

#[test]
fn two_become_four_without_mixing() {
    let moves = moves(&stood(2), 2, 4);
    let plain: Vec<_> = moves.iter().map(|one| (one.from, one.to, one.extent.lowest)).collect();
    assert_eq!(plain, [(0, 0, at(100)), (1, 1, at(110)), (0, 2, at(100)), (1, 3, at(110))]);
}

#[test]
fn as_many_as_before_moves_nothing() {
    for total in [1, 4, 11, 5040] {
        let moves = moves(&stood(total), total, total);
        assert_eq!(moves.len(), usize::from(total));
        assert!(moves.iter().all(Move::stays));
    }
}

#[test]
fn a_consumer_with_one_slot_has_one_partition_with_something_to_do() {
    let global = [Cursor::free(SlotSet::from_slot(Slot::ZERO), Position::new(7))];
    let extents = extents(&global, 3);
    assert_eq!(extents[0], Extent { slots: 1, lowest: at(7), highest: at(7) });
    assert_eq!(extents[1..], [Extent::default(); 2]);
    assert_eq!(moves(&global, 3, 2).len(), 1);
}

#[test]
fn only_totals_that_divide_5040_are_exact() {
    let exact: Vec<u16> = (1..=20).filter(|total| is_exact(*total)).collect();
    assert_eq!(exact, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20]);
}

fn total() -> impl Strategy<Value = u16> {
    prop_oneof![1..=16u16, Just(11), Just(13), Just(97), Just(SLOTS)]
}

/// Cursors that hold every slot once, at positions of their own.
fn cursors() -> impl Strategy<Value = Vec<Cursor>> {
    (1..=13u16, prop::collection::vec(0..1_000u64, 13)).prop_map(|(total, positions)| {
        let cursor = |i| {
            Cursor::free(SlotSet::partition(i, total), Position::new(positions[usize::from(i)]))
        };
        (0..total).map(cursor).collect()
    })
}

proptest! {
    /// Against the definition, by sets: the slots of both partitions, at each cursor.
    #[test]
    fn every_slot_moves_once_with_its_position(cursors in cursors(), from in total(), to in total()) {
        let moves = moves(&cursors, from, to);
        prop_assert_eq!(moves.iter().map(|one| one.extent.slots).sum::<usize>(), usize::from(SLOTS));
        for one in moves.iter().take(200) {
            let both = SlotSet::partition(one.from, from)
                .intersection(&SlotSet::partition(one.to, to));
            let held = cursors.iter().filter(|cursor| !cursor.slots.is_disjoint(&both));
            let positions: Vec<Position> = held.map(|cursor| cursor.position).collect();
            let (lowest, highest) = (positions.iter().min(), positions.iter().max());
            let expected = Extent {
                slots: both.len(), lowest: lowest.copied(), highest: highest.copied(),
            };
            prop_assert_eq!(one.extent, expected);
        }
    }

    #[test]
    fn the_minimum_is_the_same_before_and_after(cursors in cursors(), from in total(), to in total()) {
        let lowest = |total| extents(&cursors, total).iter().filter_map(|e| e.lowest).min();
        prop_assert_eq!(lowest(from), lowest(to));
        prop_assert_eq!(lowest(to), cursors.iter().map(|cursor| cursor.position).min());
        let slots: usize = extents(&cursors, to).iter().map(|extent| extent.slots).sum();
        prop_assert_eq!(slots, usize::from(SLOTS));
    }
}

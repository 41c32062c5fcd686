//! Set algebra against the standard library's sets, and how sets read.

use super::*;
use proptest::collection::btree_set;
use proptest::prelude::*;
use std::collections::BTreeSet;

type Numbers = BTreeSet<u16>;

fn set(numbers: impl IntoIterator<Item = u16>) -> SlotSet {
    numbers.into_iter().filter_map(Slot::new).collect()
}

fn numbers(set: &SlotSet) -> Numbers {
    set.iter().map(Slot::get).collect()
}

fn any_numbers() -> impl Strategy<Value = Numbers> {
    prop_oneof![
        btree_set(0..SLOTS, 0..60),
        btree_set(0..70_u16, 0..60),
        (1..40_u16).prop_flat_map(|total| (0..total)
            .prop_map(move |index| { (index..SLOTS).step_by(usize::from(total)).collect() })),
    ]
}

#[test]
fn all_and_empty_are_what_they_say() {
    assert_eq!(SlotSet::all().len(), usize::from(SLOTS));
    assert!(SlotSet::empty().is_empty() && !SlotSet::all().is_empty());
    assert_eq!(SlotSet::empty().iter().count(), 0);
    assert!(SlotSet::partition(3, 3).is_empty(), "no slot has remainder 3 of 3");
}

#[test]
fn bytes_are_in_the_order_of_get_bit() {
    let bytes = set([0, 9, 5039]).to_bytes();
    assert_eq!(bytes.len(), BYTES);
    assert_eq!((bytes[0], bytes[1], bytes[629]), (0b1, 0b10, 0b1000_0000));
    assert_eq!(SlotSet::from_bytes(&[255; BYTES]), Some(SlotSet::all()));
    assert_eq!(SlotSet::from_bytes(&[0; BYTES - 1]), None);
    assert_eq!(SlotSet::from_bytes(&[0; BYTES + 1]), None);
}

#[test]
fn sets_read_well() {
    let shown = |numbers: &[u16]| set(numbers.iter().copied()).to_string();
    assert_eq!(SlotSet::all().to_string(), "all");
    assert_eq!(SlotSet::empty().to_string(), "none");
    assert_eq!(SlotSet::partition(1, 3).to_string(), "partition 1 of 3");
    assert_eq!(SlotSet::partition(12, 13).to_string(), "partition 12 of 13");
    assert_eq!(format!("{:?}", SlotSet::partition(0, 2)), "partition 0 of 2");
    assert_eq!(shown(&[0]), "0");
    assert_eq!(shown(&[0, 1, 2, 3, 4, 9]), "0-4, 9");
    assert_eq!(shown(&[0, 2, 4, 6, 8, 11]), "0, 2, 4, 6, 8, 11");
    assert_eq!(shown(&[0, 2, 4, 6, 8, 10, 13]), "0, 2, 4, 6, 8, 10… (7 slots)");
    let nearly = SlotSet::partition(1, 3).difference(&set([5038]));
    assert_eq!(nearly.to_string(), "1, 4, 7, 10, 13, 16… (1679 slots)");
    assert_eq!(SlotSet::all().difference(&set([7])).to_string(), "0-6, 8-5039");
    assert_eq!(
        SlotSet::partition(0, 2).union(&set([1])).to_string(),
        "0-2, 4, 6, 8, 10, 12… (2521 slots)"
    );
}

proptest! {
    #[test]
    fn sets_behave_as_sets(a in any_numbers(), b in any_numbers(), slot in 0..SLOTS) {
        let (x, y) = (set(a.clone()), set(b.clone()));
        prop_assert_eq!(numbers(&x), a.clone());
        prop_assert!(x.iter().is_sorted());
        prop_assert_eq!(x.len(), a.len());
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert_eq!(x.contains(Slot::new(slot).unwrap()), a.contains(&slot));
        prop_assert_eq!(x.clone().insert(Slot::new(slot).unwrap()), !a.contains(&slot));
        prop_assert_eq!(numbers(&x.union(&y)), &a | &b);
        prop_assert_eq!(numbers(&x.intersection(&y)), &a & &b);
        prop_assert_eq!(numbers(&x.difference(&y)), &a - &b);
        prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert!(x.intersection(&y).is_subset(&x));
        prop_assert_eq!(x == y, a == b);
    }

    #[test]
    fn bytes_come_back_as_the_set(a in any_numbers()) {
        let a = set(a);
        let bytes = a.to_bytes();
        for slot in (0..SLOTS).filter_map(Slot::new) {
            let byte = bytes[usize::from(slot.get() / 8)];
            prop_assert_eq!(byte >> (slot.get() % 8) & 1 == 1, a.contains(slot));
        }
        prop_assert_eq!(SlotSet::from_bytes(&bytes), Some(a));
    }

    #[test]
    fn a_deal_is_even_and_leaves_nothing_out(a in any_numbers(), lanes in 0..20_usize) {
        let dealt = set(a.clone()).deal(lanes);
        prop_assert_eq!(dealt.len(), lanes);
        if lanes > 0 {
            let sizes = dealt.iter().map(SlotSet::len);
            prop_assert_eq!(sizes.clone().sum::<usize>(), a.len(), "no slot is dealt twice");
            prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            let sum = dealt.iter().fold(SlotSet::empty(), |sum, lane| sum.union(lane));
            prop_assert_eq!(numbers(&sum), a);
        }
    }

    #[test]
    fn partitions_cover_every_slot_once(total in 1..=SLOTS) {
        let sizes: Vec<_> = (0..total.min(40)).map(|i| SlotSet::partition(i, total).len()).collect();
        let even = usize::from(SLOTS / total);
        prop_assert!(sizes.iter().all(|size| (even..=even + 1).contains(size)));
        for slot in [0, 1, 2519, 5039].into_iter().filter_map(Slot::new) {
            prop_assert!(SlotSet::partition(slot.get() % total, total).contains(slot));
        }
    }
}

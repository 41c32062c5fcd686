//! Plans by property: every slot once, balanced, with few moves, and at rest once carried out.

use super::*;
use crate::{Rates, SLOTS};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn elastic_member(number: usize) -> Member {
    Member { id: format!("worker-{number}"), fixed: None }
}

pub(super) fn elastic_members(count: usize) -> Vec<Member> {
    (0..count).map(elastic_member).collect()
}

pub(super) fn fixed_member(id: &str, index: u16, total: u16) -> Member {
    Member { id: id.to_owned(), fixed: Some(SlotSet::partition(index, total)) }
}

fn slots(numbers: std::ops::Range<u16>) -> SlotSet {
    numbers.filter_map(Slot::new).collect()
}

/// Rates without pattern, the same for the same seed: each slot's is made of a number from 0 to 1.
pub(super) fn rates(seed: u64, rate: impl Fn(f32) -> f32) -> Rates {
    let mut rates = Rates::default();
    let mut state = seed | 1;
    for slot in SlotSet::all().iter() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        rates.set(slot, rate((state >> 40) as f32 / (1 << 24) as f32));
    }
    rates
}

/// Even, nearly even, busy and idle, a few hot ones, one very hot.
fn any_weights() -> impl proptest::strategy::Strategy<Value = Weights> {
    let shapes: [fn(f32) -> f32; 4] = [
        |x| 10.0 + x,
        |x| 20.0 * x,
        |x| 1.0 / (0.001 + x),
        |x| if x > 0.999 { 2_000.0 } else { x },
    ];
    let one_hot = (0..SLOTS, 0.1..100_f32).prop_map(|(slot, share)| {
        let mut rates = rates(1, |x| x);
        rates.set(Slot::new(slot).unwrap(), share * 2_520.0);
        Weights::from_rates(&rates)
    });
    prop_oneof![
        Just(Weights::even()),
        (any::<u64>(), 0..4_usize)
            .prop_map(move |(seed, at)| Weights::from_rates(&rates(seed, shapes[at]))),
        one_hot,
    ]
}

/// All slots, or as few as a simulation has.
fn any_slots() -> impl proptest::strategy::Strategy<Value = SlotSet> {
    prop_oneof![Just(SlotSet::all()), (0..48_u16).prop_map(|count| slots(0..count))]
}

/// What a plan of elastic members starts from and comes to, in weights.
pub(super) struct Loads {
    kept: Vec<u64>,
    planned: Vec<u64>,
    pub(super) moved: u64,
    pub(super) total: u64,
    heaviest_slot: u64,
}

impl Loads {
    pub(super) fn of(
        slots: &SlotSet,
        ids: &[&str],
        current: &Assignment,
        planned: &Assignment,
        weights: &Weights,
    ) -> Self {
        let empty = SlotSet::empty();
        let kept = |id: &str| current.get(id).unwrap_or(&empty).intersection(slots);
        Self {
            kept: ids.iter().map(|id| weights.sum(&kept(id))).collect(),
            planned: ids.iter().map(|id| weights.sum(&planned[*id])).collect(),
            moved: ids.iter().map(|id| weights.sum(&kept(id).difference(&planned[*id]))).sum(),
            total: weights.sum(slots),
            heaviest_slot: slots.iter().map(|slot| weights.get(slot).into()).max().unwrap_or(0),
        }
    }

    /// The least number of slots that leave their members if all weigh 1: those with the most slots
    /// are the ones that end with one more.
    fn fewest_moves(&self) -> u64 {
        let count = self.kept.len() as u64;
        let mut kept = self.kept.clone();
        kept.sort_unstable_by_key(|kept| Reverse(*kept));
        let one_more = self.total % count;
        let ends = (0..count).map(|at| self.total / count + u64::from(at < one_more));
        kept.into_iter().zip(ends).map(|(kept, end)| kept.saturating_sub(end)).sum()
    }
}

/// Plans, and checks what holds of every plan.
pub(super) fn checked(
    slots: &SlotSet,
    members: &[Member],
    current: &Assignment,
    weights: &Weights,
) -> Assignment {
    let planned = plan(slots, members, current, weights);
    assert!(members.iter().all(|member| planned.contains_key(&member.id)));
    assert_eq!(planned.len(), members.len());
    let asked = union(fixed(members).map(|(_, asked)| asked)).intersection(slots);
    let is_shared = elastic(members).next().is_some();
    let owned = if is_shared { slots } else { &asked };
    assert_eq!(&union(planned.values()), owned, "every slot that someone may have");
    let sum: usize = planned.values().map(SlotSet::len).sum();
    assert_eq!(sum, owned.len(), "no slot twice");
    for (id, asked) in fixed(members) {
        assert!(planned[id].is_subset(asked), "{id} has what it did not ask for");
    }
    assert_eq!(plan(slots, members, &planned, weights), planned, "a plan carried out is at rest");
    assert!(!is_lopsided(slots, members, &planned, weights), "a plan leaves nothing to do");
    let ids: Vec<_> = elastic(members).collect();
    if is_shared {
        check_balance(&slots.difference(&asked), &ids, current, &planned, weights);
    }
    planned
}

fn check_balance(
    slots: &SlotSet,
    ids: &[&str],
    current: &Assignment,
    planned: &Assignment,
    weights: &Weights,
) {
    let loads = Loads::of(slots, ids, current, planned, weights);
    let most = *loads.planned.iter().max().unwrap();
    let least = *loads.planned.iter().min().unwrap();
    let count = ids.len() as u64;
    if weights.is_even() {
        assert!(most - least <= 1, "from {least} to {most} slots");
        assert_eq!(loads.moved, loads.fewest_moves(), "slots moved");
        return;
    }
    let tolerance = fair_load(slots, ids.len(), weights) / 20;
    for (id, load) in ids.iter().zip(&loads.planned) {
        let lightest = planned[*id].iter().map(|slot| u64::from(weights.get(slot))).min();
        let gap = load - least;
        assert!(
            gap <= tolerance || lightest.is_some_and(|lightest| 4 * lightest > 3 * gap),
            "{id} has {load}, another one {least}"
        );
    }
    let mean = loads.total / count;
    let above_mean: u64 = loads.kept.iter().map(|kept| kept.saturating_sub(mean)).sum();
    assert!(
        loads.moved <= above_mean + count * loads.heaviest_slot,
        "moved {}, above the mean {above_mean}, heaviest slot {}",
        loads.moved,
        loads.heaviest_slot
    );
    if loads.kept.iter().sum::<u64>() == loads.total {
        assert!(most <= *loads.kept.iter().max().unwrap(), "the heaviest got heavier");
        assert!(least >= *loads.kept.iter().min().unwrap(), "the lightest got lighter");
    }
}

/// One to 200 workers and back, whoever goes.
fn grow_and_shrink(weights: &Weights) {
    let all = SlotSet::all();
    let mut members = Vec::new();
    let mut current = Assignment::new();
    for number in 0..200 {
        members.push(elastic_member(number));
        current = checked(&all, &members, &current, weights);
    }
    while members.len() > 1 {
        members.remove(members.len() * 5 / 7);
        current = checked(&all, &members, &current, weights);
    }
    assert_eq!(current[&members[0].id], all);
}

#[test]
fn up_to_200_workers_and_back_with_even_weights() {
    grow_and_shrink(&Weights::even());
}

#[test]
fn up_to_200_workers_and_back_with_busy_and_idle_slots() {
    grow_and_shrink(&Weights::from_rates(&rates(5, |x| 1.0 / (0.01 + x))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Members come and go, weights change, slots are those of a simulation or all.
    #[test]
    fn any_sequence_of_joins_and_leaves_stays_balanced(
        slots in any_slots(),
        all_weights in vec(any_weights(), 1..3),
        steps in vec((any::<bool>(), 1..60_usize, any::<Index>()), 1..12),
    ) {
        let mut members = Vec::new();
        let mut current = Assignment::new();
        let mut started = 0;
        for ((is_join, count, at), weights) in steps.into_iter().zip(all_weights.iter().cycle()) {
            for _ in 0..count {
                if is_join && members.len() < 200 {
                    members.push(elastic_member(started));
                    started += 1;
                } else if !is_join && members.len() > 1 {
                    members.remove(at.index(members.len()));
                }
            }
            current = checked(&slots, &members, &current, weights);
        }
    }

    #[test]
    fn fixed_and_elastic_members_go_together(
        slots in any_slots(),
        weights in any_weights(),
        asks in vec(prop::option::of((0..6_u16, 1..6_u16)), 1..8),
        leaves in vec(any::<Index>(), 0..4),
    ) {
        let member = |(number, ask): (usize, Option<(u16, u16)>)| Member {
            fixed: ask.map(|(index, total)| SlotSet::partition(index % total, total)),
            ..elastic_member(number)
        };
        let mut members: Vec<_> = asks.into_iter().enumerate().map(member).collect();
        let mut current = checked(&slots, &members, &Assignment::new(), &weights);
        for at in leaves {
            if members.len() > 1 {
                members.remove(at.index(members.len()));
            }
            let next = checked(&slots, &members, &current, &weights);
            for (id, _) in fixed(&members) {
                prop_assert!(current[id].is_subset(&next[id]), "{id} has lost slots of its own");
            }
            current = next;
        }
    }

    /// Any way to come by the same input gives the same plan.
    #[test]
    fn plans_do_not_depend_on_how_the_input_was_made(
        weights in any_weights(),
        owners in vec(0..9_usize, SLOTS as usize),
        order in Just((0..SLOTS).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let members = elastic_members(7);
        let made = |order: &mut dyn Iterator<Item = u16>| {
            let mut current = Assignment::new();
            for slot in order.filter_map(Slot::new) {
                let owner = elastic_member(owners[usize::from(slot.get())]).id;
                current.entry(owner).or_insert_with(SlotSet::empty).insert(slot);
            }
            checked(&SlotSet::all(), &members, &current, &weights)
        };
        prop_assert_eq!(made(&mut order.into_iter()), made(&mut (0..SLOTS)));
    }

    #[test]
    fn lanes_keep_their_slots_and_the_lightest_gets_more(
        lanes in 1..9_usize,
        had in (0..SLOTS, 0..SLOTS).prop_map(|(a, b)| slots(a.min(b)..a.max(b))),
        new in (0..SLOTS, 0..SLOTS).prop_map(|(a, b)| slots(a.min(b)..a.max(b))),
        weights in any_weights(),
    ) {
        let before = had.deal(lanes);
        let after = deal(&before, &new, &weights);
        prop_assert_eq!(union(&after), had.union(&new));
        prop_assert_eq!(after.iter().map(SlotSet::len).sum::<usize>(), had.union(&new).len());
        let least = after.iter().map(|lane| weights.sum(lane)).min().unwrap();
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before.is_subset(after));
            // Without the last slot that it got, a lane was the lightest.
            let got = after.difference(before);
            if let Some(last) = got.iter().map(|slot| weights.get(slot)).min() {
                prop_assert!(weights.sum(after) - u64::from(last) <= least);
            }
        }
        let fresh = deal(&vec![SlotSet::empty(); lanes], &new, &Weights::even());
        prop_assert_eq!(fresh, new.deal(lanes), "even weights are dealt one after the other");
    }
}

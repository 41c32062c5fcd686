//! Claims and releases against a table of rows, and the laws that they keep.

use super::*;
use crate::Slot;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashSet;

/// The stored cursors of one consumer.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) rows: Vec<Cursor>,
    last_id: i64,
}

impl Table {
    pub(super) fn new(all: SlotSet) -> Self {
        let first = Cursor { id: 1, ..Cursor::free(all, Position::START) };
        Self { rows: vec![first], last_id: 1 }
    }

    /// What a backend does with a change.
    pub(super) fn apply(&mut self, change: Change) {
        for id in change.delete {
            let at = self.rows.iter().position(|row| row.id == id).expect("a stored row");
            self.rows.remove(at);
        }
        for mut cursor in change.write {
            if cursor.id == 0 {
                self.last_id += 1;
                cursor.id = self.last_id;
                self.rows.push(cursor);
            } else {
                let row = self.rows.iter_mut().find(|row| row.id == cursor.id);
                let row = row.expect("a stored row");
                assert!(cursor.epoch > row.epoch, "a replaced row is fenced");
                *row = cursor;
            }
        }
    }

    pub(super) fn claim(&mut self, me: &str, lanes: &[SlotSet]) -> Vec<Waiting> {
        let claim = claim(&self.rows, me, lanes, |_| true);
        self.apply(claim.change);
        claim.waiting
    }

    pub(super) fn of<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a Cursor> {
        self.rows.iter().filter(move |row| row.is_of(owner))
    }

    fn at(&self, slot: Slot) -> &Cursor {
        self.rows.iter().find(|row| row.slots.contains(slot)).expect("law 1")
    }
}

fn slots(numbers: std::ops::Range<u16>) -> SlotSet {
    numbers.filter_map(Slot::new).collect()
}

fn row(id: i64, numbers: std::ops::Range<u16>, position: u64, epoch: i64, owner: &str) -> Cursor {
    let owner = Some(owner.to_owned()).filter(|owner| !owner.is_empty());
    Cursor { id, epoch, owner, ..Cursor::free(slots(numbers), Position::new(position)) }
}

#[test]
fn the_living_keep_their_cursors_and_are_waited_for() {
    let rows = [row(1, 0..10, 5, 1, "b"), row(2, 10..20, 6, 1, "c"), row(3, 20..30, 7, 1, "b")];
    let claim = claim(&rows, "a", &[slots(5..15), slots(25..30)], |_| true);
    assert!(claim.change.is_empty());
    let b = Waiting { owner: "b".to_owned(), slots: slots(5..10).union(&slots(25..30)) };
    let c = Waiting { owner: "c".to_owned(), slots: slots(10..15) };
    assert_eq!(claim.waiting, [b, c]);
}

#[test]
fn the_dead_are_freed_even_where_nobody_wants_their_slots() {
    let rows = [row(1, 0..10, 5, 3, "dead"), row(2, 10..20, 5, 9, "a")];
    let claim = claim(&rows, "a", &[slots(10..20)], |owner| owner != "dead");
    assert_eq!(claim.change.write, [row(1, 0..10, 5, 4, "")]);
    assert!(claim.change.delete.is_empty() && claim.waiting.is_empty());
}

#[test]
fn a_lane_joins_what_it_takes_at_one_position() {
    let rows = [row(1, 0..10, 5, 3, ""), row(2, 10..20, 5, 7, "dead"), row(3, 20..30, 6, 1, "")];
    let claim = claim(&rows, "a", &[slots(0..30)], |_| false);
    assert_eq!(claim.change.write, [row(1, 0..20, 5, 8, "a"), row(3, 20..30, 6, 2, "a")]);
    assert_eq!(claim.change.delete, [2]);
}

#[test]
fn a_free_row_that_nobody_takes_from_is_not_written() {
    let rows = [row(1, 0..10, 5, 3, ""), row(2, 10..20, 5, 1, "dead")];
    let claim = claim(&rows, "a", &[slots(10..20)], |_| false);
    assert_eq!(claim.change.write, [row(2, 10..20, 5, 2, "a")]);
}

#[test]
fn released_cursors_join_the_free_one_at_their_position() {
    let rows = [
        row(1, 0..10, 5, 3, ""),
        row(2, 10..20, 5, 4, "a"),
        row(3, 20..30, 6, 1, "a"),
        row(4, 30..40, 6, 1, "b"),
    ];
    let change = release(&rows, "a");
    assert_eq!(change.write, [row(1, 0..20, 5, 5, ""), row(3, 20..30, 6, 2, "")]);
    assert_eq!(change.delete, [2]);
    assert!(release(&rows, "nobody").is_empty());
}

#[test]
fn a_broken_cover_is_named() {
    let rows = [row(1, 0..10, 5, 3, ""), row(2, 9..20, 5, 4, "a")];
    assert_eq!(
        covers(&rows, &slots(0..22)).unwrap_err().to_string(),
        "the cursors do not hold every slot once: twice 9; missing 20-21"
    );
    let error = covers(&rows[..1], &slots(0..8)).unwrap_err();
    assert_eq!(error.foreign, slots(8..10));
    assert_eq!(covers(&rows[..1], &slots(0..10)), Ok(()));
}

#[test]
fn rescaling_moves_slots_with_their_positions() {
    let mut table = Table::new(SlotSet::all());
    let mut expected = vec![Position::START; usize::from(crate::SLOTS)];
    for (round, total) in [3_u16, 5, 2, 7, 1].into_iter().enumerate() {
        let workers: Vec<_> = (0..total).map(|index| format!("{index}-of-{total}")).collect();
        for (index, worker) in (0..).zip(&workers) {
            let waiting = table.claim(worker, &[SlotSet::partition(index, total)]);
            assert!(waiting.is_empty(), "the workers of the round before have released");
        }
        covers(&table.rows, &SlotSet::all()).unwrap();
        for slot in SlotSet::all().iter() {
            let cursor = table.at(slot);
            assert_eq!(cursor.position, expected[usize::from(slot.get())], "slot {slot}");
            let owner = &workers[usize::from(slot.get() % total)];
            assert_eq!(cursor.owner.as_ref(), Some(owner));
        }
        // Each partition goes on by a different number of events, whatever it begins with.
        for row in &mut table.rows {
            let index = row.slots.iter().next().expect("no row is empty").get() % total;
            let steps = 10_u64.pow(round as u32) * (1 + u64::from(index));
            row.position = Position::new(row.position.get() + steps);
            for slot in row.slots.iter() {
                expected[usize::from(slot.get())] = row.position;
            }
        }
        for worker in &workers {
            let change = release(&table.rows, worker);
            table.apply(change);
        }
    }
    let positions: HashSet<_> = expected.iter().collect();
    assert_eq!(
        positions.len(),
        3 * 5 * 2 * 7,
        "every path through the rounds has its own position"
    );
}

#[derive(Clone, Debug)]
enum Step {
    Claim { worker: usize, index: u16, total: u16, lanes: usize },
    Release { worker: usize },
    Progress { row: usize, by: u64 },
    Die { worker: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let claim =
        (0..4_usize, 0..12_u16, 1..12_u16, 1..4_usize).prop_map(|(worker, index, total, lanes)| {
            Step::Claim { worker, index: index % total, total, lanes }
        });
    prop_oneof![
        4 => claim,
        1 => (0..4_usize).prop_map(|worker| Step::Release { worker }),
        4 => (any::<usize>(), 1..4_u64).prop_map(|(row, by)| Step::Progress { row, by }),
        1 => (0..4_usize).prop_map(|worker| Step::Die { worker }),
    ]
}

const WORKERS: [&str; 4] = ["a", "b", "c", "d"];

/// What holds after any claim or release, whoever makes it.
fn check_laws(before: &Table, after: &Table, all: &SlotSet, who_may_change: impl Fn(&str) -> bool) {
    assert_eq!(covers(&after.rows, all), Ok(()));
    for slot in all.iter() {
        let (old, new) = (before.at(slot), after.at(slot));
        assert_eq!(old.position, new.position, "slot {slot} moved in the log");
        assert!(new.epoch >= old.epoch);
        assert!(new.epoch > old.epoch || new.owner == old.owner, "slot {slot} is not fenced");
    }
    for row in &before.rows {
        if row.owner.as_deref().is_some_and(|owner| !who_may_change(owner)) {
            assert!(after.rows.contains(row), "{row:?} was touched");
        }
    }
    let free: Vec<_> = after.rows.iter().filter(|row| row.owner.is_none()).collect();
    let positions: HashSet<_> = free.iter().map(|row| row.position).collect();
    assert_eq!(positions.len(), free.len(), "free rows at one position are one");
}

/// What a claim promises to the one who makes it.
fn check_claim(before: &Table, after: &Table, me: &str, lanes: &[SlotSet], waiting: &[Waiting]) {
    let mine = union(after.of(me).map(|row| &row.slots));
    let waited_for = union(waiting.iter().map(|waiting| &waiting.slots));
    assert!(union(lanes).is_subset(&mine.union(&waited_for)));
    assert!(mine.is_disjoint(&waited_for));
    if before.of(me).next().is_none() {
        for row in after.of(me) {
            assert!(lanes.iter().any(|lane| row.slots.is_subset(lane)), "{row:?}");
        }
    }
}

proptest! {
    #[test]
    fn the_laws_hold_whatever_workers_do(steps in vec(step(), 1..40)) {
        let all = slots(0..61);
        let mut table = Table::new(all.clone());
        let mut alive = [true; WORKERS.len()];
        for step in steps {
            let before = table.clone();
            let is_alive = |name: &str| WORKERS.iter().zip(alive).any(|(w, up)| up && *w == name);
            match step {
                Step::Claim { worker, index, total, lanes } => {
                    let me = WORKERS[worker];
                    let lanes = SlotSet::partition(index, total).intersection(&all).deal(lanes);
                    let claimed = claim(&table.rows, me, &lanes, is_alive);
                    table.apply(claimed.change);
                    check_laws(&before, &table, &all, |owner| owner != me && !is_alive(owner));
                    check_claim(&before, &table, me, &lanes, &claimed.waiting);
                    let again = claim(&table.rows, me, &lanes, is_alive);
                    prop_assert!(again.change.is_empty(), "a claim leaves nothing to claim");
                    alive[worker] = true;
                }
                Step::Release { worker } => {
                    let me = WORKERS[worker];
                    let change = release(&table.rows, me);
                    table.apply(change);
                    check_laws(&before, &table, &all, |owner| owner == me);
                    prop_assert!(table.of(me).next().is_none());
                }
                Step::Progress { row, by } => {
                    let row = row % table.rows.len();
                    let row = &mut table.rows[row];
                    if row.owner.as_deref().is_some_and(is_alive) {
                        row.position = Position::new(row.position.get() + by);
                    }
                }
                Step::Die { worker } => alive[worker] = false,
            }
        }
    }
}

//! How records are broken: many random ones, each in the same way.

use super::model::{Op, Row, SLOTS, World, ops};
use crate::Position;
use crate::audit::{EventPlace, RecordKind, Seen, Violation};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;

const CASES: u32 = 150;
/// All cursors have begun up to here; one has before.
pub(super) const BEGUN: Position = Position::new(4);

/// Chooses among what there is.
pub(super) struct Choice(Vec<Index>);

impl Choice {
    pub(super) fn among<T>(&mut self, mut candidates: Vec<T>) -> Option<T> {
        let index = self.0.pop()?;
        (!candidates.is_empty()).then(|| candidates.swap_remove(index.index(candidates.len())))
    }
}

pub(super) type IsFound = Box<dyn Fn(&Violation) -> bool>;

/// Breaks many records in one way. All kinds of things happen in them, but with custom keys no jumps: then nobody knows
/// what was left out.
pub(super) fn broken(by_slot: bool, breaks: impl Fn(&mut World, &mut Choice) -> Option<IsFound>) {
    broken_among(by_slot, |op| by_slot || !matches!(op, Op::Jump), breaks);
}

/// The same with some of what can happen.
pub(super) fn broken_among(
    by_slot: bool,
    among: impl Fn(&Op) -> bool,
    breaks: impl Fn(&mut World, &mut Choice) -> Option<IsFound>,
) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let times = Cell::new(0);
    let grown = (ops(), ops(), ops()).prop_map(|(a, b, c)| [a, b, c].concat());
    let input = (grown, 1..40_usize, proptest::collection::vec(any::<Index>(), 4));
    let mut runner = TestRunner::new(config);
    let result = runner.run(&input, |(mut ops, window, choice): (Vec<Op>, usize, Vec<Index>)| {
        ops.retain(&among);
        let mut world = World::after(SLOTS, by_slot, &ops);
        let Some(is_it) = breaks(&mut world, &mut Choice(choice)) else { return Ok(()) };
        times.set(times.get() + 1);
        match world.prove(window) {
            Err(violation) if is_it(&violation) => {
                // Whatever it is, it can be said.
                prop_assert!(!violation.to_string().contains("  "), "{violation}");
                Ok(())
            }
            other => Err(TestCaseError::fail(format!("{other:?}\n{:#?}", world.rows))),
        }
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(times.get() > CASES / 5, "only {} records could be broken so", times.get());
}

pub(super) fn in_one_direction(op: &Op) -> bool {
    !matches!(op, Op::Jump | Op::Replay { .. })
}

pub(super) fn is_found(is_it: impl Fn(&Violation) -> bool + 'static) -> Option<IsFound> {
    Some(Box::new(is_it))
}

pub(super) fn place(world: &World, event: &Seen) -> EventPlace {
    world.seen(event).place()
}

/// Steps that handed so many events to the handler.
pub(super) fn steps(world: &World, least: usize) -> Vec<usize> {
    let is_one = |row: &Row| row.record.kind == RecordKind::Step && row.handed.len() >= least;
    (0..world.rows.len()).filter(|number| is_one(&world.rows[*number])).collect()
}

/// Changes what a step handed to the handler. Says which row, and what it was before.
pub(super) fn change_one(
    world: &mut World,
    choice: &mut Choice,
    least: usize,
    change: impl Fn(&mut Vec<Seen>, &mut Choice),
) -> Option<(i64, Vec<Seen>)> {
    let number = choice.among(steps(world, least))?;
    let by_slot = world.by_slot;
    let row = &mut world.rows[number];
    let before = row.handed.clone();
    change(&mut row.handed, choice);
    row.seal(by_slot);
    Some((row.record.id, before))
}

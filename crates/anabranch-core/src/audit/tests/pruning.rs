//! Rows that were in flight, rows that were pruned, and what the prover asks for.

use super::model::{Op, Row, SLOTS, World, ops};
use crate::Position;
use crate::audit::{AuditedCursor, Prover, RecordKind, Violation};
use crate::cursor::CoverError;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// What a checkpoint keeps is as good as all the rows.
    #[test]
    fn the_proof_goes_on_from_a_checkpoint(
        before in ops(), after in ops(), slots in prop_oneof![Just(1), Just(SLOTS)],
        by_slot in any::<bool>(), window in 1..40_usize,
    ) {
        let mut world = World::after(slots, by_slot, &before);
        let prover = world.read(window).unwrap();
        let proven = prover.end(&world.cursors(), &world.aside()).unwrap();
        let checkpoint = prover.checkpoint();
        for left in &checkpoint {
            prop_assert!(by_slot || left.from == proven.up_to.min(left.to));
            prop_assert!(!by_slot || left.from == left.to && left.handed.is_none());
        }
        if prover.may_prune() {
            world.prune(checkpoint);
        }
        world.prove(window).map_err(|e| TestCaseError::fail(format!("pruned: {e}")))?;
        after.iter().for_each(|op| world.apply(op));
        let again = world.prove(window).map_err(|e| TestCaseError::fail(format!("after: {e}")))?;
        prop_assert_eq!(again.aside, world.aside.len() as u64);
        prop_assert_eq!(again.rows, world.rows.len() as u64);
    }

    /// A commit that draws its id early becomes visible late, when its window has been read. It is fetched by its id as soon as
    /// a row or a cursor names it.
    #[test]
    fn rows_in_flight_are_asked_for(
        ops in ops(), late in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
        window in 1..12_usize,
    ) {
        let mut world = World::after(SLOTS, true, &ops);
        let late: Vec<i64> =
            late.iter().map(|at| at.get(&world.rows).record.id).collect();
        let mut read = Vec::new();
        for row in world.rows.iter().filter(|row| !late.contains(&row.record.id)) {
            fetch(&world, &row.record.parents, &mut read);
            read.push(row.clone());
        }
        let of_cursors: Vec<i64> = world.cursors.iter().map(|cursor| cursor.record).collect();
        fetch(&world, &of_cursors, &mut read);
        world.rows = read;
        prop_assert!(world.prove(window).is_ok());
    }
}

/// Adds rows that are named and were not read, behind those that they name.
fn fetch(world: &World, named: &[i64], read: &mut Vec<Row>) {
    for id in named {
        // What `Prover::knows` says.
        if read.iter().any(|row| row.record.id == *id) {
            continue;
        }
        let row = world.rows.iter().find(|row| row.record.id == *id).unwrap();
        fetch(world, &row.record.parents, read);
        read.push(row.clone());
    }
}

/// With a custom key, what one cursor left out before the rows were pruned is missed when the last one has passed it.
#[test]
fn what_was_left_out_before_pruning_is_found_after_it() {
    let step = |cursor| Op::Step { cursor, events: 30, fail: Vec::new(), beyond: true };
    let numbers: Vec<u8> = (0..24).collect();
    // The first one goes to the end; the other does not go on before the rows are pruned.
    let world = World::after(SLOTS, false, &[Op::Append(numbers), step(0)]);
    for forgotten in [false, true] {
        let mut world = world.clone();
        let left_out = world.rows[2].handed[3].position;
        if forgotten {
            world.rows[2].handed.remove(3);
            world.rows[2].seal(false);
        }
        let prover = world.read(10).unwrap();
        prover.end(&world.cursors(), &world.aside()).unwrap();
        world.prune(prover.checkpoint());
        world.apply(&step(0));
        world.apply(&step(0));
        match world.prove(10) {
            Ok(_) => assert!(!forgotten),
            Err(Violation::NotRecorded { event, .. }) => {
                assert!(forgotten);
                assert_eq!(event.position, left_out);
            }
            Err(other) => panic!("{other}"),
        }
        // What the first one has done may not be done by the other, too.
        if !forgotten {
            let twice = world.log.iter().find(|event| event.position == left_out).unwrap().clone();
            let last = world.rows.iter_mut().rfind(|row| !row.handed.is_empty()).unwrap();
            last.handed.push(twice);
            last.handed.sort_by_key(|event| event.position);
            last.seal(false);
            let found = world.prove(10).unwrap_err();
            assert!(matches!(found, Violation::RecordedTwice { .. }), "{found}");
        }
    }
}

#[test]
fn only_what_is_covered_is_read() {
    let mut world = World::new(SLOTS, true);
    world.apply(&Op::Append((0..40).collect()));
    let far = world.log.last().unwrap().position;
    // One cursor is at the end, the other one far behind; later the first goes on.
    world.apply(&Op::Step { cursor: 0, events: 100, fail: vec![1], beyond: true });
    let mut prover = world.read(100).unwrap();
    let known = world.rows.len();
    world.apply(&Op::Append((0..6).collect()));
    world.apply(&Op::Step { cursor: 0, events: 1, fail: Vec::new(), beyond: false });
    world.apply(&Op::Step { cursor: 0, events: 100, fail: Vec::new(), beyond: true });
    world.apply(&Op::Retry { key: 0, events: 1 });
    for row in &world.rows[known..] {
        prover.record(row.record.clone()).unwrap();
    }
    let ranges = prover.ranges();
    let [(first, up_to), (second, end)] = ranges[..] else { panic!("{ranges:?}") };
    assert!(first == Position::new(4) && up_to < far && second == far && end > far, "{ranges:?}");
    // What is tried again lies before all of that.
    let tried = world.rows.last().unwrap();
    assert_eq!(tried.record.kind, RecordKind::Retry);
    let wanted = prover.wanted();
    let is_outside =
        !ranges.iter().any(|(a, b)| wanted.first() > Some(a) && wanted.first() <= Some(b));
    assert_eq!(wanted.is_empty(), !is_outside, "{wanted:?} {ranges:?}");
}

#[test]
fn what_the_cursors_say_is_compared() {
    let world = World::after(
        SLOTS,
        true,
        &[Op::Step { cursor: 0, events: 1, fail: vec![1], beyond: false }],
    );
    let prover = world.read(10).unwrap();
    let end = |change: &dyn Fn(&mut Vec<AuditedCursor>)| {
        let mut cursors = world.cursors();
        change(&mut cursors);
        prover.end(&cursors, &world.aside()).map(|_| ()).unwrap_err()
    };
    let missing = end(&|cursors| drop(cursors.pop()));
    assert!(matches!(missing, Violation::Cursors(CoverError { .. })), "{missing}");
    let silent = end(&|cursors| cursors[0].record = None);
    assert!(matches!(silent, Violation::CursorNotRecorded { .. }), "{silent}");
    let unknown = end(&|cursors| cursors[0].record = Some(4_000));
    assert!(
        matches!(unknown, Violation::CursorElsewhere { record: 4_000, last: None, .. }),
        "{unknown}"
    );
    let older = end(&|cursors| cursors[1].record = Some(world.rows[0].record.id));
    assert!(matches!(older, Violation::CursorElsewhere { last: Some(_), .. }), "{older}");
    let swapped = end(&|cursors| {
        let records = [cursors[1].record, cursors[0].record];
        (cursors[0].record, cursors[1].record) = (records[0], records[1]);
    });
    assert!(matches!(swapped, Violation::CursorElsewhere { last: Some(_), .. }), "{swapped}");
    assert!(world.rows.iter().all(|row| prover.knows(row.record.id)) && !prover.knows(4_000));
    // Rows that were not compared prove nothing.
    let mut open = Prover::new(world.slots.clone(), true);
    world.rows.iter().for_each(|row| open.record(row.record.clone()).unwrap());
    let open = open.end(&world.cursors(), &world.aside());
    assert!(matches!(open, Err(Violation::Misused { .. })), "{open:?}");
}

//! Small records, written by hand: what is said, and what random ones rarely have.

use crate::audit::{Digester, Prover, Record, RecordKind, Seen, Violation};
use crate::{ErrorCode, Position, Slot, SlotSet};
use uuid::Uuid;

fn at(position: u64) -> Position {
    Position::new(position)
}

/// All are of one key.
fn seen(position: u64) -> Seen {
    let name = format!("Paid Order:ord-1@{position}");
    let (slot, key) = (Some(Slot::ZERO), Some("Order:ord-1".to_owned()));
    Seen { position: at(position), id: Uuid::from_u128(position.into()), slot, key, name }
}

fn row(id: i64, kind: RecordKind, from: u64, to: u64, handed: &[u64]) -> Record {
    let mut digester = Digester::new();
    handed.iter().for_each(|position| digester.add(at(*position), &seen(*position).id));
    let is_beginning = kind == RecordKind::Begin;
    let is_retry = kind == RecordKind::Retry;
    Record {
        id,
        kind,
        parents: if is_beginning { Vec::new() } else { vec![id - 1] },
        slots: is_beginning.then(|| SlotSet::from_slot(Slot::ZERO)),
        from: at(from),
        to: at(to),
        count: digester.count(),
        digest: digester.finish(),
        handed: is_retry.then(|| handed.iter().map(|position| at(*position)).collect()),
        aside: Vec::new(),
        skipped: Vec::new(),
    }
}

fn aside(record: Record, positions: &[u64]) -> Record {
    Record { aside: positions.iter().map(|position| at(*position)).collect(), ..record }
}

/// All rows in one window, and all events up to a position.
fn read(rows: Vec<Record>, head: u64) -> Result<Prover, Violation> {
    let mut prover = Prover::new(SlotSet::from_slot(Slot::ZERO), true);
    rows.into_iter().try_for_each(|row| prover.record(row))?;
    for position in prover.wanted() {
        prover.found(seen(position.get()))?;
    }
    (1..=head).try_for_each(|position| prover.event(seen(position)))?;
    prover.close()?;
    Ok(prover)
}

fn found(rows: Vec<Record>, head: u64) -> (ErrorCode, String) {
    let violation = read(rows, head).map(drop).unwrap_err();
    (violation.code(), violation.to_string())
}

use RecordKind::{Begin, Jump, Replay, Retry, Skip, Step};

#[test]
fn what_is_said() {
    let begin = || row(1, Begin, 0, 0, &[]);
    let (code, said) = found(vec![begin(), row(2, Step, 0, 4, &[1, 2, 4])], 4);
    assert_eq!(code.name(), "audit_gap");
    assert_eq!(
        said,
        "event Paid Order:ord-1@3 at position 3 (slot 0) was never handed to the handler: row 2 of the record (slots 0, positions \
         0 to 4) passed it. It was lost, or it became visible after the cursor had passed; compare what the handler wrote for this \
         key, and replay from position 2 if it is missing there"
    );
    let (code, said) = found(vec![begin(), row(2, Step, 0, 4, &[1, 2, 3, 4, 2, 3])], 4);
    assert_eq!(code.name(), "audit_mismatch");
    assert!(said.contains("the handler received 6 events (digest "), "{said}");
    let (code, said) = found(vec![begin(), row(2, Step, 0, 4, &[1, 2, 3, 2, 3, 4])], 4);
    assert_eq!(code.name(), "audit_double");
    assert!(said.contains("(the first of 2 that are handed twice one after the other)"), "{said}");
    let (code, said) =
        found(vec![begin(), row(2, Step, 0, 4, &[1, 2, 3, 4]), row(3, Step, 6, 6, &[])], 4);
    assert_eq!(code.name(), "audit_cursor");
    assert!(
        said.contains("begins at position 6, and the row before it ended at 4 (slot 0)"),
        "{said}"
    );
    assert!(said.ends_with("events in between were left out"), "{said}");
    let twice = Record { parents: vec![1], ..row(3, Step, 0, 4, &[1, 2, 3, 4]) };
    let (code, said) = found(vec![begin(), row(2, Step, 0, 4, &[1, 2, 3, 4]), twice], 4);
    assert_eq!(code.name(), "audit_double");
    assert!(
        said.starts_with("two commits went on from row 1 with slot 0: row 3 of the record"),
        "{said}"
    );
    assert!(said.contains("row 2 comes from the other. One of them was not fenced"), "{said}");
}

/// It was set aside under a wider scope: no event of the ranges any more, and handed over all the same.
#[test]
fn what_does_not_match_any_more_is_looked_for_alone() {
    let mut prover = Prover::new(SlotSet::from_slot(Slot::ZERO), true);
    let begin = aside(row(1, Begin, 4, 4, &[]), &[3]);
    let replayed = Record { parents: vec![2], ..row(3, Replay, 4, 0, &[]) };
    let rows = [begin, row(2, Retry, 4, 4, &[3]), replayed, row(4, Step, 0, 4, &[1, 2, 4])];
    rows.into_iter().try_for_each(|row| prover.record(row)).unwrap();
    assert_eq!((prover.wanted(), prover.ranges()), (vec![], vec![(at(0), at(4))]));
    [1, 2, 4].into_iter().try_for_each(|position| prover.event(seen(position))).unwrap();
    assert_eq!(prover.unsettled(), [at(3)]);
    prover.found(seen(3)).unwrap();
    prover.close().unwrap();
}

/// One position is handed out three times in one window, by right.
#[test]
fn a_window_may_hold_several_replays() {
    let mut rows = vec![row(1, Begin, 0, 0, &[])];
    for again in 0..3 {
        let id = 2 + again * 2;
        rows.push(aside(row(id, Step, 0, 5, &[1, 2, 3]), &[4, 5]));
        rows.push(row(id + 1, Replay, 5, 0, &[]));
    }
    rows.push(row(8, Step, 0, 3, &[1, 2, 3]));
    let prover = read(rows.clone(), 5).unwrap();
    assert_eq!(prover.checkpoint()[0].aside, []);
    // One of them is wrong, and the others are not.
    let mut broken = rows;
    broken[3] = aside(row(4, Step, 0, 5, &[1, 3, 2]), &[4, 5]);
    let (code, said) = found(broken, 5);
    assert_eq!(code.name(), "audit_order");
    assert!(said.contains("row 4 "), "{said}");
}

#[test]
fn what_is_tried_again_keeps_its_order() {
    let begin = || vec![row(1, Begin, 0, 0, &[]), aside(row(2, Step, 0, 4, &[1]), &[2, 3, 4])];
    let right = [begin(), vec![row(3, Retry, 4, 4, &[2, 3]), row(4, Retry, 4, 4, &[4])]].concat();
    assert!(read(right, 4).is_ok());
    // The third before the second.
    let wrong = [begin(), vec![row(3, Retry, 4, 4, &[3]), row(4, Retry, 4, 4, &[2, 4])]].concat();
    let (code, said) = found(wrong, 4);
    assert_eq!(code.name(), "audit_order");
    assert!(
        said.starts_with("event Paid Order:ord-1@3 at position 3 (slot 0) was handed"),
        "{said}"
    );
    assert!(
        said.contains("while event Paid Order:ord-1@2 at position 2 (slot 0) was set aside"),
        "{said}"
    );
    // A later commit while one of the key waits; then it is tried.
    let overtaken = [begin(), vec![row(3, Step, 4, 5, &[5]), row(4, Retry, 5, 5, &[2, 3, 4])]];
    assert_eq!(found(overtaken.concat(), 5).0.name(), "audit_order");
    let in_order = [begin(), vec![row(3, Retry, 4, 4, &[2, 3, 4]), row(4, Step, 4, 5, &[5])]];
    assert!(read(in_order.concat(), 5).is_ok());
}

#[test]
fn replays_and_jumps_take_back_what_was_set_aside() {
    let begin = || vec![row(1, Begin, 0, 0, &[]), aside(row(2, Step, 0, 4, &[]), &[1, 2, 3, 4])];
    let left = |kind, to| {
        let rows = [begin(), vec![row(3, kind, 4, to, &[])]].concat();
        let prover = read(rows, 4).unwrap();
        prover.checkpoint()[0].aside.iter().map(|position| position.get()).collect::<Vec<_>>()
    };
    assert_eq!(left(Replay, 2), [1, 2], "what comes before is still set aside");
    assert_eq!(left(Jump, 9), [0_u64; 0]);
    // What a replay has taken back may not be tried.
    let tried = [
        begin(),
        vec![row(3, Replay, 4, 2, &[]), row(4, Step, 2, 4, &[3, 4]), row(5, Retry, 4, 4, &[3])],
    ];
    assert_eq!(found(tried.concat(), 4).0.name(), "audit_double");
    let skipped = Record { skipped: vec![at(1)], ..row(3, Skip, 4, 4, &[]) };
    let again = Record { skipped: vec![at(1)], ..row(4, Skip, 4, 4, &[]) };
    assert!(read([begin(), vec![skipped.clone()]].concat(), 4).is_ok());
    assert_eq!(found([begin(), vec![skipped, again]].concat(), 4).0.name(), "audit_double");
}

#[test]
fn what_a_row_names_is_in_the_log() {
    let begin = || row(1, Begin, 0, 0, &[]);
    for (step, position) in [
        (aside(row(2, Step, 0, 4, &[1, 2]), &[4]), 4),
        (aside(row(2, Step, 0, 6, &[1, 2, 3]), &[5]), 5),
        (Record { skipped: vec![at(6)], ..row(2, Step, 0, 6, &[1, 2, 3]) }, 6),
    ] {
        let (code, said) = found(vec![begin(), step], 3);
        assert_eq!(code.name(), "audit_mismatch");
        assert!(
            said.contains(&format!("names an event at position {position}, and the log")),
            "{said}"
        );
    }
    // Another one comes after it, which finds that out at once.
    let rows = vec![begin(), aside(row(2, Step, 0, 4, &[1, 2, 4]), &[3])];
    let mut prover = Prover::new(SlotSet::from_slot(Slot::ZERO), true);
    rows.into_iter().for_each(|row| prover.record(row).unwrap());
    let found = [1, 2, 4].into_iter().try_for_each(|position| prover.event(seen(position)));
    assert!(matches!(found, Err(Violation::NotInLog { position, .. }) if position == at(3)));
    // What is tried again.
    let rows = vec![aside(begin(), &[]), row(2, Step, 0, 4, &[]), row(3, Retry, 4, 4, &[4])];
    assert_eq!(self::found(rows, 0).0.name(), "audit_mismatch");
    // What was set aside before the record began may be gone by now, and is skipped then.
    let begin = aside(row(1, Begin, 4, 4, &[]), &[4]);
    let skip = Record { skipped: vec![at(4)], ..row(2, Skip, 4, 4, &[]) };
    let mut prover = Prover::new(SlotSet::from_slot(Slot::ZERO), true);
    [begin, skip].into_iter().for_each(|row| prover.record(row).unwrap());
    assert_eq!(prover.wanted(), [at(4)]);
    prover.close().unwrap();
    assert_eq!(prover.checkpoint()[0].aside, []);
}

#[test]
fn a_program_that_gives_events_in_another_order_proves_nothing() {
    let mut prover = Prover::new(SlotSet::from_slot(Slot::ZERO), true);
    prover.record(row(1, Begin, 0, 0, &[])).unwrap();
    prover.event(seen(2)).unwrap();
    for problem in [prover.event(seen(2)), prover.record(row(2, Step, 0, 4, &[]))] {
        assert!(matches!(problem, Err(Violation::Misused { .. })), "{problem:?}");
    }
}

/// A row that contradicts itself is found without the log.
#[test]
fn rows_that_contradict_themselves() {
    let step = || row(2, Step, 2, 6, &[3, 4]);
    for (broken, about) in [
        (Record { digest: None, ..step() }, "a digest"),
        (Record { to: at(1), ..step() }, "goes back"),
        (aside(step(), &[5, 5]), "ascend"),
        (aside(step(), &[7]), "does not cover"),
        (aside(step(), &[2]), "does not cover"),
        (Record { skipped: vec![at(5)], ..aside(step(), &[5]) }, "at the same time"),
        (Record { parents: Vec::new(), ..step() }, "goes on from no row"),
        (Record { parents: vec![1, 1], ..step() }, "has no slots"),
        (Record { kind: RecordKind::Join, ..step() }, "cover nothing"),
        (Record { kind: Retry, ..step() }, "moves no cursor"),
        (row(2, Retry, 2, 2, &[]), "name the events that it tries"),
        (row(2, Retry, 2, 2, &[3]), "not reached"),
        (row(2, Skip, 2, 2, &[]), "name the events that it skips"),
        (row(2, Replay, 2, 3, &[]), "a replay goes back"),
        (Record { kind: Jump, ..step() }, "hands nothing"),
    ] {
        let (code, said) = found(vec![row(1, Begin, 2, 2, &[]), broken], 9);
        assert_eq!(code.name(), "audit_record", "{said}");
        assert!(said.contains(about), "{about}: {said}");
    }
    let (_, said) = found(vec![aside(row(1, Begin, 2, 2, &[]), &[3])], 9);
    assert!(said.contains("has not reached"), "{said}");
}

//! The handler received something else than the log has: each way is found and named.

use super::breaking::{
    BEGUN, broken, broken_among, change_one, in_one_direction, is_found, place, steps,
};
use crate::audit::{RecordKind, Seen, Violation};
use crate::{ErrorCode, Position, Slot};
use std::cell::Cell;
use uuid::Uuid;

#[test]
fn an_event_is_skipped() {
    broken(true, |world, choice| {
        let at = Cell::new(0);
        let (id, before) = change_one(world, choice, 1, |handed, choice| {
            at.set(choice.among((0..handed.len()).collect()).unwrap());
            handed.remove(at.get());
        })?;
        let skipped = before[at.get()].place();
        is_found(move |violation| {
            matches!(violation, Violation::NotHanded { row, event, missing: 1 }
                if row.row == id && *event == skipped)
                && violation.code() == ErrorCode::AuditGap
        })
    });
}

#[test]
fn an_event_is_skipped_that_has_a_custom_key() {
    broken_among(false, in_one_direction, |world, choice| {
        // While one cursor has not come there, or if it went back before it did, it could be an event of that one.
        world.catch_up();
        let at = Cell::new(0);
        let (_, before) = change_one(world, choice, 1, |handed, choice| {
            at.set(choice.among((0..handed.len()).collect()).unwrap());
            handed.remove(at.get());
        })?;
        let skipped = place(world, &before[at.get()]);
        if skipped.position <= BEGUN {
            return None;
        }
        is_found(move |v| matches!(v, Violation::NotRecorded { event, .. } if *event == skipped))
    });
}

#[test]
fn the_end_of_a_batch_is_skipped() {
    broken(true, |world, choice| {
        let (id, before) = change_one(world, choice, 2, |handed, _| handed.truncate(1))?;
        let (first, count) = (before[1].place(), before.len() as u64 - 1);
        is_found(move |violation| {
            matches!(violation, Violation::NotHanded { row, event, missing }
                if row.row == id && *event == first && *missing == count)
        })
    });
}

#[test]
fn an_event_is_handed_over_twice() {
    broken(true, |world, choice| {
        let at = Cell::new(0);
        let (id, before) = change_one(world, choice, 1, |handed, choice| {
            at.set(choice.among((0..handed.len()).collect()).unwrap());
            let behind = choice.among((at.get()..=handed.len()).collect()).unwrap();
            handed.insert(behind, handed[at.get()].clone());
        })?;
        let twice = before[at.get()].place();
        is_found(move |violation| {
            matches!(violation, Violation::HandedTwice { row, event, again: 1 }
                if row.row == id && *event == twice)
                && violation.code() == ErrorCode::AuditDouble
        })
    });
}

#[test]
fn a_batch_is_handed_over_twice() {
    broken(true, |world, choice| {
        let (id, before) = change_one(world, choice, 2, |handed, _| handed.extend(handed.clone()))?;
        let (first, count) = (before[0].place(), before.len() as u64);
        is_found(move |violation| {
            matches!(violation, Violation::HandedTwice { row, event, again }
                if row.row == id && *event == first && *again == count)
        })
    });
}

/// An event of the commit before is handed out again.
#[test]
fn an_event_is_handed_over_by_two_commits() {
    broken(true, |world, choice| {
        let twice = |number: &usize| {
            let row = &world.rows[*number];
            let [parent] = row.record.parents[..] else { return None };
            let parent = world.rows.iter().find(|row| row.record.id == parent)?;
            let event = parent.handed.last().filter(|_| parent.record.kind == RecordKind::Step)?;
            // Both in one window: an earlier one is forgotten.
            row.slots.contains(event.slot?).then(|| (*number, event.clone()))
        };
        let all: Vec<usize> = steps(world, 0);
        let (number, event) = choice.among(all.iter().filter_map(twice).collect())?;
        let row = &mut world.rows[number];
        row.handed.insert(0, event.clone());
        row.seal(true);
        let (id, twice) = (row.record.id, event.place());
        is_found(move |violation| match violation {
            Violation::HandedTwice { row, event, .. } => row.row == id && *event == twice,
            Violation::Differs { row, expected, recorded, .. } => {
                row.row == id && *recorded == expected + 1
            }
            _ => false,
        })
    });
}

#[test]
fn an_event_with_a_custom_key_is_in_two_rows() {
    broken_among(false, in_one_direction, |world, choice| {
        let number = choice.among(steps(world, 1))?;
        let event = choice.among(world.rows[number].handed.clone())?;
        let covers = |other: &usize| {
            let record = &world.rows[*other].record;
            let is_within = event.position > record.from && event.position <= record.to;
            *other != number
                && is_within
                && !record.handed.iter().flatten().any(|at| *at == event.position)
        };
        let other = choice.among(steps(world, 0).into_iter().filter(covers).collect())?;
        let (twice, row) = (place(world, &event), &mut world.rows[other]);
        row.handed.push(event);
        row.handed.sort_by_key(|event| event.position);
        row.seal(false);
        is_found(move |v| matches!(v, Violation::RecordedTwice { event, .. } if *event == twice))
    });
}

#[test]
fn two_events_are_swapped() {
    for by_slot in [true, false] {
        broken(by_slot, |world, choice| {
            let (at, to) = (Cell::new(0), Cell::new(0));
            let (id, before) = change_one(world, choice, 2, |handed, choice| {
                at.set(choice.among((0..handed.len() - 1).collect()).unwrap());
                to.set(choice.among((at.get() + 1..handed.len()).collect()).unwrap());
                handed.swap(at.get(), to.get());
            })?;
            let early = place(world, &before[to.get()]);
            let late = place(world, &before[at.get()]);
            is_found(move |violation| {
                matches!(violation, Violation::OutOfOrder { row, event, after }
                    if row.row == id && *event == early && *after == late)
                    && violation.code() == ErrorCode::AuditOrder
            })
        });
    }
}

#[test]
fn an_event_comes_too_late() {
    broken(true, |world, choice| {
        let (id, before) = change_one(world, choice, 3, |handed, _| handed.rotate_left(1))?;
        let (early, late) = (before[1].place(), before[0].place());
        is_found(move |violation| {
            matches!(violation, Violation::OutOfOrder { row, event, after }
                if row.row == id && *event == early && *after == late)
        })
    });
}

#[test]
fn an_event_of_another_slot_is_handed_over() {
    broken(true, |world, choice| {
        let number = choice.among(steps(world, 0))?;
        let record = &world.rows[number].record;
        let is_other = |event: &&Seen| {
            let is_within = event.position > record.from && event.position <= record.to;
            is_within && !world.rows[number].slots.contains(event.slot.unwrap())
        };
        let other = choice.among(world.log.iter().filter(is_other).cloned().collect())?;
        let row = &mut world.rows[number];
        let place = row.handed.partition_point(|event| event.position < other.position);
        row.handed.insert(place, other.clone());
        row.seal(true);
        let (id, other) = (row.record.id, other.place());
        is_found(move |violation| {
            matches!(violation, Violation::OtherSlot { row, event }
                if row.row == id && *event == other)
        })
    });
}

#[test]
fn what_was_set_aside_is_handed_over_all_the_same() {
    broken(true, |world, choice| {
        let with_aside = |number: &usize| !world.rows[*number].record.aside.is_empty();
        let number = choice.among(steps(world, 0).into_iter().filter(with_aside).collect())?;
        let position = choice.among(world.rows[number].record.aside.clone())?;
        let event = world.log.iter().find(|event| event.position == position)?.clone();
        let row = &mut world.rows[number];
        let place = row.handed.partition_point(|event| event.position < position);
        row.handed.insert(place, event.clone());
        row.seal(true);
        let (id, both) = (row.record.id, event.place());
        is_found(move |violation| {
            matches!(violation, Violation::HandedAlso { row, event }
                if row.row == id && *event == both)
        })
    });
}

/// An event has committed after the cursor had passed its position.
#[test]
fn an_event_becomes_visible_late() {
    for by_slot in [true, false] {
        broken(by_slot, |world, choice| {
            world.catch_up();
            let taken = |at: &Position| world.log.iter().any(|event| event.position == *at);
            let covered = |number: &usize| {
                let row = &world.rows[*number];
                let range = row.record.from.get() + 1..=row.record.to.get();
                let free = range.map(Position::new).filter(|at| !taken(at));
                let slots: Vec<Slot> = row.slots.iter().collect();
                (row.record.parents.len() == 1)
                    .then(|| free.map(move |at| (at, slots.clone())).collect::<Vec<_>>())
            };
            let rows = steps(world, 0);
            let (position, slots) =
                choice.among(rows.iter().filter_map(covered).flatten().collect())?;
            let slot = choice.among(slots)?;
            if !by_slot && position <= BEGUN {
                return None;
            }
            let (id, name) = (Uuid::from_u128(77), "Late Thing:1@1".to_owned());
            let late = Seen { position, id, slot: Some(slot), key: None, name };
            let behind = world.log.partition_point(|event| event.position < position);
            world.log.insert(behind, late.clone());
            let late = place(world, &late);
            is_found(move |violation| match violation {
                Violation::NotHanded { event, missing: 1, .. } => *event == late,
                Violation::NotRecorded { event, .. } => *event == late,
                _ => false,
            })
        });
    }
}

#[test]
fn an_event_is_deleted_from_the_log() {
    for by_slot in [true, false] {
        broken(by_slot, |world, choice| {
            let handed: Vec<Seen> = world.rows.iter().flat_map(|row| row.handed.clone()).collect();
            let deleted = choice.among(handed)?;
            world.log.retain(|event| *event != deleted);
            is_found(move |violation| match violation {
                Violation::NotInLog { position, .. } => *position == deleted.position,
                Violation::Differs { row, expected, recorded, .. } => {
                    recorded > expected && row.from < deleted.position && deleted.position <= row.to
                }
                _ => false,
            })
        });
    }
}

#[test]
fn an_event_of_the_log_is_another_one() {
    broken(true, |world, choice| {
        let number = choice.among(steps(world, 1))?;
        let event = choice.among(world.rows[number].handed.clone())?;
        let other = world.log.iter_mut().find(|other| other.position == event.position)?;
        other.id = Uuid::from_u128(other.id.as_u128() ^ 1);
        is_found(move |violation| {
            matches!(violation, Violation::Differs { expected, recorded, .. } if expected == recorded)
                && violation.code() == ErrorCode::AuditMismatch
        })
    });
}

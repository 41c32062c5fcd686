//! Rows, cursors or what is set aside are not what they should be: each way is found and named.

use super::breaking::{broken, is_found, place, steps};
use super::model::{Op, Row, SLOTS, World};
use crate::audit::{Record, RecordKind, Seen, Violation};
use crate::{ErrorCode, Position};
use uuid::Uuid;

#[test]
fn a_row_is_dropped() {
    broken(true, |world, choice| {
        let has_child = |number: &usize| {
            let id = world.rows[*number].record.id;
            world.rows.iter().any(|row| row.record.parents.contains(&id))
        };
        let number = choice.among((0..world.rows.len()).filter(has_child).collect())?;
        let dropped = world.rows.remove(number).record.id;
        is_found(move |violation| {
            matches!(violation, Violation::ParentMissing { parent, .. } if *parent == dropped)
                && violation.code() == ErrorCode::AuditRecord
        })
    });
}

#[test]
fn the_last_row_is_dropped() {
    for by_slot in [true, false] {
        broken(by_slot, |world, _| {
            let dropped = world.rows.pop()?.record.id;
            is_found(move |violation| {
                matches!(violation, Violation::CursorElsewhere { record, last: None, .. }
                    if *record == dropped)
                    && violation.code() == ErrorCode::AuditCursor
            })
        });
    }
}

#[test]
fn a_row_is_duplicated() {
    for by_slot in [true, false] {
        broken(by_slot, |world, choice| {
            let number = choice.among((0..world.rows.len()).collect())?;
            let mut copy = world.rows[number].clone();
            copy.record.id = world.draw();
            let id = copy.record.id;
            let parents = copy.record.parents.clone();
            world.rows.push(copy);
            is_found(move |violation| match violation {
                Violation::Fork { row, parent, .. } => row.row == id && parents.contains(parent),
                Violation::BegunTwice { row, .. } => row.row == id && parents.is_empty(),
                _ => false,
            })
        });
    }
}

#[test]
fn where_a_row_begins_is_changed() {
    broken(true, |world, choice| {
        let is_one = |number: &usize| !world.rows[*number].record.parents.is_empty();
        let number = choice.among((0..world.rows.len()).filter(is_one).collect())?;
        let record = &mut world.rows[number].record;
        let ended = record.from;
        let by = choice.among(vec![-1_i64, 1, 2])?;
        record.from = Position::from_i64(record.from.as_i64() + by);
        let id = record.id;
        is_found(move |violation| match violation {
            Violation::Moved { row, ended: was, .. } => row.row == id && *was == ended,
            Violation::Contradiction { row, .. } => row.row == id,
            _ => false,
        })
    });
}

#[test]
fn where_a_row_ends_is_changed() {
    broken(true, |world, choice| {
        // If it is not the lowest that becomes one with others, nothing else depends on it but its events.
        let is_alone = |number: &usize| {
            let id = world.rows[*number].record.id;
            let mut children = world.rows.iter().filter(|row| row.record.parents.contains(&id));
            children.all(|child| child.record.parents.len() == 1)
        };
        let number = choice.among(steps(world, 0).into_iter().filter(is_alone).collect())?;
        let record = &mut world.rows[number].record;
        let by = choice.among(vec![-1_i64, 1, 2])?;
        record.to = Position::from_i64(record.to.as_i64() + by);
        let (id, ends) = (record.id, record.to);
        is_found(move |violation| match violation {
            Violation::Moved { ended, .. } => *ended <= ends,
            Violation::CursorMoved { record, ended, .. } => *record == id && *ended == ends,
            // A replay from there goes back less or more than it says.
            Violation::Contradiction { .. } => true,
            Violation::NotHanded { row, .. } | Violation::Differs { row, .. } => row.row == id,
            _ => false,
        })
    });
}

#[test]
fn a_cursor_is_moved_by_hand() {
    for by_slot in [true, false] {
        broken(by_slot, |world, choice| {
            let number = choice.among((0..world.cursors.len()).collect())?;
            let by = choice.among(vec![-2_i64, -1, 1, 5])?;
            let cursor = &mut world.cursors[number];
            let was = cursor.position;
            cursor.position = Position::from_i64(was.as_i64() + by);
            let (id, is) = (cursor.record, cursor.position);
            is_found(move |violation| {
                matches!(violation, Violation::CursorMoved { position, record, ended, .. }
                    if *record == id && *ended == was && *position == is)
            })
        });
    }
}

/// The next commit goes on from where the cursor was put.
#[test]
fn a_cursor_is_moved_by_hand_and_goes_on() {
    broken(true, |world, choice| {
        let number = choice.among((0..world.cursors.len()).collect())?;
        let by = choice.among(vec![-2_i64, 3])?;
        let (was, parent) = (world.cursors[number].position, world.cursors[number].record);
        world.cursors[number].position = Position::from_i64(was.as_i64() + by);
        world.apply(&Op::Append(vec![0, 1, 2, 3, 4, 5]));
        world.apply(&Op::Step { cursor: number, events: 9, fail: Vec::new(), beyond: false });
        if !world.rows.last()?.record.parents.contains(&parent) {
            return None;
        }
        let id = world.rows.last()?.record.id;
        is_found(
            move |violation| matches!(violation, Violation::Moved { row, ended, .. } if row.row == id && *ended == was),
        )
    });
}

#[test]
fn what_was_set_aside_is_lost() {
    for by_slot in [true, false] {
        broken(by_slot, |world, choice| {
            let lost = choice.among(world.aside.clone())?;
            world.aside.retain(|event| *event != lost);
            let lost = place(world, &lost);
            is_found(
                move |violation| matches!(violation, Violation::AsideLost { event, .. } if *event == lost),
            )
        });
    }
}

#[test]
fn something_is_set_aside_that_no_row_names() {
    broken(true, |world, choice| {
        let is_not = |event: &&Seen| !world.aside.contains(event);
        let event = choice.among(world.log.iter().filter(is_not).cloned().collect())?;
        let at = event.position;
        world.aside.push(event);
        is_found(move |v| matches!(v, Violation::AsideUnrecorded { position } if *position == at))
    });
}

#[test]
fn what_was_set_aside_is_tried_twice() {
    for by_slot in [true, false] {
        broken(by_slot, |world, choice| {
            let tried = world.rows.iter().filter(|row| row.record.kind == RecordKind::Retry);
            let tried: Vec<Seen> = tried.flat_map(|row| row.handed.clone()).collect();
            let event = choice.among(tried)?;
            let cursor = world.cursor_of(&event);
            let to = world.cursors[cursor].position;
            if world.aside.contains(&event) || event.position > to {
                return None;
            }
            let twice = place(world, &event);
            let id = world.put(&[cursor], RecordKind::Retry, to, vec![event]).record.id;
            is_found(move |violation| {
                matches!(violation, Violation::NotAside { row, event }
                    if row.row == id && *event == twice)
            })
        });
    }
}

#[test]
fn a_retry_hands_over_something_else() {
    broken(true, |world, choice| {
        let is_retry = |number: &usize| world.rows[*number].record.kind == RecordKind::Retry;
        let number = choice.among((0..world.rows.len()).filter(is_retry).collect())?;
        let row = &mut world.rows[number];
        let mut other = row.handed[0].clone();
        other.id = Uuid::from_u128(other.id.as_u128() ^ 1);
        let handed = row.record.handed.clone();
        row.handed[0] = other;
        row.seal(true);
        row.record.handed = handed;
        let id = row.record.id;
        is_found(move |v| matches!(v, Violation::Differs { row, .. } if row.row == id))
    });
}

#[test]
fn rows_of_another_consumer_are_mixed_in() {
    for with_beginnings in [true, false] {
        broken(true, |world, choice| {
            let mut other = World::after(SLOTS, true, &[Op::Append(vec![1, 2, 3]), Op::Jump]);
            for row in &mut other.rows {
                row.record.id += 1_000_000;
                row.record.parents.iter_mut().for_each(|parent| *parent += 1_000_000);
            }
            other.rows.retain(|row| with_beginnings || !row.record.parents.is_empty());
            let row = choice.among(other.rows)?;
            let id = row.record.id;
            let is_beginning = row.record.parents.is_empty();
            world.rows.push(row);
            is_found(move |violation| match violation {
                Violation::BegunTwice { row, .. } => is_beginning && row.row == id,
                Violation::ParentMissing { row, .. } => !is_beginning && row.row == id,
                _ => false,
            })
        });
    }
}

#[test]
fn a_row_forgets_what_it_set_aside() {
    broken(true, |world, choice| {
        let with_aside = |number: &usize| !world.rows[*number].record.aside.is_empty();
        let number = choice.among(steps(world, 0).into_iter().filter(with_aside).collect())?;
        let aside = &mut world.rows[number].record.aside;
        let forgotten = aside.remove(0);
        is_found(move |violation| match violation {
            // If it is tried later, that is what is found first.
            Violation::NotHanded { event, .. } | Violation::NotAside { event, .. } => {
                event.position == forgotten
            }
            _ => false,
        })
    });
}

/// An event is handed out while an earlier one of its key waits.
#[test]
fn an_event_overtakes_another_of_its_key() {
    broken(true, |world, choice| {
        let second = |number: &usize| {
            let row = &world.rows[*number];
            let event = |at: &Position| world.log.iter().find(|event| event.position == *at);
            let aside: Vec<&Seen> = row.record.aside.iter().filter_map(event).collect();
            let is_second = |event: &&&Seen| {
                aside.iter().any(|other| other.key == event.key && other.position < event.position)
            };
            // No other row says anything of it.
            let others = |event: &Seen| {
                let names = |other: &&Row| {
                    let Record { aside, skipped, .. } = &other.record;
                    other.handed.contains(event)
                        || aside.iter().chain(skipped).any(|at| *at == event.position)
                };
                world.rows.iter().filter(names).count() - 1
            };
            let is_last = |event: &&&Seen| world.aside.contains(event) && others(event) == 0;
            let event = aside.iter().find(|event| is_second(event) && is_last(event))?;
            Some((*number, Seen::clone(event)))
        };
        let found = steps(world, 0).iter().filter_map(second).collect();
        let (number, event): (usize, Seen) = choice.among(found)?;
        world.aside.retain(|other| *other != event);
        let row = &mut world.rows[number];
        row.record.aside.retain(|at| *at != event.position);
        row.handed.push(event.clone());
        row.handed.sort_by_key(|event| event.position);
        row.seal(true);
        let id = row.record.id;
        is_found(move |violation| match violation {
            Violation::Overtaken { row, event: early, aside } => {
                row.row == id && *early == event.place() && aside.position < event.position
            }
            _ => false,
        })
    });
}

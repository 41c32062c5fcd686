//! Parts and what they are told of their cursors.

use super::*;

fn slots(numbers: impl IntoIterator<Item = u16>) -> SlotSet {
    numbers.into_iter().filter_map(Slot::new).collect()
}

fn cursor(id: i64, numbers: impl IntoIterator<Item = u16>, epoch: i64) -> Cursor {
    let owner = Some("me".to_owned());
    Cursor { id, epoch, owner, ..Cursor::free(slots(numbers), Position::new(10)) }
}

/// The lane lets go of all slots, never gets the answer, and is to keep them after all. Meanwhile the
/// row was claimed again, together with another slot, of which the lane would know nothing.
#[test]
fn a_cursor_that_is_back_after_a_lost_answer_is_lost() {
    let mut parts = Parts::default();
    parts.add(cursor(1, [1, 14], 8));
    let told = [cursor(1, [1, 10, 14], 11)];
    assert!(parts.has_lost(&told));
    parts.clear();
    assert_eq!(parts.unknown(told.to_vec()), told);
}

/// The same, but the row has become part of another one meanwhile.
#[test]
fn slots_that_are_back_in_another_cursor_are_lost() {
    let mut parts = Parts::default();
    parts.add(cursor(12, [8], 5));
    parts.add(cursor(15, [6], 9));
    assert!(parts.has_lost(&[cursor(12, [8], 5), cursor(9, [6], 12)]));
    assert!(!parts.has_lost(&[cursor(12, [8], 5), cursor(9, [7], 12)]));
}

#[test]
fn what_is_told_late_is_no_loss() {
    let mut parts = Parts::default();
    let part = parts.add(cursor(1, [1, 14], 8));
    assert!(!parts.has_lost(&[cursor(1, [1, 14], 8)]));
    let moves = parts.moves(&[part], Position::new(10), Some(&slots([1])));
    parts.moved(&moves);
    assert!(!parts.has_lost(&[cursor(1, [1, 14], 8), cursor(2, [3], 20)]));
    assert!(parts.has_lost(&[cursor(1, [1], 10)]));
}

#[test]
fn a_cursor_that_was_taken_in_can_be_lost_too() {
    let mut parts = Parts::default();
    let numbers = [parts.add(cursor(1, [1], 3)), parts.add(cursor(2, [2], 3))];
    parts.merge(&numbers);
    assert!(!parts.has_lost(&[cursor(1, [1], 3), cursor(2, [2], 3)]));
    assert!(parts.has_lost(&[cursor(2, [2], 4)]));
    // Once it is written, an old claim that names it is no news.
    parts.moved(&parts.moves(&numbers, Position::new(11), None));
    assert!(!parts.has_lost(&[cursor(1, [1], 3), cursor(2, [2], 3)]));
}

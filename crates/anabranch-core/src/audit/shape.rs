//! What a row says of itself, before it is compared with anything else.

use super::{Record, RecordKind, RowPlace, Violation};
use crate::{Position, SlotSet};

/// Checks that a row does not contradict itself.
pub(super) fn check(record: &Record, by_slot: bool) -> Result<(), Violation> {
    match problem(record, by_slot) {
        None => Ok(()),
        Some(problem) => Err(Violation::Contradiction { row: place(record), problem }),
    }
}

/// Where a row is, with its slots as far as it says them itself.
pub(super) fn place(record: &Record) -> RowPlace {
    let slots = record.slots.clone().unwrap_or_else(SlotSet::empty);
    RowPlace { row: record.id, slots, from: record.from, to: record.to }
}

fn problem(record: &Record, by_slot: bool) -> Option<&'static str> {
    let Record { kind, from, to, count, aside, skipped, parents, .. } = record;
    let handed = record.handed.as_deref().unwrap_or_default();
    let is_beginning = matches!(kind, RecordKind::Begin | RecordKind::Proven);
    let no_events = *count == 0 && handed.is_empty() && aside.is_empty() && skipped.is_empty();
    let within = |positions: &[Position]| positions.iter().all(|at| *at > *from && at <= to);
    if ![aside, skipped, handed].into_iter().all(is_ascending) {
        return Some("its positions do not ascend");
    }
    let is_double = !are_disjoint(aside, skipped)
        || !are_disjoint(aside, handed)
        || !are_disjoint(skipped, handed);
    // What a proven row says that it need not see again may be set aside.
    if is_double && !is_beginning {
        return Some("an event is set aside, skipped or handed to the handler at the same time");
    }
    if (*count == 0) != record.digest.is_none() {
        return Some("it has a digest of no events, or events without a digest");
    }
    if !is_beginning && record.handed.is_some() && handed.len() as u64 != *count {
        return Some("it names another number of events than it counts");
    }
    if is_beginning != parents.is_empty() {
        return Some("only a beginning goes on from no row, and from no other");
    }
    if is_beginning && record.slots.as_ref().is_none_or(SlotSet::is_empty) {
        return Some("a beginning names its slots");
    }
    if record.slots.is_none() && parents.len() > 1
        || record.slots.as_ref().is_some_and(SlotSet::is_empty)
    {
        return Some("it has no slots");
    }
    match kind {
        RecordKind::Begin | RecordKind::Proven => {
            let may_cover = *kind == RecordKind::Proven && !by_slot && from <= to;
            if from != to && !may_cover {
                return Some("a beginning covers nothing");
            }
            if *count > 0 || !skipped.is_empty() || !within(handed) {
                return Some("a beginning hands nothing to the handler");
            }
            aside.last().filter(|last| *last > to).map(|_| "it sets aside what it has not reached")
        }
        RecordKind::Step if to < from => Some("it goes back, and is no replay"),
        RecordKind::Step if !within(aside) || !within(skipped) || !within(handed) => {
            Some("it names an event that it does not cover")
        }
        RecordKind::Step if !by_slot && *count > 0 && record.handed.is_none() => {
            Some("with a custom key it has to name the events")
        }
        RecordKind::Step => None,
        RecordKind::Join if from != to || !no_events => {
            Some("cursors that become one cover nothing")
        }
        RecordKind::Retry | RecordKind::Skip if from != to || !aside.is_empty() => {
            Some("trying or skipping what was set aside moves no cursor and sets nothing aside")
        }
        RecordKind::Retry if handed.is_empty() => Some("it has to name the events that it tries"),
        RecordKind::Skip if skipped.is_empty() || !handed.is_empty() || *count > 0 => {
            Some("it has to name the events that it skips, and no others")
        }
        RecordKind::Retry | RecordKind::Skip
            if handed.last().max(skipped.last()).is_some_and(|last| last > to) =>
        {
            Some("it tries or skips what it has not reached")
        }
        RecordKind::Replay if to > from => Some("a replay goes back"),
        RecordKind::Replay | RecordKind::Jump if !no_events => {
            Some("a cursor that is put elsewhere hands nothing to the handler")
        }
        RecordKind::Join | RecordKind::Retry | RecordKind::Skip => None,
        RecordKind::Replay | RecordKind::Jump => None,
    }
}

fn is_ascending(positions: &[Position]) -> bool {
    positions.is_sorted_by(|a, b| a < b)
}

/// Of two ascending lists.
fn are_disjoint(a: &[Position], b: &[Position]) -> bool {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
        match left.cmp(right) {
            std::cmp::Ordering::Less => _ = a.next(),
            std::cmp::Ordering::Greater => _ = b.next(),
            std::cmp::Ordering::Equal => return false,
        }
    }
    true
}

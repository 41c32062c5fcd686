//! What an audit can find to be wrong: where, what it means, and what to look at.

use super::places::Named;
use super::{EventPlace, RowPlace};
use crate::cursor::CoverError;
use crate::{ErrorCode, Position, Slot, SlotSet};
use thiserror::Error;

/// The first thing that an audit found to be wrong.
///
/// ```
/// use anabranch_core::audit::{EventPlace, RowPlace, Violation};
/// use anabranch_core::{ErrorCode, Position, Slot, SlotSet};
/// let [from, to, position] = [10, 20, 12].map(Position::new);
/// let name = Some("Paid Order:ord-1@2".to_owned());
/// let violation = Violation::NotHanded {
///     row: RowPlace { row: 7, slots: SlotSet::partition(0, 2), from, to },
///     event: EventPlace { position, slot: Slot::new(4), name },
///     missing: 1,
/// };
/// assert_eq!(violation.code(), ErrorCode::AuditGap);
/// assert!(violation.to_string().starts_with(
///     "event Paid Order:ord-1@2 at position 12 (slot 4) was never handed to the handler: \
///      row 7 of the record (partition 0 of 2, positions 10 to 20) passed it"
/// ));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// An event was passed and not handed to the handler.
    #[error(
        "{event} was never handed to the handler: {row} passed it{}. It was lost, or it became visible after the cursor \
         had passed; compare what the handler wrote for this key, and replay from position {} if it is missing there",
        more(*missing, "missing one after the other"), before(event.position)
    )]
    NotHanded {
        /// The row that passed it.
        row: RowPlace,
        /// The first such event.
        event: EventPlace,
        /// How many are missing, one after the other.
        missing: u64,
    },
    /// An event with a custom key that no row names.
    #[error(
        "{event} is in no row of the record, and all cursors that may have its key ({}) have passed it. It was \
         lost, or it became visible after they had passed; replay from position {} if what it does is missing",
        Named(slots), before(event.position)
    )]
    NotRecorded {
        /// The event.
        event: EventPlace,
        /// The slots that were the last to pass it.
        slots: SlotSet,
    },
    /// An event was handed to the handler more than once.
    #[error(
        "{event} was handed to the handler twice: once more by {row}{}. Undo what it did twice, or replay",
        more(*again, "handed twice one after the other")
    )]
    HandedTwice {
        /// The row that handed it to the handler again.
        row: RowPlace,
        /// The first such event.
        event: EventPlace,
        /// How many were handed twice, one after the other.
        again: u64,
    },
    /// An event with a custom key that more rows name than may have its key.
    #[error(
        "{event} is in rows {} of the record, and only one of them can have its key. It was handled twice: undo what it did \
         twice, or replay",
        list(rows)
    )]
    RecordedTwice {
        /// The event.
        event: EventPlace,
        /// The rows of this window that name it.
        rows: Vec<i64>,
    },
    /// The handler received events in another order than that of the log.
    #[error(
        "{event} was handed to the handler before {after}, although it comes later in the log: {row}"
    )]
    OutOfOrder {
        /// The row that handed both to the handler.
        row: RowPlace,
        /// The event that was too early.
        event: EventPlace,
        /// The event that should have come first.
        after: EventPlace,
    },
    /// An event was handed to the handler while an earlier event of its key was set aside.
    #[error(
        "{event} was handed to the handler by {row} while {aside} was set aside, which has the same key and comes first"
    )]
    Overtaken {
        /// The row that handed it to the handler.
        row: RowPlace,
        /// The event that was too early.
        event: EventPlace,
        /// The event that waited.
        aside: EventPlace,
    },
    /// The handler received an event of slots that the cursor does not have.
    #[error(
        "{event} was handed to the handler by {row}, which does not have its slot; the owner of that slot handles it, too"
    )]
    OtherSlot {
        /// The row that handed it to the handler.
        row: RowPlace,
        /// The event.
        event: EventPlace,
    },
    /// An event was set aside or skipped, and handed to the handler all the same.
    #[error(
        "{event} was handed to the handler by {row}, which says that it was set aside or skipped; it will be handled twice"
    )]
    HandedAlso {
        /// The row that says both.
        row: RowPlace,
        /// The event.
        event: EventPlace,
    },
    /// The record names an event that the log does not have.
    #[error(
        "{row} names an event at position {position}, and the log has no such event of these slots. It was deleted, this is \
         another log, or the row is wrong"
    )]
    NotInLog {
        /// The row.
        row: RowPlace,
        /// Where the event should be.
        position: Position,
    },
    /// What was handed to the handler is not what the log has, and no single mistake explains it.
    #[error(
        "{row} does not fit the log: the handler received {} (digest {}), the log has {}{}. {}", events(*recorded), digest_text(digest),
        events(*expected), first_of(first),
        if recorded > expected {
            "Events were handed twice or of other slots, or events were deleted from the log, or this is another log"
        } else {
            "Events are missing, in another order, or others than the log has"
        }
    )]
    Differs {
        /// The row.
        row: RowPlace,
        /// How many events the log has for it.
        expected: u64,
        /// How many the handler received.
        recorded: u64,
        /// The digest of these.
        digest: Option<super::Digest>,
        /// The first event that the log has for it.
        first: Option<EventPlace>,
    },
    /// A row contradicts itself.
    #[error(
        "{row} contradicts itself: {problem}. Nothing that writes the record writes such a row"
    )]
    Contradiction {
        /// The row.
        row: RowPlace,
        /// In which way.
        problem: &'static str,
    },
    /// There are two rows with one id.
    #[error("{row} is there twice; rows of the record were changed by hand, or read twice")]
    RowTwice {
        /// The row.
        row: RowPlace,
    },
    /// A row goes on from a row that is not there.
    #[error(
        "{row} goes on from row {parent}, which is not in the record. Rows were deleted, or belong to another consumer; what \
         they handed to the handler is unknown"
    )]
    ParentMissing {
        /// The row.
        row: RowPlace,
        /// The row that is not there.
        parent: i64,
    },
    /// Two rows go on from the same row with the same slots.
    #[error(
        "two commits went on from row {parent}{}: {row} is one{}. One of them was not fenced, so events after position {} may \
         have been handed to the handler twice",
        slot.map_or_else(String::new, |slot| format!(" with slot {slot}")),
        last.map_or_else(String::new, |last| format!(", row {last} comes from the other")), row.from
    )]
    Fork {
        /// The row.
        row: RowPlace,
        /// From which both go on.
        parent: i64,
        /// The first slot that both have, if that is known.
        slot: Option<Slot>,
        /// The last row of the other branch.
        last: Option<i64>,
    },
    /// A row has slots that none of the rows has from which it goes on.
    #[error(
        "{row} has slot {slot}, which it does not have from the rows that it goes on from; the cursor's slots were changed by hand, \
         or the row belongs to another consumer"
    )]
    SlotFromNowhere {
        /// The row.
        row: RowPlace,
        /// The first such slot.
        slot: Slot,
    },
    /// A second beginning for the same slots.
    #[error(
        "{row} is a beginning for slot {slot}, whose record has begun already and stands at row {last}; two records are mixed"
    )]
    BegunTwice {
        /// The row.
        row: RowPlace,
        /// The first slot that has begun already.
        slot: Slot,
        /// The last row of this slot.
        last: i64,
    },
    /// A commit did not begin where the last one ended.
    #[error(
        "{row} begins at position {}, and the row before it ended at {ended} (slot {slot}). The cursor was moved by hand or by a \
         program that records nothing, or one of both rows was changed: {}", row.from,
        if row.from > *ended { "events in between were left out" } else { "events in between were handed twice" }
    )]
    Moved {
        /// The row.
        row: RowPlace,
        /// A slot that stood there.
        slot: Slot,
        /// Where the rows before it ended, the lowest of them.
        ended: Position,
    },
    /// An event was tried again or skipped, and was not set aside.
    #[error("{row} tries or skips {event}, which was not set aside then; it was handled twice")]
    NotAside {
        /// The row.
        row: RowPlace,
        /// The event.
        event: EventPlace,
    },
    /// An event was set aside that was set aside already.
    #[error("{row} sets {event} aside, which was set aside already; it will be handled twice")]
    AsideTwice {
        /// The row.
        row: RowPlace,
        /// The event.
        event: EventPlace,
    },
    /// An event that was set aside has vanished.
    #[error(
        "{event} was set aside by row {row}, and is neither handled nor skipped nor set aside now; it was lost. Replay from \
         position {} if what it does is missing", before(event.position)
    )]
    AsideLost {
        /// The row that set it aside.
        row: i64,
        /// The event.
        event: EventPlace,
    },
    /// An event is set aside, and no row says so.
    #[error(
        "an event at position {position} is set aside, and the record says that it is not; it will be handled twice, or the \
         row was added by hand"
    )]
    AsideUnrecorded {
        /// Where it is.
        position: Position,
    },
    /// The cursors do not have every slot once.
    #[error("{0}")]
    Cursors(#[source] CoverError),
    /// A cursor writes no record.
    #[error(
        "the cursor of {} at position {position} writes no record, although the consumer is audited; it was added or \
         changed by hand",
        Named(slots)
    )]
    CursorNotRecorded {
        /// Its slots.
        slots: SlotSet,
        /// Where it is.
        position: Position,
    },
    /// A cursor's last row is not the last row of its slots.
    #[error(
        "the cursor of {} at position {position} says that its last row is {record}; {}", Named(slots),
        match last {
            Some(last) => format!("the record of slot {slot} ends with row {last}. The cursor was put back, or a commit was not fenced"),
            None => format!("slot {slot} has no such row. The last rows were deleted"),
        }
    )]
    CursorElsewhere {
        /// Its slots.
        slots: SlotSet,
        /// Where it is.
        position: Position,
        /// What it says.
        record: i64,
        /// The first slot for which that is wrong.
        slot: Slot,
        /// The last row of that slot, if `record` is a row of the record at all.
        last: Option<i64>,
    },
    /// A cursor is not where its last row ended.
    #[error(
        "the cursor of {} is at position {position}, and its last row {record} ended at {ended}. The row was changed by hand, or \
         the cursor was moved by hand or by a program that records nothing: then {}", Named(slots),
        if position > ended { "events in between were left out" } else { "events in between will be handed twice" }
    )]
    CursorMoved {
        /// Its slots.
        slots: SlotSet,
        /// Where it is.
        position: Position,
        /// Its last row.
        record: i64,
        /// Where that ended.
        ended: Position,
    },
    /// The program that asks for the proof has made a mistake, so nothing is proven.
    #[error("nothing is proven, since the program that asked for it made a mistake: {problem}")]
    Misused {
        /// Which mistake.
        problem: &'static str,
    },
}

impl Violation {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotHanded { .. } | Self::NotRecorded { .. } | Self::AsideLost { .. } => {
                ErrorCode::AuditGap
            }
            Self::HandedTwice { .. }
            | Self::RecordedTwice { .. }
            | Self::OtherSlot { .. }
            | Self::HandedAlso { .. }
            | Self::Fork { .. }
            | Self::NotAside { .. }
            | Self::AsideTwice { .. }
            | Self::AsideUnrecorded { .. } => ErrorCode::AuditDouble,
            Self::OutOfOrder { .. } | Self::Overtaken { .. } => ErrorCode::AuditOrder,
            Self::NotInLog { .. } | Self::Differs { .. } => ErrorCode::AuditMismatch,
            Self::Contradiction { .. }
            | Self::RowTwice { .. }
            | Self::ParentMissing { .. }
            | Self::SlotFromNowhere { .. }
            | Self::BegunTwice { .. }
            | Self::Misused { .. } => ErrorCode::AuditRecord,
            Self::Moved { .. }
            | Self::Cursors(_)
            | Self::CursorNotRecorded { .. }
            | Self::CursorElsewhere { .. }
            | Self::CursorMoved { .. } => ErrorCode::AuditCursor,
        }
    }
}

fn before(position: Position) -> u64 {
    position.get().saturating_sub(1)
}

fn more(count: u64, what: &str) -> String {
    if count > 1 { format!(" (the first of {count} that are {what})") } else { String::new() }
}

fn events(count: u64) -> String {
    if count == 1 { "1 event".to_owned() } else { format!("{count} events") }
}

fn list(rows: &[i64]) -> String {
    if rows.is_empty() {
        return "that were compared before".to_owned();
    }
    rows.iter().map(i64::to_string).collect::<Vec<_>>().join(" and ")
}

fn digest_text(digest: &Option<super::Digest>) -> String {
    digest.map_or_else(|| "none".to_owned(), |digest| digest.to_string())
}

fn first_of(first: &Option<EventPlace>) -> String {
    first.as_ref().map_or_else(String::new, |event| format!(", the first of them {event}"))
}

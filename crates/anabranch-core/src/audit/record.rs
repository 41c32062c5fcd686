//! The rows of the record of an audited consumer, as both its writer and its prover know them.

use super::Digest;
use crate::{Position, SlotSet};

/// What one commit recorded of one cursor.
///
/// ```
/// use anabranch_core::audit::{Digester, Record, RecordKind};
/// use anabranch_core::{Position, SlotSet};
/// let mut digester = Digester::new();
/// digester.add(Position::new(7), &uuid::Uuid::nil());
/// let step = Record {
///     id: 2,
///     kind: RecordKind::Step,
///     parents: vec![1],
///     slots: None, // those of row 1
///     from: Position::new(5),
///     to: Position::new(9),
///     count: digester.count(),
///     digest: digester.finish(),
///     handed: None,
///     aside: vec![Position::new(8)],
///     skipped: Vec::new(),
/// };
/// assert_eq!((step.kind.name(), step.count), ("step", 1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its row. Ids are drawn behind those of the parents.
    pub id: i64,
    /// What the commit did.
    pub kind: RecordKind,
    /// The rows that it goes on from; none for a beginning.
    pub parents: Vec<i64>,
    /// The slots of the cursor; `None` if they are those of the only parent's row.
    pub slots: Option<SlotSet>,
    /// Where the cursor was; with several parents the lowest. The slots of each parent begin where that
    /// parent's row ended.
    pub from: Position,
    /// Where the cursor is now.
    pub to: Position,
    /// How many events the handler received.
    pub count: u64,
    /// Of these events, in the order in which the handler received them; `None` without any.
    pub digest: Option<Digest>,
    /// Where these events are: for custom keys and for retries.
    pub handed: Option<Vec<Position>>,
    /// Events of (from, to] that were set aside instead; of a beginning, all that were set aside then.
    pub aside: Vec<Position>,
    /// Events that were left out on purpose.
    pub skipped: Vec<Position>,
}

/// What a commit did.
///
/// ```
/// use anabranch_core::audit::RecordKind;
/// assert_eq!(RecordKind::from_name("step"), Some(RecordKind::Step));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// The record begins with this cursor.
    Begin,
    /// The cursor went on.
    Step,
    /// Free cursors at one position became one.
    Join,
    /// Events that had been set aside were handed to the handler.
    Retry,
    /// Events that had been set aside were left out on purpose.
    Skip,
    /// The cursor was put back. What had been set aside after its new position comes again.
    Replay,
    /// The cursor was put to the end of the log. What had been set aside was left out, too.
    Jump,
    /// What is left of rows that were proven and pruned.
    Proven,
}

impl RecordKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Begin,
        Self::Step,
        Self::Join,
        Self::Retry,
        Self::Skip,
        Self::Replay,
        Self::Jump,
        Self::Proven,
    ];

    /// The name that is stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Step => "step",
            Self::Join => "join",
            Self::Retry => "retry",
            Self::Skip => "skip",
            Self::Replay => "replay",
            Self::Jump => "jump",
            Self::Proven => "proven",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_back_from_their_names() {
        for kind in RecordKind::ALL {
            assert_eq!(RecordKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(RecordKind::from_name("Step"), None);
    }
}

//! How a violation names a row and an event.

use crate::{Position, Slot, SlotSet};
use std::fmt;

/// A row of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPlace {
    /// Its id.
    pub row: i64,
    /// The slots of its cursor; none if they are unknown.
    pub slots: SlotSet,
    /// Where the cursor was.
    pub from: Position,
    /// Where it was put.
    pub to: Position,
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, slots, from, to } = self;
        write!(f, "row {row} of the record (")?;
        if !slots.is_empty() {
            write!(f, "{}, ", Named(slots))?;
        }
        if from == to {
            write!(f, "position {to})")
        } else {
            write!(f, "positions {from} to {to})")
        }
    }
}

/// An event as a violation names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPlace {
    /// Where it is in the log.
    pub position: Position,
    /// Its slot, if it is known.
    pub slot: Option<Slot>,
    /// Its type, stream and version, if they are known.
    pub name: Option<String>,
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "event {name} at position {}", self.position)?,
            None => write!(f, "the event at position {}", self.position)?,
        }
        match self.slot {
            Some(slot) => write!(f, " (slot {slot})"),
            None => Ok(()),
        }
    }
}

/// Slots in the middle of a text: a partition has a name of its own.
pub(super) struct Named<'a>(pub(super) &'a SlotSet);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.to_string() {
            partition if partition.starts_with("partition") => f.write_str(&partition),
            slots => write!(f, "slots {slots}"),
        }
    }
}

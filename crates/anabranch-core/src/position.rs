//! The global position of an event in the log.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in the log. The first event stands at 1; [`Position::START`] is before all events.
///
/// Positions only grow, but are not dense: an append that was rolled back leaves a hole.
///
/// ```
/// use anabranch_core::Position;
/// assert!(Position::START < Position::new(1));
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(u64);

impl Position {
    /// Before the first event.
    pub const START: Self = Self(0);
    /// After every event that can ever be: databases count positions in signed 64 bits.
    pub const END: Self = Self(i64::MAX as u64);

    /// The position with this number; numbers beyond [`Position::END`] mean the end.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        if number > Self::END.0 { Self::END } else { Self(number) }
    }

    /// The number of this position.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as databases store it.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0 as i64
    }

    /// The position from a database's number; negative numbers mean the start.
    #[must_use]
    pub const fn from_i64(number: i64) -> Self {
        if number < 0 { Self::START } else { Self(number as u64) }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u64> for Position {
    fn from(number: u64) -> Self {
        Self::new(number)
    }
}

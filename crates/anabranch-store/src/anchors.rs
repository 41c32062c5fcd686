//! Whether a log still is the one that cursors on another server belong to.
//!
//! A log in the database of its consumers is restored together with their cursors. One elsewhere can be wound back
//! alone, and filled again: cursors would then stand behind events that nobody has handled. So they keep the log's
//! identity and an [`Anchor`] each, and who reads for them looks whether these are still there.
//!
//! People delete old events, and that is no wind-back: what is missing below the first event that the log still has
//! was deleted. Where a log was wound back, there are older events than the one that is missing.

use anabranch_core::cursor::Anchor;
use anabranch_core::{Position, StoreError, time};
use std::fmt;
use thiserror::Error;
use uuid::Uuid;

/// What to look for in a log. All of it is seen at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Events that should be there.
    pub anchors: Vec<Anchor>,
    /// Up to where the last event is wanted.
    pub up_to: Position,
}

/// What a look at a log has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which log it is: a random number that it got when it was made, or at its upgrade.
    pub identity: Uuid,
    /// The first position that has an event.
    pub first: Option<Position>,
    /// The last event up to the position that was asked for.
    pub last: Option<Anchor>,
    /// The last event of all that is visible.
    pub head: Option<Anchor>,
    /// The event at the position of each anchor.
    pub found: Vec<Option<Anchor>>,
}

impl Seen {
    /// Compares it with what should be there.
    ///
    /// ```
    /// use anabranch_core::Position;
    /// use anabranch_core::cursor::Anchor;
    /// use anabranch_store::{Seen, WoundBack};
    /// use uuid::Uuid;
    /// let anchor = Anchor { position: Position::new(7), id: Uuid::from_u128(70), recorded_us: 700 };
    /// let seen = |first: Option<u64>, found| Seen {
    ///     identity: Uuid::from_u128(1),
    ///     first: first.map(Position::new),
    ///     last: None,
    ///     head: None,
    ///     found: vec![found],
    /// };
    /// assert_eq!(seen(Some(1), Some(anchor)).compare(&[anchor]), Ok(()));
    /// // It was sent again after the log was wound back.
    /// let by = Anchor { recorded_us: 900, ..anchor };
    /// assert_eq!(seen(Some(1), Some(by)).compare(&[anchor]), Err(WoundBack::Replaced { anchor, by }));
    /// // The log begins after it: it was deleted with what is old.
    /// assert_eq!(seen(Some(8), None).compare(&[anchor]), Ok(()));
    /// // Older events are there, and it is not.
    /// assert_eq!(seen(Some(1), None).compare(&[anchor]), Err(WoundBack::Missing { anchor }));
    /// ```
    pub fn compare(&self, anchors: &[Anchor]) -> Result<(), WoundBack> {
        debug_assert_eq!(self.found.len(), anchors.len());
        for (anchor, found) in anchors.iter().copied().zip(&self.found) {
            match found {
                Some(by) if *by == anchor => {}
                Some(by) => return Err(WoundBack::Replaced { anchor, by: *by }),
                None if self.first.is_none_or(|first| first > anchor.position) => {}
                None => return Err(WoundBack::Missing { anchor }),
            }
        }
        Ok(())
    }

    /// Refuses another log than the one that cursors belong to.
    pub fn is_log(&self, was: Uuid) -> Result<(), WoundBack> {
        match self.identity == was {
            true => Ok(()),
            false => Err(WoundBack::OtherLog { was, is: self.identity }),
        }
    }
}

/// The identity of a log as it is stored in its settings.
pub fn identity_of(at: &str, stored: Option<String>) -> Result<Uuid, StoreError> {
    let parsed = stored.as_deref().and_then(|stored| Uuid::parse_str(stored).ok());
    parsed.ok_or_else(|| {
        let what = format!("the identity {stored:?} of the log");
        StoreError::Corrupt { at: at.to_owned(), what }
    })
}

/// A log is not the one any more that cursors belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WoundBack {
    /// It is another log.
    OtherLog {
        /// The identity of the log that the cursors belong to.
        was: Uuid,
        /// The identity of the log that is there.
        is: Uuid,
    },
    /// Another event stands where one was that has been passed, or the same one was stored a second time.
    Replaced {
        /// The one that was there.
        anchor: Anchor,
        /// The one that is.
        by: Anchor,
    },
    /// An event that has been passed is not there any more, though older ones are.
    Missing {
        /// That event.
        anchor: Anchor,
    },
}

impl fmt::Display for WoundBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherLog { was, is } => {
                write!(
                    f,
                    "there is another log: its cursors belong to the log {was}, and this is {is}"
                )
            }
            Self::Replaced { anchor, by } if anchor.id == by.id => write!(
                f,
                "the log was wound back: event {} at position {} is there a second time, recorded at {} and \
                 not at {}",
                anchor.id,
                anchor.position,
                time::from_micros(by.recorded_us),
                time::from_micros(anchor.recorded_us)
            ),
            Self::Replaced { anchor: Anchor { position, id, .. }, by: Anchor { id: by, .. } } => {
                write!(
                    f,
                    "the log was wound back: event {id} at position {position} is not there any more, and \
                 event {by} is in its place"
                )
            }
            Self::Missing { anchor: Anchor { position, id, .. } } => write!(
                f,
                "the log was wound back: event {id} at position {position} is not there any more, and \
                 older ones are"
            ),
        }
    }
}

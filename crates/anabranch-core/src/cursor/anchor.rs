//! Anchors: by which event a cursor knows its log again.

use crate::{Event, Position};
use uuid::Uuid;

/// An event of the log, by which a cursor that is kept on another server knows the log again. If it is not
/// there any more, the log was wound back (restored from an older backup, or a standby that was behind has become
/// the primary), and what was appended since then at lower positions would be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// Where the event stands.
    pub position: Position,
    /// Its id.
    pub id: Uuid,
    /// When the log recorded it, in microseconds since 1970. A producer may send an event again with the same id,
    /// and it may come to the same place; not at the same time.
    pub recorded_us: i64,
}

impl Anchor {
    /// An event.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        Self { position: event.position(), id: event.id(), recorded_us: event.recorded_us() }
    }
}

/// A position of the log, and the last event up to it where that is kept.
///
/// ```
/// use anabranch_core::Position;
/// use anabranch_core::cursor::Point;
/// let point = Point::from(Position::new(42));
/// assert_eq!((point.position.get(), point.anchor), (42, None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// The position.
    pub position: Position,
    /// The last event up to it.
    pub anchor: Option<Anchor>,
}

impl From<Position> for Point {
    fn from(position: Position) -> Self {
        Self { position, anchor: None }
    }
}

impl From<Anchor> for Point {
    fn from(anchor: Anchor) -> Self {
        Self { position: anchor.position, anchor: Some(anchor) }
    }
}

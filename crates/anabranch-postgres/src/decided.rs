//! Up to which position everything is known to be decided, and by which server.

use crate::session::lock;
use anabranch_core::Position;
use std::sync::Mutex;

/// Which server a session leads to, as far as that matters here. After a fail-over, one that was promoted may have
/// less than the one before, whose sessions may still answer; after a crash, one may have less than it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Era {
    /// How many sessions were opened by then.
    pub(crate) opened: u64,
    /// When the session's server was started, in microseconds.
    pub(crate) started: i64,
}

/// What is known, shared by all readers of a log. It is always the position of a visible event: an event is on disk
/// (unless its appender asked for less), and so is every position before it, while the sequence alone may fall
/// back when the server crashes.
#[derive(Default)]
pub(crate) struct Decided(Mutex<(Era, Position)>);

impl Decided {
    /// What is known of a session's server. Nothing, if what is known is of another or from before: that costs
    /// one look.
    pub(crate) fn by(&self, era: Era) -> Position {
        let mut known = lock(&self.0);
        if known.0 != era && era.opened >= known.0.opened {
            *known = (era, Position::START);
        }
        if known.0 == era { known.1 } else { Position::START }
    }

    /// A read has seen it. One that was answered late, by a server that is no longer the one, changes nothing.
    pub(crate) fn raise(&self, era: Era, position: Position) {
        let mut known = lock(&self.0);
        if known.0 == era {
            known.1 = known.1.max(position);
        }
    }

    /// What is decided never lies beyond what was drawn. If it does, somebody has put the sequence back,
    /// and what was known is of another log.
    pub(crate) fn has_drawn(&self, drawn: Position) {
        let mut known = lock(&self.0);
        known.1 = known.1.min(drawn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_of_the_old_primary_decides_nothing_of_the_new_one() {
        let decided = Decided::default();
        let at = |position| Position::new(position);
        let old = Era { opened: 3, started: 100 };
        assert_eq!(decided.by(old), Position::START);
        decided.raise(old, at(50));
        assert_eq!(decided.by(old), at(50));
        // The first session of the new primary is there; a read of the old one is answered after that.
        let new = Era { opened: 4, started: 200 };
        assert_eq!(decided.by(new), Position::START);
        decided.raise(old, at(60));
        assert_eq!(decided.by(new), Position::START);
        // So is one that takes an idle session of the old one only then.
        let idle = Era { opened: 4, started: 100 };
        assert_eq!(decided.by(idle), Position::START);
        decided.raise(idle, at(60));
        assert_eq!(decided.by(new), Position::START);
        decided.raise(new, at(40));
        assert_eq!((decided.by(old), decided.by(new)), (Position::START, at(40)));
        decided.has_drawn(at(30));
        assert_eq!(decided.by(new), at(30));
    }
}

//! Whether reading stands still behind an append in flight.

use anabranch_core::{Happening, Position};
use anabranch_store::{Emitter, PageEnd};
use std::time::{Duration, Instant};

/// Nearly every append is in flight for a moment: only what lasts is worth saying.
const LONG: Duration = Duration::from_millis(100);

/// Where reading stands still, if it does.
#[derive(Default)]
pub(super) struct Stall(Option<Stalled>);

struct Stalled {
    at: Position,
    since: Instant,
    is_said: bool,
}

impl Stall {
    /// A page was read up to a position.
    pub(super) fn has_read(&mut self, events: &Emitter, up_to: Position, end: PageEnd) {
        // Who reads what lies behind says nothing about it.
        if let Some(stalled) = &self.0
            && (up_to > stalled.at || (up_to == stalled.at && end != PageEnd::Pending))
        {
            if stalled.is_said {
                events.emit(Happening::read_resumed(stalled.since.elapsed()));
            }
            self.0 = None;
        }
        if end != PageEnd::Pending {
            return;
        }
        let new = || Stalled { at: up_to, since: Instant::now(), is_said: false };
        let stalled = self.0.get_or_insert_with(new);
        if !stalled.is_said && stalled.since.elapsed() >= LONG {
            stalled.is_said = true;
            events.emit(Happening::read_stalled(stalled.at));
        }
    }
}

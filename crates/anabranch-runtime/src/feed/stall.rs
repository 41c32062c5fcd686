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
    /// To whom it was said.
    said: Option<Emitter>,
}

/// Whoever has heard of it hears of its end as well, also if nobody reads any more.
impl Drop for Stalled {
    fn drop(&mut self) {
        if let Some(events) = &self.said {
            events.emit(Happening::read_resumed(self.since.elapsed()));
        }
    }
}

impl Stall {
    /// A page was read up to a position.
    pub(super) fn has_read(&mut self, events: &Emitter, up_to: Position, end: PageEnd) {
        // Who reads what lies behind says nothing about it.
        if let Some(stalled) = &self.0
            && (up_to > stalled.at || (up_to == stalled.at && end != PageEnd::Pending))
        {
            self.0 = None;
        }
        if end != PageEnd::Pending {
            return;
        }
        let new = || Stalled { at: up_to, since: Instant::now(), said: None };
        let stalled = self.0.get_or_insert_with(new);
        if stalled.said.is_none() && stalled.since.elapsed() >= LONG {
            events.emit(Happening::read_stalled(stalled.at));
            stalled.said = Some(events.clone());
        }
    }
}

//! An event of the ring, written for the wire once for all tails that want it: once with its body and once without.

use super::counts::Counts;
use crate::events::seen;
use crate::sse::frame;
use anabranch::Event;
use axum::body::Bytes;
use std::sync::OnceLock;

/// What an entry takes beside its texts.
const OVERHEAD: usize = 512;

/// An event, and what is sent of it.
pub(crate) struct Entry {
    event: Event,
    whole: OnceLock<Result<Bytes, String>>,
    masked: OnceLock<Result<Bytes, String>>,
}

impl Entry {
    pub(crate) fn new(event: Event) -> Self {
        Self { event, whole: OnceLock::new(), masked: OnceLock::new() }
    }

    pub(crate) fn event(&self) -> &Event {
        &self.event
    }

    pub(crate) fn position(&self) -> u64 {
        self.event.position().get()
    }

    /// How much memory it takes, once it is written both ways.
    pub(crate) fn bytes(&self) -> usize {
        3 * self.event.text_bytes() + OVERHEAD
    }

    /// What is sent of it. The first tail that wants it writes it; others that want it at that moment wait for that.
    pub(crate) fn frame(&self, masked: bool, counts: &Counts) -> Result<Bytes, String> {
        let place = if masked { &self.masked } else { &self.whole };
        place
            .get_or_init(|| {
                counts.serialised();
                written(&self.event, masked)
            })
            .clone()
    }
}

/// What is sent of an event.
pub(crate) fn written(event: &Event, masked: bool) -> Result<Bytes, String> {
    let position = event.position().get();
    let json = seen::json(event, masked)
        .map_err(|error| format!("the event at position {position} cannot be written: {error}"))?;
    Ok(frame(Some(position), "event", json.get()))
}

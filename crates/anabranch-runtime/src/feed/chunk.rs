//! What the feed puts in front of a lane: events, and the place that they take there.

use anabranch_core::Event;
use anabranch_core::cursor::Point;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Events for a lane.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Which of the lane's parts it is for.
    pub(crate) parts: Vec<usize>,
    /// The lane's tenure when it was read: one from before it lost its slots is void.
    pub(crate) tenure: u64,
    /// How often the lane had released slots when it was read.
    pub(crate) sheds: u64,
    pub(crate) events: Vec<Event>,
    /// Everything of these parts up to here is in this chunk or was in those before.
    pub(crate) up_to: Point,
    /// Given back when it is begun with.
    pub(crate) _place: Place,
}

/// A place in front of a lane. It is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Arc<AtomicUsize>,
    room: Arc<Notify>,
}

impl Place {
    pub(super) fn take(taken: &Arc<AtomicUsize>, room: &Arc<Notify>) -> Self {
        taken.fetch_add(1, Ordering::Relaxed);
        Self { taken: Arc::clone(taken), room: Arc::clone(room) }
    }
}

#[cfg(test)]
impl Place {
    pub(crate) fn free() -> Self {
        Self::take(&Arc::default(), &Arc::default())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
        self.room.notify_one();
    }
}

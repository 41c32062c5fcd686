//! Reads, as builders that end in a stream of events.

use crate::event_stream::{EventStream, Plan};
use crate::log_store::{LogStore, Scope};
use anabranch_core::{Event, Position, Query, StoreError, StreamId};
use std::sync::Arc;

/// A read of one stream; see [`Log::read_stream`](crate::Log::read_stream).
#[must_use = "a read does nothing until `events` or `collect` is called"]
pub struct ReadStream {
    store: Arc<dyn LogStore>,
    plan: Plan,
    from_version: Option<u64>,
}

impl ReadStream {
    pub(crate) fn new(store: Arc<dyn LogStore>, stream: StreamId) -> Self {
        Self { store, plan: Plan::of(Scope::Stream(stream)), from_version: None }
    }

    /// Begins with this version, and goes up, or down if the read is backwards.
    pub fn from_version(mut self, version: u64) -> Self {
        self.from_version = Some(version);
        self
    }

    /// From the last event towards the first.
    pub fn backwards(mut self) -> Self {
        self.plan.backwards = true;
        self
    }

    /// At most so many events.
    pub fn limit(mut self, events: usize) -> Self {
        self.plan.limit = events;
        self
    }

    /// The events, read page by page as they are taken.
    pub fn events(mut self) -> EventStream {
        self.plan.cursor = match (self.plan.backwards, self.from_version) {
            (false, version) => version.unwrap_or(0).saturating_sub(1),
            (true, None) => Position::END.get(),
            (true, Some(version)) => version.saturating_add(1),
        };
        EventStream::start(self.store, self.plan)
    }

    /// All the events at once.
    pub async fn collect(self) -> Result<Vec<Event>, StoreError> {
        self.events().collect().await
    }
}

/// A read of the log; see [`Log::read`](crate::Log::read).
#[must_use = "a read does nothing until `events` or `collect` is called"]
pub struct ReadLog {
    store: Arc<dyn LogStore>,
    plan: Plan,
    bound: Option<Position>,
}

impl ReadLog {
    pub(crate) fn new(store: Arc<dyn LogStore>, query: Query) -> Self {
        Self { store, plan: Plan::of(Scope::Log(query)), bound: None }
    }

    /// Only events after this position.
    pub fn after(mut self, position: Position) -> Self {
        self.plan.backwards = false;
        self.bound = Some(position);
        self
    }

    /// From the last event towards the first.
    pub fn backwards(mut self) -> Self {
        self.plan.backwards = true;
        self.bound = None;
        self
    }

    /// Backwards from the last event before this position.
    pub fn before(mut self, position: Position) -> Self {
        self.plan.backwards = true;
        self.bound = Some(position);
        self
    }

    /// At most so many events.
    pub fn limit(mut self, events: usize) -> Self {
        self.plan.limit = events;
        self
    }

    /// The events, read page by page as they are taken.
    pub fn events(mut self) -> EventStream {
        let whole = if self.plan.backwards { Position::END } else { Position::START };
        self.plan.cursor = self.bound.unwrap_or(whole).get();
        EventStream::start(self.store, self.plan)
    }

    /// All the events at once. Mind the memory; [`events`](Self::events) is bounded.
    pub async fn collect(self) -> Result<Vec<Event>, StoreError> {
        self.events().collect().await
    }

    /// The events, and then each new one as it is stored.
    pub(crate) fn follow(mut self) -> EventStream {
        self.plan.follow = true;
        self.events()
    }
}

//! What handlers return, and how the runtime calls them.

mod error;

pub use error::{HandlerError, HandlerResult};

use crate::tx::Tx;
use anabranch_core::{Event, Position, Slot};
use anabranch_store::Emitter;
use futures_util::future::BoxFuture;

/// An event that could not be delivered, and will not be again.
pub(crate) type Undelivered = (Position, HandlerError);

/// A key whose events are to be handled again.
#[derive(Debug)]
pub(crate) struct RepeatedKey {
    pub(crate) consumer: String,
    pub(crate) key: String,
    pub(crate) slot: Slot,
    /// The table with its events, and the rows that they belong to.
    pub(crate) events: String,
}

/// A consumer's code as one lane runs it. Each lane has its own, so it may keep what it knows about
/// the keys of its slots.
pub(crate) trait LaneHandler: Send {
    /// Handles events in order. Which event is to blame for an error stands in the transaction.
    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult>;

    /// Who sees what it does beside handling.
    fn seen_by(&mut self, _events: &Emitter) {}

    /// Whether something must be stored before these events are handled: see [`prepare`](Self::prepare).
    fn prepares(&mut self, _events: &[Event]) -> bool {
        false
    }

    /// Stores what must be stored before these events are handled, in a transaction of its own: it commits only while
    /// the lane owns the events' slots, and moves no cursor.
    fn prepare<'a>(
        &'a mut self,
        _events: &'a [Event],
        _tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The row that it makes of an event, if it makes rows by themselves: what [`reset_key`](Self::reset_key) removes.
    fn row_of(&self, _event: &Event) -> Option<String> {
        None
    }

    /// Undoes what it made of a key whose events come again. What it knows of the key is out of date from then on.
    fn reset_key<'a>(
        &'a mut self,
        key: &'a RepeatedKey,
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult>;

    /// Whether its effects are outside the transaction, so that no rollback takes them back.
    fn is_external(&self) -> bool {
        false
    }

    /// Whether its errors tell what is about one event from what is about all of them: then another event is tried
    /// when one has failed by itself.
    fn tells_whose_fault(&self) -> bool {
        false
    }

    /// How many events of one key go out together, if its effects are outside.
    fn together(&self) -> usize {
        1
    }

    /// Whether `handle` does nothing, and all is done after the commit.
    fn delivers_after_commit(&self) -> bool {
        false
    }

    /// The events that `handle` got are committed, or rolled back.
    fn settled(&mut self, _committed: bool) {}

    /// Runs after the commit, for effects that must happen at most once. Says what failed.
    fn after_commit<'a>(&'a mut self, _events: &'a [Event]) -> BoxFuture<'a, Vec<Undelivered>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

//! What tails have cost and done, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the tails of a server have cost and done since it began; see [`Api::tail_figures`](crate::Api::tail_figures).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailFigures {
    /// How many are open.
    pub open: u64,
    /// How often the log was subscribed to: once for all tails that are open at the same time.
    pub subscriptions: u64,
    /// How many events those subscriptions have read.
    pub events_read: u64,
    /// How often an event was written for the wire: once for all tails, or twice if some of them may not see bodies.
    pub events_written: u64,
    /// How many events were sent, to all tails together.
    pub events_sent: u64,
    /// How many pages were read of the log for tails that were behind.
    pub pages_read: u64,
    /// How many tails were dropped because they were too slow.
    pub dropped: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    open: AtomicU64,
    subscriptions: AtomicU64,
    events_read: AtomicU64,
    events_written: AtomicU64,
    events_sent: AtomicU64,
    pages_read: AtomicU64,
    dropped: AtomicU64,
}

impl Counts {
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn subscribed(&self) {
        self.subscriptions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, events: usize) {
        self.events_read.fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn serialised(&self) {
        self.events_written.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, events: usize) {
        self.events_sent.fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn read_page(&self) {
        self.pages_read.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn dropped_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> TailFigures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TailFigures {
            open: of(&self.open),
            subscriptions: of(&self.subscriptions),
            events_read: of(&self.events_read),
            events_written: of(&self.events_written),
            events_sent: of(&self.events_sent),
            pages_read: of(&self.pages_read),
            dropped: of(&self.dropped),
        }
    }
}

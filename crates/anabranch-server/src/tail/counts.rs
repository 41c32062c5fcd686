//! The handle to all tails and live streams of a server: what they have cost and done, and how they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The tails and live streams of a server, for the program that it runs in. Cheap to clone; clones are of the same tails.
///
/// ```
/// # async fn f(log: anabranch::Log) {
/// use anabranch_server::{Api, Tails};
/// let tails = Tails::default();
/// let app = Api::new(&log).tails(&tails).router();
/// println!("{} tails are open", tails.figures().open);
/// // Before the server stops: each is told, and can go on elsewhere.
/// tails.close();
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tails {
    pub(crate) counts: Arc<Counts>,
    closed: Arc<watch::Sender<bool>>,
}

impl Tails {
    /// What they have cost and done since the server began.
    #[must_use]
    pub fn figures(&self) -> TailFigures {
        self.counts.figures()
    }

    /// Ends them all with a last word, and lets nobody in any more.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when they are closed.
    pub(crate) async fn closed(&self) {
        let mut closed = self.closed.subscribe();
        // The sender is here.
        let _ = closed.wait_for(|is_closed| *is_closed).await;
    }
}

/// What the tails of a server have cost and done since it began; see [`Tails`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailFigures {
    /// How many are open.
    pub open: u64,
    /// How many subscriptions to the log there were: one for all tails that are open at the same time.
    pub subscriptions: u64,
    /// How many events those subscriptions have read.
    pub events_read: u64,
    /// How often an event was written for the wire: once for all tails, or twice if some of them may not see bodies.
    pub events_written: u64,
    /// How many events were sent, to all tails together.
    pub events_sent: u64,
    /// How many pages of the log were read for tails that were behind.
    pub pages_read: u64,
    /// How many tails were dropped because they were too slow.
    pub dropped: u64,
    /// How many live streams (`/v1/live`) are open.
    pub live: u64,
    /// How often something was looked at for live streams: once for all that watch the same with the same rights.
    pub looks: u64,
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
    live: AtomicU64,
    looks: AtomicU64,
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

    pub(crate) fn live_opened(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn live_closed(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn looked(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
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
            live: of(&self.live),
            looks: of(&self.looks),
        }
    }
}

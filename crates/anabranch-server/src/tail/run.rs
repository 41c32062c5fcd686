//! One subscription to the log, for as long as somebody listens: what it reads goes into the ring, and all tails are told.

use super::counts::{Counts, Tails};
use super::entry::Entry;
use super::ring::{Passed, Ring, Room};
use anabranch::errors::ErrorCode;
use anabranch::{EventStream, Log, Query, StoreError};
use futures_util::FutureExt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The most events that go into the ring before tails are told.
const BATCH: usize = 1024;
/// How long tails are left alone after they were told, for each of them: a thousand are told fifty times a second, and each
/// then sends what has come meanwhile in one piece. A few are told at once.
const REST_OF_EACH: Duration = Duration::from_micros(20);
const REST_AT_MOST: Duration = Duration::from_millis(50);
/// A rest that is too short for a timer.
const REST_AT_LEAST: Duration = Duration::from_millis(1);

/// Why a run has ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The server stops.
    Closed,
    /// The log can no longer be read.
    Failed { code: ErrorCode, detail: String },
}

/// What tails are told: how far the ring is, and whether anything follows.
#[derive(Clone, Debug)]
pub(crate) struct News {
    pub(crate) top: u64,
    pub(crate) ended: Option<Ended>,
}

/// A subscription that runs.
pub(crate) struct Run {
    ring: Mutex<Ring<Entry>>,
    news: watch::Sender<News>,
    listeners: Mutex<Listeners>,
    has_left: Notify,
    pub(crate) counts: Arc<Counts>,
}

#[derive(Default)]
struct Listeners {
    count: usize,
    /// Nobody can join any more.
    is_over: bool,
}

/// A place among the listeners. The run ends when the last one is given up.
pub(crate) struct Seat(Arc<Run>);

impl Seat {
    pub(crate) fn run(&self) -> &Run {
        &self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut listeners = self.0.listeners();
        listeners.count -= 1;
        if listeners.count == 0 {
            self.0.has_left.notify_one();
        }
        drop(listeners);
        self.0.counts.closed();
    }
}

impl Run {
    /// Begins at the end of the log, with its first listener.
    pub(crate) async fn start(
        log: &Log,
        room: Room,
        tails: &Tails,
    ) -> Result<(Arc<Self>, Seat), StoreError> {
        let at = log.head().await?;
        let run = Arc::new(Self {
            ring: Mutex::new(Ring::new(room, at.get())),
            news: watch::Sender::new(News { top: at.get(), ended: None }),
            listeners: Mutex::default(),
            has_left: Notify::new(),
            counts: Arc::clone(&tails.counts),
        });
        let seat = run.enter().ok_or(StoreError::Closed)?;
        run.counts.subscribed();
        let events = log.subscribe(Query::all(), at);
        tokio::spawn(Arc::clone(&run).feed(events, tails.clone()));
        Ok((run, seat))
    }

    /// A place, unless it is over.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Seat> {
        let mut listeners = self.listeners();
        if listeners.is_over {
            return None;
        }
        listeners.count += 1;
        self.counts.opened();
        Some(Seat(Arc::clone(self)))
    }

    /// What tails are told from now on.
    pub(crate) fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    /// How far the log was read.
    pub(crate) fn top(&self) -> u64 {
        self.ring().top()
    }

    /// Whether a tail at this position misses nothing by going on with the ring.
    pub(crate) fn reaches_back_to(&self, cursor: u64) -> bool {
        self.ring().reaches_back_to(cursor)
    }

    /// The events after a position.
    pub(crate) fn after(&self, cursor: u64, most: usize) -> Result<Vec<Arc<Entry>>, Passed> {
        self.ring().after(cursor, most)
    }

    async fn feed(self: Arc<Self>, mut events: EventStream, tails: Tails) {
        let mut closed = pin!(tails.closed());
        loop {
            let first = tokio::select! {
                event = events.next() => event,
                () = self.has_left.notified() => {
                    if self.is_left() {
                        // The hub remembers it until the next one begins.
                        self.ring().clear();
                        return;
                    }
                    continue;
                }
                () = &mut closed => return self.end(Ended::Closed),
            };
            let mut batch = Vec::new();
            let mut next = Some(first);
            let failed = loop {
                match next {
                    Some(Some(Ok(event))) => batch.push(Arc::new(Entry::new(event))),
                    Some(Some(Err(error))) => break Some(failed(&error)),
                    Some(None) => break Some(failed(&StoreError::Closed)),
                    None => break None,
                }
                // What else is there already.
                next = if batch.len() < BATCH { events.next().now_or_never() } else { None };
            };
            self.take(batch);
            if let Some(ended) = failed {
                return self.end(ended);
            }
            self.rest().await;
        }
    }

    /// Events go into the ring, and tails are told.
    fn take(&self, batch: Vec<Arc<Entry>>) {
        if batch.is_empty() {
            return;
        }
        self.counts.read(batch.len());
        let mut ring = self.ring();
        for entry in batch {
            ring.push(entry.position(), entry.bytes(), entry);
        }
        let top = ring.top();
        drop(ring);
        self.news.send_modify(|news| news.top = top);
    }

    async fn rest(&self) {
        let tails = u32::try_from(self.listeners().count).unwrap_or(u32::MAX);
        let rest = REST_OF_EACH.saturating_mul(tails).min(REST_AT_MOST);
        if rest >= REST_AT_LEAST {
            tokio::time::sleep(rest).await;
        }
    }

    /// Whether it is over, since all have left or somebody ended it.
    fn is_left(&self) -> bool {
        let mut listeners = self.listeners();
        // In one step, so that nobody joins in between.
        listeners.is_over |= listeners.count == 0;
        listeners.is_over
    }

    /// Nobody can join any more, and the listeners are told why.
    fn end(&self, why: Ended) {
        self.listeners().is_over = true;
        self.news.send_modify(|news| {
            news.ended.get_or_insert(why);
        });
    }

    fn ring(&self) -> MutexGuard<'_, Ring<Entry>> {
        // Even after a panic every event in the ring is whole.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(error: &StoreError) -> Ended {
    Ended::Failed { code: error.code(), detail: error.to_string() }
}

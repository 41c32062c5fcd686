//! Observers of what happens in the engine, and how it reaches them.
//!
//! | module | subject |
//! |---|---|
//! | `delivery` | the queue of one observer, and the thread that delivers |
//! | `logging` | the observer that writes to `tracing` |
//! | `lines` | what it writes |
//! | `spans` | spans of what the engine does, with the feature `otel` |
//!
//! Whatever happens is emitted by an [`Emitter`]: that of a log, of a replica set, or of a backend. It goes to the
//! queue of each observer, and whoever emits goes on at once. The log is the one exception: a line of `tracing` is
//! written where it happens, since it belongs to the subscriber and the span of that thread, comes in order with the
//! lines of the program itself, and must not be lost when the program ends right after it. An observer that only counts
//! may ask for the same ([`Observer::at_once`]): what it counts is then all that happened.

mod delivery;
mod lines;
mod logging;
#[cfg(feature = "otel")]
pub(crate) mod spans;

pub use logging::TracingObserver;

use anabranch_core::engine_event::{EngineEvent, Happening, OutageOf};
use delivery::Delivery;
use futures_util::future::join_all;
use jiff::Timestamp;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How long the end of a replica set waits for observers that are slow.
const FLUSH: Duration = Duration::from_secs(1);

/// Sees what happens in the engine: give it to a log ([`Log::with_observer`](crate::Log::with_observer)) or to a
/// replica set. A closure will do.
///
/// It is called on a thread of its own, one event after the other, a few milliseconds after it happened. It may be
/// slow, block or panic: the engine never waits for it. What does not fit into its queue of 4,096 events is left out,
/// and [`Happening::Dropped`] says how many. A panic is caught and said once in the log; the next event comes all the
/// same.
///
/// The end of a run waits for it for a second at most. What it has not seen by then it sees in the background, or never
/// if the program ends. One that blocks for ever keeps its thread.
///
/// ```
/// use anabranch_core::engine_event::{EngineEvent, Happening};
/// use anabranch_store::Observer;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// #[derive(Default)]
/// struct Handled(AtomicUsize);
///
/// impl Observer for Handled {
///     fn observe(&self, event: &EngineEvent) {
///         if let Happening::BatchHandled { events, .. } = &event.what {
///             self.0.fetch_add(*events, Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Something has happened.
    fn observe(&self, event: &EngineEvent);

    /// Whether it is called where it happens, by whoever makes it happen, and not on a thread of its own: then it misses
    /// nothing, and the engine waits for it. For counters, which add up and return; never for what may block.
    fn at_once(&self) -> bool {
        false
    }
}

impl<F: Fn(&EngineEvent) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &EngineEvent) {
        self(event);
    }
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn observe(&self, event: &EngineEvent) {
        (**self).observe(event);
    }

    fn at_once(&self) -> bool {
        (**self).at_once()
    }
}

/// Lets an observer see an event. The error is what it said when it panicked.
fn caught(observer: &dyn Observer, event: &EngineEvent) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| observer.observe(event))).map_err(|panic| {
        let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        // What a panic carries may panic when it is dropped, and what that one carries again: it is kept for ever.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        said.unwrap_or_default()
    })
}

/// Says what happens, to the observers of a log or a set. Cheap to clone.
#[derive(Clone)]
pub struct Emitter {
    hub: Arc<Hub>,
    /// That of the consumers' database, if it is another one.
    home: Option<Arc<Hub>>,
    to: To,
    set: Option<Arc<str>>,
    worker: Option<Arc<str>>,
    consumer: Option<Arc<str>>,
    lane: Option<usize>,
    run: Option<Arc<Run>>,
}

/// A run of a replica set.
struct Run {
    /// Which one of this process.
    number: u64,
    /// The generation that its worker follows; 0 before the first.
    generation: AtomicI64,
}

/// What all who use one backend share.
struct Hub {
    /// Whether lines are written by `tracing`.
    logs: bool,
    /// How many events did not fit into the queues of observers.
    dropped: Arc<AtomicU64>,
    /// The observers of all handles: a backend does not know for which of them it works.
    all: Mutex<Vec<Weak<Delivery>>>,
}

#[derive(Clone)]
enum To {
    /// Every observer of every handle on the backend.
    All,
    Own(Arc<[Arc<Delivery>]>),
}

impl Default for Emitter {
    fn default() -> Self {
        Self::new(true)
    }
}

impl fmt::Debug for Emitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emitter").field("set", &self.set).finish_non_exhaustive()
    }
}

impl Emitter {
    /// That of a backend, which reaches the observers of all handles on it. `logs` if lines are to be written by
    /// `tracing`: [`Options::tracing`](crate::Options::tracing).
    #[must_use]
    pub fn new(logs: bool) -> Self {
        let hub = Arc::new(Hub { logs, dropped: Arc::default(), all: Mutex::default() });
        let (set, worker, consumer, lane, run) = (None, None, None, None, None);
        Self { hub, home: None, to: To::All, set, worker, consumer, lane, run }
    }

    /// That of a handle on the backend, which reaches the observers of that handle.
    #[must_use]
    pub(crate) fn of_handle(&self) -> Self {
        Self { to: To::Own(Arc::new([])), ..self.clone() }
    }

    /// The same with observers more.
    #[must_use]
    pub fn with(&self, observers: impl IntoIterator<Item = Arc<dyn Observer>>) -> Self {
        let new: Vec<Arc<Delivery>> = observers
            .into_iter()
            .map(|observer| Arc::new(Delivery::start(observer, self.hub.logs, &self.hub.dropped)))
            .collect();
        if new.is_empty() {
            return self.clone();
        }
        self.reaching(self.own().iter().cloned().chain(new))
    }

    /// That of a handle whose consumers are in another database: with the observers of a handle on that one, and
    /// all of them see what happens in both backends.
    #[must_use]
    pub(crate) fn with_home(&self, home: &Self) -> Self {
        let all = self.own().iter().chain(home.own()).cloned();
        let hub = home.home.as_ref().unwrap_or(&home.hub);
        Self { home: Some(Arc::clone(hub)), ..self.clone() }.reaching(all)
    }

    /// The same with these observers, which the backends know then.
    fn reaching(&self, observers: impl Iterator<Item = Arc<Delivery>>) -> Self {
        let mut own: Vec<Arc<Delivery>> = Vec::new();
        for observer in observers {
            if !own.iter().any(|known| Arc::ptr_eq(known, &observer)) {
                own.push(observer);
            }
        }
        for hub in [Some(&self.hub), self.home.as_ref()].into_iter().flatten() {
            hub.know(&own);
        }
        Self { to: To::Own(own.into()), ..self.clone() }
    }

    /// The same for what happens in a replica set, in a run of its own.
    #[must_use]
    pub fn in_set(self, set: &str) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(1);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let run = Run { number, generation: AtomicI64::new(0) };
        Self { set: Some(set.into()), run: Some(Arc::new(run)), ..self }
    }

    /// The same for what a worker does.
    #[must_use]
    pub fn by_worker(self, worker: &str) -> Self {
        Self { worker: Some(worker.into()), ..self }
    }

    /// From now on what happens in the set is of this generation, whoever says it.
    pub fn follows(&self, generation: i64) {
        if let Some(run) = &self.run {
            run.generation.store(generation, Ordering::Relaxed);
        }
    }

    /// The same for what a consumer does, or a pool, or a batch job.
    #[must_use]
    pub fn of(&self, consumer: &str) -> Self {
        Self { consumer: Some(consumer.into()), ..self.clone() }
    }

    /// The same for what a lane does.
    #[must_use]
    pub fn on_lane(self, lane: usize) -> Self {
        Self { lane: Some(lane), ..self }
    }

    /// Says that something has happened. Never blocks.
    pub fn emit(&self, what: Happening) {
        let logs = self.hub.logs && logging::wants(&what);
        let all = match &self.to {
            To::Own(_) => Vec::new(),
            To::All => self.hub.living(),
        };
        let observers = self.own().iter().chain(&all);
        if !logs && observers.clone().next().is_none() {
            return;
        }
        let mut event = EngineEvent::new(Timestamp::now(), what);
        event.set.clone_from(&self.set);
        event.run = self.run.as_ref().map(|run| run.number);
        event.worker.clone_from(&self.worker);
        event.consumer.clone_from(&self.consumer);
        event.lane = self.lane;
        if event.what.generation().is_none() {
            let followed = self.run.as_ref().map(|run| run.generation.load(Ordering::Relaxed));
            event.generation = followed.filter(|generation| *generation > 0);
        }
        if logs {
            logging::say(&event);
        }
        let mut observers = observers.peekable();
        if observers.peek().is_some() {
            let event = Arc::new(event);
            observers.for_each(|observer| observer.push(&event));
        }
    }

    /// Says that something is away, where that is worth saying: see [`Backoff::complains`](crate::Backoff::complains).
    pub fn outage(&self, backoff: &mut crate::Backoff, of: OutageOf, error: &impl fmt::Display) {
        let is_known = backoff.has_complained();
        if backoff.complains() {
            let error = error.to_string();
            self.emit(match is_known {
                false => Happening::outage_began(of, error),
                true => Happening::outage_lasts(of, error),
            });
        }
    }

    /// Says that it is back, if it was said that it is away.
    pub fn outage_over(&self, backoff: &mut crate::Backoff, of: OutageOf) {
        if let Some(away) = backoff.end() {
            self.emit(Happening::outage_ended(of, Some(away)));
        }
    }

    /// How many events did not fit into the queues of observers, of all handles on the backend.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.hub.dropped.load(Ordering::Relaxed)
    }

    /// Waits until its observers have seen all that happened so far, though not for ever: at the end of a set.
    pub async fn flush(&self) {
        let all = join_all(self.own().iter().map(|observer| observer.flush()));
        let _ = tokio::time::timeout(FLUSH, all).await;
    }

    fn own(&self) -> &[Arc<Delivery>] {
        match &self.to {
            To::All => &[],
            To::Own(own) => own,
        }
    }
}

impl Hub {
    /// Adds observers that it does not know yet.
    fn know(&self, observers: &[Arc<Delivery>]) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        for observer in observers.iter().map(Arc::downgrade) {
            if !all.iter().any(|known| known.ptr_eq(&observer)) {
                all.push(observer);
            }
        }
    }

    fn living(&self) -> Vec<Arc<Delivery>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}

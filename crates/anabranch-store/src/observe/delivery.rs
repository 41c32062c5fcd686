//! The queue of one observer, and the thread that delivers what is in it.

use super::{Observer, caught, logging};
use anabranch_core::engine_event::{EngineEvent, Happening};
use jiff::Timestamp;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How many events wait for an observer.
const ROOM: usize = 4096;
/// How long the thread lets events gather: to wake it for each of them would cost more than to make it.
const GATHER: Duration = Duration::from_millis(5);

/// How what happens reaches an observer.
pub(super) enum Delivery {
    /// By a queue and a thread. When it is dropped, what waits is still delivered.
    Queued(Arc<Shared>),
    /// By whoever makes it happen.
    AtOnce(AtOnce),
}

/// An observer that is called where it happens.
pub(super) struct AtOnce {
    observer: Arc<dyn Observer>,
    logs: bool,
    has_failed: AtomicBool,
}

pub(super) struct Shared {
    queue: Mutex<Queue>,
    /// How many did not fit into any queue of the backend.
    dropped: Arc<AtomicU64>,
    changed: Condvar,
    /// How many of the events that were queued are delivered.
    delivered: watch::Sender<u64>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<EngineEvent>>,
    /// How many were ever queued.
    queued: u64,
    /// How many did not fit since the observer was last told.
    dropped: u64,
    /// The thread waits for the next event, and has to be woken.
    sleeps: bool,
    /// Somebody waits for what is queued.
    is_urgent: bool,
    /// There is no thread, or it is to end.
    is_closed: bool,
}

impl Delivery {
    /// `dropped` counts what does not fit.
    pub(super) fn start(observer: Arc<dyn Observer>, logs: bool, dropped: &Arc<AtomicU64>) -> Self {
        if observer.at_once() {
            return Self::AtOnce(AtOnce { observer, logs, has_failed: AtomicBool::new(false) });
        }
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let (delivered, dropped) = (watch::Sender::new(0), Arc::clone(dropped));
        let shared = Arc::new(Shared { queue, dropped, changed, delivered });
        let deliver = {
            let shared = Arc::clone(&shared);
            move || shared.deliver(observer.as_ref(), logs)
        };
        let thread = std::thread::Builder::new().name("anabranch-observer".to_owned());
        if let Err(error) = thread.spawn(deliver) {
            // Nothing fits, and nobody can be told.
            shared.lock().is_closed = true;
            has_panicked(format!("its thread cannot be started: {error}"), logs);
        }
        Self::Queued(shared)
    }

    /// Puts an event into the queue, if there is room; or calls the observer.
    pub(super) fn push(&self, event: &Arc<EngineEvent>) {
        match self {
            Self::Queued(shared) => shared.push(event),
            Self::AtOnce(at_once) => at_once.call(event),
        }
    }

    /// Waits until all that is queued now is delivered.
    pub(super) async fn flush(&self) {
        if let Self::Queued(shared) = self {
            shared.flush().await;
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Self::Queued(shared) = self {
            shared.lock().is_closed = true;
            shared.changed.notify_one();
        }
    }
}

impl AtOnce {
    fn call(&self, event: &EngineEvent) {
        if let Err(said) = caught(self.observer.as_ref(), event)
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            has_panicked(said, self.logs);
        }
    }
}

impl Shared {
    fn push(&self, event: &Arc<EngineEvent>) {
        let mut queue = self.lock();
        if queue.waiting.len() >= ROOM || queue.is_closed {
            queue.dropped += 1;
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.waiting.push_back(Arc::clone(event));
        queue.queued += 1;
        let is_half_full = queue.waiting.len() == ROOM / 2;
        if std::mem::take(&mut queue.sleeps) || is_half_full {
            drop(queue);
            self.changed.notify_one();
        }
    }

    async fn flush(&self) {
        let mut delivered = self.delivered.subscribe();
        let until = {
            let mut queue = self.lock();
            queue.is_urgent = true;
            queue.queued
        };
        self.changed.notify_one();
        let _ = delivered.wait_for(|delivered| *delivered >= until).await;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, observer: &dyn Observer, logs: bool) {
        let mut has_failed = false;
        let mut say = |event: &EngineEvent| {
            if let Err(said) = caught(observer, event)
                && !std::mem::replace(&mut has_failed, true)
            {
                has_panicked(said, logs);
            }
        };
        while let Some((waiting, dropped, queued)) = self.next() {
            waiting.iter().for_each(|event| say(event));
            if dropped > 0 {
                say(&EngineEvent::new(Timestamp::now(), Happening::dropped(dropped)));
            }
            self.delivered.send_replace(queued);
            self.gather();
        }
    }

    /// Waits for something to deliver: events, how many did not fit, and how many were ever queued. Nothing at the end.
    fn next(&self) -> Option<(VecDeque<Arc<EngineEvent>>, u64, u64)> {
        let mut queue = self.lock();
        loop {
            if !queue.waiting.is_empty() || queue.dropped > 0 {
                (queue.sleeps, queue.is_urgent) = (false, false);
                let waiting = std::mem::take(&mut queue.waiting);
                return Some((waiting, std::mem::take(&mut queue.dropped), queue.queued));
            }
            if queue.is_closed {
                return None;
            }
            queue.sleeps = true;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets events gather, unless somebody waits for them.
    fn gather(&self) {
        let queue = self.lock();
        let is_calm = |queue: &mut Queue| {
            !queue.is_urgent && !queue.is_closed && queue.waiting.len() < ROOM / 2
        };
        let waited = self.changed.wait_timeout_while(queue, GATHER, is_calm);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Says so in the log: an observer that fails can hardly be told.
fn has_panicked(said: String, logs: bool) {
    if logs {
        logging::say(&EngineEvent::new(Timestamp::now(), Happening::observer_panicked(said)));
    }
}

//! The queue of one observer, and the thread that delivers what is in it.

use super::{Observer, caught, logging};
use anabranch_core::engine_event::{EngineEvent, Happening};
use jiff::Timestamp;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How many events wait for an observer.
const ROOM: usize = 4096;
/// How long the thread lets events gather: to wake it for each of them would cost more than to make it.
const GATHER: Duration = Duration::from_millis(5);

/// What is to be delivered to an observer. When it is dropped, what waits is still delivered.
pub(super) struct Delivery {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
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
    pub(super) fn start(observer: Arc<dyn Observer>, logs: bool) -> Self {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { queue, changed, delivered: watch::Sender::new(0) });
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
        Self { shared }
    }

    /// Puts an event into the queue, if there is room.
    pub(super) fn push(&self, event: &Arc<EngineEvent>) {
        let mut queue = self.shared.lock();
        if queue.waiting.len() >= ROOM || queue.is_closed {
            queue.dropped += 1;
            return;
        }
        queue.waiting.push_back(Arc::clone(event));
        queue.queued += 1;
        let is_half_full = queue.waiting.len() == ROOM / 2;
        if std::mem::take(&mut queue.sleeps) || is_half_full {
            drop(queue);
            self.shared.changed.notify_one();
        }
    }

    /// Waits until all that is queued now is delivered.
    pub(super) async fn flush(&self) {
        let mut delivered = self.shared.delivered.subscribe();
        let until = {
            let mut queue = self.shared.lock();
            queue.is_urgent = true;
            queue.queued
        };
        self.shared.changed.notify_one();
        let _ = delivered.wait_for(|delivered| *delivered >= until).await;
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
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

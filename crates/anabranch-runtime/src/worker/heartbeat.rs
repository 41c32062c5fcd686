//! The signs of life of a worker, on a task of their own: a busy or blocked handler never looks dead.

use crate::tables::Tables;
use crate::tables::workers::{Beat, Worker};
use anabranch_core::{Happening, StoreError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// How soon a heartbeat may follow another when something was signalled.
const SIGNAL_PAUSE: Duration = Duration::from_millis(5);
/// How soon one follows another that gave up since somebody held a lock.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// How often a log line may say that heartbeats fail.
const COMPLAIN: Duration = Duration::from_secs(10);

/// The signs of life of a worker, on a task of their own.
pub(super) struct Heartbeat {
    beats: watch::Receiver<Pulse>,
    sooner: Arc<Notify>,
    report: Arc<Mutex<String>>,
    consumers: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

/// What the last heartbeat has found out. Whoever looks after them may be slow: only the last counts.
#[derive(Clone)]
enum Pulse {
    None,
    Beat(Arc<Beat>),
    /// The worker has been declared dead.
    Dead,
    /// The worker cannot go on, and waiting will not help: its sign of life is none, or the database is not the
    /// one any more that it began with.
    Ended(Arc<Mutex<Option<StoreError>>>),
}

/// What is beaten.
pub(super) struct Rhythm {
    pub(super) worker: Worker,
    pub(super) consumers: Vec<String>,
    pub(super) lease: Duration,
    pub(super) interval: Duration,
}

impl Heartbeat {
    pub(super) fn start(tables: Tables, rhythm: Rhythm, report: String) -> Self {
        let (sender, beats) = watch::channel(Pulse::None);
        let sooner = Arc::new(Notify::new());
        let report = Arc::new(Mutex::new(report));
        let (signalled, said) = (Arc::clone(&sooner), Arc::clone(&report));
        let Rhythm { worker, consumers, lease, interval } = rhythm;
        let consumers = Arc::new(Mutex::new(consumers));
        let looked_at = Arc::clone(&consumers);
        let pace = interval;
        let task = tokio::spawn(async move {
            let mut interval = tokio::time::interval(interval);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut complained: Option<Instant> = None;
            loop {
                tokio::select! {
                    _ = interval.tick() => {}
                    () = signalled.notified() => {}
                }
                let report = said.lock().map(|said| said.clone()).unwrap_or_default();
                let consumers = looked_at.lock().map(|names| names.clone()).unwrap_or_default();
                match tables.beat(&worker, lease, &consumers, &report).await {
                    Ok(Some(beat)) => {
                        if complained.take().is_some() {
                            tables.events.emit(Happening::heartbeat_recovered());
                        }
                        tables.events.emit(Happening::heartbeat_stored(pace));
                        sender.send_replace(Pulse::Beat(Arc::new(beat)));
                    }
                    Ok(None) => {
                        sender.send_replace(Pulse::Dead);
                        return std::future::pending().await;
                    }
                    // That concerns whoever runs here.
                    Err(error @ (StoreError::Gone { .. } | StoreError::Unsuitable { .. })) => {
                        sender.send_replace(Pulse::Ended(Arc::new(Mutex::new(Some(error)))));
                        return std::future::pending().await;
                    }
                    Err(error) => {
                        let is_repeated = complained.is_some_and(|at| at.elapsed() < COMPLAIN);
                        if !is_repeated {
                            complained = Some(Instant::now());
                        }
                        let what = Happening::heartbeat_failed(error.to_string(), is_repeated);
                        tables.events.emit(what);
                        if matches!(error, StoreError::Busy { .. }) {
                            // Somebody holds what it needs: it comes again when others had their turn.
                            tokio::time::sleep(BUSY_PAUSE).await;
                            signalled.notify_one();
                        }
                    }
                }
                tokio::time::sleep(SIGNAL_PAUSE).await;
            }
        });
        Self { beats, sooner, report, consumers, task }
    }

    /// What the next heartbeat finds out; `None` if the worker has been declared dead. An error is for good.
    pub(super) async fn next(&mut self) -> Result<Option<Arc<Beat>>, StoreError> {
        loop {
            if self.beats.changed().await.is_err() {
                return Ok(None);
            }
            match self.beats.borrow_and_update().clone() {
                Pulse::None => {}
                Pulse::Beat(beat) => return Ok(Some(beat)),
                Pulse::Dead => return Ok(None),
                Pulse::Ended(error) => {
                    let error = error.lock().ok().and_then(|mut error| error.take());
                    return Err(error.unwrap_or(StoreError::Closed));
                }
            }
        }
    }

    /// Does not wait for the next one: there is something to look at.
    pub(super) fn now(&self) {
        self.sooner.notify_one();
    }

    /// Which consumers the next one looks at.
    pub(super) fn looks_at(&self, consumers: Vec<String>) {
        if let Ok(mut names) = self.consumers.lock() {
            *names = consumers;
        }
    }

    /// What the next one says of the worker.
    pub(super) fn say(&self, report: String) {
        if let Ok(mut said) = self.report.lock() {
            *said = report;
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.task.abort();
    }
}

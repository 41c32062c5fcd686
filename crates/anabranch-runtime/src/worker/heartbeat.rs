//! The signs of life of a worker, on a task of their own: a busy or blocked handler never looks dead.

use crate::tables::Tables;
use crate::tables::workers::{Beat, Worker};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// How soon a heartbeat may follow another when something was signalled.
const SIGNAL_PAUSE: Duration = Duration::from_millis(5);
/// How often a log line may say that heartbeats fail.
const COMPLAIN: Duration = Duration::from_secs(10);

/// The signs of life of a worker, on a task of their own.
pub(super) struct Heartbeat {
    pub(super) beats: mpsc::Receiver<Option<Beat>>,
    sooner: Arc<Notify>,
    report: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

/// What is beaten.
pub(super) struct Rhythm {
    pub(super) worker: Worker,
    pub(super) consumers: Vec<String>,
    pub(super) lease: Duration,
    pub(super) interval: Duration,
}

impl Heartbeat {
    pub(super) fn start(tables: Tables, rhythm: Rhythm) -> Self {
        let (sender, beats) = mpsc::channel(1);
        let sooner = Arc::new(Notify::new());
        let report = Arc::new(Mutex::new("{}".to_owned()));
        let (signalled, said) = (Arc::clone(&sooner), Arc::clone(&report));
        let task = tokio::spawn(async move {
            let Rhythm { worker, consumers, lease, interval } = rhythm;
            let mut interval = tokio::time::interval(interval);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut complained: Option<Instant> = None;
            loop {
                tokio::select! {
                    _ = interval.tick() => {}
                    () = signalled.notified() => {}
                }
                let report = said.lock().map(|said| said.clone()).unwrap_or_default();
                match tables.beat(&worker, lease, &consumers, &report).await {
                    Ok(Some(beat)) => {
                        if complained.take().is_some() {
                            tracing::info!(worker = worker.id, "heartbeats go through again");
                        }
                        // Whoever looks after them may be slow; the lease must not be.
                        let _ = sender.try_send(Some(beat));
                    }
                    Ok(None) => {
                        let _ = sender.send(None).await;
                        return;
                    }
                    Err(error) if complained.is_none_or(|at| at.elapsed() >= COMPLAIN) => {
                        complained = Some(Instant::now());
                        tracing::warn!(worker = worker.id, %error, "a heartbeat failed");
                    }
                    Err(error) => tracing::debug!(worker = worker.id, %error, "a heartbeat failed"),
                }
                tokio::time::sleep(SIGNAL_PAUSE).await;
            }
        });
        Self { beats, sooner, report, task }
    }

    /// Does not wait for the next one: there is something to look at.
    pub(super) fn now(&self) {
        self.sooner.notify_one();
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

//! The signs of life of a worker, on a task of their own: a busy or blocked handler never looks dead.

use super::BEATS;
use crate::tables::Tables;
use crate::tables::workers::Beat;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// How soon a heartbeat may follow another when something was signalled.
const SIGNAL_PAUSE: Duration = Duration::from_millis(10);

/// The signs of life of a worker, on a task of their own.
pub(super) struct Heartbeat {
    pub(super) beats: mpsc::Receiver<Option<Vec<Beat>>>,
    sooner: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Heartbeat {
    pub(super) fn start(
        tables: Tables,
        worker: String,
        consumers: Vec<String>,
        lease: Duration,
    ) -> Self {
        let (sender, beats) = mpsc::channel(1);
        let sooner = Arc::new(Notify::new());
        let signalled = Arc::clone(&sooner);
        let task = tokio::spawn(async move {
            let mut interval = tokio::time::interval(lease / BEATS);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = interval.tick() => {}
                    () = signalled.notified() => tokio::time::sleep(SIGNAL_PAUSE).await,
                }
                match tables.beat(&worker, lease, &consumers).await {
                    Ok(Some(beats)) => {
                        // Whoever looks after them may be slow; the lease must not be.
                        let _ = sender.try_send(Some(beats));
                    }
                    Ok(None) => {
                        let _ = sender.send(None).await;
                        return;
                    }
                    Err(error) => tracing::warn!(%error, "a heartbeat failed"),
                }
            }
        });
        Self { beats, sooner, task }
    }

    /// Does not wait for the next one: there is something to look at.
    pub(super) fn now(&self) {
        self.sooner.notify_one();
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.task.abort();
    }
}

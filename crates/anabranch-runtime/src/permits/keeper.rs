//! Asks the database for what the lanes of a process want, and gives back what they do not need or others wait
//! for: does what `asking` decides.

use super::Leased;
use super::asking::Next;
use super::desk::Desk;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_core::engine_event::OutageOf;
use anabranch_store::Backoff;
use anabranch_store::database::Topic;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Runs beside the lanes of a consumer, for as long as they do.
pub(crate) async fn keep(leased: Arc<Leased>, tables: Tables, consumer: String, poll: Duration) {
    let mut keeper = Keeper {
        worker: leased.worker.subscribe(),
        permits: tables.database.signals(Topic::Permits),
        workers: tables.database.signals(Topic::Workers),
        tables,
        desk: Desk::new(leased, consumer.clone(), poll, Instant::now()),
        consumer,
        backoff: Backoff::default(),
    };
    loop {
        if keeper.worker.has_changed().unwrap_or(false) {
            keeper.lose().await;
        }
        match keeper.desk.next(Instant::now()) {
            Next::Deal => keeper.deal().await,
            Next::Look => keeper.look().await,
            Next::Wait { until, hears_others, hears_workers } => {
                keeper.wait(until, hears_others, hears_workers).await;
            }
        }
    }
}

struct Keeper {
    tables: Tables,
    consumer: String,
    desk: Desk,
    worker: watch::Receiver<String>,
    permits: watch::Receiver<u64>,
    workers: watch::Receiver<u64>,
    backoff: Backoff,
}

impl Keeper {
    /// Waits for something to change.
    async fn wait(&mut self, until: Option<Instant>, hears_others: bool, hears_workers: bool) {
        tokio::select! {
            () = self.desk.leased.changed.notified() => {}
            _ = self.worker.changed() => self.worker.mark_changed(),
            Ok(()) = self.permits.changed(), if hears_others => self.desk.hear(),
            Ok(()) = self.workers.changed(), if hears_workers => self.desk.hear(),
            () = sleep_until(until) => {}
        }
    }

    async fn look(&mut self) {
        self.mark_unchanged();
        let worker = self.worker.borrow().clone();
        let seen = self.tables.look_at_permits(self.desk.looks(&worker, Instant::now())).await;
        match seen {
            Ok(seen) if self.desk.has_seen(&worker, &seen) => self.deal().await,
            Ok(_) => self.answered(),
            Err(error) => self.failed(&error).await,
        }
    }

    async fn deal(&mut self) {
        self.mark_unchanged();
        let worker = self.worker.borrow().clone();
        let ask = self.desk.deals(&worker, Instant::now());
        let in_use = ask.in_use;
        match self.tables.deal(ask).await {
            Ok(Some(dealt)) => {
                self.answered();
                self.desk.has_dealt(in_use, dealt);
            }
            Ok(None) => {
                self.lose().await;
                self.wait_out().await;
            }
            Err(error) => self.failed(&error).await,
        }
    }

    /// What others say from now on is not in the answer.
    fn mark_unchanged(&mut self) {
        self.permits.mark_unchanged();
        self.workers.mark_unchanged();
    }

    async fn failed(&mut self, error: &StoreError) {
        let events = self.tables.events.of(&self.consumer);
        events.outage(&mut self.backoff, OutageOf::Permits, error);
        self.wait_out().await;
    }

    /// The database answers.
    fn answered(&mut self) {
        if self.backoff.is_under_way() {
            let events = self.tables.events.of(&self.consumer);
            events.outage_over(&mut self.backoff, OutageOf::Permits);
        }
    }

    async fn wait_out(&mut self) {
        let wait = self.backoff.wait();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = self.worker.changed() => self.worker.mark_changed(),
        }
    }

    /// The worker's lease is over, and with it the permits. The next ones come under another lease, when the
    /// use of these is over.
    async fn lose(&mut self) {
        self.desk.lose().await;
        self.worker.mark_unchanged();
        self.desk.begin_anew(Instant::now());
    }
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}

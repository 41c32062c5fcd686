//! How far a batch is, and what came of it.

use crate::part::Part;
use crate::tables::Tables;
use anabranch_core::{StoreError, time};
use anabranch_store::database::column;
use anabranch_store::value::ColumnError;
use anabranch_store::{Database, Row};
use jiff::Timestamp;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How far a batch is, as this instance sees it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BatchProgress {
    /// Rows that this instance has handled well.
    pub succeeded: u64,
    /// Rows that failed here.
    pub failed: u64,
    /// Rows that have failed here in a way that may pass, and wait for another attempt.
    pub waiting: u64,
    /// Rows that were done, here or elsewhere, when that was looked up last.
    pub done: u64,
    /// All rows there were then.
    pub rows: u64,
    /// Rows per second, of all instances, since this one began.
    pub rate: f64,
    /// How long the rest takes at that rate.
    pub left: Option<Duration>,
}

/// What came of a batch in this instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Rows that this instance has handled well.
    pub succeeded: u64,
    /// Rows that failed here.
    pub failed: u64,
    /// Rows of its part that are failed and did not fail here: before this run, or in another instance. They stay so
    /// until [`Batch::retry_failed`](crate::Batch::retry_failed) tries them again.
    pub failed_before: u64,
    /// Further attempts at rows that had failed in a way that may pass.
    pub retried: u64,
    /// Rows whose claim somebody else had by the time that they were to be stored; nothing of them was.
    pub lost: u64,
    /// The sessions of this instance: one, unless its lease ran out.
    pub sessions: Vec<String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// A row that has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedRow {
    /// Its key.
    pub key: String,
    /// What was said.
    pub error: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it failed last, by the database's clock.
    pub at: Timestamp,
}

impl FailedRow {
    pub(crate) fn of(row: &Row) -> Result<Self, ColumnError> {
        Ok(Self {
            key: row.get("key")?,
            error: row.get::<Option<String>>("error")?.unwrap_or_default(),
            attempts: row.get("attempts")?,
            at: time::from_micros(row.get::<Option<i64>>("finished_us")?.unwrap_or_default()),
        })
    }
}

/// How many keys are in memory at a time.
const PAGE: usize = 100_000;

/// How many rows of a part are failed that did not fail in these sessions.
pub(crate) async fn failed_before(
    part: Part,
    database: &Arc<dyn Database>,
    tables: &Tables,
    sessions: &[String],
) -> Result<u64, StoreError> {
    let (mut failed, mut after) = (0, None::<String>);
    loop {
        let page = tables.failed_elsewhere(sessions, after.as_deref(), PAGE);
        let page = database.rows(page).await?;
        for row in &page {
            let key: String = column(database.at(), row, "key")?;
            failed += u64::from(part.has(&key));
            after = Some(key);
        }
        if page.len() < PAGE {
            return Ok(failed);
        }
    }
}

/// What workers have counted.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) started: Instant,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        let (succeeded, failed, lost, waiting, retried) = (zero(), zero(), zero(), zero(), zero());
        Self { succeeded, failed, lost, waiting, retried, started: Instant::now() }
    }

    pub(crate) fn add(counter: &AtomicU64, rows: usize) {
        counter.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Rows that have waited are tried again.
    pub(crate) fn try_again(&self, rows: usize) {
        self.give_back(rows);
        Self::add(&self.retried, rows);
    }

    /// Rows that have waited are given back.
    pub(crate) fn give_back(&self, rows: usize) {
        self.waiting.fetch_sub(rows as u64, Ordering::Relaxed);
    }

    /// Rows that the workers are done with.
    pub(crate) fn ended(&self) -> u64 {
        [&self.succeeded, &self.failed, &self.lost].iter().map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// With what the database knew: how many rows there were and how many were done, now and at first.
    pub(crate) fn progress(&self, rows: u64, done: u64, done_at_first: u64) -> BatchProgress {
        let seconds = self.started.elapsed().as_secs_f64().max(0.001);
        let rate = done.saturating_sub(done_at_first) as f64 / seconds;
        let behind = rows.saturating_sub(done) as f64;
        BatchProgress {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            done,
            rows,
            rate,
            left: (rate > 0.1).then(|| Duration::from_secs_f64(behind / rate)),
        }
    }
}

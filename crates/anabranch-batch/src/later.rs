//! Rows that have failed and are tried again after a while: they stay claimed, and the others go on.

use crate::record::Record;
use anabranch_core::{Happening, Retry};
use anabranch_runtime::HandlerError;
use anabranch_store::Emitter;
use anabranch_store::backoff::random;
use std::time::Duration;
use tokio::time::Instant;

/// How many rows wait in each worker before it takes no others: then it is not the rows that fail.
const MANY: usize = 64;

/// The rows of one worker that wait for another attempt.
pub(crate) struct Later {
    retry: Retry,
    events: Emitter,
    waiting: Vec<Waiting>,
}

struct Waiting {
    record: Record,
    due: Instant,
}

impl Later {
    pub(crate) fn new(retry: Retry, events: Emitter) -> Self {
        Self { retry, events, waiting: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < MANY
    }

    /// How long a row waits that has failed once more, if it is tried again.
    pub(crate) fn wait(&self, record: &Record, error: &HandlerError) -> Option<Duration> {
        self.retry.after(record.failed + 1, error.again(), random())
    }

    /// Tries a row again, which has failed once more, after this time.
    pub(crate) fn put(&mut self, mut record: Record, wait: Duration, error: &HandlerError) {
        record.failed += 1;
        let (key, failed, error) = (record.key().to_owned(), record.failed, error.to_string());
        self.events.emit(Happening::row_retried(key, failed, error, wait));
        self.waiting.push(Waiting { record, due: Instant::now() + wait });
    }

    /// Resolves when the time of a row has come.
    pub(crate) async fn due(&self) {
        match self.waiting.iter().map(|row| row.due).min() {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// The rows whose time has come.
    pub(crate) fn take_due(&mut self) -> Vec<Record> {
        let now = Instant::now();
        let due = self.waiting.extract_if(.., |row| row.due <= now);
        due.map(|row| row.record).collect()
    }
}

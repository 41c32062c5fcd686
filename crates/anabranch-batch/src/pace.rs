//! How many rows an instance claims ahead and a worker takes at a time: few of slow ones, so that nobody sits
//! on rows that others could handle, and many of fast ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// How long the rows of one transaction should take.
const TARGET: Duration = Duration::from_millis(150);
/// Rows that take no longer than this share a transaction, though other workers wait for some: a transaction for
/// each few would cost more than that gains.
const QUICK: Duration = Duration::from_millis(30);

/// How many rows a worker takes at a time.
pub(crate) struct Pace {
    rows: AtomicUsize,
    quick: AtomicUsize,
    most: usize,
    moved: Notify,
}

impl Pace {
    /// Begins with one row, since nobody knows yet how slow they are.
    pub(crate) fn new(most: usize) -> Self {
        let one = || AtomicUsize::new(1);
        Self { rows: one(), quick: one(), most, moved: Notify::new() }
    }

    /// So many rows for one worker, at the most.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// So many of the rows that are there for one of so many workers.
    pub(crate) fn share(&self, rows: usize, workers: usize) -> usize {
        let quick = self.quick.load(Ordering::Relaxed);
        (rows / workers).max(quick).clamp(1, self.rows())
    }

    /// So many rows took so long.
    pub(crate) fn measured(&self, rows: usize, took: Duration) {
        let now = self.rows();
        let fit = |time: Duration| {
            let fit = rows as u128 * time.as_micros() / took.as_micros().max(1);
            usize::try_from(fit).unwrap_or(self.most)
        };
        // Never by more than half: one slow row is no slow table.
        let next = fit(TARGET).clamp(now / 2, now * 2);
        self.rows.store(next.clamp(1, self.most), Ordering::Relaxed);
        self.quick.store(fit(QUICK), Ordering::Relaxed);
        self.moved();
    }

    /// A worker has taken rows from the queue, or has ended some.
    pub(crate) fn moved(&self) {
        self.moved.notify_one();
    }

    /// Waits until a worker takes rows, or ends some.
    pub(crate) async fn wait(&self) {
        self.moved.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_rows_are_taken_in_pages_and_slow_ones_alone() {
        let pace = Pace::new(100);
        for _ in 0..10 {
            pace.measured(pace.rows(), Duration::from_millis(5));
        }
        assert_eq!((pace.rows(), pace.share(40, 4)), (100, 100));
        pace.measured(50, Duration::from_millis(60));
        assert_eq!((pace.rows(), pace.share(40, 4), pace.share(200, 4)), (100, 25, 50));
        pace.measured(1, Duration::from_secs(60));
        assert_eq!(pace.rows(), 50, "one slow row is no slow table");
        for _ in 0..10 {
            pace.measured(pace.rows(), Duration::from_secs(1));
        }
        assert_eq!(pace.rows(), 1);
    }
}

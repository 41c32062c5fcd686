//! How many rows an instance claims ahead and a worker takes at a time: few of slow ones, so that nobody sits
//! on rows that others could handle, and many of fast ones.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// How long the rows of one transaction should take.
const TARGET: Duration = Duration::from_millis(150);

/// How many rows a worker takes at a time.
pub(crate) struct Pace {
    rows: AtomicUsize,
    most: usize,
    taken: Notify,
}

impl Pace {
    /// Begins with one row, since nobody knows yet how slow they are.
    pub(crate) fn new(most: usize) -> Self {
        Self { rows: AtomicUsize::new(1), most, taken: Notify::new() }
    }

    /// So many rows for one worker.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// So many rows took so long.
    pub(crate) fn measured(&self, rows: usize, took: Duration) {
        let now = self.rows();
        let fit = rows as u128 * TARGET.as_micros() / took.as_micros().max(1);
        let fit = usize::try_from(fit).unwrap_or(self.most);
        // Never by more than half: one slow row is no slow table.
        let next = fit.clamp(now / 2, now * 2);
        self.rows.store(next.clamp(1, self.most), Ordering::Relaxed);
    }

    /// A worker has taken rows from the queue.
    pub(crate) fn taken(&self) {
        self.taken.notify_one();
    }

    /// Waits until a worker takes rows.
    pub(crate) async fn wait(&self) {
        self.taken.notified().await;
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
        assert_eq!(pace.rows(), 100);
        pace.measured(1, Duration::from_secs(60));
        assert_eq!(pace.rows(), 50, "one slow row is no slow table");
        for _ in 0..10 {
            pace.measured(pace.rows(), Duration::from_secs(1));
        }
        assert_eq!(pace.rows(), 1);
    }
}

//! How long a program may take. Only the time that it is waited for counts, not that of the database.

use std::time::Duration;

/// What a program has left.
#[derive(Debug)]
pub(super) struct Clock {
    left: Duration,
    limit: Duration,
    awaited: Awaited,
    is_open: bool,
}

/// What it is waited for to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    Greeting,
    Batch,
    Task,
}

impl Clock {
    /// No transaction is open: it has its time-out.
    pub(super) fn new(timeout: Duration, awaited: Awaited) -> Self {
        Self { left: timeout, limit: timeout, awaited, is_open: false }
    }

    /// A transaction is open that may be so for this long without a statement. The first time, it has as much in all.
    pub(super) fn open(&mut self, limit: Duration) {
        if !self.is_open {
            // A little less: else the transaction is gone first, and nobody knows whose fault it was.
            let limit = limit - limit / 20;
            *self = Self { left: limit, limit, is_open: true, ..*self };
        }
    }

    pub(super) fn left(&self) -> Duration {
        self.left
    }

    pub(super) fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    pub(super) fn awaited(&self) -> Awaited {
        self.awaited
    }

    /// What is said when nothing is left.
    pub(super) fn is_up(&self) -> String {
        let limit = self.limit;
        // A task comes alone.
        let fewer = if self.awaited == Awaited::Batch { "lower `batch_size`, " } else { "" };
        match (self.awaited, self.is_open) {
            (Awaited::Greeting, _) => format!(
                "did not greet within {limit:.1?}: does it flush its output? If it needs longer, raise its `timeout`"
            ),
            (_, true) => format!(
                "took more than {limit:.1?} since its first query, and the transaction is open meanwhile: do slow \
                 things before the first query, {fewer}or query less"
            ),
            (_, false) => format!(
                "did not finish its answer within {limit:.1?}: make it faster, {fewer}or raise its `timeout`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_slow_one_names_keys_that_there_are() {
        let (timeout, open) = (Duration::from_secs(30), Duration::from_millis(2_500));
        let mut clock = Clock::new(timeout, Awaited::Batch);
        assert_eq!(
            clock.is_up(),
            "did not finish its answer within 30.0s: make it faster, lower `batch_size`, or raise its `timeout`"
        );
        clock.open(open);
        assert!(clock.is_up().starts_with("took more than 2.4s since its first query"));
        assert!(clock.is_up().contains("`batch_size`"), "{}", clock.is_up());
        let mut clock = Clock::new(timeout, Awaited::Task);
        assert!(!clock.is_up().contains("`batch_size`"), "{}", clock.is_up());
        clock.open(open);
        assert!(!clock.is_up().contains("`batch_size`"), "{}", clock.is_up());
        assert!(Clock::new(timeout, Awaited::Greeting).is_up().contains("flush its output"));
    }
}

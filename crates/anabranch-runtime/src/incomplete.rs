//! What a catch-up has left behind: why it is no success, and what to do.

use crate::replica_set::Progress;
use anabranch_core::Position;
use std::fmt;

/// A catch-up that has not handled everything: [`RunError::Incomplete`](crate::RunError::Incomplete).
///
/// ```
/// # use anabranch_runtime::{Projection, ReplicaSet, RunError};
/// # async fn f<P: Projection>(log: anabranch_store::Log, orders: P) -> Result<(), RunError> {
/// match ReplicaSet::new("nightly").projection(orders).catch_up(&log).await {
///     // Told to stop, so tomorrow's run goes on where this one stopped.
///     Err(RunError::Incomplete(left)) if left.was_stopped => println!("{left}"),
///     ended => drop(ended?),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Incomplete {
    /// The replica set.
    pub replica_set: String,
    /// Everything up to here was to be handled: the end of the log when it began.
    pub target: Position,
    /// Whether it was told to stop before it got there.
    pub was_stopped: bool,
    /// The consumers that have left something, and what. Of fixed partitions only the one that ran
    /// counts; else everything does, whoever has left it, in this run or before.
    pub left: Vec<Left>,
    /// How far this process got.
    pub progress: Progress,
}

/// What a consumer has left behind, up to the target.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Left {
    /// Its name.
    pub consumer: String,
    /// Whether it is a pool: then tasks are counted, and not events.
    pub is_pool: bool,
    /// If it was told to stop: how many positions, or tasks, nobody has looked at.
    pub unseen: u64,
    /// Keys that have failed and wait for somebody, or are paused.
    pub parked_keys: usize,
    /// Events, or tasks, that wait behind them.
    pub parked_events: u64,
    /// Keys that have failed and are tried again by themselves.
    pub retrying_keys: usize,
    /// Events, or tasks, that wait behind them.
    pub retrying_events: u64,
    /// What was said when the first of these keys failed last.
    pub first_error: Option<String>,
}

impl Left {
    /// Whether there is nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.unseen == 0 && self.parked_events == 0 && self.retrying_events == 0
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replica_set, target, was_stopped, left, .. } = self;
        write!(f, "replica set `{replica_set}` ")?;
        match was_stopped {
            true => f.write_str("was told to stop before everything was handled")?,
            false => f.write_str("has not handled everything")?,
        }
        write!(f, " up to position {target}")?;
        left.iter().try_for_each(|left| write!(f, "; {left}"))?;
        match was_stopped {
            true => f.write_str("; start it again: it goes on where it stopped"),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { consumer, is_pool, unseen, parked_keys, retrying_keys, .. } = self;
        let event = if *is_pool { "task" } else { "event" };
        let of = |events: u64, keys: usize| {
            format!("{} of {}", count(events, event), count(keys as u64, "key"))
        };
        let mut parts = Vec::new();
        match (unseen, is_pool) {
            (0, _) => {}
            (unseen, true) => parts.push(format!("{} not begun", count(*unseen, "task"))),
            (unseen, false) => parts.push(format!("{} to go", count(*unseen, "position"))),
        }
        if self.retrying_events > 0 {
            let waiting = of(self.retrying_events, *retrying_keys);
            parts.push(format!("{waiting} waiting for the next attempt"));
        }
        if self.parked_events > 0 {
            parts.push(format!("{} parked", of(self.parked_events, *parked_keys)));
        }
        let kind = if *is_pool { "pool" } else { "consumer" };
        write!(f, "{kind} `{consumer}` has {}", parts.join(" and "))?;
        if let Some(error) = &self.first_error {
            write!(f, " (first error: {error})")?;
        }
        match (self.parked_events, is_pool) {
            (0, _) => Ok(()),
            (_, true) => write!(
                f,
                ": `anabranch tasks list {consumer}` shows them; correct the cause, then `anabranch \
                 tasks retry ID`, `discard ID` or, of a paused key, `resume-key {consumer} KEY`"
            ),
            (_, false) => write!(
                f,
                ": `anabranch parked list {consumer}` shows them; correct the cause, then `anabranch \
                 parked retry {consumer} --all`, or leave events out by `anabranch parked skip \
                 {consumer} KEY`, and start it again"
            ),
        }
    }
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_left_and_what_to_do() {
        let orders = Left {
            consumer: "orders".to_owned(),
            parked_keys: 1,
            parked_events: 3,
            first_error: Some("no such table".to_owned()),
            ..Left::default()
        };
        let pool = Left {
            consumer: "mails".to_owned(),
            is_pool: true,
            unseen: 2,
            retrying_keys: 1,
            retrying_events: 1,
            ..Left::default()
        };
        let said = |was_stopped, left: &Left| {
            let (replica_set, left) = ("s".to_owned(), vec![left.clone()]);
            let (target, progress) = (Position::new(9), Progress::default());
            Incomplete { replica_set, target, was_stopped, left, progress }.to_string()
        };
        assert_eq!(
            said(false, &orders),
            "replica set `s` has not handled everything up to position 9; consumer `orders` has 3 \
             events of 1 key parked (first error: no such table): `anabranch parked list orders` \
             shows them; correct the cause, then `anabranch parked retry orders --all`, or leave \
             events out by `anabranch parked skip orders KEY`, and start it again"
        );
        assert_eq!(
            said(true, &pool),
            "replica set `s` was told to stop before everything was handled up to position 9; pool `mails` \
             has 2 tasks not begun and 1 task of 1 key waiting for the next attempt; start it again: \
             it goes on where it stopped"
        );
    }
}

//! How a run went.

use crate::running::{Incomplete, Left};

/// How a run of a [`TestKit`](super::TestKit) went.
#[derive(Clone, Debug, Default)]
#[must_use = "what has failed in the run is only here"]
pub struct Ran {
    pub(super) handled: u64,
    pub(super) crashed: bool,
    pub(super) left: Option<Box<Incomplete>>,
}

impl Ran {
    /// How many events, or tasks, were handled and committed. Of a run that crashed nobody knows, so it is 0.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Whether it crashed, as [`crash_after`](super::TestKit::crash_after) had it.
    #[must_use]
    pub fn crashed(&self) -> bool {
        self.crashed
    }

    /// How many keys have failed and wait for their next attempt, which comes when the clock has moved.
    #[must_use]
    pub fn retrying(&self) -> usize {
        self.left().iter().map(|left| left.retrying_keys).sum()
    }

    /// How many keys have failed for good and wait for somebody to retry or skip them.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.left().iter().map(|left| left.parked_keys).sum()
    }

    /// What was said when the first of these keys failed last.
    #[must_use]
    pub fn first_error(&self) -> Option<&str> {
        self.left().iter().find_map(|left| left.first_error.as_deref())
    }

    /// What each consumer has left behind.
    #[must_use]
    pub fn left(&self) -> &[Left] {
        self.left.as_ref().map_or(&[], |left| &left.left)
    }
}

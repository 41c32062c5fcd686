//! When a failed event is tried again, and what happens when that does not help.

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What to do with an event whose attempts are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// Put it aside with all later events of its key, in order; the other keys go on.
    #[default]
    Park,
    /// Leave it out and go on.
    Skip,
    /// Stop the consumer before it: nothing passes it, and it is tried until it works.
    Stop,
}

impl Failure {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Park => "park",
            Self::Skip => "skip",
            Self::Stop => "stop",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often an event is tried, and how long to wait in between.
///
/// ```
/// use anabranch_core::{Failure, Retry};
/// use std::time::Duration;
/// let retry = Retry::default().attempts(3).then(Failure::Skip);
/// // The wait is between half and all of 100 ms, 200 ms, …; the last argument is a random number.
/// assert_eq!(retry.delay(1, 0.0), Some(Duration::from_millis(50)));
/// assert_eq!(retry.delay(2, 0.5), Some(Duration::from_millis(150)));
/// assert_eq!(retry.delay(3, 0.5), None, "three attempts are used up");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often an event is tried, the first time included.
    pub attempts: u32,
    /// The wait after the first failure.
    pub first: Duration,
    /// How many times longer each wait is than the one before.
    pub factor: u32,
    /// The longest wait.
    pub longest: Duration,
    /// What happens then.
    pub then: Failure,
}

impl Default for Retry {
    /// Five attempts, after 100 ms, 200 ms, 400 ms and 800 ms; then the key is parked.
    fn default() -> Self {
        Self {
            attempts: 5,
            first: Duration::from_millis(100),
            factor: 2,
            longest: Duration::from_secs(30),
            then: Failure::Park,
        }
    }
}

impl Retry {
    /// One attempt only.
    #[must_use]
    pub fn never() -> Self {
        Self::default().attempts(1)
    }

    /// Tries so often, the first time included; 0 means 1.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Waits so long after the first failure.
    #[must_use]
    pub fn first(self, first: Duration) -> Self {
        Self { first, ..self }
    }

    /// Makes each wait so many times longer than the one before; 0 means 1.
    #[must_use]
    pub fn factor(self, factor: u32) -> Self {
        Self { factor, ..self }
    }

    /// Waits never longer than this.
    #[must_use]
    pub fn longest(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// What happens when the attempts are used up.
    #[must_use]
    pub fn then(self, then: Failure) -> Self {
        Self { then, ..self }
    }

    /// The wait after the failure of this attempt (the first is 1), or nothing when the attempts are
    /// used up.
    ///
    /// `random` in 0..1 chooses between half and all of the wait, so that workers that failed
    /// together do not come back together.
    #[must_use]
    pub fn delay(&self, attempt: u32, random: f64) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let full = self.backoff(attempt);
        let half = full / 2;
        let share = if (0.0..=1.0).contains(&random) { random } else { 1.0 };
        // Rounding may go a little beyond the full wait, for one of centuries even out of range.
        Some(half.saturating_add((full - half).mul_f64(share)).min(full))
    }

    /// The wait without its jitter.
    fn backoff(&self, attempt: u32) -> Duration {
        let growth = self.factor.max(1).saturating_pow(attempt.saturating_sub(1));
        self.first.saturating_mul(growth).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_doubles_from_100_ms() {
        let waits: Vec<_> = (1..7).map(|attempt| Retry::default().delay(attempt, 1.0)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(waits, [ms(100), ms(200), ms(400), ms(800), None, None]);
        assert_eq!(Retry::default().attempts(99).delay(50, 1.0), ms(30_000));
        assert_eq!(Retry::default().then.name(), "park");
    }

    #[test]
    fn never_means_one_attempt() {
        assert_eq!(Retry::never().delay(1, 0.5), None);
        assert_eq!(Retry::never().attempts(0).delay(1, 0.5), None);
    }

    fn duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0..100_000_u64).prop_map(Duration::from_millis),
            (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, ns)| Duration::new(s, ns)),
            Just(Duration::MAX),
        ]
    }

    proptest! {
        #[test]
        fn waits_grow_and_stay_within_bounds(
            first in duration(), longest in duration(), factor in any::<u32>(),
            attempt in prop_oneof![0..40_u32, 0..u32::MAX - 1],
            random in prop_oneof![0.0..1.0, any::<f64>()],
        ) {
            let retry =
                Retry::default().attempts(u32::MAX).first(first).factor(factor).longest(longest);
            let full = retry.backoff(attempt);
            prop_assert!(full >= first.min(longest) && full <= longest);
            prop_assert!(full <= retry.backoff(attempt + 1));
            let wait = retry.delay(attempt, random).unwrap();
            prop_assert!(wait >= full / 2 && wait <= full);
        }
    }
}

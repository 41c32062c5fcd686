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

/// What a failure itself says about the next attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Again {
    /// Nothing: the [`Retry`] decides.
    #[default]
    AsSet,
    /// Not before so much time has passed. It counts as an attempt.
    After(Duration),
    /// Another attempt would not help: there is none.
    Never,
}

/// The longest wait that a failure can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(366 * 86_400);

/// How often an event is tried, and how long to wait in between.
///
/// There are two defaults, by where the effects are. Inside the database ([`Retry::default`]) an event
/// that fails five times within two seconds will fail again. Outside ([`Retry::outside`]) somebody else's
/// server may be down for hours, and is back then.
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
    /// For effects outside the database: as the default at first, then every five minutes, for about
    /// three days; then the key is parked.
    ///
    /// ```
    /// use anabranch_core::Retry;
    /// use std::time::Duration;
    /// let retry = Retry::outside();
    /// assert_eq!(retry.delay(1, 1.0), Some(Duration::from_millis(100)));
    /// assert_eq!(retry.delay(100, 1.0), Some(Duration::from_secs(300)));
    /// ```
    #[must_use]
    pub fn outside() -> Self {
        let (five_minutes, three_days) =
            (Duration::from_secs(300), Duration::from_secs(3 * 86_400));
        Self::default().longest(five_minutes).lasting(three_days)
    }

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

    /// Tries as often as it takes until the waits add up to this time. A wait is three quarters of its
    /// length on average, so all of them together are between two and four thirds of it, plus the time
    /// that the attempts take. Call it last: it counts the waits as they are set.
    ///
    /// ```
    /// use anabranch_core::Retry;
    /// use std::time::Duration;
    /// let retry = Retry::default().longest(Duration::from_secs(60)).lasting(Duration::from_secs(7_200));
    /// assert_eq!(retry.attempts, 170);
    /// ```
    #[must_use]
    pub fn lasting(self, time: Duration) -> Self {
        let wanted = time.as_nanos() / 3 * 4;
        let (mut waited, mut waits) = (0_u128, 0_u32);
        // While they grow, one by one; from then on all are alike.
        while waited < wanted && self.backoff(waits + 1) < self.backoff(waits + 2) {
            waits += 1;
            waited += self.backoff(waits).as_nanos();
        }
        let each = self.backoff(waits + 1).as_nanos().max(1);
        let rest = wanted.saturating_sub(waited).div_ceil(each);
        let waits = u32::try_from(rest).unwrap_or(u32::MAX).saturating_add(waits);
        self.attempts(waits.saturating_add(1))
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

    /// The wait after the failure of this attempt, if the failure says this about the next one.
    ///
    /// ```
    /// use anabranch_core::{Again, Retry};
    /// use std::time::Duration;
    /// let (retry, minute) = (Retry::default(), Duration::from_secs(60));
    /// assert_eq!(retry.after(1, Again::After(minute), 0.5), Some(minute));
    /// assert_eq!(retry.after(5, Again::After(minute), 0.5), None, "five attempts are used up");
    /// assert_eq!(retry.after(1, Again::Never, 0.5), None);
    /// ```
    #[must_use]
    pub fn after(&self, attempt: u32, again: Again, random: f64) -> Option<Duration> {
        let wait = self.delay(attempt, random)?;
        match again {
            Again::AsSet => Some(wait),
            Again::After(least) => Some(wait.max(least.min(LONGEST_ASKED))),
            Again::Never => None,
        }
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

    #[test]
    fn outside_an_hour_of_failures_leaves_attempts() {
        let (mut waited, mut attempt) = (Duration::ZERO, 0);
        while waited < Duration::from_secs(3_600) {
            attempt += 1;
            waited += Retry::outside().delay(attempt, 0.0).unwrap();
        }
        assert!(attempt < 50 && attempt * 20 < Retry::outside().attempts, "{attempt}");
        assert_eq!(Retry::outside().then, Failure::Park);
        assert_eq!(Retry::outside().longest, Duration::from_secs(300));
    }

    #[test]
    fn what_lasts_no_time_is_tried_once_and_what_lasts_for_ever_as_often_as_can_be() {
        assert_eq!(Retry::default().lasting(Duration::ZERO).attempts, 1);
        assert_eq!(Retry::default().lasting(Duration::MAX).attempts, u32::MAX);
        let at_once = Retry::default().first(Duration::ZERO);
        assert_eq!(at_once.lasting(Duration::from_secs(60)).attempts, u32::MAX);
    }

    #[test]
    fn what_a_failure_asks_for_is_a_year_at_most() {
        let wait = Retry::default().after(1, Again::After(Duration::MAX), 1.0).unwrap();
        assert_eq!(wait, LONGEST_ASKED);
        let short = Again::After(Duration::from_millis(1));
        assert_eq!(Retry::default().after(3, short, 1.0), Retry::default().delay(3, 1.0));
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

        #[test]
        fn it_lasts_as_long_as_it_says(
            first in 1..10_000_u64, longest in 1..100_000_u64, factor in 0..5_u32,
            time in 0..10_000_000_u64, seed in any::<u64>(),
        ) {
            let ms = Duration::from_millis;
            let (longest, time) = (ms(longest), ms(time));
            let retry = Retry::default().first(ms(first)).factor(factor).longest(longest).lasting(time);
            // Some sequence of random numbers.
            let random = |attempt: u32| (seed.wrapping_mul(u64::from(attempt) | 1) >> 40) as f64 / (1 << 24) as f64;
            let waits = (1..retry.attempts).map(|attempt| retry.delay(attempt, random(attempt)).unwrap());
            let total: Duration = waits.sum();
            prop_assert_eq!(retry.delay(retry.attempts, 0.5), None);
            prop_assert!(total + ms(1) >= time * 2 / 3, "{:?} of {:?}", total, time);
            prop_assert!(total <= time * 4 / 3 + longest, "{:?} of {:?}", total, time);
        }

        #[test]
        fn outside_it_is_given_up_after_two_to_four_days(random in 0.0..1.0) {
            let retry = Retry::outside();
            let waits = (1..retry.attempts).map(|attempt| retry.delay(attempt, random).unwrap());
            let hours = waits.sum::<Duration>().as_secs() / 3_600;
            prop_assert!((47..=96).contains(&hours), "{} h", hours);
        }
    }
}

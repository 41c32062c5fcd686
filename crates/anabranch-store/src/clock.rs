//! The clock that a database goes by: the machine's, or one that a test moves by hand.

use jiff::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longer than any process waits.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The clock that a database goes by. One that is moved by hand stands still in between: what is due later is
/// due when somebody has moved it that far, and not before.
///
/// ```
/// use anabranch_store::Clock;
/// use std::time::Duration;
/// let clock = Clock::by_hand("2026-01-01T00:00:00Z".parse()?);
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Where the hand stands; the machine's time without one.
    hand: Option<Arc<Mutex<Timestamp>>>,
}

impl Clock {
    /// The machine's.
    #[must_use]
    pub fn machine() -> Self {
        Self::default()
    }

    /// One that stands at a time until it is moved. Clones are the same clock.
    #[must_use]
    pub fn by_hand(at: Timestamp) -> Self {
        Self { hand: Some(Arc::new(Mutex::new(at))) }
    }

    /// Whether it is moved by hand.
    #[must_use]
    pub fn is_by_hand(&self) -> bool {
        self.hand.is_some()
    }

    /// Moves it on. Says whether it could: the machine's goes on by itself.
    pub fn advance(&self, by: Duration) -> bool {
        let Some(hand) = &self.hand else { return false };
        let mut at = hand.lock().unwrap_or_else(PoisonError::into_inner);
        *at = at.checked_add(by).unwrap_or(Timestamp::MAX);
        true
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.hand {
            Some(hand) => *hand.lock().unwrap_or_else(PoisonError::into_inner),
            None => Timestamp::now(),
        }
    }

    /// How long a process waits for that much time to pass by this clock: for ever, if it does not pass by
    /// itself. Who moves it starts those anew that wait.
    #[must_use]
    pub fn wait(&self, time: Duration) -> Duration {
        if self.is_by_hand() && !time.is_zero() { FOR_EVER } else { time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_clock_is_not_ours_to_move() {
        let clock = Clock::machine();
        assert!(!clock.advance(Duration::from_secs(1)));
        assert_eq!(clock.wait(Duration::from_secs(1)), Duration::from_secs(1));
    }

    #[test]
    fn a_clock_by_hand_stands_still_and_never_overflows() {
        let clock = Clock::by_hand(Timestamp::UNIX_EPOCH);
        assert!(clock.clone().advance(Duration::from_micros(7)));
        assert_eq!(clock.now().as_microsecond(), 7);
        assert_eq!(clock.wait(Duration::ZERO), Duration::ZERO);
        assert_eq!(clock.wait(Duration::from_micros(1)), FOR_EVER);
        assert!(clock.advance(Duration::MAX));
        assert_eq!(clock.now(), Timestamp::MAX);
    }
}

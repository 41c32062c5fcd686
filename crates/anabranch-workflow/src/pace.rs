//! How fast a process sends commands to one instance, so that others get their turn, too.
//!
//! The tasks of a process take turns, but processes race: each append says which version it follows.
//! Who appends without a break wins every time, since it alone knows the newest version, and others
//! could try for ever. So nobody goes on without a break, and who has met others waits a little.

use std::time::{Duration, Instant};

/// After so many commands in a row …
const STREAK: u32 = 16;
/// … that follow each other as closely as this …
const CLOSELY: Duration = Duration::from_millis(1);
/// … comes a break, in which others can read the newest version and append.
const BREAK: Duration = Duration::from_millis(4);
/// For how long others are minded after they were met.
const MINDFUL: Duration = Duration::from_secs(1);
/// The longest wait before a command while others are minded.
const POLITE: Duration = Duration::from_millis(4);
/// The longest wait after the first conflict. It doubles up to the longest of all.
const AFTER_CONFLICT: Duration = Duration::from_millis(2);
const AFTER_CONFLICTS: Duration = Duration::from_millis(32);

/// What a process remembers of its commands to an instance.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    streak: u32,
    last: Option<Instant>,
    met_others: Option<Instant>,
}

impl Pace {
    /// Whether others have appended to the instance of late.
    pub(crate) fn is_shared(&self, now: Instant) -> bool {
        self.met_others.is_some_and(|met| now.duration_since(met) < MINDFUL)
    }

    /// How long to wait before a command. `random` is from 0 to 1.
    pub(crate) fn wait(&self, now: Instant, random: f64) -> Duration {
        match self.last {
            _ if self.is_shared(now) => POLITE.mul_f64(random),
            Some(last) if self.streak >= STREAK => BREAK.saturating_sub(now.duration_since(last)),
            _ => Duration::ZERO,
        }
    }

    /// A command was carried out.
    pub(crate) fn sent(self, begun: Instant, now: Instant) -> Self {
        let closely = self.last.is_some_and(|last| begun.duration_since(last) < CLOSELY);
        Self { streak: if closely { self.streak + 1 } else { 0 }, last: Some(now), ..self }
    }

    /// Others have appended.
    pub(crate) fn met_others(self, now: Instant) -> Self {
        Self { met_others: Some(now), ..self }
    }

    /// How long to wait after the conflict of an attempt; the first is 1.
    pub(crate) fn after_conflict(attempt: u32, random: f64) -> Duration {
        let longest = AFTER_CONFLICT.saturating_mul(1 << (attempt - 1).min(16));
        longest.min(AFTER_CONFLICTS).mul_f64(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_takes_a_break_now_and_then() {
        let (mut now, mut pace, mut breaks) = (Instant::now(), Pace::default(), 0);
        for _ in 0..171 {
            let begun = now;
            let wait = pace.wait(now, 1.0);
            breaks += u32::from(!wait.is_zero());
            now += wait + Duration::from_micros(500);
            pace = pace.sent(begun + wait, now);
        }
        assert_eq!(breaks, 10);
        for _ in 0..100 {
            assert!(pace.wait(now + CLOSELY, 1.0) <= BREAK - CLOSELY);
            now += BREAK;
            pace = pace.sent(now, now);
            assert_eq!(pace.streak, 0, "who comes seldom needs none");
        }
    }

    #[test]
    fn who_has_met_others_waits_for_a_while() {
        let now = Instant::now();
        let pace = Pace::default().met_others(now);
        assert_eq!(pace.wait(now, 0.5), POLITE / 2);
        assert!(pace.is_shared(now) && !pace.is_shared(now + MINDFUL));
        assert_eq!(pace.wait(now + MINDFUL, 1.0), Duration::ZERO);
        assert_eq!(Pace::after_conflict(1, 1.0), AFTER_CONFLICT);
        assert_eq!(Pace::after_conflict(u32::MAX, 1.0), AFTER_CONFLICTS);
    }
}

//! How long to wait for a database that is away, and how often to say so.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// The first wait, and the longest: a caller that waits goes on about a second after the database is back.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);
/// How often a log line may say that it is still away.
const COMPLAIN: Duration = Duration::from_secs(10);

/// Waits that grow while a database is away, each a little other than its neighbours': workers
/// that were cut off at the same moment do not come back at the same moment.
///
/// ```
/// use anabranch_store::Backoff;
/// use std::time::Duration;
/// let mut backoff = Backoff::default();
/// assert!(backoff.complains() && !backoff.complains(), "a line is enough for a while");
/// let waits: Vec<Duration> = (0..9).map(|_| backoff.wait()).collect();
/// assert!(waits[0] <= Duration::from_millis(50));
/// assert!((500..=1000).contains(&waits[8].as_millis()));
/// assert!(backoff.is_under_way());
/// let away = backoff.end().expect("it has complained");
/// assert!((2_500..6_000).contains(&away.as_millis()), "all the waits: {away:?}");
/// assert!(!backoff.is_under_way());
/// assert!(backoff.wait() <= Duration::from_millis(50));
/// assert_eq!(backoff.end(), None, "nobody has heard of it");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    last: Option<Duration>,
    complained: Option<Instant>,
    /// Since when it is away, and until when at least: when it is tried again.
    away: Option<(Instant, Instant)>,
}

impl Backoff {
    /// How long to wait before the next try.
    pub fn wait(&mut self) -> Duration {
        self.wait_up_to(LONGEST)
    }

    /// The same where many may wait for the same, and each try is in the way of others.
    pub fn wait_up_to(&mut self, longest: Duration) -> Duration {
        let full = self.last.map_or(FIRST, |last| (last * 2).min(longest));
        self.last = Some(full);
        let wait = full / 2 + (full / 2).mul_f64(random());
        let now = Instant::now();
        let (since, until) = self.away.unwrap_or((now, now));
        self.away = Some((since, until.max(now) + wait));
        wait
    }

    /// Whether this failure is worth a line in the log: the first is, and then one now and then.
    pub fn complains(&mut self) -> bool {
        let is_due = self.complained.is_none_or(|at| at.elapsed() >= COMPLAIN);
        if is_due {
            self.complained = Some(Instant::now());
        }
        is_due
    }

    /// Whether it was complained of since it was last there.
    #[must_use]
    pub fn has_complained(&self) -> bool {
        self.complained.is_some()
    }

    /// Whether it was away when it was asked last.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.last.is_some()
    }

    /// It is back. Returns for how long it was away, if that was [complained](Self::complains) of: then the end
    /// of it is worth a line as well. It counts up to the try that worked, however much later this is called.
    pub fn end(&mut self) -> Option<Duration> {
        let Self { complained, away, .. } = std::mem::take(self);
        complained.and(away).map(|(since, until)| until - since)
    }
}

/// A random number from 0 to 1, for jitter: whoever waits for the same does not come at the same moment.
///
/// ```
/// let numbers: Vec<f64> = (0..9).map(|_| anabranch_store::backoff::random()).collect();
/// assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
/// assert_ne!(numbers[0], numbers[1]);
/// ```
#[must_use]
pub fn random() -> f64 {
    let number = RandomState::new().build_hasher().finish();
    (number >> 11) as f64 / (1u64 << 53) as f64
}

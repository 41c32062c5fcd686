//! How a replica set keeps together: how often its workers look, how long they wait.

use anabranch_core::ErrorCode;
use std::time::Duration;
use thiserror::Error;

/// How the workers of a replica set keep together. The defaults suit most: they are made for fast
/// hand-over.
///
/// | | default | throughput | latency | stable |
/// |---|---|---|---|---|
/// | lease | 5 s | 10 s | 3 s | 30 s |
/// | heartbeat | 1 s | 2 s | 0.5 s | 5 s |
/// | coordination time-out | 30 s | 60 s | 10 s | 120 s |
/// | batch size | by kind | 5,000 | 100 | by kind |
/// | poll | 5 s | 5 s | 1 s | 5 s |
/// | rebalance | 30 s | 30 s | 30 s | never |
/// | probes | 1 s to 60 s | 1 s to 60 s | 1 s to 60 s | 1 s to 60 s |
///
/// ```
/// use anabranch_runtime::Tuning;
/// use std::time::Duration;
/// let tuning = Tuning::latency().lease(Duration::from_secs(2));
/// assert!(tuning.check().is_ok());
/// // A heartbeat that is as long as the lease would be a worker that is dead half of the time.
/// let error = tuning.heartbeat(Duration::from_secs(2)).check().unwrap_err();
/// assert!(error.to_string().contains("a third of the lease"), "{error}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Tuning {
    pub(crate) lease: Duration,
    heartbeat: Option<Duration>,
    pub(crate) coordination_timeout: Duration,
    pub(crate) batch_size: Option<usize>,
    pub(crate) poll: Duration,
    pub(crate) rebalance: Option<Duration>,
    /// The first pause before a consumer that has stopped by itself is tried again, and the longest.
    pub(crate) probes: (Duration, Duration),
}

/// What is wrong with a [`Tuning`], and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TuningError(String);

impl TuningError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::InvalidInput
    }
}

/// How many signs of life a lease has, unless it is said otherwise.
const BEATS: u32 = 5;

impl Default for Tuning {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(5),
            heartbeat: None,
            coordination_timeout: Duration::from_secs(30),
            batch_size: None,
            poll: Duration::from_secs(5),
            rebalance: Some(Duration::from_secs(30)),
            probes: (Duration::from_secs(1), Duration::from_secs(60)),
        }
    }
}

impl Tuning {
    /// Large batches, for catching up and for heavy streams.
    pub fn throughput() -> Self {
        Self {
            lease: Duration::from_secs(10),
            coordination_timeout: Duration::from_secs(60),
            batch_size: Some(5_000),
            ..Self::default()
        }
    }

    /// Small batches: an event waits for few others, and so does a slot that is handed over.
    pub fn latency() -> Self {
        Self {
            lease: Duration::from_secs(3),
            heartbeat: Some(Duration::from_millis(500)),
            coordination_timeout: Duration::from_secs(10),
            batch_size: Some(100),
            poll: Duration::from_secs(1),
            ..Self::default()
        }
    }

    /// Long waits, for machines that stall, and slots that move only when workers come and go.
    pub fn stable() -> Self {
        Self {
            lease: Duration::from_secs(30),
            heartbeat: Some(Duration::from_secs(5)),
            coordination_timeout: Duration::from_secs(120),
            rebalance: None,
            ..Self::default()
        }
    }

    /// How long others wait for a worker that shows no sign of life before they take what it owns.
    /// A process that is gone is noticed earlier.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How often a worker shows a sign of life; a fifth of the lease unless it is said.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// How long a hand-over may take before it is reported as stuck. Nothing is taken by force: a
    /// handler that is busy for minutes keeps its slots until its batch ends.
    pub fn coordination_timeout(mut self, timeout: Duration) -> Self {
        self.coordination_timeout = timeout;
        self
    }

    /// The most events of one transaction, for consumers that do not say.
    pub fn batch_size(mut self, events: usize) -> Self {
        self.batch_size = Some(events);
        self
    }

    /// How soon to look for new events when no wake comes: wakes may be lost.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// How often the load of slots is measured. Slots move for their load once all workers have
    /// measured for so long, and not again before twice that time.
    pub fn rebalance(mut self, every: Duration) -> Self {
        self.rebalance = Some(every);
        self
    }

    /// Slots never move for their load.
    pub fn never_rebalance(mut self) -> Self {
        self.rebalance = None;
        self
    }

    /// The pauses between tries of a consumer whose handler fails, or that is refused: the first one, and
    /// the longest that they grow to. Default 1 s and 60 s.
    pub fn probes(mut self, first: Duration, longest: Duration) -> Self {
        self.probes = (first, longest);
        self
    }

    /// How long to wait after so many tries in vain.
    pub(crate) fn pause_after(&self, tries: u32) -> Duration {
        let (first, longest) = self.probes;
        first.saturating_mul(1 << tries.min(20)).min(longest)
    }

    /// How long a try of an outage is its worker's, who says again with its heartbeats that it lasts: so the next
    /// one is not due before some of these.
    pub(crate) fn hold_for(&self, tries: i64) -> Duration {
        let pause = self.pause_after(u32::try_from(tries).unwrap_or(u32::MAX));
        pause.max(self.heartbeat_interval() * 3)
    }

    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.heartbeat.unwrap_or(self.lease / BEATS)
    }

    /// What is wrong with it, and what to do.
    pub fn check(&self) -> Result<(), TuningError> {
        self.find_problem().map_err(TuningError)
    }

    fn find_problem(&self) -> Result<(), String> {
        let range = |what: &str, value: Duration, least: Duration, most: Duration| {
            if value < least || value > most {
                return Err(format!("{what} of {value:?}; use {least:?} to {most:?}"));
            }
            Ok(())
        };
        let (ms, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        range("a lease", self.lease, ms * 100, hour)?;
        let heartbeat = self.heartbeat_interval();
        range("a heartbeat", heartbeat, ms * 10, hour)?;
        if heartbeat > self.lease / 3 {
            return Err(format!(
                "a heartbeat of {heartbeat:?} with a lease of {:?}: one that is late must not be \
                 the end, so use at most a third of the lease",
                self.lease
            ));
        }
        range("a coordination time-out", self.coordination_timeout, ms * 100, hour)?;
        range("a poll", self.poll, ms * 10, hour)?;
        range("a first pause between tries", self.probes.0, ms * 10, hour)?;
        range("a longest pause between tries", self.probes.1, self.probes.0, hour * 24)?;
        if let Some(every) = self.rebalance {
            range("a rebalance interval", every, ms * 100, hour * 24)?;
        }
        match self.batch_size {
            Some(size) if size == 0 || size > 1_000_000 => {
                Err(format!("a batch size of {size}; use 1 to 1000000"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_sound() {
        let presets =
            [Tuning::default(), Tuning::throughput(), Tuning::latency(), Tuning::stable()];
        presets.iter().for_each(|preset| preset.check().unwrap());
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let pause = |tries| Tuning::default().pause_after(tries).as_secs();
        let pauses: Vec<u64> = [0, 1, 2, 5, 6, 1_000_000].into_iter().map(pause).collect();
        assert_eq!(pauses, [1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_remedy() {
        let ms = Duration::from_millis;
        let error = |tuning: Tuning| tuning.check().unwrap_err().to_string();
        assert!(error(Tuning::default().lease(ms(50))).contains("use 100ms to 3600s"));
        assert!(error(Tuning::default().heartbeat(ms(1))).contains("a heartbeat of 1ms"));
        assert!(error(Tuning::default().heartbeat(ms(1700))).contains("a third of the lease"));
        assert!(error(Tuning::default().coordination_timeout(ms(1))).contains("time-out"));
        assert!(error(Tuning::default().poll(ms(1))).contains("a poll of 1ms"));
        assert!(error(Tuning::default().rebalance(ms(1))).contains("rebalance"));
        assert!(error(Tuning::default().probes(ms(500), ms(100))).contains("longest pause"));
        assert!(error(Tuning::default().batch_size(0)).contains("use 1 to 1000000"));
    }
}

//! Whether the process turns over, and whether its workers hold their leases.

use anabranch_core::engine_event::{EngineEvent, Happening, Notice};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a process is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReady {
    /// The process runs no replica set: none has begun, or all are over.
    NoWorker,
    /// A replica set has no worker here that is a member of it: it has not joined yet, or others took it for dead.
    NotJoined {
        /// Which one.
        set: String,
    },
    /// The run of a replica set has ended with an error, and was not begun again.
    Failed {
        /// Which one.
        set: String,
        /// Why.
        error: String,
    },
    /// A consumer is refused, or cannot run for another reason that somebody has to mend: its code is not the accepted one,
    /// say. A rolling deploy must not go on then.
    CannotRun {
        /// Which one.
        consumer: String,
        /// Why.
        error: String,
    },
    /// A worker could not show life for two heartbeats: others may take its slots when its lease is over.
    NoLife {
        /// Which one.
        worker: String,
        /// When it did last.
        ago: Duration,
        /// What the database said since, if it said something.
        error: Option<String>,
    },
    /// A database does not answer.
    Unreachable {
        /// Which one.
        at: String,
        /// What it said; nothing if the time was over.
        error: Option<String>,
    },
    /// The runtime of the process does not turn over.
    Stuck {
        /// For how long.
        ago: Duration,
    },
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |error: &Option<String>| error.as_ref().map(|error| format!(": {error}"));
        match self {
            Self::NoWorker => write!(f, "no worker of this process is a member of a replica set"),
            Self::NotJoined { set } => {
                write!(f, "no worker of this process is a member of replica set `{set}`")
            }
            Self::Failed { set, error } => write!(f, "replica set `{set}` has ended: {error}"),
            Self::CannotRun { consumer, error } => {
                write!(f, "consumer `{consumer}` cannot run here: {error}")
            }
            Self::NoLife { worker, ago, error } => write!(
                f,
                "worker {worker} could store no sign of life for {:.1} s{}",
                ago.as_secs_f64(),
                said(error).unwrap_or_default()
            ),
            Self::Unreachable { at, error } => {
                let silent = ": it does not answer".to_owned();
                write!(f, "cannot reach {at}{}", said(error).unwrap_or(silent))
            }
            Self::Stuck { ago } => {
                write!(f, "the process has not turned over for {:.1} s", ago.as_secs_f64())
            }
        }
    }
}

impl std::error::Error for NotReady {}

/// A heartbeat takes a moment itself.
const MOMENT: Duration = Duration::from_millis(500);

/// The replica sets of this process, their workers, and when each has shown life.
#[derive(Default)]
pub(crate) struct Workers {
    sets: BTreeMap<Arc<str>, Runs>,
    lives: BTreeMap<Arc<str>, Life>,
}

/// How a replica set runs here.
#[derive(Default)]
struct Runs {
    /// How often at the same time.
    now: usize,
    /// Why the last run has ended, if it failed.
    error: Option<String>,
    /// Consumers that cannot run, and why.
    broken: BTreeMap<Arc<str>, String>,
}

struct Life {
    set: Option<Arc<str>>,
    at: Instant,
    interval: Duration,
    error: Option<String>,
    /// A run of its set has ended since it showed life last: it may be that of this worker.
    may_be_over: bool,
}

impl Life {
    fn is_late(&self) -> bool {
        self.at.elapsed() > self.interval * 2 + MOMENT
    }
}

impl Workers {
    pub(crate) fn saw(&mut self, event: &EngineEvent) {
        match &event.what {
            Happening::RunBegan { .. } => {
                if let Some(set) = &event.set {
                    let runs = self.sets.entry(Arc::clone(set)).or_default();
                    *runs = Runs { now: runs.now + 1, ..Runs::default() };
                }
            }
            Happening::RunEnded { error, .. } => self.run_ended(event.set.as_ref(), error.as_ref()),
            Happening::ConsumerStarted { .. }
            | Happening::Notice { kind: Notice::RunsAgain, .. } => self.runs_or_not(event, None),
            Happening::Notice { kind: Notice::Broken, error, .. } => {
                self.runs_or_not(event, Some(error.clone().unwrap_or_default()));
            }
            // It may never run here again, and what it is replaced by says how that goes.
            Happening::Notice { kind: Notice::Removed | Notice::Replaced, .. } => {
                self.runs_or_not(event, None);
            }
            Happening::Notice { kind: Notice::FailureRemoved, .. } => {
                self.run_ended_well(event.set.as_ref());
            }
            _ => {}
        }
        let Some(worker) = &event.worker else { return };
        match &event.what {
            Happening::HeartbeatStored { interval, .. } => {
                let (at, interval, set) = (Instant::now(), *interval, event.set.clone());
                let life = Life { set, at, interval, error: None, may_be_over: false };
                let is_new = self.lives.insert(Arc::clone(worker), life).is_none();
                if is_new {
                    self.forget_replaced(event.set.as_ref());
                }
            }
            Happening::HeartbeatFailed { error, .. } => {
                if let Some(life) = self.lives.get_mut(worker) {
                    life.error = Some(error.clone());
                }
            }
            Happening::WorkerLeft { .. } | Happening::WorkerFenced { .. } => {
                self.lives.remove(worker);
            }
            _ => {}
        }
    }

    /// A run has one worker at a time: where as many show life as there are runs, those that show none were replaced.
    fn forget_replaced(&mut self, set: Option<&Arc<str>>) {
        let runs = set.and_then(|set| self.sets.get(set)).map_or(0, |runs| runs.now);
        let is_of_set = |life: &Life| life.set.as_ref() == set;
        let living = self.lives.values().filter(|life| is_of_set(life) && !life.is_late()).count();
        if living >= runs {
            self.lives.retain(|_, life| !is_of_set(life) || !life.is_late());
        }
    }

    /// A consumer has begun to run, or cannot.
    fn runs_or_not(&mut self, event: &EngineEvent, broken: Option<String>) {
        let Some((set, consumer)) = event.set.as_ref().zip(event.consumer.as_ref()) else { return };
        let Some(runs) = self.sets.get_mut(set) else { return };
        match broken {
            Some(error) => drop(runs.broken.insert(Arc::clone(consumer), error)),
            None => drop(runs.broken.remove(consumer)),
        }
    }

    /// Nobody wants any more what has failed of a set.
    fn run_ended_well(&mut self, set: Option<&Arc<str>>) {
        let Some((set, runs)) = set.and_then(|set| Some((set, self.sets.get_mut(set)?))) else {
            return;
        };
        runs.error = None;
        if runs.now == 0 {
            self.sets.remove(set);
        }
    }

    fn run_ended(&mut self, set: Option<&Arc<str>>, error: Option<&String>) {
        let Some(set) = set else { return };
        let runs = self.sets.entry(Arc::clone(set)).or_default();
        runs.now = runs.now.saturating_sub(1);
        runs.error = error.cloned();
        let goes_on = runs.now > 0;
        if !goes_on && runs.error.is_none() {
            self.sets.remove(set);
        }
        self.lives.retain(|_, life| {
            let is_of_set = life.set.as_ref() == Some(set);
            life.may_be_over |= is_of_set;
            goes_on || !is_of_set
        });
    }

    /// Those that are members.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.lives.keys().map(ToString::to_string).collect()
    }

    /// Whether each set that is run here has its workers, and all of them have shown life within two heartbeats.
    pub(crate) fn are_ready(&self) -> Result<(), NotReady> {
        if self.sets.is_empty() {
            return Err(NotReady::NoWorker);
        }
        for (set, runs) in &self.sets {
            let set_name = set.to_string();
            if let Some(error) = &runs.error {
                return Err(NotReady::Failed { set: set_name, error: error.clone() });
            }
            let (mut members, mut late) = (0, None);
            for (worker, life) in &self.lives {
                match life.set.as_ref() == Some(set) {
                    true if !life.is_late() => members += 1,
                    true if !life.may_be_over => late = Some((worker, life)),
                    _ => {}
                }
            }
            // A worker that could not join at first goes on under another id: what is late then is over.
            if let Some((worker, Life { at, error, .. })) = late.filter(|_| members < runs.now) {
                let (worker, ago) = (worker.to_string(), at.elapsed());
                return Err(NotReady::NoLife { worker, ago, error: error.clone() });
            }
            if members < runs.now {
                return Err(NotReady::NotJoined { set: set_name });
            }
            if let Some((consumer, error)) = runs.broken.first_key_value() {
                let (consumer, error) = (consumer.to_string(), error.clone());
                return Err(NotReady::CannotRun { consumer, error });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(worker: Option<&str>, what: Happening) -> EngineEvent {
        let mut event = EngineEvent::new(jiff::Timestamp::UNIX_EPOCH, what);
        (event.set, event.worker) = (Some("a".into()), worker.map(Into::into));
        event
    }

    /// Workers of set `a`, of which these show life.
    fn running(workers: &[&str]) -> Workers {
        let mut all = Workers::default();
        for worker in workers {
            all.saw(&event(None, Happening::run_began()));
            let lives = Happening::heartbeat_stored(Duration::from_secs(60));
            all.saw(&event(Some(worker), lives));
        }
        all
    }

    fn failed(workers: &mut Workers) {
        workers.saw(&event(None, Happening::run_began()));
        workers.saw(&event(None, Happening::run_ended(Some("no".to_owned()), None)));
    }

    #[test]
    fn a_failed_run_counts_until_nobody_wants_it() {
        let removed = || event(None, Happening::noticed(Notice::FailureRemoved, None));
        let mut alone = running(&[]);
        failed(&mut alone);
        assert!(matches!(alone.are_ready(), Err(NotReady::Failed { .. })));
        alone.saw(&removed());
        assert_eq!(alone.are_ready(), Err(NotReady::NoWorker));
        // The one before it goes on.
        let mut heir = running(&["w"]);
        failed(&mut heir);
        assert!(matches!(heir.are_ready(), Err(NotReady::Failed { .. })));
        heir.saw(&removed());
        assert_eq!(heir.are_ready(), Ok(()));
    }

    #[test]
    fn a_consumer_that_cannot_run_counts_until_it_runs_or_is_gone() {
        let ends = [
            Happening::consumer_started("projection", true),
            Happening::noticed(Notice::RunsAgain, None),
            Happening::noticed(Notice::Removed, None),
            Happening::noticed(Notice::Replaced, None),
        ];
        for end in ends {
            let mut workers = running(&["w"]);
            let mut saw = |what| {
                let mut event = event(None, what);
                event.consumer = Some("orders".into());
                workers.saw(&event);
                workers.are_ready()
            };
            let broken = saw(Happening::failed(Notice::Broken, &"no"));
            assert!(matches!(broken, Err(NotReady::CannotRun { .. })), "{broken:?}");
            assert_eq!(saw(end), Ok(()));
        }
    }

    #[test]
    fn a_worker_that_was_replaced_is_not_waited_for() {
        let mut workers = running(&[]);
        workers.saw(&event(None, Happening::run_began()));
        let lives = |interval| Happening::heartbeat_stored(interval);
        workers.saw(&event(Some("old"), lives(Duration::ZERO)));
        std::thread::sleep(MOMENT + Duration::from_millis(10));
        assert!(matches!(workers.are_ready(), Err(NotReady::NoLife { .. })));
        workers.saw(&event(Some("new"), lives(Duration::from_secs(60))));
        assert_eq!(workers.are_ready(), Ok(()));
        assert_eq!(workers.ids(), ["new"]);
    }
}

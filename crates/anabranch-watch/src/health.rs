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
            // Errors of databases name theirs.
            Self::Unreachable { at, error: Some(error) } if error.contains(at.as_str()) => {
                f.write_str(error)
            }
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

/// The replica sets of this process, their runs, and when the worker of each has shown life.
#[derive(Default)]
pub(crate) struct Workers {
    sets: BTreeMap<Arc<str>, Runs>,
}

/// How a replica set runs here.
#[derive(Default)]
struct Runs {
    /// One may begin before the last one has ended: a file is read anew, say.
    now: BTreeMap<u64, Run>,
    /// The last that has begun.
    newest: u64,
    /// Why that one has ended, if it failed. How those before it end is of no concern: it is their heir.
    error: Option<String>,
}

/// A run of a replica set. It has one worker at a time.
#[derive(Default)]
struct Run {
    life: Option<Life>,
    /// Consumers that cannot run, and why.
    broken: BTreeMap<Arc<str>, String>,
}

struct Life {
    worker: Arc<str>,
    at: Instant,
    interval: Duration,
    error: Option<String>,
}

impl Life {
    fn is_late(&self) -> bool {
        self.at.elapsed() > self.interval * 2 + MOMENT
    }
}

impl Workers {
    pub(crate) fn saw(&mut self, event: &EngineEvent) {
        let Some(set) = &event.set else { return };
        match (&event.what, event.run) {
            (Happening::RunBegan { .. }, Some(run)) => {
                let runs = self.sets.entry(Arc::clone(set)).or_default();
                (runs.newest, runs.error) = (run, None);
                runs.now.insert(run, Run::default());
            }
            (Happening::RunEnded { error, .. }, Some(run)) => {
                let Some(runs) = self.sets.get_mut(set) else { return };
                runs.now.remove(&run);
                if run == runs.newest {
                    runs.error.clone_from(error);
                }
                self.forget_if_over(set);
            }
            // Nobody wants any more what has failed.
            (Happening::Notice { kind: Notice::FailureRemoved, .. }, _) => {
                let Some(runs) = self.sets.get_mut(set) else { return };
                runs.error = None;
                self.forget_if_over(set);
            }
            (what, Some(number)) => {
                let Some(runs) = self.sets.get_mut(set) else { return };
                if let (Happening::ConsumerStarted { .. }, Some(consumer)) = (what, &event.consumer)
                {
                    // What cannot run in an earlier run has its heir.
                    let until_now = runs.now.range_mut(..=number);
                    until_now.for_each(|(_, run)| drop(run.broken.remove(consumer)));
                }
                if let Some(run) = runs.now.get_mut(&number) {
                    run.saw(event);
                }
            }
            _ => {}
        }
    }

    fn forget_if_over(&mut self, set: &Arc<str>) {
        self.sets.retain(|name, runs| name != set || !runs.now.is_empty() || runs.error.is_some());
    }

    /// Those that are members.
    pub(crate) fn ids(&self) -> Vec<String> {
        let runs = self.sets.values().flat_map(|runs| runs.now.values());
        let lives = runs.filter_map(|run| run.life.as_ref());
        lives.map(|life| life.worker.to_string()).collect()
    }

    /// Whether each set that is run here has its workers, and all of them have shown life within two heartbeats.
    pub(crate) fn are_ready(&self) -> Result<(), NotReady> {
        if self.sets.is_empty() {
            return Err(NotReady::NoWorker);
        }
        for (set, runs) in &self.sets {
            if let Some(error) = &runs.error {
                return Err(NotReady::Failed { set: set.to_string(), error: error.clone() });
            }
            for run in runs.now.values() {
                run.is_ready(set)?;
            }
        }
        Ok(())
    }
}

impl Run {
    fn saw(&mut self, event: &EngineEvent) {
        if let Some(consumer) = &event.consumer {
            match &event.what {
                Happening::Notice { kind: Notice::Broken, error, .. } => {
                    let error = error.clone().unwrap_or_default();
                    self.broken.insert(Arc::clone(consumer), error);
                }
                // It may never run here again, and what it is replaced by says how that goes.
                Happening::Notice {
                    kind: Notice::RunsAgain | Notice::Removed | Notice::Replaced,
                    ..
                } => drop(self.broken.remove(consumer)),
                _ => {}
            }
        }
        let Some(worker) = &event.worker else { return };
        let is_ours = |life: &Life| life.worker == *worker;
        match &event.what {
            Happening::HeartbeatStored { interval, .. } => {
                let (worker, at) = (Arc::clone(worker), Instant::now());
                self.life = Some(Life { worker, at, interval: *interval, error: None });
            }
            Happening::HeartbeatFailed { error, .. } => {
                if let Some(life) = self.life.as_mut().filter(|life| is_ours(life)) {
                    life.error = Some(error.clone());
                }
            }
            Happening::WorkerLeft { .. } | Happening::WorkerFenced { .. } => {
                drop(self.life.take_if(|life| is_ours(life)));
            }
            _ => {}
        }
    }

    fn is_ready(&self, set: &Arc<str>) -> Result<(), NotReady> {
        let Some(life) = &self.life else {
            return Err(NotReady::NotJoined { set: set.to_string() });
        };
        if life.is_late() {
            let (worker, ago) = (life.worker.to_string(), life.at.elapsed());
            return Err(NotReady::NoLife { worker, ago, error: life.error.clone() });
        }
        if let Some((consumer, error)) = self.broken.first_key_value() {
            let (consumer, error) = (consumer.to_string(), error.clone());
            return Err(NotReady::CannotRun { consumer, error });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_once() {
        let at = "postgres://app@127.0.0.1/shop".to_owned();
        let away = |error: Option<&str>| {
            NotReady::Unreachable { at: at.clone(), error: error.map(str::to_owned) }.to_string()
        };
        let said = format!("cannot reach {at}: refused; check that the server runs");
        assert_eq!(away(Some(&said)), said);
        assert_eq!(away(Some("refused")), format!("cannot reach {at}: refused"));
        assert_eq!(away(None), format!("cannot reach {at}: it does not answer"));
    }

    /// What happens in a run of set `a`.
    fn event(run: u64, worker: Option<&str>, what: Happening) -> EngineEvent {
        let mut event = EngineEvent::new(jiff::Timestamp::UNIX_EPOCH, what);
        (event.set, event.worker) = (Some("a".into()), worker.map(Into::into));
        event.run = Some(run);
        event
    }

    fn of_orders(run: u64, what: Happening) -> EngineEvent {
        let mut event = event(run, None, what);
        event.consumer = Some("orders".into());
        event
    }

    fn begins(workers: &mut Workers, run: u64) {
        workers.saw(&event(run, None, Happening::run_began()));
    }

    fn lives(workers: &mut Workers, run: u64, worker: &str) {
        let lives = Happening::heartbeat_stored(Duration::from_secs(60));
        workers.saw(&event(run, Some(worker), lives));
    }

    fn ends(workers: &mut Workers, run: u64, error: Option<&str>) {
        let what = Happening::run_ended(error.map(ToOwned::to_owned), None);
        workers.saw(&event(run, None, what));
    }

    fn breaks(workers: &mut Workers, run: u64) {
        workers.saw(&of_orders(run, Happening::failed(Notice::Broken, &"no")));
        assert!(matches!(workers.are_ready(), Err(NotReady::CannotRun { .. })));
    }

    /// The file is as it was before.
    fn is_not_wanted(workers: &mut Workers) {
        let removed = Happening::noticed(Notice::FailureRemoved, None);
        let mut removed = event(0, None, removed);
        removed.run = None;
        workers.saw(&removed);
    }

    /// Each number is a run with a worker.
    fn running(runs: impl IntoIterator<Item = u64>) -> Workers {
        let mut all = Workers::default();
        for run in runs {
            begins(&mut all, run);
            lives(&mut all, run, &format!("w{run}"));
        }
        all
    }

    #[test]
    fn a_failed_run_counts_until_nobody_wants_it() {
        let mut alone = running([]);
        begins(&mut alone, 1);
        ends(&mut alone, 1, Some("no"));
        assert!(matches!(alone.are_ready(), Err(NotReady::Failed { .. })));
        is_not_wanted(&mut alone);
        assert_eq!(alone.are_ready(), Err(NotReady::NoWorker));
        // The one before it goes on.
        let mut heir = running([1]);
        begins(&mut heir, 2);
        ends(&mut heir, 2, Some("no"));
        assert!(matches!(heir.are_ready(), Err(NotReady::Failed { .. })));
        is_not_wanted(&mut heir);
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
            let mut workers = running([1]);
            breaks(&mut workers, 1);
            workers.saw(&of_orders(1, end));
            assert_eq!(workers.are_ready(), Ok(()));
        }
    }

    #[test]
    fn what_cannot_run_in_one_run_says_nothing_of_another() {
        // An heir that fails leaves everything as it was before: what could not run cannot,
        let mut workers = running([1]);
        breaks(&mut workers, 1);
        begins(&mut workers, 2);
        ends(&mut workers, 2, Some("no"));
        is_not_wanted(&mut workers);
        assert!(matches!(workers.are_ready(), Err(NotReady::CannotRun { .. })));
        // and what ran goes on.
        let mut workers = running([1]);
        begins(&mut workers, 2);
        lives(&mut workers, 2, "heir");
        breaks(&mut workers, 2);
        ends(&mut workers, 2, Some("no"));
        is_not_wanted(&mut workers);
        assert_eq!(workers.are_ready(), Ok(()));
        // One that takes over runs what could not run before it, and what that one says at its end is of no concern.
        let mut workers = running([1, 2]);
        breaks(&mut workers, 1);
        workers.saw(&of_orders(2, Happening::consumer_started("projection", true)));
        assert_eq!(workers.are_ready(), Ok(()));
        breaks(&mut workers, 1);
        ends(&mut workers, 1, None);
        assert_eq!(workers.are_ready(), Ok(()));
    }

    #[test]
    fn how_a_run_ends_that_has_an_heir_is_of_no_concern() {
        let mut workers = running([1, 2]);
        ends(&mut workers, 1, Some("no"));
        assert_eq!(workers.are_ready(), Ok(()));
        let mut workers = running([1, 2]);
        ends(&mut workers, 2, Some("no"));
        ends(&mut workers, 1, None);
        assert!(matches!(workers.are_ready(), Err(NotReady::Failed { .. })));
    }

    #[test]
    fn each_run_has_a_worker_of_its_own() {
        let mut workers = running([1]);
        begins(&mut workers, 2);
        assert!(matches!(workers.are_ready(), Err(NotReady::NotJoined { .. })));
        lives(&mut workers, 2, "w2");
        assert_eq!(workers.are_ready(), Ok(()));
        workers.saw(&event(1, Some("w1"), Happening::worker_fenced()));
        assert!(matches!(workers.are_ready(), Err(NotReady::NotJoined { .. })));
        lives(&mut workers, 1, "w3");
        assert_eq!((workers.are_ready(), workers.ids()), (Ok(()), vec!["w3".into(), "w2".into()]));
    }

    #[test]
    fn a_worker_that_was_replaced_is_not_waited_for() {
        let mut workers = running([]);
        begins(&mut workers, 1);
        workers.saw(&event(1, Some("old"), Happening::heartbeat_stored(Duration::ZERO)));
        std::thread::sleep(MOMENT + Duration::from_millis(10));
        assert!(matches!(workers.are_ready(), Err(NotReady::NoLife { .. })));
        lives(&mut workers, 1, "new");
        assert_eq!((workers.are_ready(), workers.ids()), (Ok(()), vec!["new".to_owned()]));
    }
}

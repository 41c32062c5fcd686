//! Why a cursor does not advance, by name.

use crate::backlog::Backlog;
use crate::consumer::follows_log;
use crate::report::{Doing, LaneReport};
use crate::run_error::shortened;
use crate::status::{Outage, Situation, WorkerStatus};
use crate::tables::consumers::Registered;
use anabranch_core::{Cursor, Position};
use anabranch_store::database::Who;
use serde::Serialize;
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// Why a cursor does not advance, or not as it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It stands beyond the last position that the log has ever drawn: the log was emptied, restored
    /// from an older backup, or its sequence was reset. No worker runs it so.
    BeyondLog {
        /// The last position that the log has ever drawn.
        drawn: Position,
    },
    /// The log is elsewhere and was wound back, so that new events would be skipped. No worker runs it so.
    WoundBack {
        /// What was found.
        what: String,
    },
    /// Its cursors belong to another log than the one at hand: nobody can tell here how far behind it is.
    OtherLog {
        /// The identity of the log that they belong to.
        belongs_to: Uuid,
        /// The identity of the log at hand.
        identity: Uuid,
    },
    /// The consumer is paused.
    Paused,
    /// The consumer has stopped by itself, since its handler fails wherever it runs.
    Outage(Outage),
    /// A replay was requested, and no worker has done it yet.
    ReplayAsked,
    /// Nobody owns it: no living worker runs the consumer.
    Unassigned,
    /// Nobody owns it: the workers that run the consumer run partitions of it that leave these slots out.
    OutsidePartitions {
        /// Where they run, and which partitions.
        by: Vec<String>,
    },
    /// Nobody owns it yet; the next generation gives it to workers that run the consumer.
    AwaitsGeneration {
        /// Those workers.
        by: Vec<String>,
    },
    /// Nobody who runs the consumer is able to for the time being.
    Unable {
        /// Where they run, and what they say.
        by: Vec<UnableWorker>,
    },
    /// Workers have another code of the consumer than the accepted one, and run nothing of it.
    OtherCode {
        /// The code that is accepted.
        accepted: String,
        /// The code that the worker has which asked last.
        wanted: String,
        /// Where the workers run that do not run it.
        by: Vec<String>,
    },
    /// Nobody owns it yet; a worker is about to.
    AwaitsClaim {
        /// The workers that should.
        by: Vec<String>,
    },
    /// Its owner should release some of its slots, and does so when its batch ends.
    AwaitsRelease {
        /// Who should own them.
        to: Vec<String>,
    },
    /// Its owner is dead, and nobody has taken it yet.
    OwnerDead,
    /// Its lane waits for a lock in the database.
    Blocked {
        /// The server processes that hold the lock.
        by: Vec<i32>,
        /// What the first of them does or did last; empty for those who may not see statements.
        doing: String,
        /// For how long it has waited, in milliseconds.
        for_ms: u64,
    },
    /// Its handler fails, and nothing has worked since.
    Failing {
        /// What it said the last time.
        error: String,
        /// Since when, in milliseconds.
        for_ms: u64,
    },
    /// The database is away, or cannot do it now.
    Waiting {
        /// What the database said.
        error: String,
        /// Since when, in milliseconds.
        for_ms: u64,
    },
    /// A transaction has been at work for long.
    Busy {
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// Wakes do not reach its owner: it finds new events by looking now and then.
    NoWake {
        /// Since when it does not hear, in milliseconds, if it knows.
        deaf_ms: Option<u64>,
        /// How many events it has found without having been told.
        unannounced: u64,
    },
    /// Its owner has fewer sessions of the database than lanes: they take turns.
    FewSessions {
        /// How many transactions it can run at the same time.
        sessions: usize,
        /// How many it could.
        of: usize,
        /// What the database said.
        error: String,
    },
    /// Some of its keys have failed and wait for somebody to retry or skip them; the others go on.
    ParkedKeys {
        /// How many.
        keys: usize,
    },
    /// Some of its keys have failed and are tried again by themselves; the others go on.
    RetryingKeys {
        /// How many.
        keys: usize,
    },
}

/// A worker that runs a consumer and cannot for the time being.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnableWorker {
    /// Its id.
    pub worker: String,
    /// Where it runs: host and process.
    pub place: String,
    /// Why it cannot.
    pub why: String,
}

impl fmt::Display for UnableWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker at {} runs it but cannot just now: {}", self.place, self.why)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ms: &u64| Duration::from_millis(*ms);
        match self {
            Self::BeyondLog { drawn } => write!(
                f,
                "beyond {drawn}, the last position that the log has ever drawn (it was emptied, \
                 restored from an older backup, or its sequence was reset): replay it, or skip to \
                 the head"
            ),
            Self::WoundBack { what } => write!(f, "{what}: replay it, or skip to the head"),
            Self::OtherLog { belongs_to, identity } => write!(
                f,
                "it reads the log {belongs_to}, and this is {identity}: name that log as well \
                 (--events-url); if this one has taken its place, replay it, or skip to the head"
            ),
            Self::Paused => f.write_str("paused"),
            Self::Outage(outage) => outage.fmt(f),
            Self::ReplayAsked => f.write_str("a replay is asked for; the next worker does it"),
            Self::Unassigned => f.write_str("unassigned: no living worker runs it"),
            Self::OutsidePartitions { by } => {
                write!(f, "unassigned: only other slots of it are run, by {}", by.join(", "))
            }
            Self::AwaitsGeneration { by } => {
                write!(f, "about to be assigned, {} can run it", by.join(", "))
            }
            Self::Unable { by } => {
                let by: Vec<String> = by.iter().map(ToString::to_string).collect();
                f.write_str(&by.join("; "))
            }
            Self::OtherCode { accepted, wanted, by } => write!(
                f,
                "{} has other code ({}) than the accepted one ({}) and runs nothing of it: `anabranch run FILE \
                 --accept`, or rebuild it if it is a projection",
                by.join(", "),
                shortened(wanted),
                shortened(accepted)
            ),
            Self::AwaitsClaim { by } => write!(f, "about to be claimed by {}", by.join(", ")),
            Self::AwaitsRelease { to } => {
                write!(f, "to be released to {} when its batch ends", to.join(", "))
            }
            Self::OwnerDead => f.write_str("its owner is dead; the next worker takes it"),
            Self::Blocked { by, doing, for_ms } => {
                let pids: Vec<String> = by.iter().map(ToString::to_string).collect();
                let (pids, lasts) = (pids.join(", "), ms(for_ms));
                write!(f, "blocked for {lasts:?} by backend pid {pids}")?;
                match doing.as_str() {
                    "" => Ok(()),
                    doing => write!(f, " ({doing})"),
                }
            }
            Self::Failing { error, for_ms } => {
                write!(f, "handler failing for {:?}: {error}", ms(for_ms))
            }
            Self::Waiting { error, for_ms } => {
                write!(f, "waits for the database for {:?}: {error}", ms(for_ms))
            }
            Self::Busy { for_ms } => write!(f, "busy with one batch for {:?}", ms(for_ms)),
            Self::NoWake { deaf_ms, unannounced } => {
                f.write_str("no wakes arrive, new events are found by polling")?;
                match deaf_ms {
                    Some(deaf) => write!(f, " (not listening for {:?})", ms(deaf)),
                    None => write!(f, " ({unannounced} events so far)"),
                }
            }
            Self::FewSessions { sessions, of, error } => {
                write!(f, "its lanes take turns on {sessions} of {of} sessions: {error}")
            }
            Self::ParkedKeys { keys: 1 } => f.write_str("1 parked key"),
            Self::ParkedKeys { keys } => write!(f, "{keys} parked keys"),
            Self::RetryingKeys { keys: 1 } => f.write_str("1 key waits for its next attempt"),
            Self::RetryingKeys { keys } => write!(f, "{keys} keys wait for their next attempt"),
        }
    }
}

/// All that is to be said about a cursor.
pub(crate) fn reasons(
    now: &Situation,
    consumer: &Registered,
    cursor: &Cursor,
    backlog: &Backlog,
    (behind, drawn): (u64, Position),
    of_log: Option<&Reason>,
) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = of_log.cloned().into_iter().collect();
    if reasons.is_empty() && cursor.position > drawn {
        reasons.push(Reason::BeyondLog { drawn });
    }
    if consumer.paused {
        reasons.push(Reason::Paused);
    }
    reasons.extend(Outage::of(consumer).map(Reason::Outage));
    if consumer.reset_to.is_some() {
        reasons.push(Reason::ReplayAsked);
    }
    let owner = cursor.owner.as_deref().map(|id| (id, now.worker(id).filter(|w| w.is_alive)));
    match owner {
        None => reasons.push(unowned(now, consumer, cursor)),
        Some((_, None)) => reasons.push(Reason::OwnerDead),
        Some((id, Some(worker))) => {
            let to = should_own(now, consumer, cursor, Some(&worker.replica_set));
            let to: Vec<String> = to.into_iter().filter(|other| other != id).collect();
            if !to.is_empty() {
                reasons.push(Reason::AwaitsRelease { to });
            }
            // Nobody else can either, or it would be theirs.
            reasons.extend(is_unable(worker, consumer).map(|by| Reason::Unable { by: vec![by] }));
            let is_done = behind == 0 && follows_log(&consumer.kind);
            of_lane(now, (consumer, cursor, is_done), worker, &mut reasons);
            let report = &worker.report;
            if report.deaf_ms.is_some() || (report.unannounced > 0 && behind > 0) {
                let (deaf_ms, unannounced) = (report.deaf_ms, report.unannounced);
                reasons.push(Reason::NoWake { deaf_ms, unannounced });
            }
            if let Some(short) = report.shortage.as_ref().filter(|_| behind > 0) {
                let (sessions, of, error) = (short.sessions, short.of, short.error.clone());
                reasons.push(Reason::FewSessions { sessions, of, error });
            }
        }
    }
    reasons.extend(other_code(now, consumer));
    let aside = backlog.aside(&cursor.slots);
    if aside.parked_keys > 0 {
        reasons.push(Reason::ParkedKeys { keys: aside.parked_keys });
    }
    if aside.retrying_keys > 0 {
        reasons.push(Reason::RetryingKeys { keys: aside.retrying_keys });
    }
    reasons
}

fn unowned(now: &Situation, consumer: &Registered, cursor: &Cursor) -> Reason {
    let by = should_own(now, consumer, cursor, None);
    if !by.is_empty() {
        return Reason::AwaitsClaim { by };
    }
    let alive = now.workers.iter().filter(|worker| worker.is_alive);
    let runners: Vec<&WorkerStatus> =
        alive.filter(|worker| worker.runs(&consumer.name).is_some()).collect();
    let wants = |worker: &&&WorkerStatus| {
        worker.fixed.as_ref().is_none_or(|fixed| !fixed.is_disjoint(&cursor.slots))
    };
    let (unable, able): (Vec<_>, Vec<_>) =
        runners.iter().filter(wants).partition(|worker| is_unable(worker, consumer).is_some());
    let place = |worker: &&&WorkerStatus| format!("worker at {}", worker.place());
    if runners.is_empty() {
        Reason::Unassigned
    } else if !able.is_empty() {
        Reason::AwaitsGeneration { by: able.iter().map(place).collect() }
    } else if !unable.is_empty() {
        Reason::Unable { by: unable.iter().filter_map(|w| is_unable(w, consumer)).collect() }
    } else {
        let by = runners.iter().map(|worker| format!("{} ({})", place(&worker), worker.runs));
        Reason::OutsidePartitions { by: by.collect() }
    }
}

/// Workers that have another code than the accepted one. One that starts with the accepted code clears what was asked
/// for, and those that wait ask again with their next try.
fn other_code(now: &Situation, consumer: &Registered) -> Option<Reason> {
    let (accepted, wanted) = (consumer.code.clone()?, consumer.wanted_code.clone()?);
    let alive = now.workers.iter().filter(|worker| worker.is_alive);
    let unable = alive.filter(|worker| is_unable(worker, consumer).is_some());
    let by: Vec<String> = unable.map(|worker| format!("worker at {}", worker.place())).collect();
    (!by.is_empty()).then_some(Reason::OtherCode { accepted, wanted, by })
}

/// Why a worker cannot run a consumer that it runs.
fn is_unable(worker: &WorkerStatus, consumer: &Registered) -> Option<UnableWorker> {
    let why = worker.runs(&consumer.name)?.unable.clone()?;
    Some(UnableWorker { worker: worker.id.clone(), place: worker.place(), why })
}

/// The living workers that should own slots of a cursor. Which set a consumer belongs to is known from
/// those that run it.
fn should_own(
    now: &Situation,
    consumer: &Registered,
    cursor: &Cursor,
    set: Option<&str>,
) -> Vec<String> {
    let sets = now.current.iter().filter(|(name, _)| set.is_none_or(|set| set == *name));
    let assigned = sets.flat_map(|(_, current)| current.of(&consumer.name));
    let runs = |id: &str| {
        let worker = now.worker(id).filter(|worker| worker.is_alive);
        worker.is_some_and(|worker| worker.runs(&consumer.name).is_some())
    };
    let should = assigned.filter(|(id, slots)| !slots.is_disjoint(&cursor.slots) && runs(id));
    should.map(|(id, _)| id.clone()).collect()
}

/// What the owner's lane has to say, or the database about it.
fn of_lane(
    now: &Situation,
    (consumer, cursor, is_done): (&Registered, &Cursor, bool),
    worker: &WorkerStatus,
    reasons: &mut Vec<Reason>,
) {
    let lanes = || worker.report.lanes.iter().filter(|lane| lane.consumer == consumer.name);
    let holds = |lane: &&LaneReport| lane.cursors.contains(&cursor.id);
    let lane = lanes().find(holds);
    let mut is_blocked = false;
    for number in 0..worker.lanes {
        // A lane that has said nothing of itself may hold any of the worker's cursors.
        let said = lanes().find(|lane| lane.lane == number);
        if said.is_some_and(|lane| !holds(&lane)) {
            continue;
        }
        let name = Who::lane(&worker.id, &consumer.name, number).name();
        for blocked in now.blocked.iter().filter(|blocked| blocked.name == name) {
            let (by, doing) = (blocked.by.clone(), blocked.doing.clone());
            let for_ms = blocked.wait.as_millis() as u64;
            reasons.push(Reason::Blocked { by, doing, for_ms });
            is_blocked = true;
        }
    }
    let Some(lane) = lane else { return };
    let for_ms = lane.for_ms;
    match &lane.doing {
        Doing::Idle => {}
        Doing::Handling if is_blocked => {}
        Doing::Handling => reasons.push(Reason::Busy { for_ms }),
        // What failed is set aside by now: nothing is there that does not go on.
        Doing::Failing { .. } if is_done => {}
        Doing::Failing { error } => reasons.push(Reason::Failing { error: error.clone(), for_ms }),
        Doing::Waiting { error } => reasons.push(Reason::Waiting { error: error.clone(), for_ms }),
    }
}

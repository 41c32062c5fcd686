//! What happens in the engine, as values: one typed stream for logs, metrics, traces and consoles.
//!
//! | module | subject |
//! |---|---|
//! | `happening` | [`Happening`]: everything that can happen |
//! | `notice` | [`Notice`]: what is rare, by its kind |

mod happening;
mod notice;

pub use happening::Happening;
pub use notice::Notice;

use crate::SlotSet;
use crate::generation::Assignments;
use crate::plan::Assignment;
use core::time::Duration;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// Something that has happened in the engine: when, where, and what.
///
/// As JSON it is one object with stable names: `event` says what it is, times are in RFC 3339, durations in seconds,
/// and what is not known is left out or `null`.
///
/// ```
/// use anabranch_core::engine_event::{EngineEvent, Happening};
/// let mut event = EngineEvent::new(jiff::Timestamp::UNIX_EPOCH, Happening::paused());
/// event.consumer = Some("orders".into());
/// let json = serde_json::to_string(&event).unwrap();
/// assert_eq!(json, r#"{"time":"1970-01-01T00:00:00Z","consumer":"orders","event":"paused"}"#);
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct EngineEvent {
    /// When, by the clock of the process that says so.
    pub time: Timestamp,
    /// The replica set in which it happened, if it was in one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "name")]
    pub set: Option<Arc<str>>,
    /// Which run of a set, of all that this process has begun: one may begin before the last one has ended.
    #[serde(skip)]
    pub run: Option<u64>,
    /// The worker that says so.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "name")]
    pub worker: Option<Arc<str>>,
    /// The consumer that it is about: a projection, a view, a subscriber, a pool, or a batch job.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "name")]
    pub consumer: Option<Arc<str>>,
    /// The lane of that consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<usize>,
    /// The generation of the set that the worker follows. What is about a generation says that one itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// What has happened.
    #[serde(flatten)]
    pub what: Happening,
}

impl EngineEvent {
    /// Something that has happened, nobody knows where.
    #[must_use]
    pub fn new(time: Timestamp, what: Happening) -> Self {
        let (set, run, worker, consumer, lane, generation) = (None, None, None, None, None, None);
        Self { time, set, run, worker, consumer, lane, generation, what }
    }
}

/// How much it matters to somebody who reads a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Each transaction says so.
    Trace,
    /// Of use to somebody who looks for something.
    Debug,
    /// As it should be, and worth knowing.
    Info,
    /// Somebody may have to look.
    Warn,
    /// Something stands still until somebody acts.
    Error,
}

/// What is away, or fails, in an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutageOf {
    /// The handler of a consumer fails wherever it runs: the consumer is stopped, and tried now and then.
    Handler,
    /// A lane waits for its database.
    Lane,
    /// The feed of a consumer cannot read the log.
    Feed,
    /// A pool cannot ask for its permits.
    Permits,
    /// A worker cannot register its consumers.
    Start,
    /// A worker cannot join its set.
    Join,
    /// A worker waits for connections.
    Connections,
    /// A subscription of the log cannot read it.
    Subscription,
    /// A process does not hear of what others append or signal, and shows no life: it polls.
    Listener,
    /// A process does not see whether other workers live: their leases will tell.
    Peers,
    /// A batch job cannot read or claim rows.
    Batch,
    /// A worker of a batch job cannot commit.
    BatchWorker,
}

impl OutageOf {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Handler,
        Self::Lane,
        Self::Feed,
        Self::Permits,
        Self::Start,
        Self::Join,
        Self::Connections,
        Self::Subscription,
        Self::Listener,
        Self::Peers,
        Self::Batch,
        Self::BatchWorker,
    ];

    /// Its name, as in its JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Lane => "lane",
            Self::Feed => "feed",
            Self::Permits => "permits",
            Self::Start => "start",
            Self::Join => "join",
            Self::Connections => "connections",
            Self::Subscription => "subscription",
            Self::Listener => "listener",
            Self::Peers => "peers",
            Self::Batch => "batch",
            Self::BatchWorker => "batch_worker",
        }
    }

    /// Whether nobody reads a log for its end.
    fn ends_quietly(self) -> bool {
        matches!(self, Self::Subscription | Self::Batch | Self::BatchWorker)
    }
}

/// Slots that a generation gives to another worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SlotMove {
    /// Of a consumer that not all workers can run, or else of all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Who should have owned them before, if anybody.
    pub from: Option<String>,
    /// Who should own them now.
    pub to: Option<String>,
    /// How many.
    pub slots: usize,
}

impl SlotMove {
    /// Slots of a consumer, or of the whole set, from one worker to another.
    #[must_use]
    pub fn new(
        consumer: Option<String>,
        from: Option<String>,
        to: Option<String>,
        slots: usize,
    ) -> Self {
        Self { consumer, from, to, slots }
    }

    /// What the next assignments move.
    #[must_use]
    pub fn between(now: &Assignments, next: &Assignments) -> Vec<Self> {
        let mut moves = Self::of(None, &now.set, &next.set);
        for (consumer, assignment) in &next.apart {
            moves.extend(Self::of(Some(consumer), now.of(consumer), assignment));
        }
        moves
    }

    fn of(consumer: Option<&String>, now: &Assignment, next: &Assignment) -> Vec<Self> {
        let new = |from: Option<&String>, to: Option<&String>, slots: &SlotSet| {
            let count = slots.len();
            let of = Self::new(consumer.cloned(), from.cloned(), to.cloned(), count);
            (count > 0).then_some(of)
        };
        let all = |of: &Assignment| of.values().fold(SlotSet::empty(), |sum, of| sum.union(of));
        let (before, after) = (all(now), all(next));
        let mut moves = Vec::new();
        for (to, gets) in next {
            let others = now.iter().filter(|(from, _)| *from != to);
            moves.extend(
                others.filter_map(|(from, had)| new(Some(from), Some(to), &had.intersection(gets))),
            );
            moves.extend(new(None, Some(to), &gets.difference(&before)));
        }
        let lost =
            now.iter().filter_map(|(from, had)| new(Some(from), None, &had.difference(&after)));
        moves.extend(lost);
        moves
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn maybe_seconds<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_some(&time.as_secs_f64()),
        None => to.serialize_none(),
    }
}

fn name<S: Serializer>(name: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
    name.as_deref().serialize(to)
}

fn text<S: Serializer>(value: &impl core::fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

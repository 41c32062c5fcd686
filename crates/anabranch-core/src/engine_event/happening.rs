//! Everything that can happen in the engine.

use super::{Notice, OutageOf, Severity, SlotMove, maybe_seconds, seconds, text};
use crate::{ErrorCode, Position, SlotSet};
use core::time::Duration;
use serde::Serialize;
use uuid::Uuid;

/// Defines the enum, and for each variant its stable name, how much it matters, and a constructor for the crates that
/// emit it: a variant that may get more fields cannot be made outside its crate.
macro_rules! happenings {
    ($($(#[$doc:meta])* $variant:ident $name:ident $severity:expr;
        { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        /// What has happened.
        ///
        /// Each has a stable [name](Self::name), which is `event` in its JSON. New ones and new fields may come with any
        /// version.
        #[derive(Clone, Debug, Serialize)]
        #[serde(tag = "event", rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Happening {
            $($(#[$doc])* #[non_exhaustive] $variant { $($(#[$field_doc])* $field: $type,)* },)*
        }

        impl Happening {
            $($(#[$doc])* #[must_use] #[doc(hidden)]
            pub fn $name($($field: $type),*) -> Self { Self::$variant { $($field),* } })*

            /// Its name, which never changes.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => stringify!($name),)* }
            }

            /// How much it matters to somebody who reads a log.
            #[must_use]
            pub fn severity(&self) -> Severity {
                match self {
                    Self::Notice { kind, .. } => kind.severity(),
                    Self::HeartbeatFailed { is_repeated: true, .. } => Severity::Debug,
                    Self::OutageBegan { of: OutageOf::Handler, .. } => Severity::Error,
                    Self::OutageEnded { of, .. } if of.ends_quietly() => Severity::Debug,
                    Self::EventFailed { retry_in: Some(_), .. } => Severity::Warn,
                    Self::EventSkipped { error: Some(_), .. } => Severity::Warn,
                    Self::WorkerJoined { waited: Some(_) } => Severity::Info,
                    Self::TaskDied { is_held: true, .. } => Severity::Error,
                    other => other.usual_severity(),
                }
            }

            fn usual_severity(&self) -> Severity {
                match self { $(Self::$variant { .. } => $severity,)* }
            }

            /// The names of all, in the order in which they are documented.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];
        }
    };
}

happenings! {
    /// A worker has become a member of its set.
    WorkerJoined worker_joined Severity::Debug; {
        /// How long it had to wait for its database, if that was said.
        #[serde(serialize_with = "maybe_seconds")]
        waited: Option<Duration>,
    }
    /// A worker has given back what it had, and is a member no more.
    WorkerLeft worker_left Severity::Debug; {}
    /// A run of the set begins in this process.
    RunBegan run_began Severity::Debug; {}
    /// A run of the set has ended in this process: stopped, caught up, with the error that its caller gets, or dropped before its end.
    RunEnded run_ended Severity::Debug; {
        /// Why, if it failed or was dropped.
        error: Option<String>,
        /// The stable code of that error.
        code: Option<ErrorCode>,
    }
    /// A worker begins to run a consumer, or begins anew: its lanes are there, and wait for slots.
    ConsumerStarted consumer_started Severity::Debug; {
        /// What it is: `projection`, `view`, `rollup`, `subscriber`, `webhook`, `pool` or `schedules`.
        kind: &'static str,
        /// Whether it handles events of the log; else rows of a table of its own.
        follows_log: bool,
    }
    /// Another worker is dead: its lease is over, or its process is gone. The worker that found out says so.
    WorkerDied worker_died Severity::Debug; {
        /// Which one.
        died: String,
    }
    /// A worker was taken for dead by others: what it had is theirs. It begins anew under another id.
    WorkerFenced worker_fenced Severity::Warn; {}
    /// A lane's cursors have another owner: what it did since its last commit is not stored.
    LaneFenced lane_fenced Severity::Info; {}
    /// A new assignment of slots to workers. The worker that made it says so.
    GenerationMade generation_made Severity::Info; {
        /// Its number.
        generation: i64,
        /// Why it was made.
        reason: String,
        /// Members that are new.
        joined: Vec<String>,
        /// Members that have left by themselves.
        left: Vec<String>,
        /// Members that are dead.
        died: Vec<String>,
        /// Which slots go from whom to whom.
        moves: Vec<SlotMove>,
    }
    /// A lane has slots from now on.
    SlotsClaimed slots_claimed Severity::Debug; {
        /// Which.
        #[serde(serialize_with = "text")]
        slots: SlotSet,
        /// Nobody handled them for this long at most: since the generation was made that gives them to this worker, or
        /// since it lost them.
        #[serde(serialize_with = "seconds")]
        pause: Duration,
    }
    /// A lane has given slots back that another worker should own: their pause begins.
    SlotsReleased slots_released Severity::Debug; {
        /// Which.
        #[serde(serialize_with = "text")]
        slots: SlotSet,
    }
    /// A worker waits for slots that others hold.
    SlotsAwaited slots_awaited Severity::Info; {
        /// Who holds them.
        held_by: Vec<String>,
    }
    /// Slots have been on their way for longer than the coordination time-out.
    CoordinationTimedOut coordination_timed_out Severity::Warn; {
        /// The generation.
        generation: i64,
        /// Who holds what this worker waits for.
        held_by: Vec<String>,
        /// The time-out.
        #[serde(serialize_with = "seconds")]
        timeout: Duration,
    }
    /// A sign of life could not be stored.
    HeartbeatFailed heartbeat_failed Severity::Warn; {
        /// What the database said.
        error: String,
        /// Whether the same was said a moment ago.
        is_repeated: bool,
    }
    /// A sign of life is stored: the lease of the worker is good from then on.
    HeartbeatStored heartbeat_stored Severity::Trace; {
        /// How often the worker shows life.
        #[serde(serialize_with = "seconds")]
        interval: Duration,
    }
    /// Signs of life are stored again.
    HeartbeatRecovered heartbeat_recovered Severity::Info; {}
    /// An append of this process is stored, or was there already.
    Appended appended Severity::Trace; {
        /// How many events it has.
        events: usize,
        /// How long its caller waited.
        #[serde(serialize_with = "seconds")]
        took: Duration,
    }
    /// An append of this process was refused, since a stream or a query does not stand where its caller expected.
    AppendConflicted append_conflicted Severity::Trace; {}
    /// Appends of this process that came at the same time were sent as one batch, and are answered.
    AppendsAnswered appends_answered Severity::Trace; {
        /// How many appends.
        appends: usize,
        /// How many events they have together.
        events: usize,
    }
    /// A transaction of a lane with events, or with rows of a batch job, is committed.
    BatchHandled batch_handled Severity::Trace; {
        /// How many. All of them together are what this process has handled.
        events: usize,
        /// The last of them; nothing for rows.
        position: Option<Position>,
        /// The time in the handler. Statements that it does not wait for are queued, and sent with the commit.
        #[serde(serialize_with = "seconds")]
        handler: Duration,
        /// The time from then until the commit is answered: what was queued, the cursors and the commit itself.
        #[serde(serialize_with = "seconds")]
        commit: Duration,
    }
    /// An event has failed.
    EventFailed event_failed Severity::Debug; {
        /// Its key.
        key: String,
        /// Where it is.
        position: Position,
        /// Its type, stream and version, as far as they are known.
        subject: String,
        /// How often it has failed by now.
        attempts: u32,
        /// What the handler said.
        error: String,
        /// When it is tried again, if it is.
        #[serde(serialize_with = "maybe_seconds")]
        retry_in: Option<Duration>,
    }
    /// Events of a key that has failed are tried again.
    EventRetried event_retried Severity::Debug; {
        /// The key.
        key: String,
        /// How often it has failed by now; 0 if somebody asked for it.
        attempts: u32,
    }
    /// An event that must not be passed is tried again where it stands.
    EventHeldUp event_held_up Severity::Warn; {
        /// Where it is.
        position: Position,
        /// What the handler said.
        error: String,
        /// When it is tried again.
        #[serde(serialize_with = "seconds")]
        retry_in: Duration,
    }
    /// The attempts of an event are used up: its key waits for somebody, with all later events of it.
    EventParked event_parked Severity::Error; {
        /// Its key.
        key: String,
        /// Where it is.
        position: Position,
        /// Its type, stream and version, as far as they are known.
        subject: String,
        /// How often it has failed.
        attempts: u32,
        /// What the handler said.
        error: String,
    }
    /// All events of a key that had failed are done, or left out.
    EventUnparked event_unparked Severity::Info; {
        /// The key.
        key: String,
    }
    /// An event is left out.
    EventSkipped event_skipped Severity::Debug; {
        /// Its key.
        key: String,
        /// Where it is; the first, if somebody asked to leave out all that are parked.
        position: Option<Position>,
        /// Its type, stream and version, as far as they are known.
        subject: Option<String>,
        /// What the handler said, if it was left out for that. Else somebody asked for it.
        error: Option<String>,
    }
    /// A delivery at most once has failed, and is not repeated.
    DeliveryFailed delivery_failed Severity::Warn; {
        /// Where the event is.
        position: Position,
        /// What the subscriber said.
        error: String,
    }
    /// Tasks of a pool are done: one commit says so of all that it stores.
    TasksDone tasks_done Severity::Trace; {
        /// How many.
        tasks: usize,
    }
    /// The function of a task has returned, or panicked: what becomes of the task is stored after that.
    TaskRan task_ran Severity::Trace; {
        /// How long it took.
        #[serde(serialize_with = "seconds")]
        took: Duration,
    }
    /// A task has failed.
    TaskFailed task_failed Severity::Warn; {
        /// Its key.
        key: String,
        /// Its id.
        task: Uuid,
        /// How often it has failed by now.
        attempts: u32,
        /// What it said.
        error: String,
        /// When it is tried again, if it is.
        #[serde(serialize_with = "maybe_seconds")]
        retry_in: Option<Duration>,
        /// What becomes of it, in words.
        becomes: String,
    }
    /// The attempts of a task are used up.
    TaskDied task_died Severity::Debug; {
        /// Its key.
        key: String,
        /// Its id.
        task: Uuid,
        /// What it said last.
        error: String,
        /// Whether its key is held until somebody retries or discards it.
        is_held: bool,
    }
    /// A webhook has tried to deliver a message.
    DeliveryTried delivery_tried Severity::Trace; {
        /// What came of it: `delivered`, `failed`, `strained`, `busy`, `gone` or `unreachable`.
        outcome: &'static str,
        /// How long it took.
        #[serde(serialize_with = "seconds")]
        took: Duration,
    }
    /// A row of a batch job has failed, and is tried again.
    RowRetried row_retried Severity::Warn; {
        /// Its key.
        key: String,
        /// How often it has failed by now.
        attempts: u32,
        /// What the handler said.
        error: String,
        /// When it is tried again.
        #[serde(serialize_with = "seconds")]
        retry_in: Duration,
    }
    /// A consumer begins again, from where somebody has put it back to.
    ReplayBegan replay_began Severity::Info; {}
    /// What was made of a key is undone, and its events are handled again, or delivered again, since somebody asked for
    /// it.
    KeyReplayBegan key_replay_began Severity::Info; {
        /// The key.
        key: String,
    }
    /// Somebody has paused a consumer.
    Paused paused Severity::Info; {}
    /// Somebody lets a consumer go on.
    Resumed resumed Severity::Info; {}
    /// Events are there that must not be handled yet: an append before them is in flight.
    ReadStalled read_stalled Severity::Debug; {
        /// Everything up to here is handed to the lanes.
        position: Position,
    }
    /// Reading goes on: the append is stored, or was taken back.
    ReadResumed read_resumed Severity::Debug; {
        /// How long it was stalled.
        #[serde(serialize_with = "seconds")]
        after: Duration,
    }
    /// A poll has found events of which no wake had told.
    WakeMissed wake_missed Severity::Debug; {
        /// How many.
        events: usize,
    }
    /// Something is away, or fails everywhere: it is waited for.
    OutageBegan outage_began Severity::Warn; {
        /// What.
        of: OutageOf,
        /// What was said.
        error: String,
    }
    /// It is still away: said every few seconds.
    OutageLasts outage_lasts Severity::Warn; {
        /// What.
        of: OutageOf,
        /// What was said last.
        error: String,
    }
    /// It is back.
    OutageEnded outage_ended Severity::Warn; {
        /// What.
        of: OutageOf,
        /// How long it was away, if this process knows.
        #[serde(serialize_with = "maybe_seconds")]
        lasted: Option<Duration>,
    }
    /// A consumer that is stopped everywhere is tried with one event.
    OutageTried outage_tried Severity::Info; {
        /// How often it has been, with this time.
        tries: i64,
    }
    /// That event has failed.
    OutageTryFailed outage_try_failed Severity::Warn; {
        /// What was said.
        error: String,
        /// How long it is left alone until the next try: as long as the handler asks, at least.
        #[serde(serialize_with = "seconds")]
        patience: Duration,
    }
    /// The schema of a log is brought up to date by a step.
    MigrationApplied migration_applied Severity::Info; {
        /// Which database.
        at: String,
        /// Which log of it.
        namespace: String,
        /// The step.
        version: u32,
    }
    /// Something rarer.
    Notice notice Severity::Info; {
        /// What.
        kind: Notice,
        /// What was said, if something failed.
        error: Option<String>,
        /// What it is about.
        detail: Option<String>,
    }
    /// This observer was too slow: so many events did not fit into its queue, and are lost to it.
    Dropped dropped Severity::Debug; {
        /// How many.
        count: u64,
    }
    /// An observer has panicked for the first time; it gets all further events nevertheless. Only the log says so.
    ObserverPanicked observer_panicked Severity::Error; {
        /// What it said.
        said: String,
    }
}

impl Happening {
    /// Something rarer, with what was said and what it is about.
    #[must_use]
    pub fn failed(kind: Notice, error: &impl core::fmt::Display) -> Self {
        Self::notice(kind, Some(error.to_string()), None)
    }

    /// The same, without an error.
    #[must_use]
    pub fn noticed(kind: Notice, detail: impl Into<Option<String>>) -> Self {
        Self::notice(kind, None, detail.into())
    }

    /// The generation that it is about, if it is about one.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        match self {
            Self::GenerationMade { generation, .. }
            | Self::CoordinationTimedOut { generation, .. } => Some(*generation),
            _ => None,
        }
    }
}

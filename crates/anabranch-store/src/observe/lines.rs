//! What the lines of the log say: their words, targets and fields.

use anabranch_core::engine_event::{EngineEvent, Happening, OutageOf, Severity};
use std::borrow::Cow;
use std::time::Duration;

/// What a line says.
#[derive(Default)]
pub(super) struct Line<'a> {
    pub(super) severity: Option<Severity>,
    pub(super) target: &'a str,
    pub(super) text: Cow<'a, str>,
    pub(super) set: Option<&'a str>,
    pub(super) worker: Option<&'a str>,
    /// Another worker, that it is about.
    pub(super) died: Option<&'a str>,
    pub(super) consumer: Option<&'a str>,
    pub(super) pool: Option<&'a str>,
    pub(super) job: Option<&'a str>,
    pub(super) workflow: Option<&'a str>,
    pub(super) lane: Option<usize>,
    pub(super) generation: Option<i64>,
    pub(super) key: Option<&'a str>,
    pub(super) task: Option<String>,
    pub(super) position: Option<u64>,
    pub(super) event: Option<&'a str>,
    pub(super) attempts: Option<u32>,
    pub(super) error: Option<&'a str>,
    pub(super) detail: Option<Cow<'a, str>>,
}

/// The module in which a waiter waits, and what it says of its outage: that it began, and that it is over.
fn outage(of: OutageOf) -> (&'static str, &'static str, &'static str) {
    match of {
        OutageOf::Handler => {
            ("anabranch_runtime::worker::outage", "has stopped by itself", "goes on everywhere")
        }
        OutageOf::Lane => ("anabranch_runtime::lane::stats", "a lane waits", "a lane goes on"),
        OutageOf::Feed => {
            ("anabranch_runtime::feed", "the feed waits for the database", "the feed goes on")
        }
        OutageOf::Permits => {
            ("anabranch_runtime::permits::keeper", "cannot ask for permits", "goes on with permits")
        }
        OutageOf::Start => {
            ("anabranch_runtime::worker::start", "cannot start yet", "the start goes on")
        }
        OutageOf::Join => ("anabranch_runtime::worker::membership", "cannot join yet", "joined"),
        OutageOf::Connections => (
            "anabranch_runtime::worker::sessions",
            "a worker waits for connections, and owns nothing yet",
            "a worker has its connections",
        ),
        OutageOf::Subscription => (
            "anabranch_store::event_stream",
            "subscription waits for the database",
            "a subscription goes on",
        ),
        OutageOf::Listener => (
            "anabranch_postgres::link",
            "cannot listen and show life; readers poll meanwhile",
            "listens and shows life again",
        ),
        OutageOf::Peers => (
            "anabranch_postgres::life",
            "cannot watch other workers yet; their leases will tell",
            "watches other workers again",
        ),
        OutageOf::Batch => {
            ("anabranch_batch::claimer", "a batch waits for its database", "a batch goes on")
        }
        OutageOf::BatchWorker => {
            ("anabranch_batch::worker", "a worker waits for its database", "a worker goes on")
        }
        _ => ("anabranch", "waits", "goes on"),
    }
}

fn after(text: &str, away: Option<Duration>) -> Cow<'_, str> {
    match away {
        Some(away) => format!("{text} after {away:.1?}").into(),
        None => text.into(),
    }
}

impl<'a> Line<'a> {
    /// What is no consumer has the name that its module has for it: a pool that nobody runs, a job, a workflow.
    pub(super) fn named(mut self) -> Self {
        let name = match self.target {
            "anabranch_workpool::tasks" => &mut self.pool,
            target if target.starts_with("anabranch_batch") => &mut self.job,
            target if target.starts_with("anabranch_workflow") => &mut self.workflow,
            _ => return self,
        };
        *name = self.consumer.take();
        self
    }

    pub(super) fn of(event: &'a EngineEvent) -> Self {
        let line = Self {
            severity: Some(event.what.severity()),
            set: event.set.as_deref(),
            worker: event.worker.as_deref(),
            consumer: event.consumer.as_deref(),
            lane: event.lane,
            generation: event.what.generation().or(event.generation),
            ..Self::default()
        };
        match &event.what {
            Happening::WorkerJoined { waited, .. } => Self {
                target: "anabranch_runtime::worker::membership",
                text: after("joined", *waited),
                ..line
            },
            Happening::WorkerLeft { .. } => Self {
                target: "anabranch_runtime::worker::membership",
                text: "left".into(),
                ..line
            },
            Happening::RunEnded { error, .. } => Self {
                target: "anabranch_runtime::worker",
                text: "the run has ended".into(),
                error: error.as_deref(),
                ..line
            },
            Happening::WorkerDied { died, .. } => Self {
                target: "anabranch_runtime::worker::membership",
                text: "a worker is dead".into(),
                died: Some(died),
                ..line
            },
            Happening::WorkerFenced { .. } => Self {
                target: "anabranch_runtime::worker::membership",
                text: "the lease is over; beginning anew as a new worker".into(),
                ..line
            },
            Happening::LaneFenced { .. } => Self {
                target: "anabranch_runtime::lane::stats",
                text: "fenced: its cursors have another owner".into(),
                ..line
            },
            Happening::GenerationMade { reason, joined, left, died, .. } => Self {
                target: "anabranch_runtime::worker::membership",
                text: "a new generation".into(),
                detail: Some(
                    format!(
                        "reason={reason:?} joined={joined:?} left={left:?} died={died:?}"
                    )
                    .into(),
                ),
                ..line
            },
            Happening::SlotsClaimed { slots, pause, .. } => Self {
                target: "anabranch_runtime::lane",
                text: "slots are claimed".into(),
                detail: Some(format!("slots={slots} pause={pause:.1?}").into()),
                ..line
            },
            Happening::SlotsReleased { slots, .. } => Self {
                target: "anabranch_runtime::lane::shed",
                text: "slots are released".into(),
                detail: Some(format!("slots={slots}").into()),
                ..line
            },
            Happening::SlotsAwaited { held_by, .. } => Self {
                target: "anabranch_runtime::worker::claims",
                text: "waits for slots that others hold".into(),
                detail: Some(format!("waiting={held_by:?}").into()),
                ..line
            },
            Happening::CoordinationTimedOut { held_by, timeout, .. } => Self {
                target: "anabranch_runtime::worker::membership",
                text: "a hand-over takes longer than the coordination time-out; `anabranch status` says why"
                    .into(),
                detail: Some(
                    format!("waiting={held_by:?} timeout={timeout:?}")
                        .into(),
                ),
                ..line
            },
            Happening::HeartbeatFailed { error, .. } => Self {
                target: "anabranch_runtime::worker::heartbeat",
                text: "a heartbeat failed".into(),
                error: Some(error),
                ..line
            },
            Happening::HeartbeatStored { .. } => Self {
                target: "anabranch_runtime::worker::heartbeat",
                text: "a heartbeat is stored".into(),
                ..line
            },
            Happening::HeartbeatRecovered { .. } => Self {
                target: "anabranch_runtime::worker::heartbeat",
                text: "heartbeats go through again".into(),
                ..line
            },
            _ => line.of_work(event),
        }
    }

    /// What consumers do, and what is away.
    fn of_work(self, event: &'a EngineEvent) -> Self {
        let parking = "anabranch_runtime::lane::parking";
        match &event.what {
            Happening::BatchHandled { events, position, handler, commit, .. } => Self {
                target: "anabranch_runtime::lane::transact",
                text: "a batch is handled".into(),
                position: position.map(|at| at.get()),
                detail: Some(format!("events={events} handler={handler:?} commit={commit:?}").into()),
                ..self
            },
            Happening::Appended { events, took, .. } => Self {
                target: "anabranch_store::log",
                text: "an append is stored".into(),
                detail: Some(format!("events={events} took={took:?}").into()),
                ..self
            },
            Happening::AppendConflicted { .. } => Self {
                target: "anabranch_store::log",
                text: "an append is in conflict with another".into(),
                ..self
            },
            Happening::AppendsAnswered { appends, events, .. } => Self {
                target: "anabranch_store::log",
                text: "a batch of appends is answered".into(),
                detail: Some(format!("appends={appends} events={events}").into()),
                ..self
            },
            Happening::EventFailed { key, subject, attempts, error, retry_in, .. } => Self {
                target: parking,
                text: match retry_in {
                    Some(wait) => format!(
                        "an event failed; it will be tried again in {} ms, and its key waits for it",
                        wait.as_millis()
                    )
                    .into(),
                    None => "an event failed for good".into(),
                },
                key: Some(key),
                event: Some(subject),
                attempts: Some(*attempts),
                error: Some(error),
                ..self
            },
            Happening::EventParked { key, subject, attempts, error, .. } => Self {
                target: parking,
                text: "parked a key: it waits for `anabranch parked retry` or `skip`".into(),
                key: Some(key),
                event: Some(subject),
                attempts: Some(*attempts),
                error: Some(error),
                ..self
            },
            Happening::EventRetried { key, attempts, .. } => Self {
                target: parking,
                text: "a key is tried again".into(),
                key: Some(key),
                attempts: Some(*attempts),
                ..self
            },
            Happening::EventUnparked { key, .. } => Self {
                target: parking,
                text: "a key that had failed is done".into(),
                key: Some(key),
                ..self
            },
            Happening::EventSkipped { key, position, subject, error, .. } => Self {
                target: parking,
                text: "skipped an event".into(),
                key: Some(key),
                position: position.map(|at| at.get()),
                event: subject.as_deref(),
                error: error.as_deref(),
                ..self
            },
            Happening::EventHeldUp { position, error, retry_in, .. } => Self {
                target: "anabranch_runtime::lane::strict",
                text: "an event is tried again".into(),
                position: Some(position.get()),
                error: Some(error),
                detail: Some(format!("wait={retry_in:?}").into()),
                ..self
            },
            Happening::DeliveryFailed { position, error, .. } => Self {
                target: "anabranch_runtime::subscriber",
                text: "a delivery failed for good".into(),
                position: Some(position.get()),
                error: Some(error),
                ..self
            },
            Happening::TasksDone { tasks, .. } => Self {
                target: "anabranch_workpool::inside",
                text: "tasks are done".into(),
                detail: Some(format!("tasks={tasks}").into()),
                ..self
            },
            Happening::TaskRan { took, .. } => Self {
                target: "anabranch_workpool::inside",
                text: "a task has run".into(),
                detail: Some(format!("took={took:?}").into()),
                ..self
            },
            Happening::DeliveryTried { outcome, took, .. } => Self {
                target: "anabranch_webhook::lane",
                text: "a delivery was tried".into(),
                detail: Some(format!("outcome={outcome} took={took:?}").into()),
                ..self
            },
            Happening::TaskFailed { key, task, error, becomes, .. } => Self {
                target: "anabranch_workpool::inside",
                text: format!("a task has failed; {becomes}").into(),
                key: Some(key),
                task: Some(task.to_string()),
                error: Some(error),
                ..self
            },
            Happening::TaskDied { key, task, error, is_held, .. } => Self {
                target: "anabranch_workpool::inside",
                text: match is_held {
                    true => "a task is dead, and its key is held until somebody retries or discards it".into(),
                    false => "a task is dead".into(),
                },
                key: Some(key),
                task: Some(task.to_string()),
                error: Some(error),
                ..self
            },
            Happening::RowRetried { key, attempts, error, retry_in, .. } => Self {
                target: "anabranch_batch::later",
                text: "a row is tried again".into(),
                key: Some(key),
                attempts: Some(*attempts),
                error: Some(error),
                detail: Some(format!("wait={retry_in:?}").into()),
                ..self
            },
            _ => self.of_rest(event),
        }
    }

    fn of_rest(self, event: &'a EngineEvent) -> Self {
        match &event.what {
            Happening::ReplayBegan { .. } => Self {
                target: "anabranch_runtime::worker::beats",
                text: "replays from where it was put back to".into(),
                ..self
            },
            Happening::Paused { .. } | Happening::Resumed { .. } => Self {
                target: "anabranch_runtime::worker::beats",
                text: "pause".into(),
                detail: Some(
                    format!("paused={}", matches!(event.what, Happening::Paused { .. })).into(),
                ),
                ..self
            },
            Happening::ReadStalled { position, .. } => Self {
                target: "anabranch_runtime::feed",
                text: "an append is in flight, and events behind it wait".into(),
                position: Some(position.get()),
                ..self
            },
            Happening::ReadResumed { after: stalled, .. } => Self {
                target: "anabranch_runtime::feed",
                text: after("nothing is in flight any more", Some(*stalled)),
                ..self
            },
            Happening::WakeMissed { events, .. } => Self {
                target: "anabranch_runtime::feed",
                text: "a poll has found events that no wake had announced".into(),
                detail: Some(format!("events={events}").into()),
                ..self
            },
            Happening::OutageBegan { of, error, .. } | Happening::OutageLasts { of, error, .. } => {
                let (target, text, _) = outage(*of);
                Self { target, text: text.into(), error: Some(error.as_str()), ..self }
            }
            Happening::OutageEnded { of, lasted, .. } => {
                let (target, _, text) = outage(*of);
                Self { target, text: after(text, *lasted), ..self }
            }
            Happening::OutageTried { tries, .. } => Self {
                target: "anabranch_runtime::worker::outage",
                text: "tries one event".into(),
                detail: Some(format!("probes={tries}").into()),
                ..self
            },
            Happening::OutageTryFailed { error, patience, .. } => Self {
                target: "anabranch_runtime::worker::outage",
                text: "tried one event in vain".into(),
                error: Some(error),
                detail: Some(format!("patience={patience:?}").into()),
                ..self
            },
            Happening::MigrationApplied { at, namespace, version, .. } => Self {
                target: "anabranch_store::migration",
                text: "applied a migration".into(),
                detail: Some(format!("at={at} namespace={namespace} version={version}").into()),
                ..self
            },
            Happening::Notice { kind, error, detail, .. } => {
                let (text, about) = (kind.text(), detail.as_deref());
                // What it is about stands in the text, or behind it.
                let (text, detail) = match (text.contains("{}"), about) {
                    (true, Some(about)) => (text.replace("{}", about).into(), None),
                    (_, about) => (text.into(), about.map(Cow::Borrowed)),
                };
                let error = error.as_deref();
                Self { target: kind.target(), text, error, detail, ..self }
            }
            Happening::ObserverPanicked { said, .. } => Self {
                target: "anabranch_store::observe",
                text: "an observer has panicked; it gets what comes next all the same".into(),
                error: Some(said),
                ..self
            },
            other => Self { target: "anabranch", text: other.name().into(), ..self },
        }
    }
}

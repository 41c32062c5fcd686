//! A task as it is run, and as others see it.

use crate::new_task::{Completed, NewTask, Outcome, Then};
use anabranch_core::{ErrorCode, Slot, TaskState, TraceContext};
use anabranch_runtime::HandlerError;
use anabranch_runtime::interference::Item;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A task, as its handler sees it.
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) id: Uuid,
    pub(crate) seq: i64,
    pub(crate) key: Arc<str>,
    pub(crate) slot: Slot,
    /// How often it has failed.
    pub(crate) attempts: u32,
    pub(crate) payload: String,
    pub(crate) checkpoint: Option<String>,
    pub(crate) then: Option<Then>,
    /// Where it was enqueued in a trace; once it was run, where that stands.
    pub(crate) trace: Option<TraceContext>,
    /// How long it still has to wait for its next attempt.
    pub(crate) wait: Option<Duration>,
    /// How long after its time it was read.
    pub(crate) late: Option<Duration>,
}

impl Task {
    /// What a test is told of it.
    pub(crate) fn item(&self) -> Item<'_> {
        Item::Task { id: self.id, key: &self.key }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its payload.
    pub fn payload<P: DeserializeOwned>(&self) -> Result<P, HandlerError> {
        serde_json::from_str(&self.payload).map_err(|error| {
            let said = format!("the payload does not fit: {error}");
            HandlerError::with_code(ErrorCode::PayloadDoesNotFit, said)
        })
    }

    /// Its payload, as JSON text.
    #[must_use]
    pub fn payload_json(&self) -> &str {
        &self.payload
    }

    /// Which attempt this is: 1 for the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempts + 1
    }

    /// How long its time had passed when a lane found it: some milliseconds while somebody runs. `None` if it
    /// was not enqueued for a time, or has failed since.
    #[must_use]
    pub fn late(&self) -> Option<Duration> {
        self.late.filter(|_| self.attempts == 0)
    }

    /// The same for every attempt of this task, and for no other task. Pass it to the system that is called
    /// outside, so that a repeated call can be recognised.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("task:{}", self.id)
    }

    /// Where it was enqueued in a trace, if that was in one. Its handler runs in that trace.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    /// What follows it, now that it has ended so.
    pub(crate) fn follower(
        &self,
        outcome: Outcome,
        result: Option<&str>,
        error: Option<&str>,
    ) -> Option<(String, NewTask)> {
        let Then { pool, key, payload } = self.then.clone()?;
        let completed: Completed = Completed {
            task: self.id,
            outcome,
            result: result.and_then(|json| serde_json::from_str(json).ok()),
            error: error.map(str::to_owned),
            payload,
        };
        Some((pool, NewTask::new(key, &completed).carried_by(self.trace)))
    }
}

/// A task that was enqueued because of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRef {
    /// Its pool.
    pub pool: String,
    /// Its key.
    pub key: String,
    /// Its id.
    pub id: Uuid,
}

impl TaskRef {
    pub(crate) fn to(pool: &str, task: &NewTask) -> Self {
        Self { pool: pool.to_owned(), key: task.key.clone(), id: task.id }
    }
}

/// A task that was enqueued instead of one whose attempts were used up, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compensation {
    /// Which one.
    #[serde(flatten)]
    pub task: TaskRef,
    /// How it stands; nothing if it is not kept any more.
    pub state: Option<TaskState>,
}

impl fmt::Display for Compensation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskRef { pool, key, id } = &self.task;
        let state = self.state.map_or("not kept any more", TaskState::name);
        write!(f, "{id} of pool `{pool}`, key `{key}` ({state})")
    }
}

/// All that is kept of a task.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TaskDetails {
    /// How it stands.
    #[serde(flatten)]
    pub status: TaskStatus,
    /// Its unique key, if it has one.
    pub unique_key: Option<String>,
    /// Its payload, as it was enqueued.
    pub payload: Box<RawValue>,
    /// What it saved on its way.
    pub checkpoint: Option<Box<RawValue>>,
    /// What is enqueued when it ends, if its caller wants that.
    pub on_complete: Option<OnComplete>,
    /// What was enqueued instead of it, if it was compensated.
    pub compensated_by: Vec<Compensation>,
}

/// The task that follows another one: see [`NewTask::on_complete`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnComplete {
    /// Its pool.
    pub pool: String,
    /// Its key.
    pub key: String,
    /// What its caller handed over for it.
    pub payload: serde_json::Value,
}

/// How a task stands.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TaskStatus {
    /// Its id.
    pub id: Uuid,
    /// Its pool.
    pub pool: String,
    /// Its key.
    pub key: String,
    /// How it stands.
    pub state: TaskState,
    /// How often it has failed.
    pub attempts: u32,
    /// When it is run, if that is not at once.
    pub run_at: Option<Timestamp>,
    /// What it said when it failed last.
    pub error: Option<String>,
    /// What it returned.
    pub result: Option<serde_json::Value>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl TaskStatus {
    /// Its result, typed.
    pub fn result<R: DeserializeOwned>(&self) -> Result<Option<R>, HandlerError> {
        self.result.clone().map(serde_json::from_value).transpose().map_err(HandlerError::from)
    }
}

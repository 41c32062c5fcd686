//! The task to enqueue.

use anabranch_core::limits::{self, MAX_NAME_BYTES};
use anabranch_core::{InputError, InputProblem, Json, TraceContext};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// A task that is about to be enqueued. Whatever is wrong with it, a payload that cannot be JSON among
/// that, is reported by enqueueing it.
///
/// ```
/// use anabranch_workpool::NewTask;
/// use std::time::Duration;
/// let remind = NewTask::new("cust-7", &serde_json::json!({ "invoice": 42 }))
///     .run_after(Duration::from_secs(7 * 86_400))
///     .unique("reminder-42");
/// assert_eq!(remind.key(), "cust-7");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a task does nothing until it is enqueued"]
pub struct NewTask {
    pub(crate) id: Uuid,
    /// Whether the caller chose the id, so that it may be there already.
    pub(crate) id_is_callers: bool,
    pub(crate) key: String,
    pub(crate) payload: Result<Json, InputProblem>,
    pub(crate) due: Due,
    pub(crate) unique: Option<String>,
    pub(crate) then: Option<Then>,
    trace: Carried,
}

/// The trace that a task goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    /// That of the code that enqueues it.
    Current,
    /// This one, or none.
    Chosen(Option<TraceContext>),
}

/// When a task is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// By the database's clock.
    After(Duration),
    At(Timestamp),
}

/// The task that follows another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Then {
    pub(crate) pool: String,
    pub(crate) key: String,
    pub(crate) payload: serde_json::Value,
}

/// What the task that follows another one is told: the payload of an
/// [on-complete task](NewTask::on_complete).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completed<P = serde_json::Value, R = serde_json::Value> {
    /// The task that has ended.
    pub task: Uuid,
    /// How it has ended.
    pub outcome: Outcome,
    /// Its result, if it is done.
    pub result: Option<R>,
    /// What it said when it failed last, if it did.
    pub error: Option<String>,
    /// What was handed to `on_complete`.
    pub payload: P,
}

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was run.
    Done,
    /// Its attempts are used up.
    Dead,
    /// Somebody has cancelled it.
    Cancelled,
}

impl NewTask {
    /// A task of a key: tasks of one key are run one at a time, in the order in which they were
    /// enqueued.
    pub fn new(key: impl Into<String>, payload: &impl Serialize) -> Self {
        Self {
            id: Uuid::now_v7(),
            id_is_callers: false,
            key: key.into(),
            payload: Json::from_value(payload),
            due: Due::Now,
            unique: None,
            then: None,
            trace: Carried::Current,
        }
    }

    /// The id of the task. Enqueueing the same id again changes nothing and succeeds, for as long as
    /// the task is kept.
    pub fn with_id(mut self, id: Uuid) -> Self {
        self.id = id;
        self.id_is_callers = true;
        self
    }

    /// Not before this time. Until then it holds back nobody.
    pub fn run_at(mut self, time: Timestamp) -> Self {
        self.due = Due::At(time);
        self
    }

    /// Not before so much time has passed, by the database's clock. Until then it holds back nobody.
    pub fn run_after(mut self, delay: Duration) -> Self {
        self.due = Due::After(delay);
        self
    }

    /// Only if the pool has no open task with this unique key; else that one is meant.
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.unique = Some(key.into());
        self
    }

    /// Goes on with this trace, in the place of that of the code that enqueues it. It is kept beside the task: one that
    /// is there already, under its id or its unique key, keeps the first.
    ///
    /// ```
    /// use anabranch_workpool::NewTask;
    /// // From the header `traceparent` of a request, say.
    /// let of_request = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
    /// let mail = NewTask::new("cust-7", &"welcome").with_trace(of_request);
    /// # Ok::<(), anabranch_core::BadTraceContext>(())
    /// ```
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.trace = Carried::Chosen(Some(trace));
        self
    }

    /// Goes on with no trace. For what comes again and again, such as the next time of a schedule: the trace would
    /// never end.
    pub fn without_trace(mut self) -> Self {
        self.trace = Carried::Chosen(None);
        self
    }

    /// Settles that it goes on with this trace, unless something else was chosen.
    #[doc(hidden)]
    pub fn carried_by(mut self, current: Option<TraceContext>) -> Self {
        self.trace = Carried::Chosen(self.trace(current));
        self
    }

    /// The trace that it goes on with, if it is enqueued in this one.
    pub(crate) fn trace(&self, current: Option<TraceContext>) -> Option<TraceContext> {
        match self.trace {
            Carried::Current => current,
            Carried::Chosen(trace) => trace,
        }
    }

    /// Enqueues another task in the transaction that ends this one: when it is done, when it is
    /// cancelled, or when its attempts are used up and it is let go. Its payload is a [`Completed`] with
    /// this one inside.
    pub fn on_complete(
        mut self,
        pool: impl Into<String>,
        key: impl Into<String>,
        payload: &impl Serialize,
    ) -> Self {
        match serde_json::to_value(payload) {
            Ok(payload) => {
                self.then = Some(Then { pool: pool.into(), key: key.into(), payload });
            }
            Err(error) => {
                self.payload = Err(InputProblem::NotJson(format!("on_complete: {error}")));
            }
        }
        self
    }

    /// Refuses what no database should see, in it or in what follows it.
    pub(crate) fn check(&self, pool: &str, payload_bytes: usize) -> Result<(), InputError> {
        let whose = |part: &str| format!("{part} of a task of pool `{}`", pool.escape_debug());
        limits::check_name(pool, MAX_NAME_BYTES, || "name of a pool".to_owned())?;
        limits::check_name(&self.key, MAX_NAME_BYTES, || whose("key"))?;
        if let Some(unique) = &self.unique {
            limits::check_name(unique, MAX_NAME_BYTES, || whose("unique key"))?;
        }
        if let Some(then) = &self.then {
            let of = |part: &str| whose(&format!("{part} of what follows"));
            limits::check_name(&then.pool, MAX_NAME_BYTES, || of("pool"))?;
            limits::check_name(&then.key, MAX_NAME_BYTES, || of("key"))?;
        }
        let problem = match &self.payload {
            Err(problem) => problem.clone(),
            Ok(json) if json.as_str().len() > payload_bytes => {
                InputProblem::TooLarge { bytes: json.as_str().len(), limit: payload_bytes }
            }
            Ok(_) => return Ok(()),
        };
        Err(InputError::new(whose("payload"), problem))
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
}

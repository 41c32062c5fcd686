//! Work for others: tasks of pools, commands to workflows, and waiting for the outcome.
//!
//! A server does not have the code that handles them. It stores them for the workers that do.

use crate::body::{Body, run_at};
use crate::caller::Caller;
use crate::events::idempotency::IdempotencyKey;
use crate::page::Params;
use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::scope::Scope;
use crate::state::Shared;
use crate::unseen::{Kind, must_see, no_such};
use anabranch::Timestamp;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, OperateError};
use anabranch::workflow::CommandQueue;
use anabranch::workpool::{NewTask, TaskStatus, Tasks};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// How long a request waits for a task: by default, and at most.
const WAIT_SECONDS: (u64, u64) = (20, 60);
/// How many requests may wait at the same time, at most. Each of them looks at its task a few times a second.
pub(crate) const WAITS: usize = 256;
/// The longest delay, in milliseconds: more than ten years is a mistake.
const LONGEST_DELAY_MS: u64 = 10 * 366 * 24 * 3600 * 1000;

pub(crate) fn routes() -> Vec<Route> {
    let (read, append) = (Needs::Scope(Scope::ReadMasked), Needs::Scope(Scope::Append));
    let routes = [
        Route::post("/v1/pools/{pool}/tasks", append, task).with_room(),
        Route::get("/v1/tasks/{id}/wait", read, wait).takes(&["seconds"]).long(),
        Route::post("/v1/workflows/{workflow}/{id}/commands", append, command).with_room(),
    ];
    routes.into_iter().map(Route::keeps_consumers).collect()
}

/// A task to be enqueued.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenTask {
    key: String,
    payload: Box<RawValue>,
    id: Option<Uuid>,
    delay_ms: Option<u64>,
    #[serde(default, deserialize_with = "run_at")]
    run_at: Option<Timestamp>,
    unique: Option<String>,
}

/// Where a task is.
#[derive(Debug, Serialize)]
pub(crate) struct Enqueued {
    id: Uuid,
    is_new: bool,
    /// Where to wait for it, below the place where this API is mounted.
    wait: String,
    /// What else to know: that nobody has run the pool yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Enqueued {
    fn new(id: Uuid, is_new: bool) -> Self {
        Self { id, is_new, wait: format!("/v1/tasks/{id}/wait"), note: None }
    }
}

async fn task(
    State(state): State<Shared>,
    caller: Caller,
    Path(pool): Path<String>,
    headers: HeaderMap,
    Body(given): Body<GivenTask>,
) -> Result<(StatusCode, Json<Enqueued>), Problem> {
    must_see(&caller, Kind::Pool, &pool)?;
    let key = IdempotencyKey::of(&headers)?;
    let id = given.id.or_else(|| key.map(|key| key.id_at(&format!("task:{pool}"))));
    let mut task = NewTask::new(given.key.as_str(), &given.payload);
    if let Some(id) = id {
        task = task.with_id(id);
    }
    task = match (given.delay_ms, given.run_at) {
        (None, None) => task,
        (Some(_), Some(_)) => {
            return Err(Problem::invalid(
                "both `delay_ms` and `run_at` are given; give one of them",
            ));
        }
        (Some(delay), None) if delay > LONGEST_DELAY_MS => {
            return Err(Problem::invalid("`delay_ms` is more than ten years; give less"));
        }
        (Some(delay), None) => task.run_after(Duration::from_millis(delay)),
        (None, Some(time)) => task.run_at(time),
    };
    if let Some(unique) = given.unique {
        task = task.unique(unique);
    }
    let tasks = Tasks::new(&state.log, pool);
    let enqueued = tasks.enqueue(task).await?;
    if !enqueued.is_new && id == Some(enqueued.id) {
        must_be_same(&tasks, enqueued.id, &given.key, &given.payload).await?;
    }
    let mut answer = Enqueued::new(enqueued.id, enqueued.is_new);
    if !state.run_pools.has(&state.consumers, tasks.pool()).await {
        answer.note = Some(format!(
            "no worker has run the pool `{}` yet; the task waits for the first one that does",
            tasks.pool().escape_debug()
        ));
    }
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// Pools that workers have run. They are remembered, so that a task costs no question.
#[derive(Default)]
pub(crate) struct RunPools(Mutex<HashSet<String>>);

impl RunPools {
    /// How many are remembered.
    const MOST: usize = 1000;

    /// Whether a worker has run the pool. Where that cannot be told, nothing is said of it: the task is stored.
    async fn has(&self, consumers: &Consumers, pool: &str) -> bool {
        if self.known().contains(pool) {
            return true;
        }
        match consumers.fingerprint(pool).await {
            Ok(_) => {
                let mut known = self.known();
                if known.len() < Self::MOST {
                    known.insert(pool.to_owned());
                }
                true
            }
            Err(error) => !matches!(error, OperateError::NoSuchConsumer { .. }),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a different task under an id that is taken: it would never be run, and nobody would notice.
async fn must_be_same(
    tasks: &Tasks,
    id: Uuid,
    key: &str,
    payload: &RawValue,
) -> Result<(), Problem> {
    let Some(there) = tasks.details(id).await? else { return Ok(()) };
    let value = |json: &RawValue| serde_json::from_str::<Value>(json.get()).ok();
    // What is no value (a number that is too large) is compared as it is written.
    let is_same_payload = there.payload.get() == payload.get()
        || value(&there.payload).is_some_and(|there| Some(there) == value(payload));
    if there.status.pool == tasks.pool() && there.status.key == key && is_same_payload {
        return Ok(());
    }
    Err(reused("task", id))
}

/// The id stands for something else, about which the caller learns nothing more.
fn reused(what: &str, id: Uuid) -> Problem {
    let said = format!(
        "{what} id {id} was sent before with different contents; give the new {what} an id of its own, or the request \
         another idempotency key"
    );
    Problem::new(ErrorCode::IdReused, said).with("id", id)
}

/// A command to an instance.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenCommand {
    command: Box<RawValue>,
    /// Which command it is. A command that is sent again under the same id is carried out once.
    id: Option<Uuid>,
}

/// Where a command is.
#[derive(Debug, Serialize)]
pub(crate) struct Sent {
    /// Which command it is.
    command_id: Uuid,
    #[serde(flatten)]
    task: Enqueued,
}

async fn command(
    State(state): State<Shared>,
    caller: Caller,
    Path((workflow, instance)): Path<(String, String)>,
    headers: HeaderMap,
    Body(given): Body<GivenCommand>,
) -> Result<(StatusCode, Json<Sent>), Problem> {
    let queue = CommandQueue::new(&state.log, &workflow);
    if !caller.sees_consumer(queue.tasks().pool()) {
        return Err(no_such(Kind::Workflow, &workflow));
    }
    let key = IdempotencyKey::of(&headers)?;
    // The length, so that no other workflow and instance make the same text.
    let place = format!("command:{}:{workflow}:{instance}", workflow.len());
    let key = key.map(|key| key.id_at(&place));
    let command_id = given.id.or(key).unwrap_or_else(Uuid::now_v7);
    let queued = queue.enqueue(&instance, command_id, given.command.get()).await?;
    if queued.is_other {
        return Err(reused("command", command_id));
    }
    let task = Enqueued::new(queued.task, queued.is_new);
    Ok((StatusCode::ACCEPTED, Json(Sent { command_id, task })))
}

/// The state of a task, with its result or masked.
#[derive(Debug, Serialize)]
pub(crate) struct Waited {
    #[serde(flatten)]
    status: TaskStatus,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    masked: bool,
}

async fn wait(
    State(state): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Waited>, Problem> {
    let id: Uuid = id.parse().map_err(|_| Problem::invalid("the id of a task is a UUID"))?;
    let (usual, most) = WAIT_SECONDS;
    let what = format!("a number of seconds from 0 to {most}");
    let seconds = params.parsed("seconds", &what)?.unwrap_or(usual);
    if seconds > most {
        return Err(Problem::invalid(format!("`seconds` is {seconds}, which is not {what}")));
    }
    let none = || Problem::new(ErrorCode::NoSuchTask, format!("there is no task {id}"));
    let tasks = Tasks::new(&state.log, "");
    // Before it waits, so that the time to answer does not reveal a task that the caller may not see.
    let status = tasks.status(id).await?.filter(|task| caller.sees_consumer(&task.pool));
    let mut status = status.ok_or_else(none)?;
    if status.state.is_open() && seconds > 0 {
        let Ok(_turn) = state.waits.try_acquire() else {
            let said = "too many requests are waiting for tasks; try again, or use `seconds=0`";
            return Err(Problem::new(ErrorCode::TooManyRequests, said).after_seconds(1));
        };
        status = tasks.wait(id, Duration::from_secs(seconds)).await?;
    }
    let masked = caller.is_masked();
    if masked {
        (status.result, status.error) = (status.result.map(|_| Value::Null), None);
    }
    Ok(Json(Waited { status, masked }))
}

//! `/v1/pools` and `/v1/tasks`: tasks of work pools.

use super::READ;
use crate::caller::Caller;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use crate::unseen::{Kind, must_see, no_such};
use anabranch::Log;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, OperateError};
use anabranch::workpool::{PoolCounts, TaskState, TaskStatus, Tasks};
use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

pub(super) fn routes() -> Vec<Route> {
    let routes = [
        Route::get("/v1/pools", READ, pools),
        Route::get("/v1/tasks", READ, list).takes(&["pool", "state", "key", "limit", "after"]),
        Route::get("/v1/tasks/{id}", READ, one),
    ];
    routes.into_iter().map(|route| route.keeps_consumers().watched()).collect()
}

/// The kind of a work pool among consumers.
const POOL: &str = "pool";

/// A pool, with the number of its tasks in each state.
#[derive(Serialize)]
struct Pool {
    pool: String,
    tasks: Map<String, Value>,
}

async fn pools(State(state): State<Shared>, caller: Caller) -> Result<Json<List<Pool>>, Problem> {
    // Open and dead tasks, which an index has. The number of ended ones is in the metrics; counting them here would mean
    // reading all of them.
    let counts = Tasks::open_counts(&state.log).await?;
    let seen = counts.into_iter().filter(|pool| caller.sees_consumer(&pool.pool));
    let pools = seen.map(|pool| {
        let of = |state: TaskState| (state.name().to_owned(), number(&pool, state).into());
        let unfinished = TaskState::ALL.into_iter().filter(|state| !state.is_finished());
        Pool { tasks: unfinished.map(of).collect(), pool: pool.pool.clone() }
    });
    Ok(Json(List::whole(pools.collect())))
}

/// How many tasks of a pool are in a state. Compensated ones are counted by how many were enqueued instead of them.
fn number(pool: &PoolCounts, state: TaskState) -> u64 {
    pool.tasks.iter().filter(|(of, _)| *of == state).map(|(_, number)| number).sum()
}

async fn list(
    State(state): State<Shared>,
    caller: Caller,
    params: Params,
) -> Result<Json<List<Value>>, Problem> {
    let limit = params.limit()?;
    let after: Option<Uuid> = params.parsed("after", "the id of a task")?;
    let wanted = params.one("state")?.map(named).transpose()?;
    let key = params.one("key")?;
    let found = match (params.one("pool")?, wanted, key) {
        (Some(pool), ..) => {
            must_see(&caller, Kind::Pool, pool)?;
            let wanted = wanted.unwrap_or(TaskState::Ready);
            let found = Tasks::new(&state.log, pool).page(wanted, key, after, limit + 1).await?;
            if found.is_empty() && after.is_none() {
                must_be_pool(&state.log, pool).await?;
            }
            found
        }
        (None, Some(wanted), None) if !wanted.is_finished() => {
            of_all_pools(&state.log, &caller, wanted, after, limit + 1).await?
        }
        _ => {
            let said = "say which pool: `?pool=NAME`; without one, `state` is ready, scheduled, held, dead, compensated \
                        or skipped, and there is no `key`";
            return Err(Problem::invalid(said));
        }
    };
    let page = List::page(found, limit, |task| task.id.to_string());
    let items = page.items.into_iter().map(|task| shown(&caller, task));
    Ok(Json(List { items: items.collect::<Result<_, _>>()?, next: page.next }))
}

/// The tasks in a state, pool by pool in the order of their names. Only pools that have some are asked.
async fn of_all_pools(
    log: &Log,
    caller: &Caller,
    wanted: TaskState,
    after: Option<Uuid>,
    most: usize,
) -> Result<Vec<TaskStatus>, Problem> {
    let last = match after {
        None => None,
        Some(id) => {
            let found = Tasks::new(log, "").status(id).await?;
            let found = found.filter(|task| caller.sees_consumer(&task.pool));
            Some(
                found
                    .ok_or_else(|| Problem::invalid("`after` is the id of a task that is gone"))?,
            )
        }
    };
    let last = last.map(|task| task.pool);
    let mut pools: Vec<String> = Tasks::open_counts(log)
        .await?
        .into_iter()
        .filter(|pool| caller.sees_consumer(&pool.pool) && number(pool, wanted) > 0)
        .map(|pool| pool.pool)
        .filter(|pool| last.as_ref().is_none_or(|last| pool >= last))
        .collect();
    pools.sort();
    let mut found = Vec::new();
    for pool in pools {
        let left = most - found.len();
        if left == 0 {
            break;
        }
        let after = after.filter(|_| last.as_ref() == Some(&pool));
        found.extend(Tasks::new(log, pool).page(wanted, None, after, left).await?);
    }
    Ok(found)
}

/// Refuses a name that no pool has. One without tasks is known if a worker has run it.
async fn must_be_pool(log: &Log, pool: &str) -> Result<(), Problem> {
    if Tasks::pools(log).await?.iter().any(|known| known == pool) {
        return Ok(());
    }
    match Consumers::new(log).fingerprint(pool).await {
        Ok(known) if known.kind == POOL => Ok(()),
        Ok(_) | Err(OperateError::NoSuchConsumer { .. }) => Err(no_such(Kind::Pool, pool)),
        Err(error) => Err(error.into()),
    }
}

fn named(name: &str) -> Result<TaskState, Problem> {
    let found = TaskState::ALL.into_iter().find(|state| state.name() == name);
    found.ok_or_else(|| {
        let known = TaskState::ALL.map(TaskState::name);
        Problem::invalid(format!("`state` is one of {}", known.join(", "))).with("known", known)
    })
}

async fn one(
    State(state): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id: Uuid = id.parse().map_err(|_| Problem::invalid("the id of a task is a UUID"))?;
    let found = Tasks::new(&state.log, "").details(id).await?;
    let found = found.filter(|task| caller.sees_consumer(&task.status.pool));
    let none = || Problem::new(ErrorCode::NoSuchTask, format!("there is no task {id}"));
    let details = found.ok_or_else(none)?;
    Ok(match caller.is_masked() {
        // Its payload passes through digit for digit.
        false => Json(details).into_response(),
        true => Json(masked(serde_json::to_value(details)?)).into_response(),
    })
}

fn shown(caller: &Caller, task: TaskStatus) -> Result<Value, Problem> {
    let shown = serde_json::to_value(task)?;
    Ok(if caller.is_masked() { masked(shown) } else { shown })
}

/// A task without what it was given and what it said.
fn masked(mut task: Value) -> Value {
    if let Value::Object(members) = &mut task {
        for name in ["payload", "result", "error", "checkpoint"] {
            if let Some(member) = members.get_mut(name) {
                *member = Value::Null;
            }
        }
        if let Some(Value::Object(then)) = members.get_mut("on_complete") {
            then.insert("payload".to_owned(), Value::Null);
        }
        members.insert("masked".to_owned(), true.into());
    }
    task
}

//! `/v1/pools` and `/v1/tasks`: tasks of work pools.

use super::READ;
use crate::caller::Caller;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use crate::unseen::{Kind, must_see, no_such};
use anabranch::errors::ErrorCode;
use anabranch::workpool::{TaskState, TaskStatus, Tasks};
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

/// A pool, with the number of its tasks in each state.
#[derive(Serialize)]
struct Pool {
    pool: String,
    tasks: Map<String, Value>,
}

async fn pools(State(state): State<Shared>, caller: Caller) -> Result<Json<List<Pool>>, Problem> {
    // Open tasks only. The number of ended ones is in the metrics; counting them here would mean reading all of them.
    let counts = Tasks::open_counts(&state.log).await?;
    let seen = counts.into_iter().filter(|pool| caller.sees_consumer(&pool.pool));
    let pools = seen.map(|pool| {
        let of = |state: TaskState| (state.name().to_owned(), pool.count(state).into());
        let unfinished = TaskState::ALL.into_iter().filter(|state| state.is_open());
        Pool { tasks: unfinished.map(of).collect(), pool: pool.pool.clone() }
    });
    Ok(Json(List::whole(pools.collect())))
}

async fn list(
    State(state): State<Shared>,
    caller: Caller,
    params: Params,
) -> Result<Json<List<Value>>, Problem> {
    let (pool, limit) = (params.needed("pool")?, params.limit()?);
    let after: Option<Uuid> = params.parsed("after", "the id of a task")?;
    let wanted = match params.one("state")? {
        None => TaskState::Ready,
        Some(name) => named(name)?,
    };
    must_see(&caller, Kind::Pool, pool)?;
    let tasks = Tasks::new(&state.log, pool);
    let found = tasks.page(wanted, params.one("key")?, after, limit + 1).await?;
    if found.is_empty()
        && after.is_none()
        && !Tasks::pools(&state.log).await?.contains(&pool.to_owned())
    {
        return Err(no_such(Kind::Pool, pool));
    }
    let page = List::page(found, limit, |task| task.id.to_string());
    let items = page.items.into_iter().map(|task| shown(&caller, task));
    Ok(Json(List { items: items.collect::<Result<_, _>>()?, next: page.next }))
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

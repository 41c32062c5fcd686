//! `/v1/consumers/{name}/parked`: keys that are set aside since an event of them failed.

use super::{READ, narrow};
use crate::caller::Caller;
use crate::events::seen;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use anabranch::operate::Parked;
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::value::RawValue;

/// How many events of a key are shown unless another number is asked for.
const EVENTS: usize = 10;

pub(super) fn routes() -> Vec<Route> {
    let routes = [
        Route::get("/v1/consumers/{name}/parked", READ, list).takes(&["limit", "after"]),
        Route::get("/v1/consumers/{name}/parked/{key}", READ, one).takes(&["limit"]),
    ];
    routes.into_iter().map(Route::keeps_consumers).collect()
}

async fn list(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<List<Parked>>, Problem> {
    let (limit, after) = (params.limit()?, params.one("after")?);
    let mut all = keys(&state, &caller, &name).await?;
    all.retain(|parked| after.is_none_or(|after| parked.key.as_str() > after));
    all.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(Json(List::page(all, limit, |parked| parked.key.clone())))
}

/// A key with the first events that wait.
#[derive(Serialize)]
struct WithEvents {
    #[serde(flatten)]
    parked: Parked,
    next_events: Vec<Box<RawValue>>,
}

async fn one(
    State(state): State<Shared>,
    caller: Caller,
    Path((name, key)): Path<(String, String)>,
    params: Params,
) -> Result<Json<WithEvents>, Problem> {
    let limit = if params.one("limit")?.is_some() { params.limit()? } else { EVENTS };
    let all = keys(&state, &caller, &name).await?;
    let Some(parked) = all.into_iter().find(|parked| parked.key == key) else {
        let key: String = key.chars().take(200).collect();
        let said = format!("consumer `{name}` has no parked key `{}`", key.escape_debug());
        return Err(Problem::new(ErrorCode::NoSuchKey, said));
    };
    let events = state.consumers.parked_events(&name, &key, limit).await;
    let events = events.map_err(|error| narrow::refused(&caller, &name, error))?;
    let events = events.iter().map(|event| seen::json(event, caller.is_masked()));
    Ok(Json(WithEvents { parked, next_events: events.collect::<Result<_, _>>()? }))
}

async fn keys(state: &Shared, caller: &Caller, name: &str) -> Result<Vec<Parked>, Problem> {
    narrow::must_see(caller, name)?;
    let mut all =
        state.consumers.parked(name).await.map_err(|error| narrow::refused(caller, name, error))?;
    if caller.is_masked() {
        // What a handler says often quotes what it was given.
        all.iter_mut().for_each(|parked| parked.error.clear());
    }
    Ok(all)
}

//! `/v1/consumers/{name}/parked`: keys that have been set aside because one of their events failed.

use super::{READ, narrow};
use crate::caller::Caller;
use crate::events::seen;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use crate::unseen::{Kind, must_see};
use anabranch::errors::ErrorCode;
use anabranch::operate::Parked;
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::value::RawValue;

/// How many events of a key are shown by default.
const EVENTS: usize = 10;

pub(super) fn routes() -> Vec<Route> {
    let routes = [
        Route::get("/v1/consumers/{name}/parked", READ, list).takes(&["limit", "after"]).watched(),
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
    must_see(&caller, Kind::Consumer, &name)?;
    let found = state.consumers.parked_page(&name, after, limit + 1).await;
    let mut found = found.map_err(|error| narrow::refused(&caller, &name, error))?;
    found.iter_mut().for_each(|parked| mask(&caller, parked));
    Ok(Json(List::page(found, limit, |parked| parked.key.clone())))
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
    must_see(&caller, Kind::Consumer, &name)?;
    let found = state.consumers.parked_key(&name, &key).await;
    let Some(mut parked) = found.map_err(|error| narrow::refused(&caller, &name, error))? else {
        let key: String = key.chars().take(200).collect();
        let said = format!("consumer `{name}` has no parked key `{}`", key.escape_debug());
        return Err(Problem::new(ErrorCode::NoSuchKey, said));
    };
    mask(&caller, &mut parked);
    let events = state.consumers.parked_events(&name, &key, limit).await;
    let events = events.map_err(|error| narrow::refused(&caller, &name, error))?;
    let events = events.iter().map(|event| seen::json(event, caller.is_masked()));
    Ok(Json(WithEvents { parked, next_events: events.collect::<Result<_, _>>()? }))
}

/// Errors of handlers often quote what they were given.
pub(super) fn mask(caller: &Caller, parked: &mut Parked) {
    if caller.is_masked() {
        parked.error.clear();
    }
}

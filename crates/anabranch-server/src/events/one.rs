//! `GET /v1/events/{id}`: one event, by its id or its position, and the one that caused it.

use super::seen;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use anabranch::{Event, Log, Position, Query};
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

/// An event, and what caused it.
#[derive(Debug, Serialize)]
pub(crate) struct One {
    event: Box<RawValue>,
    /// The event that its causation id names, if it is in this log.
    cause: Option<Box<RawValue>>,
}

pub(crate) async fn one(
    State(state): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<One>, Problem> {
    let shown = |event: &Event| seen::json(event, caller.is_masked());
    let found = find(&state.log, &id).await?;
    let Some(event) = found.filter(|event| caller.sees_tenant(event.tenant())) else {
        let said = format!("there is no event `{}` in the log", brief(&id).escape_debug());
        return Err(Problem::new(ErrorCode::NoSuchEvent, said));
    };
    let cause = match event.causation().and_then(|id| id.parse::<Uuid>().ok()) {
        Some(id) => state.log.find(id).await?.filter(|cause| caller.sees_tenant(cause.tenant())),
        None => None,
    };
    Ok(Json(One { event: shown(&event)?, cause: cause.as_ref().map(shown).transpose()? }))
}

async fn find(log: &Log, id: &str) -> Result<Option<Event>, Problem> {
    if let Ok(position) = id.parse::<u64>() {
        let Some(before) = position.checked_sub(1) else { return Ok(None) };
        let read = log.read(Query::all()).after(Position::new(before)).limit(1);
        let found = read.collect().await?.pop();
        return Ok(found.filter(|event| event.position().get() == position));
    }
    let id: Uuid = id.parse().map_err(|_| {
        let id = brief(id).escape_debug().to_string();
        Problem::invalid(format!("`{id}` is neither the id of an event (a UUID) nor a position"))
    })?;
    Ok(log.find(id).await?)
}

fn brief(given: &str) -> String {
    given.chars().take(80).collect()
}

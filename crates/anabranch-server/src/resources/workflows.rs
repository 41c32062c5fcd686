//! `/v1/workflows`: states of workflows as they were kept last. A server on its own does not have the code that folds
//! them, so a state may be behind its events, and says at which version it was kept.

use super::READ;
use crate::caller::Caller;
use crate::page::List;
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use anabranch::StreamId;
use anabranch::errors::ErrorCode;
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::value::RawValue;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/workflows", READ, list).watched(),
        Route::get("/v1/workflows/{workflow}/{id}", READ, one).watched(),
    ]
}

/// A workflow of which states are kept.
#[derive(Serialize)]
struct Workflow {
    workflow: String,
}

async fn list(State(state): State<Shared>) -> Result<Json<List<Workflow>>, Problem> {
    let names = state.access.tables.workflows().await?;
    Ok(Json(List::whole(names.into_iter().map(|workflow| Workflow { workflow }).collect())))
}

/// An instance.
#[derive(Serialize)]
struct Instance {
    workflow: String,
    id: String,
    /// The version that its stream stands at now.
    version: u64,
    /// The state that was kept last; none if none was.
    snapshot: Option<Snapshot>,
    /// Where its events are, below the place where this API is mounted.
    events: String,
}

/// A state that was kept.
#[derive(Serialize)]
pub(crate) struct Snapshot {
    /// The version of the instance that it is of: later events are not in it.
    pub(crate) version: u64,
    /// Running, paused or cancelled, at that version.
    pub(crate) mode: String,
    pub(crate) state: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) masked: bool,
}

async fn one(
    State(state): State<Shared>,
    caller: Caller,
    Path((workflow, id)): Path<(String, String)>,
) -> Result<Json<Instance>, Problem> {
    let stream = StreamId::new(workflow.clone(), id.clone())?;
    let last = state.log.read_stream(&stream).backwards().limit(1).collect().await?;
    let mut snapshot = state.access.tables.snapshot(&workflow, &id).await?;
    let Some(version) = last.first().map(|event| event.version()) else {
        let said = format!("workflow `{workflow}` has no instance `{}`", id.escape_debug());
        return Err(Problem::new(ErrorCode::NoSuchInstance, said));
    };
    if let Some(snapshot) = snapshot.as_mut().filter(|_| caller.is_masked()) {
        (snapshot.state, snapshot.masked) = (None, true);
    }
    let events = format!("/v1/streams/{}/{}", encoded(&workflow), encoded(&id));
    Ok(Json(Instance { workflow, id, version, snapshot, events }))
}

/// A part of a path.
fn encoded(part: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    part.bytes()
        .map(|byte| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

//! `/v1/workflows`: states of workflows. Where the code is in this program they are folded from the events. A server on
//! its own has no code: it shows the last snapshot, with the version it belongs to.

use super::READ;
use crate::caller::Caller;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use anabranch::StreamId;
use anabranch::errors::ErrorCode;
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/workflows", READ, list).watched(),
        Route::get("/v1/workflows/{workflow}/{id}", READ, one).takes(&["version"]).watched(),
    ]
}

/// A workflow whose code is here, or of which snapshots are kept.
#[derive(Serialize)]
struct Workflow {
    workflow: String,
    /// Whether its states are folded here.
    has_code: bool,
}

async fn list(State(state): State<Shared>) -> Result<Json<List<Workflow>>, Problem> {
    let kept = state.access.tables.workflows().await?;
    let mut all: BTreeMap<String, bool> = kept.into_iter().map(|name| (name, false)).collect();
    all.extend(state.folds.names().map(|name| (name.to_owned(), true)));
    let all = all.into_iter().map(|(workflow, has_code)| Workflow { workflow, has_code });
    Ok(Json(List::whole(all.collect())))
}

/// An instance.
#[derive(Serialize)]
struct Instance {
    workflow: String,
    id: String,
    /// The current version of its stream; none where the category of its streams is not known.
    version: Option<u64>,
    /// The state folded from its events; none where the code is not here.
    state: Option<InstanceState>,
    /// The last snapshot, if there is one.
    snapshot: Option<InstanceState>,
    /// Where its events are, below the place where this API is mounted; none where their category is not known.
    events: Option<String>,
}

/// The state of an instance at one of its versions.
#[derive(Serialize)]
pub(crate) struct InstanceState {
    /// The version it belongs to: later events are not in it.
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
    params: Params,
) -> Result<Json<Instance>, Problem> {
    let wanted = version(&params)?;
    let fold = state.folds.of(&workflow);
    // Only the code knows the category of the streams. Without the code it is taken to be the name, as it is by default.
    let category = fold.map_or(workflow.as_str(), |fold| fold.category());
    let stream = StreamId::new(category, id.as_str())?;
    let folded = match fold {
        Some(fold) => fold.state(&caller, &id, wanted).await?,
        None => None,
    };
    let mut snapshot = state.access.tables.snapshot(&workflow, &id).await?;
    // This is read last, so that it is never behind the state.
    let last = state.log.read_stream(&stream).backwards().limit(1).collect().await?;
    let version = last.first().map(|event| event.version());
    if version.is_none() && snapshot.is_none() {
        let said = format!("workflow `{workflow}` has no instance `{}`", id.escape_debug());
        return Err(Problem::new(ErrorCode::NoSuchInstance, said));
    }
    if let (Some(wanted), Some(version), Some(_), None) = (wanted, version, fold, &folded) {
        let said = format!("`version` is {wanted}, but the instance is at version {version}");
        return Err(Problem::invalid(said).with("version", version));
    }
    if let Some(snapshot) = snapshot.as_mut().filter(|_| caller.is_masked()) {
        (snapshot.state, snapshot.masked) = (None, true);
    }
    let events = version.map(|_| format!("/v1/streams/{}/{}", encoded(category), encoded(&id)));
    Ok(Json(Instance { workflow, id, version, state: folded, snapshot, events }))
}

/// The version at which the state is asked for; the last one if not given.
fn version(params: &Params) -> Result<Option<u64>, Problem> {
    match params.parsed("version", "a version: a whole number from 1")? {
        Some(0) => Err(Problem::invalid("`version` is 0; the first event has version 1")),
        version => Ok(version),
    }
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

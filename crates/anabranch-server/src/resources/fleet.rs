//! `/v1/workers`, `/v1/replica-sets`, `/v1/generations`: who runs what, and why slots were reassigned.

use super::{READ, narrow};
use crate::caller::Caller;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use anabranch::Timestamp;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Generation, WorkerStatus};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/workers", READ, workers).watched(),
        Route::get("/v1/replica-sets", READ, replica_sets).watched(),
        Route::get("/v1/generations", READ, generations).takes(&["replica_set", "limit"]).watched(),
    ]
}

/// A worker, with what changes at each heartbeat: it stands here alone, so that nothing else changes with it.
#[derive(Serialize)]
struct Worker<'a> {
    #[serde(flatten)]
    status: &'a WorkerStatus,
    /// Until when its lease is good, by the database's clock.
    lease_until: Timestamp,
    /// The newest schema that its program knows, if it says so.
    schema: Option<u32>,
}

impl<'a> Worker<'a> {
    fn of(status: &'a WorkerStatus) -> Self {
        Self { lease_until: status.lease_until, schema: status.schema, status }
    }
}

async fn workers(
    State(state): State<Shared>,
    caller: Caller,
) -> Result<Json<List<Value>>, Problem> {
    let workers = state.consumers.workers().await?;
    let shown = workers.iter().map(|worker| narrow::shown(&caller, &Worker::of(worker)));
    Ok(Json(List::whole(shown.collect::<Result<_, _>>()?)))
}

/// A replica set and its workers.
#[derive(Serialize)]
struct ReplicaSet {
    name: String,
    /// The number of the current assignment.
    generation: i64,
    /// How slots change hands: cooperative or recreate.
    rollout: String,
    /// The ids of its living workers.
    workers: Vec<String>,
    /// The consumers that these run.
    consumers: BTreeSet<String>,
}

async fn replica_sets(State(state): State<Shared>) -> Result<Json<List<ReplicaSet>>, Problem> {
    let stored = state.access.tables.replica_sets().await?;
    let workers = state.consumers.workers().await?;
    let sets = stored.into_iter().map(|(name, generation, rollout)| {
        let is_of = |worker: &&WorkerStatus| worker.is_alive && worker.replica_set == name;
        let own: Vec<_> = workers.iter().filter(is_of).collect();
        let consumers = own.iter().flat_map(|worker| &worker.consumers);
        ReplicaSet {
            generation,
            rollout,
            consumers: consumers.map(|runner| runner.consumer.clone()).collect(),
            workers: own.iter().map(|worker| worker.id.clone()).collect(),
            name,
        }
    });
    Ok(Json(List::whole(sets.collect())))
}

async fn generations(
    State(state): State<Shared>,
    caller: Caller,
    params: Params,
) -> Result<Json<List<Generation>>, Problem> {
    let (set, limit) = (params.one("replica_set")?, params.limit()?);
    let mut found = state.consumers.generations(set, limit).await?;
    if caller.is_masked() {
        found.iter_mut().for_each(|generation| leave_out_error(&mut generation.reason));
    }
    if let Some(set) = set.filter(|_| found.is_empty()) {
        let set: String = set.chars().take(200).collect();
        let said = format!("there is no replica set `{}`", set.escape_debug());
        return Err(Problem::new(ErrorCode::NoSuchReplicaSet, said));
    }
    Ok(Json(List::whole(found)))
}

/// A worker that could not run a consumer said why, which often quotes an event. Those of this version leave it out.
fn leave_out_error(reason: &mut String) {
    const UNABLE: &str = " for now";
    if let Some(at) = reason.find(" for now: ") {
        reason.truncate(at + UNABLE.len());
    }
}

//! `/v1/consumers`: the state of consumers, slot by slot.

use super::{READ, narrow};
use crate::caller::Caller;
use crate::page::{List, Params};
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use crate::unseen::{Kind, must_see};
use anabranch::Position;
use anabranch::errors::ErrorCode;
use anabranch::operate::{AuditStatus, CursorStatus, Owner, Reason};
use anabranch::partitioning::SlotSet;
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::Value;

pub(super) fn routes() -> Vec<Route> {
    let routes = [
        Route::get("/v1/consumers", READ, list).takes(&["limit", "after"]),
        Route::get("/v1/consumers/{name}", READ, one),
        Route::get("/v1/consumers/{name}/slots", READ, slots),
        Route::get("/v1/consumers/{name}/audit", READ, audit),
    ];
    routes.into_iter().map(|route| route.keeps_consumers().watched()).collect()
}

async fn list(
    State(state): State<Shared>,
    caller: Caller,
    params: Params,
) -> Result<Json<List<Value>>, Problem> {
    let (limit, after) = (params.limit()?, params.one("after")?.unwrap_or_default());
    let mut all = state.consumers.list().await?;
    all.retain(|consumer| consumer.name.as_str() > after && caller.sees_consumer(&consumer.name));
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let page = List::page(all, limit, |consumer| consumer.name.clone());
    let items = page.items.iter().map(|item| narrow::shown(&caller, item));
    Ok(Json(List { items: items.collect::<Result<_, _>>()?, next: page.next }))
}

async fn one(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let status = narrow::status(&state, &caller, &name).await?;
    Ok(Json(narrow::shown(&caller, &status)?))
}

/// All slots of a consumer: who owns them, how far they are, and why they are not moving.
#[derive(Serialize)]
struct Map {
    consumer: String,
    head: Position,
    cursors: Vec<Part>,
}

/// What one cursor holds.
#[derive(Serialize)]
struct Part {
    slots: Vec<Run>,
    slot_count: usize,
    position: Position,
    lag: u64,
    epoch: i64,
    owner: Option<OwnerOf>,
    /// Why it is not moving: named reasons, with all that is known.
    reasons: Vec<Reason>,
    /// The same in words.
    why: Vec<String>,
}

#[derive(Serialize)]
struct OwnerOf {
    worker: String,
    /// Host and process; none if the worker is dead and forgotten.
    place: Option<String>,
    replica_set: Option<String>,
    is_alive: bool,
}

/// Slots from one to another, `step` apart.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Run {
    from: u16,
    to: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u16>,
}

async fn slots(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let status = narrow::status(&state, &caller, &name).await?;
    let cursors = status.cursors.iter().map(|cursor| part(&caller, cursor)).collect();
    let map = Map { consumer: status.name, head: status.head, cursors };
    Ok(Json(narrow::shown(&caller, &map)?))
}

fn part(caller: &Caller, cursor: &CursorStatus) -> Part {
    let owner = match &cursor.owner {
        Owner::Unassigned => None,
        Owner::Worker(worker) => Some(OwnerOf {
            worker: worker.id.clone(),
            place: Some(worker.place()),
            replica_set: Some(worker.replica_set.clone()),
            is_alive: true,
        }),
        Owner::Dead(id) => {
            Some(OwnerOf { worker: id.clone(), place: None, replica_set: None, is_alive: false })
        }
    };
    Part {
        slots: runs(cursor.slot_set()),
        slot_count: cursor.slot_count,
        position: cursor.position,
        lag: cursor.lag,
        epoch: cursor.epoch,
        owner,
        reasons: cursor.reasons.clone(),
        why: narrow::in_words(caller, &cursor.reasons),
    }
}

/// Slots as runs: one with a step if they are a partition, else a run for each group of neighbours.
fn runs(set: &SlotSet) -> Vec<Run> {
    let slots: Vec<u16> = set.iter().map(|slot| slot.get()).collect();
    if let [first, second, .., last] = slots[..] {
        let step = second - first;
        let is_even = slots.windows(2).all(|two| two[1] - two[0] == step);
        if step > 1 && is_even {
            return vec![Run { from: first, to: last, step: Some(step) }];
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for slot in slots {
        match runs.last_mut() {
            Some(run) if run.to + 1 == slot => run.to = slot,
            _ => runs.push(Run { from: slot, to: slot, step: None }),
        }
    }
    runs
}

/// Whether a consumer is audited, and when everything was last proven. Nothing is proven here.
async fn audit(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<AuditStatus>, Problem> {
    must_see(&caller, Kind::Consumer, &name)?;
    let audits = state.consumers.audits().await?;
    if let Some(audit) = audits.into_iter().find(|audit| audit.consumer == name) {
        return Ok(Json(audit));
    }
    let status = narrow::status(&state, &caller, &name).await?;
    let name = &status.name;
    let said = match &*status.kind {
        "pool" => format!("`{name}` is a pool, and only consumers of the log can be audited"),
        _ => format!("`{name}` is not audited; `anabranch audit {name} --start` begins"),
    };
    Err(Problem::new(ErrorCode::NotAudited, said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch::partitioning::Slot;

    fn set(slots: impl IntoIterator<Item = u16>) -> SlotSet {
        slots.into_iter().filter_map(Slot::new).collect()
    }

    #[test]
    fn runs_hold_each_slot_once() {
        let run = |from, to, step| Run { from, to, step };
        assert_eq!(runs(&SlotSet::all()), [run(0, 5039, None)]);
        assert_eq!(runs(&SlotSet::partition(1, 3)), [run(1, 5038, Some(3))]);
        assert_eq!(runs(&set([7])), [run(7, 7, None)]);
        assert_eq!(runs(&set([1, 2, 3, 9])), [run(1, 3, None), run(9, 9, None)]);
        assert_eq!(runs(&set([])), []);
    }
}

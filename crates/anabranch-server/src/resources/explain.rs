//! `/v1/consumers/{name}/explain`: from a key to its slot, the owner of the slot, how far it is, and what waits.

use super::{READ, narrow};
use crate::caller::Caller;
use crate::page::Params;
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use anabranch::operate::{NextEvent, Parked};
use anabranch::partitioning::{Slot, Strategy};
use anabranch::workpool::Tasks;
use anabranch::{HashRule, StreamId};
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::Value;

/// The kind of consumers that are pools.
const POOL: &str = "pool";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/consumers/{name}/explain", READ, explain).takes(&["key"]).keeps_consumers(),
    ]
}

#[derive(Serialize)]
struct Explained {
    key: String,
    consumer: String,
    kind: String,
    strategy: String,
    slot: Slot,
    /// The cursor that holds the slot, with its owner and why it is not moving.
    cursor: Value,
    /// The same in words.
    why: Vec<String>,
    /// The key, if an event of it has failed.
    parked: Option<Parked>,
    /// The first event that waits.
    next: Option<NextEvent>,
    /// For a pool: the open tasks of the key.
    tasks: Option<Value>,
}

async fn explain(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<Explained>, Problem> {
    let key = params.needed("key")?.to_owned();
    let status = narrow::status(&state, &caller, &name).await?;
    let (slot, hashed) = slot(&status.strategy, state.log.hash_rule(), &key)?;
    let found = status.cursors.iter().find(|cursor| cursor.slot_set().contains(slot));
    let (mut parked, mut next, mut tasks) = (None, None, None);
    if status.kind == POOL {
        let mut of_key = Tasks::new(&state.log, &name).of_key(&key).await?;
        if let Some(first) = of_key.first.as_mut().filter(|_| caller.is_masked()) {
            (first.result, first.error) = (None, None);
        }
        tasks = Some(serde_json::to_value(of_key)?);
    } else {
        if status.parked_keys + status.retrying_keys > 0 {
            for name_of_key in [Some(&key), hashed.as_ref()].into_iter().flatten() {
                if parked.is_none() {
                    parked = state.consumers.parked_key(&name, name_of_key).await?;
                }
            }
        }
        next = match &parked {
            Some(parked) => {
                let first = state.consumers.parked_events(&name, &parked.key, 1).await?;
                first.into_iter().next().map(|event| NextEvent::new(event, true))
            }
            // In another log, the events behind the cursor mean nothing.
            None if !status.is_lag_known() => None,
            None => state.consumers.next_of_slot(&name, slot).await?,
        };
    }
    parked.iter_mut().for_each(|parked| super::parked::mask(&caller, parked));
    Ok(Json(Explained {
        key,
        consumer: status.name.clone(),
        kind: status.kind.clone(),
        strategy: status.strategy.clone(),
        slot,
        cursor: found.map_or(Ok(Value::Null), |cursor| narrow::shown(&caller, cursor))?,
        why: found.map(|cursor| narrow::in_words(&caller, &cursor.reasons)).unwrap_or_default(),
        parked,
        next,
        tasks,
    }))
}

/// The slot of a key, and what of it is hashed, by how a consumer is registered: `entity, md5`, or `global` without a
/// rule.
fn slot(strategy: &str, log_rule: HashRule, key: &str) -> Result<(Slot, Option<String>), Problem> {
    let (word, by) = strategy.split_once(", ").unwrap_or((strategy, log_rule.name()));
    let (strategy, rule): (Strategy, HashRule) = (word.parse()?, by.parse()?);
    let hashed = match strategy {
        Strategy::Global => return Ok((Slot::ZERO, None)),
        // A stream, or its id alone.
        Strategy::Entity => {
            key.parse::<StreamId>().map_or_else(|_| key.to_owned(), |stream| stream.id().to_owned())
        }
        _ => key.to_owned(),
    };
    Ok((rule.slot(&hashed), Some(hashed)))
}

//! `GET /v1/events`, `POST /v1/query`, `GET /v1/streams/{category}/{id}`: events as lists, page by page.

use super::asked::{self, AskedQuery, Direction};
use super::seen;
use super::wanted::Wanted;
use crate::body::{Body, object};
use crate::caller::Caller;
use crate::page::{List, MOST, Params, USUAL};
use crate::problem::Problem;
use crate::state::Shared;
use anabranch::{Event, EventStream, Position, StreamId};
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::value::RawValue;

/// How many events one request looks at to find the ones that are asked for.
const LOOKS_AT: usize = 10_000;
/// How much text a list may have before its last event.
const BYTES: usize = 4 << 20;

type Events = Json<List<Box<RawValue>>>;

pub(crate) async fn events(
    State(state): State<Shared>,
    caller: Caller,
    params: Params,
) -> Result<Events, Problem> {
    let (direction, after) = (Direction::of(&params)?, asked::after(&params)?);
    let (limit, wanted) = (params.limit()?, asked::wanted(&params, &caller)?);
    of_log(&state, wanted, direction, after, limit).await
}

/// What `POST /v1/query` asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    #[serde(default, deserialize_with = "object")]
    query: AskedQuery,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    tenants: Vec<String>,
    /// A position, or the `next` of a list, which is text.
    after: Option<Place>,
    limit: Option<usize>,
    #[serde(default)]
    direction: Direction,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`after` is a position, or the `next` of a list")]
enum Place {
    Position(u64),
    Next(String),
}

impl Place {
    fn position(&self) -> Result<Position, Problem> {
        match self {
            Self::Position(position) => Ok(Position::new(*position)),
            Self::Next(text) => text.parse().map(Position::new).map_err(|_| {
                Problem::invalid("`after` is neither a position nor the `next` of a list")
            }),
        }
    }
}

pub(crate) async fn query(
    State(state): State<Shared>,
    caller: Caller,
    Body(asked): Body<Asked>,
) -> Result<Events, Problem> {
    let Asked { query, categories, tenants, after, limit, direction } = asked;
    let limit = match limit {
        None => USUAL,
        Some(limit @ 1..=MOST) => limit,
        Some(_) => {
            return Err(Problem::invalid(format!("`limit` is not a number from 1 to {MOST}")));
        }
    };
    let after = after.map(|place| place.position()).transpose()?;
    let query = query.into_query()?;
    let wanted = Wanted { query, categories, tenants, ..Wanted::all(caller) };
    of_log(&state, wanted, direction, after, limit).await
}

async fn of_log(
    state: &Shared,
    wanted: Wanted,
    direction: Direction,
    after: Option<Position>,
    limit: usize,
) -> Result<Events, Problem> {
    let read = state.log.read(wanted.query.clone());
    let read = match (direction, after) {
        (Direction::Forwards, after) => read.after(after.unwrap_or(Position::START)),
        (Direction::Backwards, None) => read.backwards(),
        (Direction::Backwards, Some(before)) => read.before(before),
    };
    let next = |event: &Event| event.position().to_string();
    list(read.limit(LOOKS_AT).events(), &wanted, limit, next).await
}

pub(crate) async fn stream(
    State(state): State<Shared>,
    caller: Caller,
    Path((category, id)): Path<(String, String)>,
    params: Params,
) -> Result<Events, Problem> {
    let stream = StreamId::new(category, id)?;
    let (direction, limit) = (Direction::of(&params)?, params.limit()?);
    let from: Option<u64> = params.parsed("from", "a version: a whole number")?;
    let read = state.log.read_stream(&stream);
    let read = if direction == Direction::Backwards { read.backwards() } else { read };
    let read = match from {
        Some(version) => read.from_version(version),
        None => read,
    };
    let wanted = Wanted::all(caller);
    let next = |event: &Event| match direction {
        Direction::Forwards => (event.version() + 1).to_string(),
        Direction::Backwards => event.version().saturating_sub(1).to_string(),
    };
    list(read.limit(LOOKS_AT).events(), &wanted, limit, next).await
}

/// The next `limit` events that are wanted. It ends early where they are large or hard to find, and says where to go on.
async fn list(
    mut events: EventStream,
    wanted: &Wanted,
    limit: usize,
    next: impl Fn(&Event) -> String,
) -> Result<Events, Problem> {
    let masked = wanted.caller.is_masked();
    let (mut items, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
    let mut last = None;
    while let Some(event) = events.next().await {
        let event = event?;
        if wanted.passes_beside_query(&event) {
            if items.len() == limit {
                return Ok(Json(List { items, next: last }));
            }
            items.push(seen::json(&event, masked)?);
        }
        last = Some(next(&event));
        looked_at += 1;
        bytes += event.text_bytes();
        if looked_at == LOOKS_AT || bytes >= BYTES {
            return Ok(Json(List { items, next: last }));
        }
    }
    Ok(Json(List::whole(items)))
}

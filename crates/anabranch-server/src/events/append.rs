//! `POST /v1/streams/{category}/{id}` and `POST /v1/append`: events are added to the log, all or none.
//!
//! They go through the log's one queue, so requests at the same moment share a commit.

use super::asked::AskedQuery;
use super::beyond;
use super::given::{Given, Wants};
use super::idempotency::IdempotencyKey;
use crate::body::{Body, object, objects};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::scope::Scope;
use crate::state::Shared;
use anabranch::errors::ErrorCode;
use anabranch::trace::{self, TraceContext};
use anabranch::{Append, AppendError, Position, StreamId};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

/// What is appended to one stream.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToStream {
    #[serde(deserialize_with = "objects")]
    events: Vec<Given>,
    #[serde(default)]
    expected: Wants,
}

/// What is appended to several streams.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToStreams {
    #[serde(deserialize_with = "objects")]
    streams: Vec<OneOfThem>,
    unless: Option<Unless>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OneOfThem {
    stream: StreamId,
    #[serde(deserialize_with = "objects")]
    events: Vec<Given>,
    #[serde(default)]
    expected: Wants,
}

/// The append fails if an event that matches was stored after the position.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unless {
    #[serde(deserialize_with = "object")]
    query: AskedQuery,
    after: u64,
}

/// What was stored.
#[derive(Debug, Serialize)]
pub(crate) struct Stored {
    events: Vec<StoredEvent>,
    /// The position of the last one.
    position: Position,
}

#[derive(Debug, Serialize)]
struct StoredEvent {
    id: Uuid,
    version: u64,
    position: Position,
}

pub(crate) async fn to_stream(
    State(state): State<Shared>,
    caller: Caller,
    Path((category, id)): Path<(String, String)>,
    headers: HeaderMap,
    Body(posted): Body<ToStream>,
) -> Result<Json<Stored>, Problem> {
    let stream = StreamId::new(category, id)?;
    let append = to(Append::new(), &stream, posted.expected, posted.events, &caller)?;
    store(&state, &caller, &headers, append).await
}

pub(crate) async fn to_streams(
    State(state): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Body(posted): Body<ToStreams>,
) -> Result<Json<Stored>, Problem> {
    let mut append = Append::new();
    for OneOfThem { stream, events, expected } in posted.streams {
        append = to(append, &stream, expected, events, &caller)?;
    }
    if let Some(Unless { query, after }) = posted.unless {
        append = append.unless(query.into_query()?, Position::new(after));
    }
    store(&state, &caller, &headers, append).await
}

/// Adds the events of a stream, if the caller may append them.
fn to(
    append: Append,
    stream: &StreamId,
    expected: Wants,
    events: Vec<Given>,
    caller: &Caller,
) -> Result<Append, Problem> {
    if let Some(other) = events.iter().find(|event| !caller.sees_tenant(event.tenant())) {
        let whose = match other.tenant() {
            Some(tenant) => format!("of the tenant `{}`", tenant.escape_debug()),
            None => "without a tenant".to_owned(),
        };
        let said =
            format!("the token is limited to other tenants, and cannot append an event {whose}");
        return Err(Problem::new(ErrorCode::NotAllowed, said));
    }
    Ok(append.to(stream, expected.into(), events.into_iter().map(Given::into_event)))
}

async fn store(
    state: &Shared,
    caller: &Caller,
    headers: &HeaderMap,
    append: Append,
) -> Result<Json<Stored>, Problem> {
    must_not_expect_by_header(headers)?;
    let append = match IdempotencyKey::of(headers)? {
        None => append,
        Some(key) => append.once(|number| key.id(number)),
    };
    if let Some(condition) = append.condition() {
        let remedy = "Read again what the decision rests on";
        beyond::must_not_be(&state.log, condition.after.get(), remedy).await?;
    }
    let appending = state.log.append_all(append);
    let appended = match context(headers) {
        Some(context) => trace::within(context, appending).await,
        None => appending.await,
    };
    let appended = appended.map_err(|error| refused(&error, caller))?;
    let stored = |event: &anabranch::log::Recorded| StoredEvent {
        id: event.id,
        version: event.version,
        position: event.position,
    };
    let events = appended.events().iter().map(stored).collect();
    Ok(Json(Stored { events, position: appended.position() }))
}

/// Headers that mean something to other stores are refused rather than silently ignored.
fn must_not_expect_by_header(headers: &HeaderMap) -> Result<(), Problem> {
    let known = ["if-match", "if-none-match", "es-expectedversion"];
    let Some(name) = known.into_iter().find(|name| headers.contains_key(*name)) else {
        return Ok(());
    };
    let said = format!(
        "the header `{name}` says nothing here; what is expected of a stream is in the body: `expected` is \"any\", \
         \"none\" or the version of its last event"
    );
    Err(Problem::invalid(said))
}

/// The place of the request in a trace. A malformed header is ignored, as the standard requires.
fn context(headers: &HeaderMap) -> Option<TraceContext> {
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}

/// Why it was not stored, with what a caller needs to decide again, and no more than they may see.
fn refused(error: &AppendError, caller: &Caller) -> Problem {
    let sees_all = caller.may(Scope::Read) && caller.tenants().is_none();
    match error {
        AppendError::Conflict { expected, .. } => {
            Problem::of(error).with("expected", Wants::from(*expected))
        }
        AppendError::ConditionFailed { query, after, position } => {
            let at = (*position < Position::END).then_some(position);
            Problem::of(error).with("query", query).with("after", after).with("position", at)
        }
        AppendError::IdReused { id, stream, version, .. } if sees_all => {
            let problem = Problem::of(error).with("id", id);
            problem.with("stream", stream.to_string()).with("version", version)
        }
        // They may not see the other event.
        AppendError::IdReused { id, .. } => {
            let said = format!(
                "event id {id} is in the log already, with another body; give the new event an id of its own, or \
                 the request another idempotency key"
            );
            Problem::new(error.code(), said).with("id", json!(id))
        }
        other => Problem::of(other),
    }
}

//! `GET /v1/tail`: the events of the log as they are stored, as server-sent events.
//!
//! | module | subject |
//! |---|---|
//! | `hub` | where tails meet: one subscription to the log for all |
//! | `run` | that subscription, for as long as somebody listens |
//! | `ring` | the newest events, bounded: pure |
//! | `entry` | an event, written once for all |
//! | `reader` | one tail: from its position to the ring, and on |
//! | `warrant` | whether its reader may still read |
//! | `catch_up` | a page of the log for a tail that is behind |
//! | `frame` | the text of server-sent events |
//! | `counts` | what tails have cost and done |
//!
//! The log is never read more than once for tails that have caught up, and no tail is waited for.

mod catch_up;
mod counts;
mod entry;
mod frame;
mod hub;
mod reader;
mod ring;
mod run;
mod warrant;

pub use counts::{TailFigures, Tails};
pub use hub::TailLimits;

pub(crate) use hub::Hub;

use crate::caller::Caller;
use crate::events::{asked, beyond};
use crate::page::Params;
use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::scope::Scope;
use crate::state::Shared;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use reader::Tail;
use serde_json::json;
use warrant::Warrant;

/// What a client sends after a disconnect: the last `id` that it received.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Keeps a proxy from buffering events.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(crate) fn routes() -> Vec<Route> {
    let tail = Route::get("/v1/tail", Needs::Scope(Scope::ReadMasked), tail);
    vec![tail.takes(&["after", "types", "tags", "category", "tenant"]).keeps_tenants().long()]
}

async fn tail(
    State(state): State<Shared>,
    caller: Caller,
    params: Params,
    parts: Parts,
) -> Result<Response, Problem> {
    let wanted = asked::wanted(&params, &caller)?;
    let after = match asked_to_resume(&parts.headers)? {
        Some(after) => Some(after),
        None => params.parsed("after", "a position: a whole number")?,
    };
    let place = state.hub.join().await?;
    let after = match after {
        None => state.log.head().await?.get(),
        Some(after) => {
            let remedy = "Begin at a position of this log, or leave it out to begin at its end";
            beyond::must_not_be(&state.log, after, remedy).await?;
            after
        }
    };
    let warrant = Warrant::new(&state, parts);
    let tail = Tail::new(&state.hub, place, wanted, warrant, after);
    let mut response = Body::from_stream(tail.pieces()).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// The last word of a tail that ends with its server. Where the tail was is not known here.
pub(crate) fn farewell() -> Bytes {
    let detail = "the server is stopping; resume after the last id";
    let data = json!({ "reason": "server_stops", "code": null, "detail": detail });
    frame::frame(None, "dropped", &data.to_string())
}

/// The position of a client that resumes.
fn asked_to_resume(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(last) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let number = last.to_str().ok().and_then(|text| text.trim().parse().ok());
    let wrong = || {
        Problem::invalid(
            "the header `last-event-id` is not a position: send the last `id` of this tail",
        )
    };
    number.map(Some).ok_or_else(wrong)
}

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
//! | `counts` | what they have cost and done |
//!
//! The log is never read more than once for tails that have caught up, and no tail is waited for.

mod catch_up;
mod counts;
mod entry;
mod hub;
mod reader;
mod ring;
mod run;
mod warrant;

pub use counts::{TailFigures, Tails};
pub use hub::TailLimits;

pub(crate) use hub::Hub;
pub(crate) use warrant::{Standing, Warrant};

use crate::caller::Caller;
use crate::events::{asked, beyond};
use crate::page::Params;
use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::scope::Scope;
use crate::sse::{self, Farewell};
use crate::state::Shared;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use reader::Tail;
use serde_json::json;

/// What a client sends after a disconnect: the last `id` that it received.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

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
    Ok(sse::answer(tail.pieces(), farewell()))
}

/// The last word of a tail that ends with its server. Where the tail was is not known here.
fn farewell() -> Farewell {
    let detail = "the server is stopping; resume after the last id";
    let data = json!({ "reason": "server_stops", "code": null, "detail": detail });
    Farewell(sse::frame(None, "dropped", &data.to_string()))
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

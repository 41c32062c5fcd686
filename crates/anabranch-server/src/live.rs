//! `GET /v1/live`: answers of the API as server-sent events, each sent again when it has changed. One stream is enough
//! for all that a browser tab shows.
//!
//! | module | subject |
//! |---|---|
//! | `paths` | which addresses a stream watches |
//! | `look` | one look at a resource, by the rights of those who watch |
//! | `lookout` | all looks of a server: each once for all who may see the same |
//! | `stream` | one stream: what has changed since it was sent |
//!
//! Nothing is looked at that nobody watches, nothing twice for two who may see the same, and nobody waits for a reader.

mod look;
mod lookout;
mod paths;
mod stream;

pub(crate) use lookout::Lookout;

use crate::caller::Caller;
use crate::page::Params;
use crate::problem::Problem;
use crate::routes::{Needs, Route};
use crate::scope::Scope;
use crate::sse::{self, Farewell};
use crate::state::Shared;
use crate::tail::Warrant;
use axum::Extension;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::Arc;
use stream::Live;

pub(crate) fn routes() -> Vec<Route> {
    // What it may show is for the gate of each resource to say: it is passed at each look.
    let live = Route::get("/v1/live", Needs::Scope(Scope::ReadMasked), live);
    vec![live.takes(&["watch"]).keeps_consumers().keeps_tenants().long()]
}

async fn live(
    State(state): State<Shared>,
    Extension(lookout): Extension<Arc<Lookout>>,
    caller: Caller,
    params: Params,
    parts: Parts,
) -> Result<Response, Problem> {
    let paths = paths::asked(&params, &lookout.watched)?;
    let warrant = Warrant::new(&state, parts);
    let live = Live::new(&lookout, caller, warrant, paths)?;
    Ok(sse::answer(live.pieces(), Farewell(stream::ended("server_stops"))))
}

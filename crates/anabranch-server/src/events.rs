//! Events over HTTP: append, read, query. Their bodies pass through byte for byte.
//!
//! | module | subject |
//! |---|---|
//! | `append` | to one stream, or to several under a condition |
//! | `given` | an event as a body writes it |
//! | `idempotency` | requests that are sent again |
//! | `beyond` | positions that the log has never had |
//! | `read` | lists of events |
//! | `one` | one event, and its cause |
//! | `asked`, `wanted` | which events are asked for, and which of these the caller may see |
//! | `seen` | an event as it is shown |

mod append;
pub(crate) mod asked;
pub(crate) mod beyond;
mod given;
pub(crate) mod idempotency;
mod one;
mod read;
pub(crate) mod seen;
pub(crate) mod wanted;

use crate::routes::{Needs, Route};
use crate::scope::Scope;

/// The parameters of a list of events.
const QUERY: &[&str] = &[
    "after",
    "limit",
    "types",
    "tags",
    "category",
    "tenant",
    "causation",
    "correlation",
    "direction",
];

pub(crate) fn routes() -> Vec<Route> {
    let (read, append) = (Needs::Scope(Scope::ReadMasked), Needs::Scope(Scope::Append));
    let routes = [
        Route::get("/v1/streams/{category}/{id}", read, read::stream)
            .takes(&["from", "limit", "direction"])
            .watched(),
        Route::post("/v1/streams/{category}/{id}", append, append::to_stream).with_room(),
        Route::post("/v1/append", append, append::to_streams).with_room(),
        Route::get("/v1/events", read, read::events).takes(QUERY),
        Route::post("/v1/query", read, read::query),
        Route::get("/v1/events/{id}", read, one::one),
    ];
    routes.into_iter().map(Route::keeps_tenants).collect()
}

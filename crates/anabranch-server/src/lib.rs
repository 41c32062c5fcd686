//! The HTTP API of Anabranch: a log, its consumers and its tasks under `/v1/`, for any language.
//!
//! [`router`] is an [`axum::Router`] that goes into a program of one's own, under any path; `serve` is what
//! the command `anabranch serve` runs. `/v1/openapi.json` describes it, and a test compares that with the table of routes.
//!
//! ```
//! # async fn f(log: anabranch::Log) {
//! let app: axum::Router = axum::Router::new().nest("/events", anabranch_server::router(&log));
//! # }
//! ```
//!
//! Who asks needs a token, unless [`Api::open_until_first_token`] says otherwise.
//!
//! | module | subject |
//! |---|---|
//! | `api` | settings, and the router that is made of them |
//! | `state` | what all requests share |
//! | `routes` | the one table of routes |
//! | `gate` | what each request passes: host, origin, token, scope, parameters, time |
//! | `caller` | who asks, and what they may |
//! | `scope` | what a token may be used for |
//! | `problem` | errors as `application/problem+json` |
//! | `page` | parameters of a request, and lists |
//! | `body` | bodies of requests as JSON |
//! | `openapi` | the description |

mod api;
mod body;
mod caller;
mod gate;
mod openapi;
mod page;
mod problem;
mod routes;
mod scope;
mod state;

pub use api::{Api, router};
pub use caller::Caller;
pub use problem::Problem;
pub use scope::Scope;

//! The HTTP API of Anabranch: a log, its consumers and its tasks under `/v1/`, for any language.
//!
//! [`router`] is an [`axum::Router`] for your own program, mounted under any path; `serve` is what
//! the command `anabranch serve` runs. `/v1/openapi.json` describes it, and a test compares that with the table of routes.
//!
//! ```
//! # async fn f(log: anabranch::Log) {
//! let app: axum::Router = axum::Router::new().nest("/events", anabranch_server::router(&log));
//! # }
//! ```
//!
//! Callers need a token unless [`Api::open_until_first_token`] says otherwise.
//!
//! | module | subject |
//! |---|---|
//! | `api` | settings, and the router that is made of them |
//! | `server` | a server on a socket: connections, their limits, an orderly end |
//! | `health` | metrics, liveness and readiness |
//! | `state` | what all requests share |
//! | `routes` | the one table of routes |
//! | `gate` | what each request passes: host, origin, token, scope, parameters, time |
//! | `access` | who a token or a cookie belongs to |
//! | `secret`, `token` | tokens, and what is stored of them |
//! | `sessions`, `tokens` | logging in, and tokens over HTTP |
//! | `tables` | statements |
//! | `caller` | who is calling, and what they may do |
//! | `scope` | what a token may be used for |
//! | `problem` | errors as `application/problem+json` |
//! | `page` | parameters of a request, and lists |
//! | `body` | bodies of requests as JSON |
//! | `folds` | workflows whose code is in this program |
//! | `unseen` | what does not exist for a caller |
//! | `resources` | consumers, slots, workers, tasks, deliveries and workflows, read only |
//! | `events` | append, read, query |
//! | `tail` | events as they are stored, for many readers at once |
//! | `live` | answers of the API, each again when it changes: one stream for a browser tab |
//! | `sse` | the text of server-sent events |
//! | `enqueue` | tasks and commands for workers |
//! | `operations` | plans, and the journal |
//! | `meant` | operations as somebody asks for them |
//! | `openapi` | the description |
//! | `console` | the files of the console, for browsers |

mod access;
mod api;
mod body;
mod caller;
mod console;
mod enqueue;
mod events;
mod folds;
mod gate;
mod health;
mod live;
mod meant;
mod openapi;
mod operations;
mod page;
mod problem;
mod resources;
mod routes;
mod scope;
mod secret;
mod server;
mod sessions;
mod sse;
mod state;
mod tables;
mod tail;
mod token;
mod tokens;
mod unseen;

pub use api::{Api, router};
pub use caller::Caller;
pub use problem::Problem;
pub use scope::Scope;
pub use secret::Secret;
pub use server::{ServerLimits, Tls, TlsError, serve};
pub use tail::{TailFigures, TailLimits, Tails};
pub use token::{NewToken, Token, TokenError, Tokens};

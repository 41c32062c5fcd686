//! Events in one database, and cursors and effects in another: on two PostgreSQL servers, in two SQLite files, and one
//! of each either way.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod basics;
#[path = "../replica_sets/crew.rs"]
mod crew;
mod handles;
mod pair;
mod processes;
#[path = "../replica_sets/proxy.rs"]
mod proxy;
mod pruned;
mod refusals;
mod replays;
#[path = "../servers/server.rs"]
mod server;
#[path = "../consumers/support.rs"]
mod support;
mod wound_back;

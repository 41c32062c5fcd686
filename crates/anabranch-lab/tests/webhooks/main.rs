//! Webhooks, on both databases, against a real server: order, failures, batches, limits.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod batches;
mod endpoints;
mod failures;
mod from_files;
mod hooks;
mod limits;
mod messages;
mod outages;
mod resends;
#[path = "../../../anabranch/tests/servers/server.rs"]
mod server;
#[path = "../../../anabranch/tests/consumers/support.rs"]
mod support;

//! Events, tails, live streams, tasks and commands over HTTP, on both databases, over real sockets.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod appending;
mod client;
mod commands;
mod conflicts;
mod enqueueing;
mod limited;
mod live;
mod reading;
mod sse;
#[path = "../../../anabranch/tests/consumers/support.rs"]
mod support;
mod tails;
mod tails_ending;

//! Traces, as a collector gets them: parents and links, from the append to the commit, on both databases.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod batches;
mod exporting;
mod handled;
mod receiver;
mod rolled_back;
#[path = "../consumers/said.rs"]
mod said;
#[path = "../consumers/support.rs"]
mod support;
mod tasks;
mod traced;
mod workflows;

//! Workflows, on both databases: commands, idempotence, snapshots, pause and cancel, what-if.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod commands;
mod lifecycle;
mod repeated;
mod snapshots;
mod support;
mod what_if;

//! Workflows, on both databases: commands, idempotence, snapshots, pause and cancel, what-if.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

#[path = "../consumers/support.rs"]
mod base;
mod commands;
mod described;
mod lifecycle;
mod overdue;
mod queued;
mod repeated;
mod running;
mod shop;
mod snapshots;
mod support;
mod what_if;

//! Projections in SQL, on both databases: fields, values, failures, replays.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod checks;
mod fields;
mod replays;
mod running;
mod schedules;
#[path = "../../../anabranch/tests/consumers/support.rs"]
mod support;
mod types;

//! Values of statements and rows, on both databases: their types, and what is said of those that do not fit.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod misfits;
mod numbers;
mod queries;
mod refusals;
mod strict;
#[path = "../consumers/support.rs"]
mod support;
mod times;
mod types;
mod unreadable;

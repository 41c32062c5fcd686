//! Work pools, on both databases: order, exactly once, retries, timers, crashes and rescaling.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod basics;
mod dcb;
mod ledger;
#[path = "../consumers/support.rs"]
mod support;
mod transactions;

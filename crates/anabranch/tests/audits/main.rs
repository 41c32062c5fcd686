//! Audits on both databases: a live system is proven, and whatever is broken is found and named.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod aside;
mod breaks;
mod changes;
mod crashes;
mod live;
mod proofs;
#[path = "../consumers/support.rs"]
mod support;
mod uneven;

//! Replica sets, on both databases: joining, leaving, dying, hanging, and who owns what meanwhile.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod abilities;
mod bad_moments;
mod crew;
mod deaths;
mod different_programs;
mod elastic;
#[path = "../consumers/gates.rs"]
mod gates;
mod load;
mod outages;
mod proxy;
mod reasons;
mod recreate;
mod sets_apart;
#[path = "../consumers/support.rs"]
mod support;

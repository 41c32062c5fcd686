//! Replica sets, on both databases: joining, leaving, dying, hanging, and who owns what meanwhile.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod abilities;
mod bad_moments;
mod closing;
mod codes;
mod crew;
mod deaths;
mod different_programs;
mod elastic;
mod endpoint;
mod exchanges;
mod few_keys;
#[path = "../consumers/gates.rs"]
mod gates;
mod load;
mod outages;
mod outages_joined;
mod outages_of_others;
mod outages_said;
mod proxy;
mod reasons;
mod rebalances;
mod recreate;
mod rolling_rebuilds;
#[path = "../consumers/said.rs"]
mod said;
mod sets_apart;
#[path = "../consumers/support.rs"]
mod support;

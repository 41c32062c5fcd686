//! Work pools, on both databases: order, exactly once, retries, timers, crashes and rescaling.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod again;
mod attempts;
mod bad_moments;
mod basics;
mod catch_ups;
#[path = "../replica_sets/crew.rs"]
mod crew;
mod dcb;
mod dead;
mod elastic;
mod fail_apart;
mod fairness;
mod last_wake;
mod ledger;
mod limits;
mod outages;
mod permits;
#[path = "../replica_sets/proxy.rs"]
mod proxy;
mod recorded;
mod refusals;
#[path = "../consumers/said.rs"]
mod said;
mod script;
mod states;
#[path = "../consumers/support.rs"]
mod support;
mod task_counts;
mod timers;
mod traces;
mod transactions;
mod typos;

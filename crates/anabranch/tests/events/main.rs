//! The events of the engine, on both databases: each kind seen from a real run, and observers that are slow, block or
//! panic.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

#[path = "../replica_sets/crew.rs"]
mod crew;
mod documented;
mod endings;
#[path = "../consumers/gates.rs"]
mod gates;
mod handling;
mod members;
mod observers;
#[path = "../replica_sets/proxy.rs"]
mod proxy;
#[path = "../batches/records.rs"]
mod records;
#[path = "../consumers/said.rs"]
mod said;
#[path = "../pools/script.rs"]
mod script;
mod seen;
#[path = "../servers/server.rs"]
mod server;
#[path = "../consumers/support.rs"]
mod support;
mod tasks;
mod waits;

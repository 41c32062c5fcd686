//! Metrics and health, asked over HTTP while replica sets run.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "a test fails by panicking"
)]

mod asked;
mod cost;
mod figures;
#[path = "../consumers/gates.rs"]
mod gates;
#[path = "../pools/ledger.rs"]
mod ledger;
mod outages;
#[path = "../two_servers/pair.rs"]
mod pair;
mod prometheus;
#[path = "../batches/records.rs"]
mod records;
mod runs;
#[path = "../servers/server.rs"]
mod server;
#[path = "../consumers/support.rs"]
mod support;

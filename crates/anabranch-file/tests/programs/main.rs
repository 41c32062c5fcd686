//! Programs in other languages, on both databases: exactly once, whatever they do.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod abandoned;
mod answers;
mod endings;
mod exactly_once;
mod late;
mod misbehaviour;
mod pipes;
mod pools;
#[path = "../../../anabranch/tests/consumers/said.rs"]
mod said;
mod script;
mod slowness;
mod starts;
mod starts_of_pools;
#[path = "../../../anabranch/tests/consumers/support.rs"]
mod support;
mod values;

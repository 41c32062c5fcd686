//! The frame of the API over real sockets: who may what, what is refused, what a server bears, and whether its
//! description is true.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod access;
mod batches;
mod bearing;
mod carrying;
mod claims;
mod client;
mod console;
mod described;
mod filled;
mod fuzz;
mod limited;
mod looking;
mod mounted;
mod plans;
mod rebuilds;
mod schema;
mod sessions;
mod site;
#[path = "../../../anabranch/tests/consumers/support.rs"]
mod support;
mod untold;
mod workflows;

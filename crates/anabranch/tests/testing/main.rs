//! The test kit for users: what it does to consumers is what happens to them in production.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test fails by panicking")]

mod crashes;
mod failures;
mod misuse;
mod support;
mod takeovers;
mod time;
mod two_databases;
mod workflows;

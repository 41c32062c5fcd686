//! Batch records, on both databases: every row once, whichever instances run, die, or come late.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod attempts;
mod basics;
mod catalogue;
mod claims;
mod forgotten;
mod identity;
mod imports;
mod keys;
mod proof;
mod records;
#[path = "../consumers/support.rs"]
mod support;
mod values;

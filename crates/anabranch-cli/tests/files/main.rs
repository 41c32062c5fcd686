//! `run`, `check` and `test` of files, as processes on both databases.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "a test fails by panicking"
)]

mod catch_up;
mod changes;
mod checks;
#[cfg(target_os = "linux")]
mod hits;
#[cfg(target_os = "linux")]
mod kills;
mod narrated;
mod place;
#[path = "../printed/mod.rs"]
mod printed;
#[path = "../process/mod.rs"]
mod process;
mod rebuilds;
mod reloads;
mod tests;
mod webhooks;
mod why;

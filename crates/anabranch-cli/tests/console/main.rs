//! The console in a real browser, on real servers with real workers.
//!
//! | module | subject |
//! |---|---|
//! | `browser` | Chromium as a process |
//! | `devtools` | its protocol |
//! | `tab`, `keys` | what a person does, and what they see |
//! | `complaints` | what no page should say |
//! | `stage` | a log with a server and workers |
//! | `harness` | that all of these find what they should find |

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod browser;
mod complaints;
mod devtools;
mod harness;
mod keys;
#[path = "../files/place.rs"]
mod place;
#[path = "../process/mod.rs"]
mod process;
#[path = "../provided/mod.rs"]
mod provided;
mod stage;
mod tab;

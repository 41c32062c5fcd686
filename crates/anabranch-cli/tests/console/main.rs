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
//! | `slots` | the slot map as workers come and go |
//! | `operations` | what is done by a click |
//! | `rights` | who may only read |
//! | `tail` | events as they are stored, across a restart of the server |
//! | `hostile` | events that would like to be a page |
//! | `keyboard` | all of it without a mouse |
//! | `pages` | each page: axe, narrow windows, time and bytes, pictures |
//! | `full` | a log that has something for each page |

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod browser;
mod complaints;
mod devtools;
mod full;
mod harness;
mod hostile;
mod keyboard;
mod keys;
mod operations;
mod pages;
#[path = "../files/place.rs"]
mod place;
#[path = "../process/mod.rs"]
mod process;
#[path = "../provided/mod.rs"]
mod provided;
mod rights;
mod slots;
mod stage;
mod tab;
mod tail;

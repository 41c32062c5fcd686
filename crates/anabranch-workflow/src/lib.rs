//! Event-sourced workflows: a command is decided on the state, its events are stored, the state
//! follows from them, and so does what is to happen next.
//!
//! | module | subject |
//! |---|---|
//! | [`workflow`] | [`Workflow`]: `decide`, `evolve`, `react` |
//! | [`reactions`] | [`Reactions`]: commands, actions, timers, as data |
//! | [`action`] | [`ActionRun`]: what an action may ask and save while it runs |
//! | [`schedule`] | [`Schedule`]: commands that come again and again |
//!
//! This crate knows the log, the database and consumers by their public names only.

pub mod action;
pub mod reactions;
pub mod schedule;
pub mod workflow;

pub use action::{ActionRun, GaveUp, Journal, MemoryJournal};
pub use reactions::{Due, Reaction, Reactions};
pub use schedule::Schedule;
pub use workflow::Workflow;

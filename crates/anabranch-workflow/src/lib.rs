//! Event-sourced workflows: a command is decided on the state, its events are stored, the state
//! follows from them, and so does what is to happen next.
//!
//! | module | subject |
//! |---|---|
//! | [`workflow`] | [`Workflow`]: `decide`, `evolve`, `react` |
//! | [`event_info`] | [`EventInfo`]: customer, tenant, tags, correlation, metadata |
//! | [`reactions`] | [`Reactions`]: commands, actions, timers, as data |
//! | [`action`] | [`ActionRun`]: what an action may ask and save while it runs |
//! | [`workflows`] | [`Workflows`]: the handle |
//! | [`commands`] | [`Workflows::send`]: decide on the newest state, append, once |
//! | [`load`] | from events, or a snapshot and what follows it, to a state |
//! | [`command_queue`] | [`CommandQueue`]: commands of programs that do not have the code |
//! | [`lifecycle`] | pause, resume, cancel |
//! | [`what_if`] | commands that are only imagined, and the past |
//! | [`running`] | [`WorkflowSet`]: reactions, actions, timers and schedules in a replica set |
//! | [`kit`] | [`Kit`]: given, when, then, without a database |
//! | [`error`] | what can go wrong |
//! | `cache` | states kept in memory |
//! | `pace` | processes that want the same instance get their turns |
//! | `snapshots` | states kept in the database |
//! | `turns` | who wants the same instance takes turns |
//! | [`schedule`] | [`Schedule`]: commands that come again and again |
//!
//! This crate knows the log, the database and consumers by their public names only.

pub mod action;
mod cache;
pub mod command_queue;
pub mod commands;
pub mod error;
pub mod event_info;
pub mod kit;
pub mod lifecycle;
pub mod load;
mod pace;
pub mod reactions;
pub mod running;
pub mod schedule;
mod snapshots;
mod turns;
pub mod what_if;
pub mod workflow;
pub mod workflows;

pub use action::{ActionGaveUp, ActionRun, Journal, MemoryJournal};
pub use command_queue::{CommandQueue, Queued};
pub use commands::Sent;
pub use error::{LifecycleError, LoadError, SendError};
pub use event_info::{EventInfo, MaybeText};
pub use kit::Kit;
pub use lifecycle::Lifecycle;
pub use load::Mode;
pub use reactions::{Due, Reaction, Reactions};
pub use running::WorkflowSet;
pub use schedule::Schedule;
pub use what_if::{Past, PastEvent, WhatIf};
pub use workflow::Workflow;
pub use workflows::{Instance, Workflows};

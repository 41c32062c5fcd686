//! Operations: what operators do, as one model below the command, the API and the console.
//!
//! Each operation is the same three things. A **plan** says what it would do, counted, with the first few by name; it has
//! an id, expires, and knows what it was made on. To **apply** it is refused if that has changed: a consumer that was
//! paused, or has other code by now. Positions and lag move all the time and are no part of it; what comes after the plan
//! was made is left out. And each operation is in the **journal**: who, when, what, and what came of it, written in the
//! operation's own transaction, and only ever added to.
//!
//! | module | subject |
//! |---|---|
//! | [`request`] | [`Request`]: what somebody wants to do |
//! | [`plan`] | [`Plan`], [`Effect`]: what it would do, and how far it is |
//! | [`journal`] | [`JournalEntry`]: who did what |
//! | [`operations`] | [`Operations`]: look, plan, apply, cancel |
//! | [`operation_error`] | [`OperationError`]: why something was not done |
//! | `basis` | what a plan was made on |
//! | `look` | what each operation would do |
//! | `carry` | carrying it out in one transaction |
//! | `steps` | carrying it out step by step |
//! | `turn` | the turn at a plan that goes step by step |
//! | `tables` | the statements |
//!
//! It stands on the public API of the layers below.

mod basis;
mod carry;
pub mod journal;
mod look;
pub mod operation_error;
pub mod operations;
pub mod plan;
pub mod request;
mod steps;
mod tables;
mod turn;

pub use journal::{JournalEntry, JournalFilter, Stage};
pub use operation_error::OperationError;
pub use operations::{By, Operations};
pub use plan::{Effect, Plan, PlanState};
pub use request::{Begin, Request, ResendFilter};

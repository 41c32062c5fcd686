//! Replica sets that are described in a file: projections in SQL, programs in any language.
//!
//! The command `anabranch` has `run`, `check` and `test` for such files; this crate is what they do.
//!
//! | module | subject |
//! |---|---|
//! | [`mod@file`] | a file, read and checked |
//! | [`check`] | whether the statements of a file can be executed |
//! | [`test()`] | the tests of a file |
//! | [`EventLine`] | an event as a line or a table writes it |
//! | `compare` | what a test expects beside what is there |
//! | [`Fingerprint`] | what a consumer does, as a hash |
//! | [`plan()`] | what would happen if a file was run |
//! | [`RebuildSet`] | a projection of a file as a new version of it |
//! | [`MadeSet`] | a replica set of a file, and what tells it from another one |
//! | `running` | the replica sets of a file, ready to run |
//! | `schedule` | what comes again and again |
//! | [`json_value`] | JSON as values of statements |
//! | [`sql`] | projections in SQL, with fields by name |
//! | `webhook` | webhooks, and pools whose tasks go to another server |
//! | [`program`] | programs in any language, by the line protocol of `docs/programs.md` |

mod check;
mod compare;
mod event_line;
pub mod file;
mod fingerprint;
pub mod json_value;
mod made_set;
mod plan;
pub mod program;
mod rebuild;
mod running;
mod schedule;
pub mod sql;
mod testing;
mod webhook;

pub use check::{CheckError, Checked, CheckedConsumer, CheckedValue, check, check_offline};
pub use compare::Difference;
pub use event_line::EventLine;
pub use fingerprint::Fingerprint;
pub use made_set::MadeSet;
pub use plan::{Change, FilePlan, PlanError, PlannedConsumer, plan};
pub use rebuild::RebuildSet;
pub use running::Sets;
pub use testing::{FileTestError, Mismatch, test};

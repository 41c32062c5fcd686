//! Batch records: every row of a table handled once, by any number of instances, with no collision.
//!
//! | module | subject |
//! |---|---|
//! | [`batch`] | [`Batch`]: what is to be done, and how |
//! | [`source`] | [`Source`]: a table or a query with a unique key |
//! | [`part`] | [`Part`]: all rows, or part I of N |
//! | [`record`] | [`Record`]: one row |
//! | [`handler`] | [`RowHandler`]: what is done with a row |
//! | [`progress`] | how far it is, and what came of it |
//! | [`verify`] | the proof: who handled what, and whether something is missing or doubled |
//! | [`collision`] | a row that was handled twice, and by whom |
//! | [`import`] | rows that were finished before, in a log of somebody else |
//! | [`jobs`] | what there is to look at without a batch: jobs, who runs them, rows that have failed |
//! | `spelling` | keys that mean a row of the source in another spelling |
//! | `columns` | the columns of a source, before a row is claimed |
//! | `rehearsal` | whether a statement can work, before a row is claimed |
//! | `ours` | whether the tables of the log are ours |
//! | `identity` | what a job is of: its source and key, stored and compared |
//! | `keys` | what keys must be, before and while it runs |
//! | `claimer` | finds rows and claims them |
//! | `claims` | who has claims on rows of a part |
//! | `stuck` | rows that cannot be claimed |
//! | `worker` | runs the handler and stores how it went |
//! | `later` | rows that have failed and are tried again |
//! | `pace` | how many rows are claimed and taken at a time |
//! | `session` | the lease of an instance |
//! | `tables` | the statements: of the log, of the rows, of the proof, of the jobs, of imports, of looks |
//!
//! A row is **claimed** before it is handled: its entry in the processing log is inserted, and the primary key
//! lets one instance win. Its effects commit together with the end of that entry, and only if the claim
//! is still its own (law 2). An instance that dies leaves claims; others take them over when its lease is over.

pub mod batch;
mod claimer;
mod claims;
pub mod collision;
mod columns;
pub mod error;
pub mod handler;
mod identity;
pub mod import;
pub mod jobs;
mod keys;
mod later;
mod ours;
mod pace;
pub mod part;
pub mod progress;
pub mod record;
mod rehearsal;
mod session;
pub mod source;
mod spelling;
mod stuck;
mod tables;
pub mod verify;
mod worker;

pub use batch::Batch;
pub use collision::{Collision, HandledBy};
pub use error::BatchError;
pub use handler::{RowHandler, RowStatement, SqlHandler};
pub use import::{Finished, Imported};
pub use jobs::{FailedRows, Job, JobSession, JobSource, Jobs};
pub use part::{Part, PartError};
pub use progress::{BatchProgress, FailedRow, Summary};
pub use record::Record;
pub use source::Source;
pub use verify::{SessionRows, Verified};

//! The log: the trait that a backend implements, and the handle that users hold.
//!
//! | module | subject |
//! |---|---|
//! | [`log_store`] | [`LogStore`]: what a backend must provide |
//! | [`log`] | [`Log`]: append, read, subscribe |
//! | [`anchors`] | whether a log still is the one that cursors elsewhere belong to |
//! | `two_servers` | the database of consumers whose events are on another server |
//! | [`coalesce`] | concurrent appends share one commit |
//! | [`read`] | reads as builders that end in a stream of events |
//! | [`event_stream`] | the stream of events, and the task that feeds it |
//! | [`database`] | [`Database`]: what a backend must provide for effects |
//! | [`home`] | the runtime that a log was opened in |
//! | [`control`] | statements that begin or end transactions |
//! | [`named_values`] | SQL in which values have names |
//! | [`sql_lexer`] | the pieces of a text of SQL |
//! | [`value`] | values of statements and rows |
//! | [`misfit`] | what is said about values that do not fit |
//! | [`options`] | what a log can be opened with |
//! | [`clock`] | [`Clock`]: the machine's, or one that a test moves |
//! | [`backoff`] | waits for a database that is away |
//! | [`migration`] | versioned SQL, printable |
//! | [`observe`] | observers of what happens, and how it reaches them |
//! | [`trace`] | where code runs in a trace, and how that travels |
//! | [`sql`] | the one query that both SQL backends share |
//! | `contract` | the suite that every backend runs (feature `contract`) |
//!
//! This crate never names a database: what is true of one backend only lives in its crate.

pub mod anchors;
pub mod backoff;
pub mod clock;
pub mod coalesce;
#[cfg(feature = "contract")]
pub mod contract;
pub mod control;
pub mod database;
pub mod event_stream;
pub mod home;
pub mod log;
pub mod log_store;
pub mod migration;
pub mod misfit;
pub mod named_values;
pub mod observe;
pub mod options;
pub mod read;
pub mod sql;
pub mod sql_lexer;
pub mod sql_text;
pub mod trace;
mod two_servers;
pub mod value;

pub use anchors::{Look, Seen, WoundBack};
pub use backoff::Backoff;
pub use clock::Clock;
pub use database::Database;
pub use event_stream::EventStream;
pub use home::{Home, NotRunning};
pub use log::Log;
pub use log_store::{
    Filter, Head, Locked, LogStore, Page, PageEnd, ReadRequest, Scope, SlotFilter, Ticket,
};
pub use observe::{Emitter, Observer, TracingObserver};
pub use options::{Durability, Namespace, Options};
pub use read::{ReadLog, ReadStream};
pub use sql_text::Sql;
pub use value::{Row, Value};

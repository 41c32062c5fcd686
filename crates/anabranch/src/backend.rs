//! For authors of backends and of new kinds of consumers. **Not stable**: what is in here changes with any version.
//!
//! | for | there is |
//! |---|---|
//! | a backend | [`LogStore`], [`Database`], [`database`], [`log_store`], the decision of an append ([`decide`]) |
//! | a consumer of rows, as work pools are | [`RowConsumer`], [`Holding`], [`Permits`] |
//! | what calls handlers | [`RawTx`], and SQL in which values have names ([`named_values`]) |
//!
//! A program that handles events needs none of it.

pub use anabranch_core::decide;
pub use anabranch_core::{InputProblem, Json, Limits};
pub use anabranch_runtime::{
    Commit, Holding, Mark, Permit, Permits, RawTx, RowConsumer, holding, host, rows,
};
pub use anabranch_store::{
    Backoff, Database, Filter, Head, Home, Locked, LogStore, Look, NotRunning, Page, PageEnd,
    ReadRequest, Seen, SlotFilter, Ticket, WoundBack, control, database, log_store, named_values,
    sql_lexer,
};

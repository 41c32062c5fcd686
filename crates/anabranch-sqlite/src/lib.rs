//! The embedded backend: a log in one SQLite file, or in memory.
//!
//! One thread writes, so concurrent appends become one transaction and one `fsync`; reads run beside
//! it on connections of their own (WAL). Several processes may share the file.
//!
//! | module | subject |
//! |---|---|
//! | `store` | [`Sqlite`]: the backend, and how it is opened |
//! | `append` | a batch of appends inside one transaction |
//! | `read` | one page of events |
//! | `columns` | the columns of a table |
//! | `connection` | pragmas, the writer thread |
//! | `readers` | connections that read, each on a thread of its own |
//! | `files` | whether the files are still those that were opened |
//! | `effects` | where consumers write: transactions, signs of life, what is known of tables |
//! | `transaction` | transactions of consumers, on the thread that writes |
//! | `statements` | statements on a connection, with their values |
//! | `lasting` | statements whose effect outlives their transaction |
//! | `row_watch` | rows that are written for two slots |
//! | `life` | signs of life of workers |
//! | `schema` | migrations and settings |
//! | `watch` | notices what other processes append |
//! | `error` | what SQLite's errors mean |
//!
//! ```
//! # async fn f() -> Result<(), anabranch_core::StoreError> {
//! use anabranch_sqlite::Sqlite;
//! use anabranch_store::{Log, Options};
//! let log = Log::new(Sqlite::open("orders.db", &Options::default()).await?);
//! # Ok(()) }
//! ```

mod append;
mod catalogue;
mod columns;
mod connection;
mod dialect;
mod effects;
mod error;
mod files;
mod lasting;
mod life;
mod read;
mod readers;
mod row_watch;
mod schema;
mod statements;
mod store;
mod strict;
mod transaction;
mod value;
mod watch;

pub use dialect::LEXICAL;
pub use rusqlite;
pub use schema::MIGRATIONS;
pub use store::Sqlite;

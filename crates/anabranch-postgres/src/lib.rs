//! The backend for many machines: a log in PostgreSQL.
//!
//! Appends of one process share a round trip and a commit; appends of different processes wait for
//! each other only where they touch the same stream or the same DCB scope. Readers never pass an
//! append in flight (**no skip**), and never wait for a transaction that appends nothing.
//!
//! | module | subject |
//! |---|---|
//! | `store` | [`Postgres`]: the backend, and how it is connected |
//! | `append` | a batch of appends: lock, look, decide, write |
//! | `one_statement` | the same in one statement, if the server admits it |
//! | `conditions` | what their conditions find in the log |
//! | `insert` | the rows of a batch as one INSERT |
//! | `keys` | which advisory locks an append or a query touches |
//! | `horizon` | up to which position everything is decided |
//! | `decided` | what is known of that, and of which server |
//! | `read` | one page of events |
//! | `scopes` | small pages of several scopes in one round trip |
//! | `together` | which reads of scopes share one |
//! | `row` | an event from a row |
//! | `effects` | where consumers write: sessions, signs of life, what the server knows |
//! | `transaction` | transactions of consumers, pipelined |
//! | `ready` | statements that are ready to be sent, fenced where they must be |
//! | `recent` | the statements that stay prepared |
//! | `row_watch` | rows that are written for two slots |
//! | `link` | the session that listens, notifies, shows life and takes heartbeats |
//! | `life` | signs of life of other workers, watched |
//! | `activity` | what the server's sessions do |
//! | `value` | values as PostgreSQL writes them |
//! | `wake` | LISTEN and NOTIFY |
//! | `background` | what runs beside who asked for it |
//! | `columns` | the columns of a table |
//! | `shared` | the sessions that all logs and sets of a process share |
//! | `pool` | sessions that are lent, opened and closed |
//! | `session` | a session: its statements, what it is set up for |
//! | `url` | what a URL says, and what of it may be shown |
//! | `connection` | how sessions are opened |
//! | `hosts` | which of several servers to connect to |
//! | `room` | how many connections the server has room for |
//! | `look_alikes` | servers and poolers that only look like PostgreSQL |
//! | `encryption` | which hosts are encrypted and verified: pure |
//! | `tls` | what encrypts, and whose certificates are trusted |
//! | `driver` | a session of the driver, for others |
//! | `throwaway` | a database for a test |
//! | `schema` | migrations, settings, statements |
//! | `error` | what PostgreSQL's errors mean |
//!
//! ```
//! # async fn f() -> Result<(), anabranch_core::StoreError> {
//! use anabranch_postgres::Postgres;
//! use anabranch_store::{Log, Options};
//! let log = Log::new(Postgres::connect("postgres://app@localhost/shop", &Options::default()).await?);
//! # Ok(()) }
//! ```

mod activity;
mod append;
mod background;
mod catalogue;
mod columns;
mod conditions;
mod connection;
mod decided;
mod dialect;
mod driver;
mod effects;
mod encryption;
mod error;
mod horizon;
mod hosts;
mod insert;
mod keys;
mod life;
mod link;
mod look_alikes;
mod one_statement;
mod pool;
mod question_marks;
mod read;
mod ready;
mod recent;
mod refusal;
mod room;
mod row;
mod row_watch;
mod run_in;
mod schema;
mod scopes;
mod session;
mod shared;
mod store;
mod throwaway;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod together;
mod transaction;
mod url;
mod value;
mod wake;

pub use dialect::LEXICAL;
pub use driver::driver_session;
pub use schema::MIGRATIONS;
pub use store::Postgres;
pub use throwaway::ThrowawayDatabase;
pub use tokio_postgres;

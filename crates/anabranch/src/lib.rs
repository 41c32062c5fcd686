//! **Anabranch**: partitioned, elastic event processing that people can trust with their money.
//!
//! This crate is what applications depend on: the **log**, an event store on SQLite (embedded) and
//! PostgreSQL (many machines), chosen by URL, and **consumers** of it that handle each event once and in
//! order, on lanes of one process or as partitions of several.
//!
//! # A tour
//!
//! Connect, append, read back:
//!
//! ```
//! use anabranch::prelude::*;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let log = anabranch::connect("sqlite::memory:").await?;
//!
//! let order = StreamId::new("Order", "ord-123")?;
//! let placed = NewEvent::new("OrderPlaced", json!({ "total": 40 })).with_customer("cust-7");
//! log.append(&order, Expected::NoStream, [placed]).await?;
//!
//! // A caller that believes that the order does not exist yet gets an error.
//! let again = NewEvent::new("OrderPlaced", json!({ "total": 41 }));
//! let error = log.append(&order, Expected::NoStream, [again]).await.unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "conflict on stream Order:ord-123: expected no events, but it stands at version 1; \
//!      read it again and decide anew"
//! );
//!
//! let events = log.read_stream(&order).collect().await?;
//! assert_eq!(events[0].event_type(), "OrderPlaced");
//! # Ok(()) }
//! ```
//!
//! Follow the log; what is there comes first, then each new event as it is stored:
//!
//! ```
//! # use anabranch::prelude::*;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let log = anabranch::connect("sqlite::memory:").await?;
//! # log.append(&"Order:1".parse()?, Expected::Any, [NewEvent::new("OrderPlaced", ())]).await?;
//! let mut events = log.subscribe(Query::types(["OrderPlaced"]), Position::START);
//! while let Some(event) = events.next().await {
//!     let event = event?;
//!     println!("{} {}", event.position(), event.stream());
//! #   break;
//! }
//! # Ok(()) }
//! ```
//!
//! Decide on more than one stream (DCB): read what the decision depends on, and append only if
//! nothing of that has happened since:
//!
//! ```
//! # use anabranch::prelude::*;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let log = anabranch::connect("sqlite::memory:").await?;
//! let scope = Query::types(["SeatReserved", "SeatReleased"]).tagged(["seat:12a"]);
//! let seen = log.read(scope.clone()).collect().await?;
//! let taken = seen.last().is_some_and(|event| event.event_type() == "SeatReserved");
//! if !taken {
//!     let after = seen.last().map_or(Position::START, |event| event.position());
//!     let reserved = NewEvent::new("SeatReserved", ()).with_tag("seat:12a").with_tag("show:7");
//!     let append = Append::new()
//!         .to(&StreamId::new("Seat", "12a")?, Expected::Any, [reserved])
//!         .unless(scope, after);
//!     log.append_all(append).await?; // AppendError::ConditionFailed if somebody was faster
//! }
//! # Ok(()) }
//! ```
//!
//! Keep a table up to date, exactly once, on four lanes; the same source runs on both databases:
//!
//! ```
//! use anabranch::prelude::*;
//!
//! struct OrderSummary;
//!
//! impl Projection for OrderSummary {
//!     fn name(&self) -> &str { "order_summary" }
//!     fn partition(&self) -> Partition { Partition::entity("Order") }
//!     async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
//!         tx.execute(
//!             "INSERT INTO order_summary (id, events) VALUES ($1, 1)
//!              ON CONFLICT (id) DO UPDATE SET events = order_summary.events + 1",
//!             params![event.stream_id()],
//!         )
//!         .await
//!     }
//!     async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
//!         let table = "CREATE TABLE order_summary (id TEXT PRIMARY KEY, events BIGINT)";
//!         tx.execute(table, vec![]).await
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let log = anabranch::connect("sqlite::memory:").await?;
//! # log.append(&"Order:1".parse()?, Expected::Any, [NewEvent::new("OrderPlaced", ())]).await?;
//! let set = ReplicaSet::new("main-projections").projection(OrderSummary).lanes(4);
//! let progress = set.catch_up(&log).await?; // or run(&log), until the process is told to stop
//! # assert_eq!(progress.consumers[0].handled, 1);
//! # Ok(()) }
//! ```
//!
//! Decide on commands, and let things follow from what happened ([`Workflow`](workflow::Workflow); its
//! [`Kit`](workflow::Kit) tests one without a database):
//!
//! ```
//! use anabranch::prelude::*;
//! use anabranch::workflow::{Workflow, Workflows};
//! use serde::{Deserialize, Serialize};
//!
//! struct Seats;
//!
//! #[derive(Serialize, Deserialize)]
//! enum Command { Reserve { by: String } }
//! #[derive(Serialize, Deserialize)]
//! enum Happened { Reserved { by: String } }
//! #[derive(Debug)]
//! struct Taken { by: String }
//! # impl std::fmt::Display for Taken {
//! #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
//! #         write!(f, "{} has it", self.by)
//! #     }
//! # }
//! # impl std::error::Error for Taken {}
//!
//! impl Workflow for Seats {
//!     type State = Option<String>;
//!     type Command = Command;
//!     type Event = Happened;
//!     type Action = (); // no side effects
//!     type Rejection = Taken;
//!
//!     fn name(&self) -> &str { "seats" }
//!     fn decide(&self, taken: &Option<String>, command: &Command) -> Result<Vec<Happened>, Taken> {
//!         let Command::Reserve { by } = command;
//!         match taken {
//!             Some(other) if other != by => Err(Taken { by: other.clone() }),
//!             Some(_) => Ok(vec![]),
//!             None => Ok(vec![Happened::Reserved { by: by.clone() }]),
//!         }
//!     }
//!     fn evolve(&self, taken: &mut Option<String>, event: &Happened) {
//!         let Happened::Reserved { by } = event;
//!         *taken = Some(by.clone());
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let log = anabranch::connect("sqlite::memory:").await?;
//! let seats = Workflows::new(&log, Seats);
//! seats.send("12a", Command::Reserve { by: "Ada".to_owned() }).await?;
//! let error = seats.send("12a", Command::Reserve { by: "Ben".to_owned() }).await.unwrap_err();
//! assert_eq!(error.to_string(), "rejected: Ada has it");
//! let seat = seats.state("12a").await?.expect("it has been reserved");
//! assert_eq!((seat.version, seat.state.as_deref()), (1, Some("Ada")));
//! # Ok(()) }
//! ```
//!
//! No SQL at all: [`View`]. Effects elsewhere: [`Subscriber`], and
//! [`OutsidePool`](workpool::OutsidePool) for tasks. How they stand: [`Consumers`](operate::Consumers).
//!
//! Typed events with upcasters: [`EventSchema`]. Appending inside a transaction of your own:
//! [`sqlite::Sqlite::append_in`] and [`postgres::Postgres::append_in`], reached by
//! [`Log::backend`].
//!
//! # Logs
//!
//! What happens in the engine is one stream of typed events ([`Happening`](events::Happening)), and an
//! [`Observer`](events::Observer) gets them: see [`ReplicaSet::observer`] and [`Log::with_observer`]. One of the
//! observers, [`TracingObserver`](events::TracingObserver), writes what a program should know of failures, waits and hand-overs to [`tracing`](https://docs.rs/tracing), with targets that begin with
//! `anabranch`; nothing else logs, and [`Options::tracing`] turns it off. Nothing is shown before the
//! program installs a subscriber of `tracing`, such as
//! [`tracing-subscriber`](https://docs.rs/tracing-subscriber) with its feature `env-filter`:
//!
//! ```
//! use tracing_subscriber::EnvFilter;
//! let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
//! tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
//! ```
//!
//! `RUST_LOG=anabranch=info` adds generations, claims and tries.
//!
//! # Features
//!
//! All of the first table are on by default, and each works alone.
//!
//! | feature | what it brings |
//! |---|---|
//! | `sqlite` | the embedded backend: `sqlite:orders.db`, `sqlite::memory:` |
//! | `postgres` | the backend for many machines: `postgres://user@host/database` |
//! | `tls` | encrypted connections to PostgreSQL |
//! | `workpool` | tasks: [`workpool`] |
//! | `workflow` | event-sourced workflows: [`workflow`] (brings `workpool`) |
//! | `batch` | rows of a table, each handled once: [`batch`] |
//!
//! `webhook` is off by default: events delivered over HTTP (`anabranch::webhook`), which needs an HTTP client.
//! `watch` is off by default: metrics for Prometheus and health for probes (`anabranch::watch`).
//! `otel` is off by default: spans of what the engine does, and their export by OTLP (`anabranch::trace::Export`).
//! `chrono`, `time` and `rust_decimal` are off by default: types of these crates in [`params!`] and [`Row::get`].
//! Those of jiff, such as [`Timestamp`], need none.
//!
//! # Errors
//!
//! Each has `code()`, a stable word, and `kind()` where an API needs it (404, 409, …); see [`errors`].
//!
//! # What is guaranteed
//!
//! - An append is stored whole or not at all, and is durable before it is answered
//!   ([`Durability`]).
//! - The same event id appended twice is one event, so a call may always be repeated.
//! - A condition ([`Append::unless`]) is free of races, between tasks and between machines.
//! - A projection's effects commit together with its cursor, or not at all; one that has lost its slots
//!   writes nothing (**fence**). Events of one key are handled in order (**order**).
//! - Reading forwards, nobody passes a position that may still be filled (**no skip**): a
//!   subscriber sees every event once, in the order of positions.

mod url;

pub mod backend;
pub mod errors;
pub mod events;
pub mod log;
pub mod operate;
pub mod partitioning;
pub mod prelude;
pub mod running;
pub mod testing;
pub mod trace;

pub use anabranch_core::cron;
pub use anabranch_core::{
    Append, AppendError, Appended, Event, EventSchema, Expected, Failure, FixedPartition, HashRule,
    InputError, MissingKey, NewEvent, Partition, Position, Query, Retry, StoreError, StreamId,
};
pub use anabranch_runtime::{
    Delivery, HandlerError, HandlerResult, Projection, ReplicaSet, Rollup, RollupReader, RunError,
    Scope, Settings, Start, Subscriber, Tuning, Tx, View, ViewColumn, ViewReader, shutdown_signal,
};
pub use anabranch_store::{
    Durability, EventStream, Log, Namespace, Options, Row, Sql, Value, migration, params, value,
};
pub use jiff::Timestamp;

#[cfg(feature = "batch")]
pub use anabranch_batch as batch;
#[cfg(feature = "operations")]
pub use anabranch_operations as operations;
#[cfg(feature = "watch")]
pub use anabranch_watch as watch;
#[cfg(feature = "webhook")]
pub use anabranch_webhook as webhook;
#[cfg(feature = "workflow")]
pub use anabranch_workflow as workflow;
#[cfg(feature = "workpool")]
pub use anabranch_workpool as workpool;

#[cfg(feature = "postgres")]
pub use anabranch_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use anabranch_sqlite as sqlite;

#[cfg(all(
    doctest,
    feature = "sqlite",
    feature = "postgres",
    feature = "workflow",
    feature = "batch",
    feature = "operations",
    feature = "otel",
    feature = "watch"
))]
mod pages;

/// Connects to a log with the default options: `sqlite:orders.db`, `sqlite::memory:` or
/// `postgres://user@host/database`. Of several hosts (`host-1,host-2`) the primary is used, wherever it is just
/// then. One on another machine must prove who it is, unless the URL has `sslmode`. The log is created if it does
/// not exist yet.
///
/// Call it once and clone the [`Log`]: clones share connections, and their appends share commits.
pub async fn connect(url: &str) -> Result<Log, StoreError> {
    connect_with(url, &Options::default()).await
}

/// Connects to a log with options.
///
/// ```
/// use anabranch::{HashRule, Namespace, Options};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), anabranch::StoreError> {
/// let options = Options {
///     namespace: Namespace::new("billing")?,
///     hash_rule: Some(HashRule::Md5),
///     ..Options::default()
/// };
/// let log = anabranch::connect_with("sqlite::memory:", &options).await?;
/// # Ok(()) }
/// ```
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(unused_variables, reason = "without a backend nothing can be opened")
)]
pub async fn connect_with(url: &str, options: &Options) -> Result<Log, StoreError> {
    match url::parse(url)? {
        #[cfg(feature = "sqlite")]
        (url::Backend::Sqlite, path) => Ok(Log::new(sqlite::Sqlite::open(path, options).await?)),
        #[cfg(feature = "postgres")]
        (url::Backend::Postgres, url) => {
            Ok(Log::new(postgres::Postgres::connect(url, options).await?))
        }
        #[cfg(not(feature = "sqlite"))]
        (url::Backend::Sqlite, _) => Err(url::not_built("sqlite")),
        #[cfg(not(feature = "postgres"))]
        (url::Backend::Postgres, _) => Err(url::not_built("postgres")),
    }
}

/// The schema of the backend that the URL names, for people who apply their own migrations.
///
/// ```
/// use anabranch::{HashRule, Namespace};
/// let migrations = anabranch::migrations("sqlite:orders.db")?;
/// let script = migrations.script(&Namespace::default(), HashRule::Fnv1a);
/// assert!(script.contains("CREATE TABLE anabranch_events"));
/// # Ok::<(), anabranch::StoreError>(())
/// ```
pub fn migrations(url: &str) -> Result<migration::Migrations, StoreError> {
    match url::parse(url)? {
        #[cfg(feature = "sqlite")]
        (url::Backend::Sqlite, _) => Ok(sqlite::MIGRATIONS),
        #[cfg(feature = "postgres")]
        (url::Backend::Postgres, _) => Ok(postgres::MIGRATIONS),
        #[cfg(not(feature = "sqlite"))]
        (url::Backend::Sqlite, _) => Err(url::not_built("sqlite")),
        #[cfg(not(feature = "postgres"))]
        (url::Backend::Postgres, _) => Err(url::not_built("postgres")),
    }
}

//! The handle that users hold.

use crate::anchors::Look;
use crate::coalesce::Appender;
use crate::control::{ONLY_READS, is_query};
use crate::database::{Database, Statement};
use crate::log_store::LogStore;
use crate::observe::{Emitter, Observer};
use crate::read::{ReadLog, ReadStream};
use crate::sql_text::Sql;
use crate::trace::{self, Work};
use crate::two_servers::Apart;
use crate::value::{Row, Value};
use anabranch_core::{
    Append, AppendError, Appended, Event, Expected, Happening, HashRule, Limits, NewEvent,
    Position, Query, StoreError, StreamId,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// A log of events: ordered, append-only, in streams. Cheap to clone; clones share connections and
/// commits.
///
/// What it has running belongs to the tokio runtime that it was opened in. Other runtimes of the process may use
/// it while that one runs; else they get [`StoreError::OtherRuntime`]. So open it in the runtime that uses it.
#[derive(Clone)]
pub struct Log {
    store: Arc<dyn LogStore>,
    appender: Appender,
    events: Emitter,
    home: Option<Home>,
}

/// The database of a log's consumers, if that is another one than the log's.
#[derive(Clone)]
struct Home {
    store: Arc<dyn LogStore>,
    database: Arc<dyn Database>,
}

impl Log {
    /// A log on a backend.
    ///
    /// # Panics
    /// Outside a tokio runtime, which runs the log's tasks. The same goes for reads.
    #[must_use]
    pub fn new(store: impl LogStore) -> Self {
        let store: Arc<dyn LogStore> = Arc::new(store);
        let appender = Appender::start(Arc::clone(&store));
        let events = store.database().events().of_handle();
        Self { store, appender, events, home: None }
    }

    /// The same log with an observer more: it sees what happens in all that runs on this handle and its clones, and what
    /// happens in the backend, which does not know for whom it works. See [`Observer`].
    ///
    /// ```
    /// # fn f(log: anabranch_store::Log) {
    /// let log = log.with_observer(|event: &anabranch_core::EngineEvent| println!("{}", event.what.name()));
    /// # }
    /// ```
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer) -> Self {
        self.events = self.events.with([Arc::new(observer) as Arc<dyn Observer>]);
        self
    }

    /// Says what happens to the observers of this handle: for what is built on it.
    #[must_use]
    pub fn events(&self) -> &Emitter {
        &self.events
    }

    /// This log with the consumers of another database: events are read from and appended to this log, and
    /// cursors, effects, workers and tasks are in the database of `home`. That has the tables of a log of its
    /// own, whose events are not used. If it has a home itself, that one is meant. The observers of both handles see
    /// what happens.
    ///
    /// What spans both servers in one transaction is refused ([`StoreError::TwoServers`]): `Tx::append`, enqueueing
    /// tasks in the transaction of an append, and workflows. So is a home whose hash rule is another
    /// ([`StoreError::TwoRules`]). If both are one and the same log, nothing is apart; if they only have the same
    /// identity, one is a copy of the other or a second name of it, and that is refused ([`StoreError::SameLog`]).
    ///
    /// ```
    /// # use anabranch_core::StoreError;
    /// # use anabranch_store::Log;
    /// # async fn f(events: Log, home: Log) -> Result<(), StoreError> {
    /// let log = events.with_database(&home).await?;
    /// assert_eq!(log.at(), events.at());
    /// assert_eq!(log.database().at(), home.at());
    /// # Ok(()) }
    /// ```
    pub async fn with_database(&self, home: &Self) -> Result<Self, StoreError> {
        let events = self.events.with_home(&home.events);
        let store = home.home.as_ref().map_or(&home.store, |home| &home.store);
        let (log, at) = (self.at().to_owned(), store.at().to_owned());
        if self.hash_rule() != store.hash_rule() {
            let (log_rule, rule) = (self.hash_rule(), store.hash_rule());
            return Err(StoreError::TwoRules { log, log_rule, at, rule });
        }
        let (identity, other) =
            (self.identity().await?, store.look(Look::default()).await?.identity);
        if identity == other && log != at {
            return Err(StoreError::SameLog { log, at, identity });
        }
        let apart = || {
            let database = Arc::new(Apart::new(store.database(), &log));
            Home { store: Arc::clone(store), database }
        };
        Ok(Self { home: (identity != other).then(apart), events, ..self.clone() })
    }

    /// Where the consumers of this log are: their cursors, effects, workers and tasks.
    #[must_use]
    pub fn database(&self) -> Arc<dyn Database> {
        let apart = self.home.as_ref().map(|home| Arc::clone(&home.database));
        apart.unwrap_or_else(|| self.store.database())
    }

    /// Whether its consumers are in another database than its events: see [`with_database`](Self::with_database).
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.home.is_some()
    }

    /// How many sessions this process has open at its databases, by what they are for; of all logs that share them. No
    /// database is asked.
    ///
    /// ```
    /// # fn f(log: anabranch_store::Log) {
    /// println!("{:?}", log.open_sessions()); // {"control": 1, "lanes": 4, "link": 1, "reads": 1, …}
    /// # }
    /// ```
    #[must_use]
    pub fn open_sessions(&self) -> BTreeMap<&'static str, usize> {
        let (here, other) =
            (self.database().open_sessions(), self.store.database().open_sessions());
        let mut open = here.by_use;
        if other.pool != here.pool {
            for (of, sessions) in other.by_use {
                *open.entry(of).or_default() += sessions;
            }
        }
        open
    }

    /// Which log it is: a random number that it got when it was made, or when it was upgraded to the version
    /// that knows it. A copy of a log has the same.
    pub async fn identity(&self) -> Result<Uuid, StoreError> {
        Ok(self.store.look(Look::default()).await?.identity)
    }

    /// Adds events to one stream, if it stands where the caller expects.
    ///
    /// The answer comes once the events are durable. Calls at the same time share a commit, and a
    /// conflict of one is no concern of the others.
    ///
    /// ```
    /// # use anabranch_core::{AppendError, Expected, NewEvent, StreamId};
    /// # async fn f(log: anabranch_store::Log) -> Result<(), AppendError> {
    /// let order = StreamId::new("Order", "ord-123")?;
    /// let placed = NewEvent::new("OrderPlaced", serde_json::json!({ "total": 40 }));
    /// let appended = log.append(&order, Expected::NoStream, [placed]).await?;
    /// assert_eq!(appended.version(), 1);
    /// # Ok(()) }
    /// ```
    pub async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Result<Appended, AppendError> {
        self.append_all(Append::new().to(stream, expected, events)).await
    }

    /// Adds events to several streams, or under a DCB condition: all or nothing.
    ///
    /// ```
    /// # use anabranch_core::{Append, AppendError, Expected, NewEvent, Position, Query, StreamId};
    /// # async fn f(log: anabranch_store::Log, seen: Position) -> Result<(), AppendError> {
    /// let seat = StreamId::new("Seat", "12a")?;
    /// let reserved = NewEvent::new("SeatReserved", ()).with_tag("seat:12a");
    /// let append = Append::new()
    ///     .to(&seat, Expected::Any, [reserved])
    ///     .unless(Query::tags(["seat:12a"]), seen);
    /// match log.append_all(append).await {
    ///     Err(error) if error.is_conflict() => println!("somebody was faster"),
    ///     other => drop(other?),
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn append_all(&self, append: Append) -> Result<Appended, AppendError> {
        append.validate(&self.store.limits())?;
        let (events, began) = (append.events().count(), Instant::now());
        let answer = match Work::append() {
            None => self.appender.append(append.within_trace(trace::current())).await,
            Some(work) => {
                let append = append.within_trace(work.context());
                let answer = work.run(self.appender.append(append)).await;
                if let Err(error) = &answer {
                    work.failed(error);
                }
                answer
            }
        };
        match &answer {
            Ok(_) => self.events.emit(Happening::appended(events, began.elapsed())),
            Err(error) if error.is_conflict() => self.events.emit(Happening::append_conflicted()),
            Err(_) => {}
        }
        answer
    }

    /// Reads one stream, from its first event on unless said otherwise.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// let last_ten = log.read_stream(&"Order:ord-123".parse()?).backwards().limit(10).collect().await?;
    /// # Ok(()) }
    /// ```
    pub fn read_stream(&self, stream: &StreamId) -> ReadStream {
        ReadStream::new(Arc::clone(&self.store), stream.clone())
    }

    /// Reads the events of the log that match, in the order of their positions.
    ///
    /// A read sees every event that was stored before it began. It waits for matching appends that
    /// are in flight below those, so the position of the last event is safe to hand to
    /// [`Append::unless`]. (So do not read a scope in which a transaction of yours has appended and
    /// not yet committed: the read would wait for it.)
    ///
    /// ```
    /// # use anabranch_core::Query;
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = log.read(Query::tags(["seat:12a"])).events();
    /// while let Some(event) = events.next().await {
    ///     println!("{}", event?.event_type());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn read(&self, query: Query) -> ReadLog {
        ReadLog::new(Arc::clone(&self.store), query)
    }

    /// Follows the log: first every event after `after` that matches, then each new one as it is
    /// stored. Short outages of the database are waited out. It ends when it is dropped, or with an
    /// error that waiting will not cure.
    ///
    /// ```
    /// # use anabranch_core::{Position, Query};
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = log.subscribe(Query::types(["OrderPlaced"]), Position::START);
    /// while let Some(event) = events.next().await {
    ///     let event = event?;
    ///     println!("{} {}", event.position(), event.data_json());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn subscribe(&self, query: Query, after: Position) -> crate::EventStream {
        self.read(query).after(after).follow()
    }

    /// Reads tables of yours that are in the [database](Self::database) of its consumers: what projections have
    /// written, say. Values stand
    /// as `$1`, `$2`, …, and rows are those of a handler's `Tx`; see [`Value`].
    ///
    /// It runs over a connection that reads, and a statement that writes is refused. It sees what was
    /// committed when it began: a table that follows the log is a little behind it. On PostgreSQL it is given
    /// up after five minutes.
    ///
    /// ```
    /// # use anabranch_core::StoreError;
    /// # use anabranch_store::params;
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// let large = "SELECT id, total FROM order_summary WHERE total > $1 ORDER BY total DESC LIMIT 10";
    /// for row in log.query(large, params![1_000]).await? {
    ///     let (id, total): (String, i64) = (row.get("id")?, row.get("total")?);
    ///     println!("{id}: {total}");
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn query(&self, sql: impl Sql, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let (sql, database) = (sql.into_text(), self.database());
        if !is_query(&sql) {
            let at = database.at().to_owned();
            return Err(StoreError::Other { at, source: ONLY_READS.into() });
        }
        let rows = database.query(Statement::query(sql, values)).await;
        rows.map_err(|failed| failed.with_statement(database.at()))
    }

    /// Reads the first row, if there is one; see [`query`](Self::query).
    ///
    /// ```
    /// # use anabranch_store::params;
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// let total = "SELECT total FROM order_summary WHERE id = $1";
    /// if let Some(row) = log.query_first(total, params!["ord-123"]).await? {
    ///     println!("{}", row.get::<i64>("total")?);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn query_first(
        &self,
        sql: impl Sql,
        values: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// The event with this id, if it is in the log: whether an append of yours has happened, say.
    ///
    /// ```
    /// # use anabranch_core::StoreError;
    /// # async fn f(log: anabranch_store::Log, id: uuid::Uuid) -> Result<(), StoreError> {
    /// if let Some(event) = log.find(id).await? {
    ///     println!("it is version {} of {}", event.version(), event.stream());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn find(&self, id: Uuid) -> Result<Option<Event>, StoreError> {
        self.store.find(id).await
    }

    /// The end of the log: a subscription after this position misses nothing that is stored later.
    ///
    /// While appends are in flight it may lie before the last event that is visible.
    pub async fn head(&self) -> Result<Position, StoreError> {
        Ok(self.store.head().await?.decided)
    }

    /// Waits until other processes have been told of what was appended or enqueued here.
    ///
    /// Nobody has to call it: the last handle tells them when it is dropped, also at the end of the program, if it
    /// has not been done by then (see [`close`](Self::close)). Where no handle is dropped it is needed: before
    /// `std::process::exit`, for instance. Without it others notice at their next poll: subscriptions within a
    /// second, consumers within five.
    ///
    /// On PostgreSQL it waits for two seconds at the most; a server that does not answer by then is given up.
    pub async fn flush(&self) {
        self.store.flush().await;
        if let Some(home) = &self.home {
            home.store.flush().await;
        }
    }

    /// Ends the use of a log: [`flush`](Self::flush), and drops this handle. This is the good way to let go of the
    /// last one where the runtime has other things to do.
    ///
    /// A drop cannot wait as a future does. If others are still to be told, the drop of the last handle tells them,
    /// and on PostgreSQL that *blocks its thread*: for some milliseconds, for a second if the server hangs. After
    /// `close`, and after a `flush` that got through with nothing appended since, there is nothing to tell.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) {
    /// log.close().await;
    /// # }
    /// ```
    pub async fn close(self) {
        self.store.close().await;
        if let Some(home) = &self.home {
            home.store.close().await;
        }
    }

    /// Which database its events are in, for messages. Never holds a password.
    #[must_use]
    pub fn at(&self) -> &str {
        self.store.at()
    }

    /// What an append may hold.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.store.limits()
    }

    /// How this log makes slots of keys.
    #[must_use]
    pub fn hash_rule(&self) -> HashRule {
        self.store.hash_rule()
    }

    /// The backend, as the trait that every backend implements.
    #[must_use]
    pub fn store(&self) -> &dyn LogStore {
        self.store.as_ref()
    }

    /// The backend, for what only it can do, such as appending inside a transaction of yours.
    #[must_use]
    pub fn backend<B: LogStore>(&self) -> Option<&B> {
        let store: &dyn Any = self.store.as_ref();
        store.downcast_ref()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("at", &self.at()).finish_non_exhaustive()
    }
}

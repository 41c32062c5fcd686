//! The backend, and how it is opened.

use crate::append::{self, Appending};
use crate::connection::{Place, Writer};
use crate::dialect::SqliteDialect;
use crate::effects::Effects;
use crate::error::store_error;
use crate::files::{Files, Gone};
use crate::readers::Readers;
use crate::schema::{self, Sql};
use crate::{read, watch as watcher};
use anabranch_core::decide::Ids;
use anabranch_core::{
    Append, AppendError, Appended, Event, HashRule, InputError, InputProblem, Limits, Position,
    StoreError,
};
use anabranch_store::anchors::identity_of;
use anabranch_store::database::{Statement, Topic};
use anabranch_store::{
    Clock, Database, Emitter, Head, LogStore, Look, Options, Page, ReadRequest, Seen, Ticket,
};
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;

/// A log in a SQLite database.
#[derive(Debug)]
pub struct Sqlite {
    shared: Arc<Shared>,
    writer: Writer,
    readers: Readers,
    effects: Arc<Effects>,
}

/// What jobs on other threads need.
#[derive(Debug)]
struct Shared {
    at: String,
    appending: Arc<Appending>,
    files: Arc<Files>,
}

impl Sqlite {
    /// Opens the log in a file, or in memory if the path is `:memory:`. After the path, `?mode=ro`
    /// opens it for reading only.
    pub async fn open(path: &str, options: &Options) -> Result<Self, StoreError> {
        Self::open_by(path, options, Clock::machine()).await
    }

    /// Opens a log in memory that goes by a clock of yours: for tests. Leases, waits between attempts, tasks
    /// that are due and the times of events are told by it.
    ///
    /// ```
    /// # use anabranch_sqlite::Sqlite;
    /// # use anabranch_store::{Clock, Log, Options};
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = Clock::by_hand("2026-01-01T00:00:00Z".parse()?);
    /// let log = Log::new(Sqlite::in_memory(&Options::default(), clock).await?);
    /// # Ok(()) }
    /// ```
    pub async fn in_memory(options: &Options, clock: Clock) -> Result<Self, StoreError> {
        Self::open_by(":memory:", options, clock).await
    }

    async fn open_by(path: &str, options: &Options, clock: Clock) -> Result<Self, StoreError> {
        let (path, read_only) = parse(path)?;
        let at = match &path {
            Some(path) => format!("sqlite:{}", path.display()),
            None => "sqlite::memory:".to_owned(),
        };
        let (durability, create) = (options.durability, options.migrate);
        let place = Place { path, read_only, create, durability, at: at.clone(), clock };
        let options = options.clone();
        let open = move || Self::open_place(place, &options);
        let opened = tokio::task::spawn_blocking(open).await;
        opened.map_err(|error| StoreError::Other { at, source: error.into() })?
    }

    fn open_place(place: Place, options: &Options) -> Result<Self, StoreError> {
        if let Some(path) = place.path.as_ref().filter(|_| !options.migrate)
            && !path.try_exists().unwrap_or(true)
        {
            let (at, namespace) = (place.at, options.namespace.to_string());
            return Err(StoreError::NoLog { at, namespace });
        }
        let mut connection = place.open()?;
        let events = Emitter::new(options.tracing);
        let (rule, found) = schema::prepare(&mut connection, &place, options, &events)?;
        let files = Arc::new(Files::of(&place));
        // It is there now, and if it goes away nobody makes an empty one in its place.
        let place = Place { create: false, ..place };
        let no_thread = |error: std::io::Error| StoreError::Other {
            at: place.at.clone(),
            source: error.into(),
        };
        let writer = Writer::start(connection).map_err(no_thread)?;
        let readers = Readers::new(&place, options.readers, &writer, &files);
        let sql = Sql::of(&options.namespace, found.version);
        let appending = Arc::new(Appending::new(sql, rule, options.limits, place.clock.clone()));
        let dialect = SqliteDialect {
            namespace: options.namespace.clone(),
            is_by_hand: place.clock.is_by_hand(),
        };
        let signals = Arc::new(Topic::ALL.map(|_| watch::Sender::new(0)));
        if place.path.is_some() {
            let query = schema::signals(&options.namespace);
            let (wake, events) = (&appending.wake, events.clone());
            watcher::start(place.clone(), query, wake, &signals, events).map_err(no_thread)?;
        }
        let effects = Effects::new(
            (&writer, &readers),
            dialect,
            (&place, &files),
            signals,
            found,
            &appending,
            events,
        );
        let effects = Arc::new(effects);
        let shared = Arc::new(Shared { at: place.at, appending, files });
        Ok(Self { shared, writer, readers, effects })
    }

    /// Appends inside a transaction of yours, on a connection of yours to the same file: the events
    /// are stored if and when that transaction commits, together with whatever else it does.
    ///
    /// A refused append writes nothing, and the transaction can go on. Begin the transaction as
    /// `IMMEDIATE`, so that it cannot find the file changed between its reads and its writes.
    ///
    /// ```
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// # use anabranch_core::{Append, Expected, NewEvent, StreamId};
    /// # use anabranch_sqlite::{Sqlite, rusqlite};
    /// # use anabranch_store::Options;
    /// use rusqlite::{Connection, TransactionBehavior};
    /// let log = Sqlite::open("shop.db", &Options::default()).await?;
    /// let mut connection = Connection::open("shop.db")?;
    ///
    /// let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    /// tx.execute("UPDATE stock SET left = left - 1 WHERE sku = 'sku-9'", ())?;
    /// let order = StreamId::new("Order", "ord-123")?;
    /// let placed = NewEvent::new("OrderPlaced", serde_json::json!({ "sku": "sku-9" }));
    /// log.append_in(&tx, Append::new().to(&order, Expected::NoStream, [placed]))?;
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn append_in(
        &self,
        tx: &rusqlite::Transaction<'_>,
        append: Append,
    ) -> Result<Appended, AppendError> {
        let Shared { at, appending, .. } = self.shared.as_ref();
        append.validate(&appending.limits)?;
        let append = append.within_trace(anabranch_store::trace::current());
        let mut answers = append::append_in(tx, appending, &[&append], Ids::All)
            .map_err(|error| store_error(at, error))?;
        answers.remove(0)
    }

    /// Runs statements of ours inside a transaction of yours, on a connection of yours to the same file:
    /// what they do is done if and when that transaction commits. This is how tasks are enqueued together
    /// with whatever else it does: the statements are `Tasks::statements`'.
    ///
    /// ```
    /// # use anabranch_sqlite::{Sqlite, rusqlite};
    /// # use anabranch_store::database::Statement;
    /// # fn f(log: &Sqlite, connection: &mut rusqlite::Connection, tasks: Vec<Statement>) -> Result<(), Box<dyn std::error::Error>> {
    /// let tx = connection.transaction()?;
    /// tx.execute("UPDATE stock SET left = left - 1 WHERE sku = 'sku-9'", ())?;
    /// log.run_in(&tx, &tasks)?;
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn run_in(
        &self,
        tx: &rusqlite::Transaction<'_>,
        statements: &[Statement],
    ) -> Result<(), StoreError> {
        let ran = self.effects.run_in(tx, statements);
        ran.map_err(|failed| failed.into_store_error(&self.shared.at))
    }

    async fn append_batch(&self, batch: Vec<Ticket>) {
        let shared = Arc::clone(&self.shared);
        let job = move |connection: &mut rusqlite::Connection| {
            let answered = shared.store(connection, batch);
            shared.appending.appended();
            answered
        };
        // If the writer is gone, the tickets are dropped, which answers them with `Closed`. They are answered from
        // here and not from the writing thread, which would wake the runtime once for each of them.
        let answered = self.writer.run(job).await;
        answered.into_iter().flatten().for_each(|(ticket, answer)| ticket.answer(answer));
    }
}

/// Tickets, and what to answer.
type Answered = Vec<(Ticket, Result<Appended, AppendError>)>;

impl Shared {
    /// Stores a batch; returns what to answer.
    fn store(&self, connection: &rusqlite::Connection, batch: Vec<Ticket>) -> Answered {
        let refuse = |batch: Vec<Ticket>, gone: &Gone| {
            let error = || StoreError::from(gone.clone());
            batch.into_iter().map(|ticket| (ticket, Err(error().into()))).collect()
        };
        if let Some(gone) = self.files.gone() {
            return refuse(batch, &gone);
        }
        let appends: Vec<&Append> = batch.iter().map(|ticket| &ticket.append).collect();
        let error = match append::append_batch(connection, &self.appending, &appends) {
            Ok(answers) => {
                if let Some(gone) = self.files.gone() {
                    // It is stored where nobody finds it.
                    return refuse(batch, &gone);
                }
                return batch.into_iter().zip(answers).collect();
            }
            Err(error) => Arc::new(error),
        };
        let error = || store_error(&self.at, Arc::clone(&error));
        if batch.len() > 1 && !error().is_transient() {
            // One append that SQLite cannot take must not fail its neighbours.
            return batch
                .into_iter()
                .flat_map(|ticket| self.store(connection, vec![ticket]))
                .collect();
        }
        batch.into_iter().map(|ticket| (ticket, Err(error().into()))).collect()
    }
}

impl LogStore for Sqlite {
    fn append(&self, batch: Vec<Ticket>) -> BoxFuture<'_, ()> {
        Box::pin(self.append_batch(batch))
    }

    fn read(&self, request: ReadRequest) -> BoxFuture<'_, Result<Page, StoreError>> {
        let shared = Arc::clone(&self.shared);
        let job = move |connection: &rusqlite::Connection| {
            let page = read::read(connection, &shared.appending.sql, &request);
            page.map_err(|error| store_error(&shared.at, error))
        };
        Box::pin(async { self.readers.run(job).await? })
    }

    fn find(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Event>, StoreError>> {
        let shared = Arc::clone(&self.shared);
        let job = move |connection: &rusqlite::Connection| {
            let event = read::find(connection, &shared.appending.sql, id);
            event.map_err(|error| store_error(&shared.at, error))
        };
        Box::pin(async { self.readers.run(job).await? })
    }

    fn head(&self) -> BoxFuture<'_, Result<Head, StoreError>> {
        let shared = Arc::clone(&self.shared);
        let job = move |connection: &rusqlite::Connection| {
            let events = &shared.appending.sql.events;
            let head = format!("SELECT coalesce(max(position), 0) FROM {events}");
            let head = connection.query_row(&head, (), |row| row.get(0));
            let head =
                head.map(Position::from_i64).map_err(|error| store_error(&shared.at, error))?;
            // Positions become visible in order, so what is visible is decided.
            Ok(Head { visible: head, decided: head })
        };
        Box::pin(async { self.readers.run(job).await? })
    }

    fn drawn(&self) -> BoxFuture<'_, Result<Position, StoreError>> {
        let shared = Arc::clone(&self.shared);
        let job = move |connection: &rusqlite::Connection| {
            let last = connection.prepare_cached(&shared.appending.sql.last_drawn);
            let last = last.and_then(|mut last| last.query_row((), |row| row.get(0)));
            last.map(Position::from_i64).map_err(|error| store_error(&shared.at, error))
        };
        Box::pin(async { self.readers.run(job).await? })
    }

    fn look(&self, look: Look) -> BoxFuture<'_, Result<Seen, StoreError>> {
        let shared = Arc::clone(&self.shared);
        let job = move |connection: &rusqlite::Connection| {
            let seen = read::look(connection, &shared.appending.sql, &look);
            seen.map_err(|error| store_error(&shared.at, error))
        };
        Box::pin(async {
            let (identity, seen) = self.readers.run(job).await??;
            if identity.is_none() {
                self.effects.require_newest_schema()?;
            }
            Ok(Seen { identity: identity_of(&self.shared.at, identity)?, ..seen })
        })
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        // Other processes watch the file.
        Box::pin(std::future::ready(()))
    }

    fn wake(&self) -> watch::Receiver<u64> {
        self.shared.appending.wake.subscribe()
    }

    fn at(&self) -> &str {
        &self.shared.at
    }

    fn limits(&self) -> Limits {
        self.shared.appending.limits
    }

    fn hash_rule(&self) -> HashRule {
        self.shared.appending.rule
    }

    fn database(&self) -> Arc<dyn Database> {
        Arc::clone(&self.effects) as Arc<dyn Database>
    }
}

/// The file (`None`: in memory) and whether it is only read.
fn parse(path: &str) -> Result<(Option<PathBuf>, bool), InputError> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let bad = |problem: &str| {
        let subject = format!("URL `sqlite:{}`", path.escape_debug());
        Err(InputError::new(subject, InputProblem::BadUrl(problem.to_owned())))
    };
    let read_only = match query {
        "" => false,
        "mode=ro" => true,
        _ => return bad("has unknown parameters; the one that exists is ?mode=ro"),
    };
    match path {
        "" => bad("names no file; write sqlite:orders.db, or sqlite::memory: for one in memory"),
        ":memory:" => Ok((None, false)),
        path if path.contains('\0') => bad("holds a NUL character; remove it"),
        path => Ok((Some(PathBuf::from(path)), read_only)),
    }
}

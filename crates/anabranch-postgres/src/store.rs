//! The backend, and how it is connected.

use crate::append::{Answer, Appending, Locking, Session};
use crate::connection::Server;
use crate::decided::{Decided, Era};
use crate::dialect::PostgresDialect;
use crate::effects::Effects;
use crate::error::Failure;
use crate::insert::Texts;
use crate::keys::{self, Classes};
use crate::one_statement::Credit;
use crate::pool::{Growth, Pool, Use};
use crate::read::Reader;
use crate::schema::{self, Sql};
use crate::scopes::ScopeRead;
use crate::session::Purpose;
use crate::shared::{READING, Shared};
use crate::together::Together;
use crate::wake::{self, Wake};
use anabranch_core::decide::Ids;
use anabranch_core::{
    Append, AppendError, Appended, Event, HashRule, InputError, InputProblem, Limits, Position,
    Query, StoreError,
};
use anabranch_core::{Happening, Notice};
use anabranch_store::anchors::identity_of;
use anabranch_store::database::Topic;
use anabranch_store::{
    Database, Head, Locked, LogStore, Look, Namespace, Options, Page, ReadRequest, Scope, Seen,
    Ticket,
};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_postgres::{Error, Transaction};
use uuid::Uuid;

/// Sessions for appends, where the server has ample room: as many as there may be batches under way.
const APPENDING_SESSIONS: usize = 2;
/// Sessions for appends that wait for a lock of somebody else. They take turns.
const WAITING_SESSIONS: usize = 4;
/// How long an append waits for a lock of somebody else.
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// How long an append is repeated while the server is away.
const RETRY_FOR: Duration = Duration::from_secs(10);
const RETRY_WAIT: Duration = Duration::from_millis(20);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(1);
/// How often a batch is repeated because a unique index refused it: once, unless somebody writes to
/// the tables without the locks.
const MAX_COLLISIONS: u32 = 8;
/// How soon a backward read looks again at appends in flight.
const SETTLE_POLL: Duration = Duration::from_millis(5);

/// A log in PostgreSQL.
pub struct Postgres {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) server: Server,
    appending: Arc<Appending>,
    namespace: Namespace,
    appends: Pool,
    waiting: Pool,
    reads: Pool,
    scans: Pool,
    pub(crate) scopes: Pool,
    pub(crate) together: Together,
    wake: Arc<Wake>,
    effects: Arc<Effects>,
    decided: Decided,
}

impl Postgres {
    /// Connects to the server and prepares the log, as the options say.
    pub fn connect<'a>(
        url: &'a str,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Self, StoreError>> {
        // Boxed, so that all of it is compiled here, and not in each program that connects.
        Box::pin(Self::connect_here(url, options))
    }

    async fn connect_here(url: &str, options: &Options) -> Result<Self, StoreError> {
        let shared = Shared::of(url, options.durability, options.tracing)?;
        let server = shared.server.clone();
        let failed = |failure: Failure| failure.at(&server.at);
        shared.check().await.map_err(failed)?;
        let lent = |how| shared.work.lent_as(how);
        let appending = Use { purpose: Purpose::Append, limit: APPENDING_SESSIONS, ..READING };
        let appends = lent(appending);
        let lease = appends.get("a log that is opened").await.map_err(failed)?;
        let (rule, found) =
            schema::prepare(&server.at, lease.session(), options, &server.events).await?;
        let at_once = schema::may_admit(lease.session(), &options.namespace).await;
        let at_once = AtomicBool::new(at_once.map_err(|error| failed(error.into()))?);
        lease.give_back();
        let namespace = options.namespace.clone();
        let sql = Sql::of(&namespace, found.version);
        let dialect = PostgresDialect { namespace: namespace.clone() };
        let wake = shared.wake(&namespace);
        let waiting =
            Use { limit: WAITING_SESSIONS, growth: Growth::Always, wait: LOCK_WAIT, ..appending };
        let reading = Use { limit: options.readers, ..READING };
        let classes = Classes::of(&namespace);
        let (limits, inserts, credit) = (options.limits, Texts::default(), Credit::default());
        let appending = Appending { sql, classes, rule, at_once, limits, inserts, credit };
        let appending = Arc::new(appending);
        let inner = Inner {
            waiting: lent(waiting),
            reads: lent(reading),
            scans: lent(Use { purpose: Purpose::Scan, ..reading }),
            scopes: lent(Use { purpose: Purpose::Scopes, limit: 1, ..READING }),
            together: Together::default(),
            effects: Arc::new(Effects::new(
                &shared,
                (options.sessions, options.readers),
                dialect,
                Arc::clone(&wake),
                found,
                Arc::clone(&appending),
            )),
            wake,
            appending,
            namespace,
            appends,
            decided: Decided::default(),
            server,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Appends inside a transaction of yours, on a connection of yours to the same database: the
    /// events are stored if and when that transaction commits, together with whatever else it does.
    ///
    /// A refused append writes nothing, and the transaction can go on. Until the transaction is
    /// over, other appends to the same streams and tags wait for it, and so do reads of its scope:
    /// keep it short, and do not read through the log what it has not committed yet. The transaction
    /// must be READ COMMITTED, which is PostgreSQL's default. After a call that was given up half-way
    /// (a timeout, a `select!`), roll it back: the events may be in it.
    ///
    /// ```
    /// # use anabranch_core::{Append, Expected, NewEvent, StreamId};
    /// # use anabranch_postgres::{Postgres, tokio_postgres};
    /// # async fn f(log: Postgres, client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let tx = client.transaction().await?;
    /// tx.execute("UPDATE stock SET units = units - 1 WHERE sku = 'sku-9'", &[]).await?;
    /// let order = StreamId::new("Order", "ord-123")?;
    /// let placed = NewEvent::new("OrderPlaced", serde_json::json!({ "sku": "sku-9" }));
    /// log.append_in(&tx, Append::new().to(&order, Expected::NoStream, [placed])).await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    pub async fn append_in(
        &self,
        tx: &Transaction<'_>,
        append: Append,
    ) -> Result<Appended, AppendError> {
        append.validate(&self.inner.appending.limits)?;
        let append = append.within_trace(anabranch_store::trace::current());
        let failed = |error| Failure::from(error).at(&self.inner.server.at);
        let isolation = "SELECT current_setting('transaction_isolation')";
        let isolation = tx.query_typed(isolation, &[]).await.map_err(failed)?;
        let isolation: String = isolation.first().map(|row| row.get(0)).unwrap_or_default();
        if isolation != "read committed" {
            let (subject, problem) = ("transaction".to_owned(), InputProblem::Isolation(isolation));
            return Err(InputError::new(subject, problem).into());
        }
        let session = Session::Callers(tx);
        let appending = &self.inner.appending;
        let mut answers = appending.append_in(session, &[&append]).await.map_err(failed)?;
        let answer = answers.remove(0)?;
        // Only the transaction itself knows when it commits, so here the NOTIFY is part of it.
        let notify = format!("NOTIFY {}", wake::channel(&self.inner.namespace));
        tx.batch_execute(&notify).await.map_err(failed)?;
        Ok(answer)
    }
}

impl Postgres {
    pub(crate) fn at_server(&self) -> &str {
        &self.inner.server.at
    }

    pub(crate) fn appending(&self) -> &Appending {
        &self.inner.appending
    }

    pub(crate) fn signal_statement(&self, topic: Topic) -> String {
        self.inner.wake.signal_statement(topic)
    }
}

impl Inner {
    /// Stores a batch and answers it, except what has to wait for locks: that goes on by itself.
    async fn append(self: &Arc<Self>, batch: Vec<Ticket>) {
        for batch in self.store(batch, &self.appends, Locking::Try).await {
            let inner = Arc::clone(self);
            tokio::spawn(async move { inner.append_patiently(batch).await });
        }
    }

    /// Stores appends that wait for the same locks, turn by turn with others that wait.
    async fn append_patiently(&self, batch: Vec<Ticket>) {
        let started = Instant::now();
        let mut waiting = vec![batch];
        while started.elapsed() < LOCK_WAIT {
            let mut still_waiting = Vec::new();
            for batch in waiting {
                still_waiting.extend(self.store(batch, &self.waiting, Locking::Wait).await);
            }
            if still_waiting.is_empty() {
                return;
            }
            waiting = still_waiting;
        }
        let held = "a lock on the stream or scope was held for too long";
        for ticket in waiting.into_iter().flatten() {
            let (at, source) = (self.server.at.clone(), held.into());
            ticket.answer(Err(StoreError::Busy { at, source }.into()));
        }
    }

    /// Stores a batch and answers it; returns what has to wait, grouped by what it waits for.
    async fn store(&self, batch: Vec<Ticket>, pool: &Pool, locking: Locking) -> Vec<Vec<Ticket>> {
        let appends: Vec<&Append> = batch.iter().map(|ticket| &ticket.append).collect();
        let failure = match self.persist(&appends, pool, locking).await {
            Ok(answers) => {
                self.wake.appended();
                return answer(batch, answers);
            }
            Err(failure) => failure,
        };
        if failure.is_lock_timeout() {
            return vec![batch];
        }
        if batch.len() > 1 && failure.may_lie_in_append() {
            // One append that the server cannot take must not fail its neighbours.
            let mut waiting = Vec::new();
            for ticket in batch {
                waiting.extend(Box::pin(self.store(vec![ticket], pool, locking)).await);
            }
            return waiting;
        }
        batch.into_iter().for_each(|ticket| ticket.answer(Err(self.error(&failure).into())));
        Vec::new()
    }

    /// Stores a batch, again if need be: the ids of the events make that safe.
    async fn persist(
        &self,
        batch: &[&Append],
        pool: &Pool,
        locking: Locking,
    ) -> Result<Vec<Answer>, Failure> {
        let (mut ids, mut collisions) = (Ids::Callers, 0);
        let (started, mut wait) = (Instant::now(), RETRY_WAIT);
        loop {
            let failure = match self.attempt(batch, pool, ids, locking).await {
                Ok(answers) => return Ok(answers),
                Err(failure) => failure,
            };
            // From now on the batch may be in the log already.
            ids = Ids::All;
            if failure.is_collision() && collisions < MAX_COLLISIONS {
                collisions += 1;
            } else if failure.is_worth_repeating() && started.elapsed() < RETRY_FOR {
                let (said, detail) = (format!("{failure:?}"), format!("wait={wait:?}"));
                let what = Happening::notice(Notice::AppendRepeated, Some(said), Some(detail));
                self.server.events.emit(what);
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_WAIT_MAX);
            } else {
                return Err(failure);
            }
        }
    }

    async fn attempt(
        &self,
        batch: &[&Append],
        pool: &Pool,
        ids: Ids,
        locking: Locking,
    ) -> Result<Vec<Answer>, Failure> {
        let lease = pool.get("an append").await?;
        let session = lease.session();
        let append = self.appending.append(Session::Own(session), batch, ids, locking);
        let answers = self.server.in_time(append).await;
        let is_sound = match &answers {
            Ok(_) => true,
            Err(failure) if failure.leaves_session_sound() => {
                self.server.in_time(session.batch_execute("ROLLBACK")).await.is_ok()
            }
            Err(_) => false,
        };
        if is_sound {
            lease.give_back();
        }
        answers
    }

    async fn read(self: &Arc<Self>, request: ReadRequest) -> Result<Page, Failure> {
        match ScopeRead::of(&request) {
            Some(read) => self.read_together(request, read).await,
            None => self.read_alone(request).await,
        }
    }

    pub(crate) async fn read_alone(&self, request: ReadRequest) -> Result<Page, Failure> {
        if request.backwards
            && let Scope::Log(query) = &request.scope
        {
            self.settle(query, Position::new(request.cursor.saturating_sub(1))).await?;
        }
        let pool = if request.is_scan() { &self.scans } else { &self.reads };
        self.with_reader(pool, async |reader| reader.read(&request).await).await
    }

    /// Waits until everything up to a position that matches is decided.
    async fn settle(&self, query: &Query, up_to: Position) -> Result<(), Failure> {
        let mut target = None;
        loop {
            let ends = async |reader: Reader<'_>| match up_to <= self.decided.by(reader.era) {
                true => Ok(None),
                false => reader.ends(query).await.map(Some),
            };
            let ends = self.with_reader(&self.reads, ends).await?;
            let Some((horizon, head)) = ends else { break };
            let target = *target.get_or_insert(up_to.min(head.visible));
            if !horizon.pending || horizon.bound >= target {
                break;
            }
            tokio::time::sleep(SETTLE_POLL).await;
        }
        Ok(())
    }

    async fn find(&self, id: Uuid) -> Result<Option<Event>, Failure> {
        self.with_reader(&self.reads, async |reader| reader.find(id).await).await
    }

    async fn head(&self) -> Result<Head, Failure> {
        let ends = async |reader: Reader<'_>| reader.ends(&Query::all()).await;
        Ok(self.with_reader(&self.reads, ends).await?.1)
    }

    async fn drawn(&self) -> Result<Position, Failure> {
        self.with_reader(&self.reads, async |reader| reader.drawn().await).await
    }

    async fn look(&self, look: Look) -> Result<Seen, StoreError> {
        let seen = self.with_reader(&self.reads, async |reader| reader.look(&look).await).await;
        let (identity, seen) = seen.map_err(|failure| self.error(&failure))?;
        if identity.is_none() {
            self.effects.require_newest_schema()?;
        }
        Ok(Seen { identity: identity_of(&self.server.at, identity)?, ..seen })
    }

    pub(crate) async fn with_reader<T>(
        &self,
        pool: &Pool,
        work: impl AsyncFnOnce(Reader<'_>) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let lease = pool.get("a read").await?;
        let (opened, started) =
            (self.server.opened.load(Ordering::Acquire), lease.session().started);
        let reader = Reader {
            session: lease.session(),
            sql: &self.appending.sql,
            classes: self.appending.classes,
            decided: &self.decided,
            era: Era { opened, started },
        };
        let result = self.server.in_time(work(reader)).await;
        match &result {
            // What is given up is closed. The driver may not have seen yet that the server has done that.
            Err(failure) if failure.is_cut() || matches!(failure, Failure::Silent(_)) => {}
            _ => lease.give_back(),
        }
        result
    }

    fn error(&self, failure: &Failure) -> StoreError {
        failure.at(&self.server.at)
    }
}

/// Answers what was decided; returns what has to wait, grouped by what it waits for.
fn answer(batch: Vec<Ticket>, answers: Vec<Answer>) -> Vec<Vec<Ticket>> {
    let mut waiting: HashMap<Vec<i32>, Vec<Ticket>> = HashMap::new();
    for (ticket, answer) in batch.into_iter().zip(answers) {
        match answer {
            Ok(answer) => ticket.answer(answer),
            Err(keys) => waiting.entry(keys).or_default().push(ticket),
        }
    }
    waiting.into_values().collect()
}

impl LogStore for Postgres {
    fn append(&self, batch: Vec<Ticket>) -> BoxFuture<'_, ()> {
        Box::pin(self.inner.append(batch))
    }

    fn locks(&self, append: &Append) -> Option<Vec<Locked>> {
        let (keys, alone) = keys::of_batch(&[append]);
        let locks = keys.into_iter().zip(alone);
        Some(locks.map(|(key, alone)| Locked { key, alone }).collect())
    }

    fn read(&self, request: ReadRequest) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async {
            self.inner.read(request).await.map_err(|failure| self.inner.error(&failure))
        })
    }

    fn find(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Event>, StoreError>> {
        Box::pin(
            async move { self.inner.find(id).await.map_err(|failure| self.inner.error(&failure)) },
        )
    }

    fn head(&self) -> BoxFuture<'_, Result<Head, StoreError>> {
        Box::pin(async { self.inner.head().await.map_err(|failure| self.inner.error(&failure)) })
    }

    fn drawn(&self) -> BoxFuture<'_, Result<Position, StoreError>> {
        Box::pin(async { self.inner.drawn().await.map_err(|failure| self.inner.error(&failure)) })
    }

    fn look(&self, look: Look) -> BoxFuture<'_, Result<Seen, StoreError>> {
        Box::pin(self.inner.look(look))
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.inner.wake.flush().await;
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.inner.wake.close())
    }

    fn wake(&self) -> watch::Receiver<u64> {
        self.inner.wake.subscribe()
    }

    fn at(&self) -> &str {
        &self.inner.server.at
    }

    fn limits(&self) -> Limits {
        self.inner.appending.limits
    }

    fn hash_rule(&self) -> HashRule {
        self.inner.appending.rule
    }

    fn database(&self) -> Arc<dyn Database> {
        Arc::clone(&self.inner.effects) as Arc<dyn Database>
    }
}

//! The backend, and how it is connected.

use crate::append::{Answer, Appending, Ids, Locking, Session};
use crate::connection::Server;
use crate::error::Failure;
use crate::keys::Classes;
use crate::read::Reader;
use crate::schema::{self, Sql};
use crate::wake::{self, Wake};
use anabranch_core::{
    Append, AppendError, Appended, HashRule, InputError, InputProblem, Limits, Position, StoreError,
};
use anabranch_store::{LogStore, Namespace, Options, Page, ReadRequest, Ticket};
use deadpool_postgres::{Object, Pool};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_postgres::Transaction;

/// Sessions for appends that wait for a lock of somebody else.
const WAITING_SESSIONS: usize = 4;
/// How long an append is repeated while the server is away.
const RETRY_FOR: Duration = Duration::from_secs(10);
const RETRY_WAIT: Duration = Duration::from_millis(20);
const RETRY_WAIT_MAX: Duration = Duration::from_secs(1);
/// How often a batch is repeated because a unique index refused it: once, unless somebody writes to
/// the tables without the locks.
const MAX_COLLISIONS: u32 = 8;

/// A log in PostgreSQL.
pub struct Postgres {
    inner: Arc<Inner>,
}

struct Inner {
    server: Server,
    appending: Appending,
    namespace: Namespace,
    limits: Limits,
    appends: Pool,
    waiting: Pool,
    reads: Pool,
    wake: Wake,
    decided: AtomicU64,
}

impl Postgres {
    /// Connects to the server and prepares the log, as the options say.
    pub async fn connect(url: &str, options: &Options) -> Result<Self, StoreError> {
        let server = Server::parse(url, options.durability)?;
        let appends = server.pool(1)?;
        let mut session =
            appends.get().await.map_err(|error| Failure::from(error).at(&server.at))?;
        let rule = schema::prepare(&server.at, &mut session, options).await?;
        drop(session);
        let namespace = options.namespace.clone();
        let sql = Sql::of(&namespace);
        let inner = Inner {
            waiting: server.pool(WAITING_SESSIONS)?,
            reads: server.pool(options.readers)?,
            wake: Wake::new(&server, &namespace),
            appending: Appending { sql, classes: Classes::of(&namespace), rule },
            decided: AtomicU64::new(0),
            limits: options.limits,
            namespace,
            appends,
            server,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Appends inside a transaction of yours, on a connection of yours to the same database: the
    /// events are stored if and when that transaction commits, together with whatever else it does.
    ///
    /// A refused append writes nothing, and the transaction can go on. Until the transaction is
    /// over, other appends to the same streams and tags wait for it, and readers do not pass it. The
    /// transaction must be READ COMMITTED, which is PostgreSQL's default.
    ///
    /// ```
    /// # use anabranch_core::{Append, Expected, NewEvent, StreamId};
    /// # use anabranch_postgres::{Postgres, tokio_postgres};
    /// # async fn f(log: Postgres, client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let tx = client.transaction().await?;
    /// tx.execute("UPDATE stock SET left = left - 1 WHERE sku = 'sku-9'", &[]).await?;
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
        append.validate(&self.inner.limits)?;
        let failed = |error| Failure::from(error).at(&self.inner.server.at);
        let isolation = "SELECT current_setting('transaction_isolation')";
        let isolation = tx.query_typed(isolation, &[]).await.map_err(failed)?;
        let isolation: String = isolation.first().map(|row| row.get(0)).unwrap_or_default();
        if isolation != "read committed" {
            let (subject, problem) = ("transaction".to_owned(), InputProblem::Isolation(isolation));
            return Err(InputError { subject, problem }.into());
        }
        let session = Session::Callers(tx);
        let appending = &self.inner.appending;
        let mut answers =
            appending.append(session, &[&append], Ids::All, Locking::Wait).await.map_err(failed)?;
        let answer = answers.remove(0).expect("who waits for locks misses none")?;
        // Only the transaction itself knows when it commits, so here the NOTIFY is part of it.
        let notify = format!("NOTIFY {}", wake::channel(&self.inner.namespace));
        tx.batch_execute(&notify).await.map_err(failed)?;
        Ok(answer)
    }
}

impl Inner {
    /// Stores a batch and answers it, except what has to wait for locks: that goes on by itself.
    async fn append(self: &Arc<Self>, batch: Vec<Ticket>) {
        let waiting = self.store(batch, &self.appends, Locking::Try).await;
        for (_, batch) in waiting {
            let inner = Arc::clone(self);
            tokio::spawn(async move { inner.store(batch, &inner.waiting, Locking::Wait).await });
        }
    }

    /// Stores a batch and answers it; returns what has to wait, by the key that it waits for.
    async fn store(
        &self,
        batch: Vec<Ticket>,
        pool: &Pool,
        locking: Locking,
    ) -> HashMap<i32, Vec<Ticket>> {
        let mut waiting: HashMap<i32, Vec<Ticket>> = HashMap::new();
        let appends: Vec<&Append> = batch.iter().map(|ticket| &ticket.append).collect();
        match self.persist(&appends, pool, locking).await {
            Ok(answers) => {
                self.wake.appended();
                for (ticket, answer) in batch.into_iter().zip(answers) {
                    match answer {
                        Ok(answer) => ticket.answer(answer),
                        Err(key) => waiting.entry(key).or_default().push(ticket),
                    }
                }
            }
            // One append that the server cannot take must not fail its neighbours.
            Err(error) if batch.len() > 1 && !error.at(&self.server.at).is_transient() => {
                for ticket in batch {
                    let rest = Box::pin(self.store(vec![ticket], pool, locking)).await;
                    rest.into_iter().for_each(|(key, batch)| {
                        waiting.entry(key).or_default().extend(batch);
                    });
                }
            }
            Err(error) => {
                batch
                    .into_iter()
                    .for_each(|ticket| ticket.answer(Err(error.at(&self.server.at).into())));
            }
        }
        waiting
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
            } else if failure.at(&self.server.at).is_transient() && started.elapsed() < RETRY_FOR {
                tracing::debug!(at = self.server.at, ?failure, ?wait, "append is repeated");
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
        let session = pool.get().await?;
        let answers = self.appending.append(Session::Own(&session), batch, ids, locking).await;
        answers.map_err(|error| {
            // It may be anywhere in its transaction: let the server end it with the connection.
            drop(Object::take(session));
            error.into()
        })
    }

    async fn read(&self, request: ReadRequest) -> Result<Page, Failure> {
        let session = self.reads.get().await?;
        let reader = Reader {
            session: &session,
            sql: &self.appending.sql,
            classes: self.appending.classes,
            decided: &self.decided,
        };
        Ok(reader.read(&request).await?)
    }

    async fn head(&self) -> Result<Position, Failure> {
        let session = self.reads.get().await?;
        let head = format!("SELECT coalesce(max(position), 0) FROM {}", self.appending.sql.events);
        let head = session.prepare_cached(&head).await?;
        Ok(Position::from_i64(session.query_one(&head, &[]).await?.get(0)))
    }

    fn error(&self, failure: Failure) -> StoreError {
        failure.at(&self.server.at)
    }
}

impl LogStore for Postgres {
    fn append(&self, batch: Vec<Ticket>) -> BoxFuture<'_, ()> {
        Box::pin(self.inner.append(batch))
    }

    fn read(&self, request: ReadRequest) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async { self.inner.read(request).await.map_err(|error| self.inner.error(error)) })
    }

    fn head(&self) -> BoxFuture<'_, Result<Position, StoreError>> {
        Box::pin(async { self.inner.head().await.map_err(|error| self.inner.error(error)) })
    }

    fn wake(&self) -> watch::Receiver<u64> {
        self.inner.wake.subscribe()
    }

    fn at(&self) -> &str {
        &self.inner.server.at
    }

    fn limits(&self) -> Limits {
        self.inner.limits
    }

    fn hash_rule(&self) -> HashRule {
        self.inner.appending.rule
    }
}

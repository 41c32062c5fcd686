//! Where consumers write: the sessions of their transactions, signs of life, and what the server knows.

use crate::activity;
use crate::append::Appending;
use crate::dialect::PostgresDialect;
use crate::error::Failure;
use crate::keys::Classes;
use crate::life;
use crate::link::Life;
use crate::pool::{Pool, Use};
use crate::row_watch::Watch;
use crate::schema::MIGRATIONS;
use crate::session::{Purpose, lock};
use crate::shared::{READING, Secured, Shared, opened};
use crate::transaction::{PostgresSession, Source};
use crate::wake::Wake;
use anabranch_core::{Limits, StoreError};
use anabranch_store::Emitter;
use anabranch_store::Row;
use anabranch_store::control::ONLY_READS;
use anabranch_store::database::{
    Blocked, Catalogue, Database, Dialect, End, Failed, LifeSign, OpenSessions, Reason, RowWatch,
    Session, Shortage, Statement, Topic, Who,
};
use anabranch_store::migration::Schema;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// How long after a session could not be opened a worker says so.
const SHORT_FOR: Duration = Duration::from_secs(3);

/// Where consumers write.
pub(crate) struct Effects {
    shared: Arc<Shared>,
    /// Where transactions of handlers and callers run.
    transactions: Pool,
    /// For claims and generations, never in the hands of handlers.
    control: Pool,
    /// Where they run if no session can be opened for them.
    instead: Option<Pool>,
    /// Where callers read their tables, turn by turn with reads of the log.
    queries: Pool,
    /// The most of those at the same time.
    sessions: usize,
    dialect: PostgresDialect,
    wake: Arc<Wake>,
    schema: Schema,
    appending: Arc<Appending>,
    /// Set for a worker that has what it needs.
    secured: Mutex<Option<Secured>>,
}

impl Effects {
    /// For callers and commands. Where the server has no connection left, they take turns with reads and
    /// appends.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        (sessions, readers): (usize, usize),
        dialect: PostgresDialect,
        wake: Arc<Wake>,
        schema: Schema,
        appending: Arc<Appending>,
    ) -> Self {
        let transactions = shared.lanes(sessions);
        let reading = Use { purpose: Purpose::Effects, ..READING };
        let instead = Some(shared.work.lent_as(Use { limit: sessions, ..reading }));
        let queries = shared.work.lent_as(Use { limit: readers, ..reading });
        let (control, shared, secured) = (shared.control(), Arc::clone(shared), Mutex::default());
        Self {
            shared,
            transactions,
            instead,
            queries,
            control,
            sessions,
            dialect,
            wake,
            schema,
            appending,
            secured,
        }
    }

    fn session(&self, source: Source, who: &Who) -> Box<dyn Session> {
        let (server, wake) = (self.shared.server.clone(), Arc::clone(&self.wake));
        Box::new(PostgresSession::new(server, source, wake, &self.appending, who))
    }

    fn life(&self, worker: &str) -> Life {
        (Classes::of(&self.dialect.namespace).workers, life::key(worker))
    }

    async fn secure(&self) -> Result<(), Failure> {
        let _starting = self.shared.starting.lock().await;
        self.transactions.sessions().keep(1);
        let first = opened(self.transactions.clone());
        let secured = match tokio::try_join!(self.shared.secure(), first) {
            Ok((secured, ())) => secured,
            Err(failure) => {
                if lock(&self.secured).is_none() {
                    self.transactions.sessions().keep(0);
                    self.transactions.sessions().close_idle(Duration::ZERO);
                    self.shared.give_back();
                }
                return Err(failure);
            }
        };
        *lock(&self.secured) = Some(secured);
        Ok(())
    }
}

impl Database for Effects {
    fn begin_as(&self, who: &Who) -> Box<dyn Session> {
        self.session(Source::Pool(self.transactions.clone(), self.instead.clone()), who)
    }

    fn query(&self, query: Statement) -> BoxFuture<'_, Result<Vec<Row>, Failed>> {
        let who = Who { worker: String::new(), lane: "query".to_owned() };
        let (server, wake) = (self.shared.server.clone(), Arc::clone(&self.wake));
        let source = Source::Pool(self.queries.clone(), None);
        let mut session = PostgresSession::new(server, source, wake, &self.appending, &who);
        session.only_reads();
        Box::pin(async move {
            match session.rows(query, End::Commit).await {
                Ok(rows) => Ok(rows),
                // It is the transaction that is read-only, not the server.
                Err(Failed { statement, reason: Reason::Store(StoreError::ReadOnly { .. }) }) => {
                    Err(Failed { statement, reason: Reason::refused(ONLY_READS) })
                }
                Err(failed) => Err(failed),
            }
        })
    }

    fn apart(&self) -> Result<Arc<dyn Database>, StoreError> {
        Ok(Arc::new(Self {
            shared: Arc::clone(&self.shared),
            transactions: self.shared.lanes(self.sessions),
            control: self.shared.control(),
            // A busy set must not use up what others read and append with.
            instead: None,
            queries: self.queries.clone(),
            sessions: self.sessions,
            dialect: self.dialect.clone(),
            wake: Arc::clone(&self.wake),
            schema: self.schema,
            appending: Arc::clone(&self.appending),
            secured: Mutex::default(),
        }))
    }

    fn control(&self) -> Box<dyn Session> {
        let who = Who { worker: String::new(), lane: "control".to_owned() };
        self.session(Source::Pool(self.control.clone(), None), &who)
    }

    fn heartbeat(&self) -> Box<dyn Session> {
        let who = Who { worker: String::new(), lane: "heartbeat".to_owned() };
        self.session(Source::Link(Arc::clone(&self.shared.link)), &who)
    }

    fn secure_sessions(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { self.secure().await.map_err(|failure| failure.at(self.at())) })
    }

    fn shortage(&self) -> Option<Shortage> {
        let (open, failure) = self.transactions.sessions().shortage(SHORT_FOR)?;
        let error = failure.at(self.at()).to_string();
        Some(Shortage { open, wanted: self.sessions, error })
    }

    fn open_sessions(&self) -> OpenSessions {
        OpenSessions { pool: Arc::as_ptr(&self.shared).addr(), by_use: self.shared.open() }
    }

    fn hears(&self) -> bool {
        self.wake.hears()
    }

    fn show_life(&self, worker: &str) -> BoxFuture<'_, Result<LifeSign, StoreError>> {
        let life = self.life(worker);
        Box::pin(async move {
            let shown = self.shared.link.show(life).await.map_err(|error| error.at(self.at()))?;
            Ok(Box::new(shown) as LifeSign)
        })
    }

    fn death_of(&self, worker: &str) -> BoxFuture<'static, ()> {
        Box::pin(Arc::clone(&self.shared.watcher).death_of(self.life(worker)))
    }

    fn bury<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(activity::end_sessions(&self.control, &self.shared.server, worker))
    }

    fn blocked(&self) -> BoxFuture<'_, Result<Vec<Blocked>, StoreError>> {
        Box::pin(activity::blocked(&self.control, &self.shared.server))
    }

    fn signals(&self, topic: Topic) -> watch::Receiver<u64> {
        self.wake.signals(topic)
    }

    fn row_watch(&self) -> Box<dyn RowWatch + '_> {
        Box::new(Watch::of(&self.dialect.namespace))
    }

    fn catalogue(&self) -> Box<dyn Catalogue + '_> {
        Box::new(self)
    }

    fn newest_schema(&self) -> u32 {
        MIGRATIONS.newest()
    }

    fn schema(&self) -> u32 {
        self.schema.version
    }

    fn require_newest_schema(&self) -> Result<(), StoreError> {
        MIGRATIONS.require_newest(self.at(), &self.dialect.namespace, self.schema)
    }

    fn limits(&self) -> Limits {
        self.appending.limits
    }

    fn events(&self) -> Emitter {
        self.shared.server.events.clone()
    }

    fn dialect(&self) -> &dyn Dialect {
        &self.dialect
    }

    fn at(&self) -> &str {
        &self.shared.server.at
    }
}

//! A log whose database does something around one transaction: others come first, or its answer is lost.

use anabranch::StoreError;
use anabranch::backend::Limits;
use anabranch::backend::database::{
    Answer, Blocked, Catalogue, Described, Dialect, End, Failed, LifeSign, RowWatch, Session,
    Statement, Topic, Who, Work,
};
use anabranch::prelude::*;
use anabranch::{HashRule, Row};
use anabranch_store::{Database, Head, LogStore, Look, Page, ReadRequest, Seen, Ticket};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// What happens once, around the first transaction that has a statement with this text.
#[derive(Clone)]
pub struct Meddling {
    text: &'static str,
    before: Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    loses_answer: bool,
    is_over: Arc<AtomicBool>,
}

impl Meddling {
    /// Others do this just before it begins.
    pub fn first(
        text: &'static str,
        before: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { text, before: Arc::new(before), loses_answer: false, is_over: Arc::default() }
    }

    /// It is committed, and nobody is told.
    pub fn unanswered(text: &'static str) -> Self {
        Self { loses_answer: true, ..Self::first(text, || Box::pin(async {})) }
    }

    /// Whether it has happened.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// The same log, with this.
    pub fn with(&self, log: &Log) -> Log {
        Log::new(Store { log: log.clone(), meddling: self.clone() })
    }

    fn is_in(&self, statements: &[Statement]) -> bool {
        let is_meant = |statement: &Statement| match &statement.work {
            Work::Sql(sql, _) => sql.contains(self.text),
            _ => false,
        };
        statements.iter().any(is_meant) && !self.is_over.swap(true, Ordering::SeqCst)
    }
}

struct Store {
    log: Log,
    meddling: Meddling,
}

impl LogStore for Store {
    fn append(&self, batch: Vec<Ticket>) -> BoxFuture<'_, ()> {
        self.log.store().append(batch)
    }

    fn read(&self, request: ReadRequest) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.log.store().read(request)
    }

    fn find(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Event>, StoreError>> {
        self.log.store().find(id)
    }

    fn head(&self) -> BoxFuture<'_, Result<Head, StoreError>> {
        self.log.store().head()
    }

    fn drawn(&self) -> BoxFuture<'_, Result<Position, StoreError>> {
        self.log.store().drawn()
    }

    fn look(&self, look: Look) -> BoxFuture<'_, Result<Seen, StoreError>> {
        self.log.store().look(look)
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        self.log.store().flush()
    }

    fn wake(&self) -> watch::Receiver<u64> {
        self.log.store().wake()
    }

    fn at(&self) -> &str {
        self.log.at()
    }

    fn limits(&self) -> Limits {
        self.log.limits()
    }

    fn hash_rule(&self) -> HashRule {
        self.log.hash_rule()
    }

    fn database(&self) -> Arc<dyn Database> {
        let database = self.log.store().database();
        Arc::new(Meddled { database, meddling: self.meddling.clone() })
    }
}

struct Meddled {
    database: Arc<dyn Database>,
    meddling: Meddling,
}

impl Meddled {
    fn session(&self, session: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(MeddledSession { session, meddling: self.meddling.clone() })
    }
}

impl Database for Meddled {
    fn query(&self, query: Statement) -> BoxFuture<'_, Result<Vec<Row>, Failed>> {
        self.database.query(query)
    }

    fn begin_as(&self, who: &Who) -> Box<dyn Session> {
        self.session(self.database.begin_as(who))
    }

    fn apart(&self) -> Result<Arc<dyn Database>, StoreError> {
        let (database, meddling) = (self.database.apart()?, self.meddling.clone());
        Ok(Arc::new(Self { database, meddling }))
    }

    fn control(&self) -> Box<dyn Session> {
        self.session(self.database.control())
    }

    fn signals(&self, topic: Topic) -> watch::Receiver<u64> {
        self.database.signals(topic)
    }

    fn hears(&self) -> bool {
        self.database.hears()
    }

    fn show_life(&self, worker: &str) -> BoxFuture<'_, Result<LifeSign, StoreError>> {
        self.database.show_life(worker)
    }

    fn death_of(&self, worker: &str) -> BoxFuture<'static, ()> {
        self.database.death_of(worker)
    }

    fn bury<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.database.bury(worker)
    }

    fn blocked(&self) -> BoxFuture<'_, Result<Vec<Blocked>, StoreError>> {
        self.database.blocked()
    }

    fn row_watch(&self) -> Box<dyn RowWatch + '_> {
        self.database.row_watch()
    }

    fn catalogue(&self) -> Box<dyn Catalogue + '_> {
        self.database.catalogue()
    }

    fn newest_schema(&self) -> u32 {
        self.database.newest_schema()
    }

    fn schema(&self) -> u32 {
        self.database.schema()
    }

    fn require_newest_schema(&self) -> Result<(), StoreError> {
        self.database.require_newest_schema()
    }

    fn limits(&self) -> Limits {
        self.database.limits()
    }

    fn dialect(&self) -> &dyn Dialect {
        self.database.dialect()
    }

    fn at(&self) -> &str {
        self.database.at()
    }
}

struct MeddledSession {
    session: Box<dyn Session>,
    meddling: Meddling,
}

impl Session for MeddledSession {
    fn run(
        &mut self,
        statements: Vec<Statement>,
        end: End,
    ) -> BoxFuture<'_, Result<Vec<Answer>, Failed>> {
        Box::pin(async move {
            if !self.meddling.is_in(&statements) {
                return self.session.run(statements, end).await;
            }
            (self.meddling.before)().await;
            let answered = self.session.run(statements, end).await?;
            if !self.meddling.loses_answer {
                return Ok(answered);
            }
            let source = std::io::Error::from(std::io::ErrorKind::ConnectionReset).into();
            let at = "a database whose answer was lost".to_owned();
            Err(Failed::store(StoreError::Unreachable { at, source }))
        })
    }

    fn describe<'a>(
        &'a mut self,
        sql: &'a str,
        idle: Duration,
    ) -> BoxFuture<'a, Result<Described, Failed>> {
        self.session.describe(sql, idle)
    }

    fn is_open(&self) -> bool {
        self.session.is_open()
    }
}

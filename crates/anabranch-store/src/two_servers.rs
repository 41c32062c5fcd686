//! The database of a log's consumers where the events are on another server: all that it can do, but append.

use crate::database::{
    Answer, Blocked, Catalogue, Database, Described, Dialect, End, Failed, LifeSign, OpenSessions,
    RowWatch, Session, Shortage, Statement, Topic, Who, Work,
};
use crate::value::Row;
use crate::{Clock, Emitter};
use anabranch_core::{Limits, StoreError};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The database of consumers whose events are elsewhere.
pub(crate) struct Apart {
    inner: Arc<dyn Database>,
    /// Where the events are.
    log: Arc<str>,
}

impl Apart {
    pub(crate) fn new(inner: Arc<dyn Database>, log: &str) -> Self {
        Self { inner, log: log.into() }
    }

    fn guarded(&self, session: Box<dyn Session>) -> Box<dyn Session> {
        let (at, log) = (self.at().into(), Arc::clone(&self.log));
        Box::new(Guarded { session, at, log })
    }
}

/// What is said to somebody who wants to append in a transaction of the other server.
fn refused(at: &str, log: &str) -> StoreError {
    let what = "an append in a transaction of cursors and effects";
    let remedy = "enqueue a task in the transaction and let its handler append (Log::append, with an id that \
                  follows from the task's), or keep log and consumers in one database";
    StoreError::TwoServers { at: at.to_owned(), log: log.into(), what, remedy }
}

/// A transaction in which nothing is appended: the events table of that server is not the log.
struct Guarded {
    session: Box<dyn Session>,
    at: Arc<str>,
    log: Arc<str>,
}

impl Session for Guarded {
    fn run(
        &mut self,
        statements: Vec<Statement>,
        end: End,
    ) -> BoxFuture<'_, Result<Vec<Answer>, Failed>> {
        let appends = |statement: &Statement| matches!(statement.work, Work::Appends(_));
        if let Some(number) = statements.iter().position(appends) {
            let reason = refused(&self.at, &self.log).into();
            let failed = Failed { statement: Some(number), reason };
            return Box::pin(std::future::ready(Err(failed)));
        }
        self.session.run(statements, end)
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

impl Database for Apart {
    fn begin_as(&self, who: &Who) -> Box<dyn Session> {
        self.guarded(self.inner.begin_as(who))
    }

    fn query(&self, query: Statement) -> BoxFuture<'_, Result<Vec<Row>, Failed>> {
        self.inner.query(query)
    }

    fn apart(&self) -> Result<Arc<dyn Database>, StoreError> {
        Ok(Arc::new(Self { inner: self.inner.apart()?, log: Arc::clone(&self.log) }))
    }

    fn control(&self) -> Box<dyn Session> {
        self.guarded(self.inner.control())
    }

    fn heartbeat(&self) -> Box<dyn Session> {
        self.guarded(self.inner.heartbeat())
    }

    fn secure_sessions(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.secure_sessions()
    }

    fn shortage(&self) -> Option<Shortage> {
        self.inner.shortage()
    }

    fn open_sessions(&self) -> OpenSessions {
        self.inner.open_sessions()
    }

    fn signals(&self, topic: Topic) -> watch::Receiver<u64> {
        self.inner.signals(topic)
    }

    fn hears(&self) -> bool {
        self.inner.hears()
    }

    fn show_life(&self, worker: &str) -> BoxFuture<'_, Result<LifeSign, StoreError>> {
        self.inner.show_life(worker)
    }

    fn death_of(&self, worker: &str) -> BoxFuture<'static, ()> {
        self.inner.death_of(worker)
    }

    fn bury<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.bury(worker)
    }

    fn blocked(&self) -> BoxFuture<'_, Result<Vec<Blocked>, StoreError>> {
        self.inner.blocked()
    }

    fn row_watch(&self) -> Box<dyn RowWatch + '_> {
        self.inner.row_watch()
    }

    fn catalogue(&self) -> Box<dyn Catalogue + '_> {
        self.inner.catalogue()
    }

    fn require_newest_schema(&self) -> Result<(), StoreError> {
        self.inner.require_newest_schema()
    }

    fn newest_schema(&self) -> u32 {
        self.inner.newest_schema()
    }

    fn schema(&self) -> u32 {
        self.inner.schema()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn events(&self) -> Emitter {
        self.inner.events()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn must_hold_log(&self) -> Result<(), StoreError> {
        Err(refused(self.at(), &self.log))
    }

    fn dialect(&self) -> &dyn Dialect {
        self.inner.dialect()
    }

    fn at(&self) -> &str {
        self.inner.at()
    }
}

//! A log whose database writes down the statements that it runs, so that a test can ask for their plans.

use anabranch::StoreError;
use anabranch::backend::Limits;
use anabranch::backend::database::{
    Answer, Blocked, Catalogue, Described, Dialect, End, Failed, LifeSign, RowWatch, Session,
    Statement, Topic, Who, Work,
};
use anabranch::prelude::*;
use anabranch::{HashRule, Row, Value};
use anabranch_store::{Database, Head, LogStore, Look, Page, ReadRequest, Seen, Ticket};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// The statements that were run, each with the values of one of its runs.
pub type Statements = Arc<Mutex<HashMap<String, Vec<Value>>>>;

/// The same log, and what runs on its database.
pub fn recorded(log: &Log) -> (Log, Statements) {
    let statements = Statements::default();
    (Log::new(Store { log: log.clone(), statements: Arc::clone(&statements) }), statements)
}

struct Store {
    log: Log,
    statements: Statements,
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
        Arc::new(Recorder { database, statements: Arc::clone(&self.statements) })
    }
}

fn note(statements: &Statements, run: &Statement) {
    if let Work::Sql(sql, values) = &run.work {
        statements.lock().unwrap().insert(sql.to_string(), values.clone());
    }
}

struct Recorder {
    database: Arc<dyn Database>,
    statements: Statements,
}

impl Recorder {
    fn session(&self, session: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(Recording { session, statements: Arc::clone(&self.statements) })
    }
}

impl Database for Recorder {
    fn query(&self, query: Statement) -> BoxFuture<'_, Result<Vec<Row>, Failed>> {
        note(&self.statements, &query);
        self.database.query(query)
    }

    fn begin_as(&self, who: &Who) -> Box<dyn Session> {
        self.session(self.database.begin_as(who))
    }

    fn apart(&self) -> Result<Arc<dyn Database>, StoreError> {
        let (database, statements) = (self.database.apart()?, Arc::clone(&self.statements));
        Ok(Arc::new(Self { database, statements }))
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

struct Recording {
    session: Box<dyn Session>,
    statements: Statements,
}

impl Session for Recording {
    fn run(
        &mut self,
        statements: Vec<Statement>,
        end: End,
    ) -> BoxFuture<'_, Result<Vec<Answer>, Failed>> {
        statements.iter().for_each(|statement| note(&self.statements, statement));
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

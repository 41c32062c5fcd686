//! Where consumers write: their transactions, signs of life, and what is known of tables.

use crate::append::Appending;
use crate::connection::{Place, Writer};
use crate::dialect::SqliteDialect;
use crate::files::Files;
use crate::life::Life;
use crate::readers::Readers;
use crate::row_watch::Watch;
use crate::schema;
use crate::statements;
use crate::transaction::{Shared, SqliteSession, run};
use crate::watch::Signals;
use anabranch_core::{Limits, StoreError};
use anabranch_store::database::{
    Blocked, Catalogue, Database, Dialect, Failed, LifeSign, OpenSessions, RowWatch, Session,
    Statement, Topic, Who,
};
use anabranch_store::migration::Schema;
use anabranch_store::{Clock, Emitter, Row};
use futures_util::future::BoxFuture;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// Where consumers write.
#[derive(Clone, Debug)]
pub(crate) struct Effects {
    writer: Writer,
    readers: Readers,
    dialect: SqliteDialect,
    at: Arc<str>,
    signals: Signals,
    life: Life,
    schema: Schema,
    files: Arc<Files>,
    appending: Arc<Appending>,
    events: Emitter,
}

impl Effects {
    pub(crate) fn new(
        (writer, readers): (&Writer, &Readers),
        dialect: SqliteDialect,
        (place, files): (&Place, &Arc<Files>),
        signals: Signals,
        schema: Schema,
        appending: &Arc<Appending>,
        events: Emitter,
    ) -> Self {
        let life = Life::beside(place.path.as_deref(), &dialect.namespace);
        let (at, files) = (place.at.clone().into(), Arc::clone(files));
        let appending = Arc::clone(appending);
        let (writer, readers) = (writer.clone(), readers.clone());
        Self { writer, readers, dialect, at, signals, life, schema, files, appending, events }
    }
}

impl Effects {
    /// Runs statements in a transaction of somebody else's.
    pub(crate) fn run_in(
        &self,
        connection: &Connection,
        statements: &[Statement],
    ) -> Result<(), Failed> {
        run(connection, &self.shared(), statements).map(drop)
    }

    fn shared(&self) -> Shared {
        Shared {
            at: Arc::clone(&self.at),
            signal: Topic::ALL.map(|topic| schema::signal(&self.dialect.namespace, topic)),
            signals: Arc::clone(&self.signals),
            files: Arc::clone(&self.files),
            appending: Arc::clone(&self.appending),
        }
    }
}

impl Database for Effects {
    fn begin_as(&self, _: &Who) -> Box<dyn Session> {
        let shared = Arc::new(self.shared());
        Box::new(SqliteSession::new(self.writer.clone(), shared))
    }

    fn query(&self, query: Statement) -> BoxFuture<'_, Result<Vec<Row>, Failed>> {
        let at = Arc::clone(&self.at);
        let job = move |connection: &Connection| statements::read(connection, &at, &query);
        Box::pin(async {
            let rows = self.readers.run(job).await.map_err(Failed::store)?;
            rows.map_err(|reason| Failed { statement: Some(0), reason })
        })
    }

    fn control(&self) -> Box<dyn Session> {
        // There is one writer, and a bound on how long a transaction may keep it.
        self.begin()
    }

    fn apart(&self) -> Result<Arc<dyn Database>, StoreError> {
        // There is one writer for all callers.
        Ok(Arc::new(self.clone()))
    }

    fn open_sessions(&self) -> OpenSessions {
        // A database in memory has one connection, which also reads.
        let by_use = BTreeMap::from([("writes", 1), ("reads", self.readers.open())]);
        OpenSessions { pool: Arc::as_ptr(&self.appending).addr(), by_use }
    }

    fn signals(&self, topic: Topic) -> watch::Receiver<u64> {
        self.signals[topic as usize].subscribe()
    }

    fn events(&self) -> Emitter {
        self.events.clone()
    }

    fn hears(&self) -> bool {
        true
    }

    fn show_life(&self, worker: &str) -> BoxFuture<'_, Result<LifeSign, StoreError>> {
        let shown = self
            .life
            .show(worker)
            .map_err(|error| StoreError::Other { at: self.at.to_string(), source: error.into() });
        Box::pin(std::future::ready(shown))
    }

    fn death_of(&self, worker: &str) -> BoxFuture<'static, ()> {
        Box::pin(self.life.clone().death_of(worker.to_owned()))
    }

    fn bury<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.life.remove(worker);
        Box::pin(std::future::ready(Ok(())))
    }

    fn blocked(&self) -> BoxFuture<'_, Result<Vec<Blocked>, StoreError>> {
        // The file does not say who holds its lock.
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn clock(&self) -> Clock {
        self.appending.clock.clone()
    }

    fn row_watch(&self) -> Box<dyn RowWatch + '_> {
        Box::new(Watch::of(&self.dialect.namespace))
    }

    fn catalogue(&self) -> Box<dyn Catalogue + '_> {
        Box::new(self)
    }

    fn newest_schema(&self) -> u32 {
        schema::MIGRATIONS.newest()
    }

    fn schema(&self) -> u32 {
        self.schema.version
    }

    fn require_newest_schema(&self) -> Result<(), StoreError> {
        schema::MIGRATIONS.require_newest(&self.at, &self.dialect.namespace, self.schema)
    }

    fn limits(&self) -> Limits {
        self.appending.limits
    }

    fn dialect(&self) -> &dyn Dialect {
        &self.dialect
    }

    fn at(&self) -> &str {
        &self.at
    }
}

//! Transactions of consumers, on the one thread that writes.
//!
//! A batch that ends with its commit is one job of that thread. A transaction that stays open (since
//! a handler reads in it) keeps the thread to itself until its end, for a bounded time: SQLite has
//! one writer, so all others would have to wait anyway.

use crate::append::{self, Appending};
use crate::connection::{Job, Place, Writer};
use crate::dialect::SqliteDialect;
use crate::error::store_error;
use crate::files::Files;
use crate::life::Life;
use crate::readers::Readers;
use crate::row_watch::Watch;
use crate::schema;
use crate::statements::{self, Prepared, command, many, one, reason, roll_back};
use crate::watch::Signals;
use anabranch_core::decide::Ids;
use anabranch_core::{Append, Limits, StoreError};
use anabranch_store::database::{
    Answer, Blocked, Catalogue, Database, Dialect, End, Expect, Failed, LifeSign, Reason, RowWatch,
    Session, Statement, Topic, Who, Work,
};
use anabranch_store::migration::Schema;
use anabranch_store::{Clock, Emitter, Row};
use futures_util::future::BoxFuture;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use tokio::sync::{oneshot, watch};

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
        Box::new(SqliteSession { writer: self.writer.clone(), shared, open: None })
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

type Answers = Result<Vec<Answer>, Failed>;

/// The next batch of an open transaction, and where to answer it.
struct Batch {
    statements: Vec<Statement>,
    end: End,
    reply: oneshot::Sender<Answers>,
}

/// What the writing thread needs to know.
struct Shared {
    at: Arc<str>,
    /// The statements that tell other processes, topic by topic.
    signal: [String; Topic::ALL.len()],
    /// Those of this process.
    signals: Signals,
    files: Arc<Files>,
    appending: Arc<Appending>,
}

struct SqliteSession {
    writer: Writer,
    shared: Arc<Shared>,
    /// Where the open transaction takes its next batch.
    open: Option<mpsc::Sender<Batch>>,
}

impl SqliteSession {
    async fn send(&mut self, statements: Vec<Statement>, end: End) -> Answers {
        let (reply, answer) = oneshot::channel();
        let batch = Batch { statements, end, reply };
        let sent = match self.open.take() {
            Some(batches) => {
                let sent = batches.send(batch).map_err(|_| held_too_long(&self.shared.at));
                self.open = Some(batches);
                sent
            }
            None => {
                let (batches, queue) = mpsc::channel();
                self.open = Some(batches);
                let shared = Arc::clone(&self.shared);
                let job: Job =
                    Box::new(move |connection| serve(connection, &shared, batch, &queue));
                self.writer.hand_over(job)
            }
        };
        let answers = match sent {
            Ok(()) => match answer.await {
                Ok(answers) => answers,
                Err(_) => Err(Failed::store(held_too_long(&self.shared.at))),
            },
            Err(error) => Err(Failed::store(error)),
        };
        if answers.is_err() || end == End::Commit {
            self.open = None;
        }
        answers
    }
}

impl Session for SqliteSession {
    fn run(&mut self, statements: Vec<Statement>, end: End) -> BoxFuture<'_, Answers> {
        Box::pin(self.send(statements, end))
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

fn held_too_long(at: &str) -> StoreError {
    let source = "a transaction was held open for too long without a statement, so it was rolled \
                  back for the sake of the others"
        .into();
    StoreError::Busy { at: at.to_owned(), source }
}

/// Serves one transaction, from its first batch to its end.
fn serve(
    connection: &mut Connection,
    shared: &Shared,
    first: Batch,
    batches: &mpsc::Receiver<Batch>,
) {
    let at = &shared.at;
    let mut batch = first;
    let (mut signals, mut appends) = ([false; Topic::ALL.len()], false);
    // What only reads needs no write lock, and may read a file that it cannot write.
    let reads = |one: &Statement| {
        matches!(&one.work, Work::Sql(sql, _) if one.expect == Expect::Rows
            && sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select")))
    };
    let only_reads = batch.end == End::Commit && batch.statements.iter().all(reads);
    let begin = if only_reads { "BEGIN" } else { "BEGIN IMMEDIATE" };
    let begin = || command(connection, begin).map_err(|error| store_error(at, error));
    if let Err(error) = shared.files.check().and_then(|()| begin()) {
        return answer(batch.reply, Err(Failed::store(error)));
    }
    loop {
        let mut answers = run(connection, shared, &batch.statements);
        for statement in &batch.statements {
            match statement.work {
                Work::Signal(topic) => signals[topic as usize] = true,
                Work::Appends(_) => appends = true,
                _ => {}
            }
        }
        if answers.is_ok() && batch.end == End::Commit {
            let committed = command(connection, "COMMIT");
            let committed = committed.map_err(|error| store_error(at, error));
            // Else it is stored where nobody finds it.
            let committed = committed.and_then(|()| shared.files.check());
            answers = committed.map_err(Failed::store).and(answers);
        }
        let End::Open { idle } = batch.end else {
            if answers.is_err() {
                roll_back(connection);
            } else {
                let told = shared.signals.iter().zip(signals).filter(|(_, tell)| *tell);
                told.for_each(|(sender, _)| sender.send_modify(|count| *count += 1));
                if appends {
                    shared.appending.appended();
                }
            }
            return answer(batch.reply, answers);
        };
        let failed = answers.is_err();
        answer(batch.reply, answers);
        if failed {
            return roll_back(connection);
        }
        match batches.recv_timeout(idle) {
            Ok(next) => batch = next,
            // Given up, or forgotten.
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                return roll_back(connection);
            }
        }
    }
}

/// Who asked may be gone meanwhile.
fn answer(reply: oneshot::Sender<Answers>, answers: Answers) {
    let _ = reply.send(answers);
}

fn run(connection: &Connection, shared: &Shared, statements: &[Statement]) -> Answers {
    let mut answers = Vec::with_capacity(statements.len());
    let mut prepared = Prepared::new(connection);
    for (number, statement) in statements.iter().enumerate() {
        let failed = |reason| Failed { statement: Some(number), reason };
        let answer = match &statement.work {
            Work::Sql(sql, values) => one(prepared.get(sql), values, statement.expect),
            Work::Rows(rows) => many(connection, rows),
            // It is asked after each statement anyway.
            Work::Begun => Ok(Answer::default()),
            Work::Signal(topic) => {
                one(prepared.get(&shared.signal[*topic as usize]), &[], Expect::Nothing)
            }
            Work::Appends(appends) => {
                let appends: Vec<&Append> = appends.iter().collect();
                match append::append_in(connection, &shared.appending, &appends, Ids::All) {
                    Ok(answers) => Ok(Answer::of_appends(answers).map_err(failed)?),
                    Err(error) => Err(error),
                }
            }
        };
        let answer = answer.map_err(|error| failed(reason(&shared.at, error, statement)))?;
        if connection.is_autocommit() {
            return Err(failed(Reason::TransactionEnded));
        }
        if matches!(statement.expect, Expect::Changes(changes) if changes != answer.changed) {
            return Err(failed(Reason::Unmatched));
        }
        answers.push(answer);
    }
    Ok(answers)
}

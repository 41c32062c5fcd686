//! What a backend must provide for effects: transactions of statements, sent in batches.
//!
//! Consumers and the cursors that fence them are written once, on this trait; `contract` proves
//! it for every backend.

mod catalogue;
mod column;
mod described;
mod dialect;
mod failed;
mod lexical;
mod written;

pub use catalogue::{Catalogue, EqualTexts, Kinds, Uniqueness, quoted, quoted_part};
pub use column::column;
pub use described::{Described, ONE_STATEMENT};
pub use dialect::{ColumnType, Dialect, ForRows, Given, Hint};
pub use failed::{Failed, Reason};
pub use lexical::Lexical;
pub use written::Written;

use crate::clock::Clock;
use crate::observe::Emitter;
use crate::sql_text::Sql;
use crate::value::{Row, Value};
use anabranch_core::{Append, AppendError, Appended, HashRule, Limits, StoreError};
use futures_util::future::BoxFuture;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A database that runs statements.
pub trait Database: Send + Sync {
    /// A transaction that has not begun yet: it takes no connection before its first batch. While it
    /// is open it goes by the name of `who`, where the database can show that.
    fn begin_as(&self, who: &Who) -> Box<dyn Session>;

    /// The same for a hook or a command.
    fn begin(&self) -> Box<dyn Session> {
        self.begin_as(&Who::hook())
    }

    /// The rows of a query that only reads, over a connection that reads. One that writes is refused. It sees
    /// what was committed when it began.
    fn query(&self, query: Statement) -> BoxFuture<'_, Result<Vec<Row>, Failed>>;

    /// The rows of one statement of the engine, as a transaction of its own. An error is without the statement:
    /// whoever asked says which table or query it is about.
    fn rows(&self, statement: Statement) -> BoxFuture<'_, Result<Vec<Row>, StoreError>> {
        Box::pin(async move {
            let rows = self.begin().rows(statement, End::Commit).await;
            rows.map_err(|failed| failed.into_store_error(self.at()))
        })
    }

    /// The same database with connections of its own, so that users of this one cannot use them
    /// up.
    fn apart(&self) -> Result<Arc<dyn Database>, StoreError>;

    /// The same on a connection that handlers never hold: for heartbeats and claims.
    fn control(&self) -> Box<dyn Session>;

    /// The same for the heartbeat of a worker, which neither handlers nor claims hold up. Where life is shown
    /// by a connection, it is that one, and the transaction fails with [`StoreError::Unsuitable`] if it
    /// no longer shows it.
    fn heartbeat(&self) -> Box<dyn Session> {
        self.control()
    }

    /// Opens the connections that a worker cannot do without, and keeps them open for as long as this
    /// database is there: the worker then claims nothing that it cannot run. If one cannot be opened, those
    /// that are not in use by others are closed again, so that workers that wait do not keep each other
    /// from running.
    fn secure_sessions(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What a worker is short of, if the database had no connection left for it a moment ago.
    fn shortage(&self) -> Option<Shortage> {
        None
    }

    /// The sessions that this process has open there, of all logs that share them. The database is not asked.
    fn open_sessions(&self) -> OpenSessions {
        OpenSessions::default()
    }

    /// Changes when somebody, here or in another process, has committed a [`Work::Signal`] on this
    /// topic. One may be lost, so who waits for something looks now and then by itself.
    fn signals(&self, topic: Topic) -> watch::Receiver<u64>;

    /// Whether signals and wakes of other processes arrive at once; else they are found by looking
    /// now and then.
    fn hears(&self) -> bool;

    /// Shows that a worker lives, until what is returned is dropped or the process is gone. If the
    /// sign is lost, with a connection for instance, it is shown again as soon as can be.
    fn show_life(&self, worker: &str) -> BoxFuture<'_, Result<LifeSign, StoreError>>;

    /// Resolves when a worker's sign of life is gone, and with it its process: well before its lease
    /// is over. Where nobody can tell it never does.
    fn death_of(&self, worker: &str) -> BoxFuture<'static, ()>;

    /// Ends the open transactions of a dead worker, whose locks its heirs would wait for, and removes
    /// what is left of its sign of life.
    fn bury<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The lanes that wait for a lock of somebody else.
    fn blocked(&self) -> BoxFuture<'_, Result<Vec<Blocked>, StoreError>>;

    /// How this database finds rows that are written for two slots.
    fn row_watch(&self) -> Box<dyn RowWatch + '_>;

    /// What is known of tables of users.
    fn catalogue(&self) -> Box<dyn Catalogue + '_>;

    /// Refuses a log that was opened with [`Options::take_older`] and is older than this program: for
    /// what its schema has no room for.
    ///
    /// [`Options::take_older`]: crate::Options::take_older
    fn require_newest_schema(&self) -> Result<(), StoreError>;

    /// The newest schema that this program knows.
    fn newest_schema(&self) -> u32;

    /// The schema of the log, as it was when it was opened: whoever uses what came
    /// [later](crate::migration::since) than the oldest one asks for it.
    fn schema(&self) -> u32;

    /// What an append may hold that is stored by [`Work::Appends`].
    fn limits(&self) -> Limits;

    /// Says what happens in this database to the observers of all who use it.
    fn events(&self) -> Emitter {
        Emitter::default()
    }

    /// The clock that it goes by, where that is not the machine's.
    fn clock(&self) -> Clock {
        Clock::machine()
    }

    /// Refuses a database of consumers whose events are on another server: nothing can be appended in its
    /// transactions.
    fn must_hold_log(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// How this database writes what differs.
    fn dialect(&self) -> &dyn Dialect;

    /// Which database this is, for messages. Never holds a password.
    fn at(&self) -> &str;
}

/// Finds rows that are written for two slots: a debug mode, by triggers on the tables of users.
///
/// What it notes is in the log's table `row_writers`: `consumer`, `relation`, `row_key`, `slot`.
pub trait RowWatch: Send + Sync {
    /// The query for the columns of a table's primary key, in order: rows of `name`.
    fn key_of(&self, table: &str) -> Statement;

    /// The statements that put a table with this key under watch; those that do so again change nothing.
    fn watch(&self, table: &str, key: &[String]) -> Vec<Statement>;

    /// The statements that take a table out of it.
    fn unwatch(&self, table: &str) -> Vec<Statement>;

    /// The statement that says for which slot the transaction writes from here on.
    fn writes_for(&self, consumer: &str, slot: u16, event: &str) -> Statement;

    /// The statement that says that it writes for none from here on.
    fn writes_for_none(&self) -> Statement;
}

/// A sign of life of a worker, for as long as it is kept.
pub type LifeSign = Box<dyn std::any::Any + Send + Sync>;

/// Whose transaction it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The worker; empty for hooks and commands.
    pub worker: String,
    /// What of it: a lane of a consumer.
    pub lane: String,
}

impl Who {
    /// How it is shown: PostgreSQL's `application_name` has room for 63 bytes.
    const MAX_NAME: usize = 63;

    /// A hook or a command.
    #[must_use]
    pub fn hook() -> Self {
        Self { worker: String::new(), lane: "hook".to_owned() }
    }

    /// A lane of a worker.
    #[must_use]
    pub fn lane(worker: &str, consumer: &str, lane: usize) -> Self {
        Self { worker: worker.to_owned(), lane: format!("{lane}/{consumer}") }
    }

    /// The name of the transaction.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = format!("{}{}", Self::prefix(&self.worker), self.lane);
        let is_plain = |c: char| c.is_ascii_graphic() && c != '\'' && c != '\\';
        if name.len() > Self::MAX_NAME || !name.chars().all(is_plain) {
            // Cut short, it must still be told from others.
            let hash = HashRule::fnv1a32(&name);
            name.retain(is_plain);
            name.truncate(Self::MAX_NAME - 9);
            name = format!("{name}~{hash:08x}");
        }
        name
    }

    /// What the names of all transactions of a worker begin with.
    #[must_use]
    pub fn prefix(worker: &str) -> String {
        // The end of an id is what differs: it begins with the time.
        let end: String = worker.chars().rev().take(12).collect();
        format!("anabranch/{}/", end.chars().rev().collect::<String>())
    }
}

/// Sessions that a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenSessions {
    /// Which they are: two databases that share theirs say the same.
    pub pool: usize,
    /// How many, by what they are for.
    pub by_use: BTreeMap<&'static str, usize>,
}

/// A worker has fewer connections than it could use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// How many transactions it can run at the same time.
    pub open: usize,
    /// How many it may.
    pub wanted: usize,
    /// What the database said.
    pub error: String,
}

/// A transaction that waits for a lock of somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Whose it is: [`Who::name`].
    pub name: String,
    /// The server processes that hold what it waits for.
    pub by: Vec<i32>,
    /// What the first of them does or did last.
    pub doing: String,
    /// For how long it has waited.
    pub wait: Duration,
}

/// One transaction. Dropped before its end, it is rolled back.
pub trait Session: Send {
    /// Runs statements in order, then ends the transaction or leaves it open, in one round trip
    /// where that can be. Answers each statement.
    ///
    /// After a failure the transaction is over and nothing of it is stored, except that the outcome
    /// of a commit whose connection was lost is unknown.
    fn run(
        &mut self,
        statements: Vec<Statement>,
        end: End,
    ) -> BoxFuture<'_, Result<Vec<Answer>, Failed>>;

    /// Runs one statement and answers with its rows.
    fn rows(&mut self, statement: Statement, end: End) -> BoxFuture<'_, Result<Vec<Row>, Failed>> {
        Box::pin(async move {
            let answers = self.run(vec![statement], end).await?;
            Ok(answers.into_iter().next().unwrap_or_default().rows)
        })
    }

    /// Prepares one statement in the transaction without running it: what it would be executed with and
    /// answer. The transaction stays open, or is begun by this, and may wait for so long for what comes next.
    ///
    /// A statement that is [refused](Reason::Refused) ends nothing: the next one may be described, or run.
    /// After any other failure the transaction is over.
    fn describe<'a>(
        &'a mut self,
        sql: &'a str,
        idle: Duration,
    ) -> BoxFuture<'a, Result<Described, Failed>>;

    /// Whether something has been run and the end is still to come.
    fn is_open(&self) -> bool;
}

/// What follows a batch of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Commit.
    Commit,
    /// More statements, though not later than this: a transaction that its owner forgets must not
    /// block others for ever.
    Open {
        /// How long the transaction may wait for its next batch.
        idle: Duration,
    },
}

/// One statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What to do.
    pub work: Work,
    /// What is expected of it.
    pub expect: Expect,
    /// How it was written, if that was not in Rust.
    pub written: Option<&'static Written>,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum Work {
    /// SQL with `$1`, `$2`, … for its values.
    Sql(Cow<'static, str>, Vec<Value>),
    /// Rows for a table, in one go.
    Rows(InsertRows),
    /// Valid appends to the log, decided in order, each on top of those before it. Their locks are taken
    /// together and in one order, so that batches do not wait for each other in a circle; they hold up other
    /// appends to the same streams and reads of their scope until the transaction is over, so only a fence
    /// should come after them. One that is refused fails the batch with [`Reason::Append`], and more of them
    /// than the database can lock at once with [`Reason::TooMuch`].
    Appends(Vec<Append>),
    /// Nothing, but the batch fails with [`Reason::TransactionEnded`] if this is not the transaction that
    /// it began: what comes after it is not done alone.
    Begun,
    /// Tells all who wait for [`Database::signals`], in every process, once it is committed. Several
    /// may become one.
    Signal(Topic),
}

/// What a signal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Cursors have become free, or something is requested of a worker.
    Workers,
    /// There are tasks to run.
    Tasks,
    /// Somebody waits for permits of a pool, or has given some back.
    Permits,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Workers, Self::Tasks, Self::Permits];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Workers => "signal",
            Self::Tasks => "tasks",
            Self::Permits => "permits",
        }
    }
}

/// Rows for a table, in one go.
#[derive(Clone, Debug)]
pub struct InsertRows {
    /// The table, quoted where it has to be.
    pub table: Cow<'static, str>,
    /// The columns.
    pub columns: Cow<'static, [&'static str]>,
    /// What follows the rows, such as `ON CONFLICT (id) DO UPDATE SET …`.
    pub conflict: Cow<'static, str>,
    /// The values, row by row.
    pub rows: Vec<Vec<Value>>,
}

/// What is expected of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: its rows, if it has any, are not wanted.
    Nothing,
    /// Its rows.
    Rows,
    /// That it changes exactly so many rows; else the transaction fails with [`Reason::Unmatched`].
    /// This is the fence. It matches only in the transaction that its batch began: if a statement has
    /// ended that, the batch fails with [`Reason::TransactionEnded`].
    Changes(u64),
}

impl Statement {
    /// A statement whose rows are not wanted.
    pub fn new(sql: impl Sql, values: Vec<Value>) -> Self {
        Self::of(Work::Sql(sql.into_text(), values), Expect::Nothing)
    }

    /// A statement whose rows are wanted.
    pub fn query(sql: impl Sql, values: Vec<Value>) -> Self {
        Self::of(Work::Sql(sql.into_text(), values), Expect::Rows)
    }

    /// Appends to the log.
    #[must_use]
    pub fn appends(appends: Vec<Append>) -> Self {
        Self::of(Work::Appends(appends), Expect::Nothing)
    }

    /// Fails if a statement before it has ended the transaction.
    #[must_use]
    pub fn begun() -> Self {
        Self::of(Work::Begun, Expect::Nothing)
    }

    /// Tells all who care for a topic that there is something to look at.
    #[must_use]
    pub fn signal(topic: Topic) -> Self {
        Self::of(Work::Signal(topic), Expect::Nothing)
    }

    /// An INSERT, UPDATE or DELETE without RETURNING that must change exactly so many rows.
    pub fn fence(sql: impl Sql, values: Vec<Value>, changes: u64) -> Self {
        Self::of(Work::Sql(sql.into_text(), values), Expect::Changes(changes))
    }

    /// Rows for a table.
    #[must_use]
    pub fn rows(insert: InsertRows) -> Self {
        Self::of(Work::Rows(insert), Expect::Nothing)
    }

    /// Says how it was written, if that was not in Rust.
    #[must_use]
    pub fn written(self, written: &'static Written) -> Self {
        Self { written: Some(written), ..self }
    }

    /// What one of its values is called, counted from 1: `$2`, or the name that its author gave it.
    #[must_use]
    pub fn value_name(&self, number: usize) -> Cow<'static, str> {
        let names = self.written.map_or(&[][..], |written| &written.values);
        match number.checked_sub(1).and_then(|place| names.get(place)) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("${number}")),
        }
    }

    fn of(work: Work, expect: Expect) -> Self {
        Self { work, expect, written: None }
    }
}

/// What a statement answered.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// How many rows it changed, or returned.
    pub changed: u64,
    /// Its rows, if they were wanted.
    pub rows: Vec<Row>,
}

impl Answer {
    /// Of [`Work::Appends`], from the answer to each append.
    pub fn of_appends(answers: Vec<Result<Appended, AppendError>>) -> Result<Self, Reason> {
        let mut changed = 0;
        for (number, answer) in answers.into_iter().enumerate() {
            let appended = answer.map_err(|error| Reason::Append { number, error })?;
            changed += appended.events().len() as u64;
        }
        Ok(Self { changed, rows: Vec::new() })
    }
}

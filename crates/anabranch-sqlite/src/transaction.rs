//! Transactions of consumers, on the one thread that writes.
//!
//! A batch that ends with its commit is one job of that thread. A transaction that stays open (since
//! a handler reads in it) keeps the thread to itself until its end, for a bounded time: SQLite has
//! one writer, so all others would have to wait anyway.

use crate::append::{self, Appending};
use crate::connection::{Job, Writer};
use crate::error::store_error;
use crate::files::Files;
use crate::statements::{self, Prepared, command, many, one, reason, roll_back};
use crate::watch::Signals;
use anabranch_core::decide::Ids;
use anabranch_core::{Append, StoreError};
use anabranch_store::database::{
    Answer, Described, End, Expect, Failed, Reason, Session, Statement, Topic, Work,
};
use futures_util::future::BoxFuture;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tokio::sync::oneshot;

pub(crate) type Answers = Result<Vec<Answer>, Failed>;

/// What comes next in an open transaction, and where to answer it.
enum Next {
    Batch { statements: Vec<Statement>, end: End, reply: oneshot::Sender<Answers> },
    Describe { sql: String, idle: Duration, reply: oneshot::Sender<Result<Described, Failed>> },
}

impl Next {
    /// Whether it only reads, and is all there is: then it needs no write lock, and may read a file that it
    /// cannot write.
    fn only_reads(&self) -> bool {
        let reads = |one: &Statement| {
            matches!(&one.work, Work::Sql(sql, _) if one.expect == Expect::Rows
                && sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select")))
        };
        matches!(self, Self::Batch { statements, end: End::Commit, .. }
            if statements.iter().all(reads))
    }

    fn refuse(self, failed: Failed) {
        match self {
            Self::Batch { reply, .. } => answer(reply, Err(failed)),
            Self::Describe { reply, .. } => answer(reply, Err(failed)),
        }
    }
}

/// What the writing thread needs to know.
pub(crate) struct Shared {
    pub(crate) at: Arc<str>,
    /// The statements that tell other processes, topic by topic.
    pub(crate) signal: [String; Topic::ALL.len()],
    /// Those of this process.
    pub(crate) signals: Signals,
    pub(crate) files: Arc<Files>,
    pub(crate) appending: Arc<Appending>,
}

/// A transaction that keeps the writing thread to itself from its first statement to its end.
pub(crate) struct SqliteSession {
    writer: Writer,
    shared: Arc<Shared>,
    /// Where the open transaction takes what comes next.
    open: Option<mpsc::Sender<Next>>,
}

impl SqliteSession {
    pub(crate) fn new(writer: Writer, shared: Arc<Shared>) -> Self {
        Self { writer, shared, open: None }
    }

    async fn run_batch(&mut self, statements: Vec<Statement>, end: End) -> Answers {
        let answers = self.send(|reply| Next::Batch { statements, end, reply }).await;
        if answers.is_err() || end == End::Commit {
            self.open = None;
        }
        answers
    }

    async fn describe_one(&mut self, sql: &str, idle: Duration) -> Result<Described, Failed> {
        let sql = sql.to_owned();
        let described = self.send(|reply| Next::Describe { sql, idle, reply }).await;
        if described.as_ref().is_err_and(|failed| !is_refused(failed)) {
            self.open = None;
        }
        described
    }

    async fn send<T>(
        &mut self,
        next: impl FnOnce(oneshot::Sender<Result<T, Failed>>) -> Next,
    ) -> Result<T, Failed> {
        let (reply, answer) = oneshot::channel();
        let next = next(reply);
        let sent = match self.open.take() {
            Some(batches) => {
                let sent = batches.send(next).map_err(|_| held_too_long(&self.shared.at));
                self.open = Some(batches);
                sent
            }
            None => {
                let (batches, queue) = mpsc::channel();
                self.open = Some(batches);
                let shared = Arc::clone(&self.shared);
                let job: Job = Box::new(move |connection| serve(connection, &shared, next, &queue));
                self.writer.hand_over(job)
            }
        };
        match sent {
            Ok(()) => match answer.await {
                Ok(answered) => answered,
                Err(_) => Err(Failed::store(held_too_long(&self.shared.at))),
            },
            Err(error) => Err(Failed::store(error)),
        }
    }
}

impl Session for SqliteSession {
    fn run(&mut self, statements: Vec<Statement>, end: End) -> BoxFuture<'_, Answers> {
        Box::pin(self.run_batch(statements, end))
    }

    fn describe<'a>(
        &'a mut self,
        sql: &'a str,
        idle: Duration,
    ) -> BoxFuture<'a, Result<Described, Failed>> {
        Box::pin(self.describe_one(sql, idle))
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

/// Whether the database refused a statement; else the transaction is over.
fn is_refused(failed: &Failed) -> bool {
    matches!(failed.reason, Reason::Refused { .. })
}

/// Serves one transaction, from what comes first to its end.
fn serve(connection: &mut Connection, shared: &Shared, first: Next, queue: &mpsc::Receiver<Next>) {
    let at = &shared.at;
    let mut next = first;
    let mut told = Told::default();
    let begin = if next.only_reads() { "BEGIN" } else { "BEGIN IMMEDIATE" };
    let begin = || command(connection, begin).map_err(|error| store_error(at, error));
    if let Err(error) = shared.files.check().and_then(|()| begin()) {
        return next.refuse(Failed::store(error));
    }
    loop {
        let idle = match next {
            Next::Batch { statements, end, reply } => {
                let answers = batch(connection, shared, &mut told, &statements, end);
                let failed = answers.is_err();
                if failed {
                    roll_back(connection);
                }
                answer(reply, answers);
                match end {
                    End::Open { idle } if !failed => idle,
                    _ => return,
                }
            }
            Next::Describe { sql, idle, reply } => {
                let described = statements::describe(connection, at, &sql);
                let described = described.map_err(|reason| Failed { statement: Some(0), reason });
                let is_over = described.as_ref().is_err_and(|failed| !is_refused(failed));
                if is_over {
                    roll_back(connection);
                }
                answer(reply, described);
                if is_over {
                    return;
                }
                idle
            }
        };
        match queue.recv_timeout(idle) {
            Ok(later) => next = later,
            // Given up, or forgotten.
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                return roll_back(connection);
            }
        }
    }
}

/// What a transaction tells others once it is committed.
#[derive(Default)]
struct Told {
    topics: [bool; Topic::ALL.len()],
    appends: bool,
}

/// Runs a batch, and commits if that is its end.
fn batch(
    connection: &Connection,
    shared: &Shared,
    told: &mut Told,
    statements: &[Statement],
    end: End,
) -> Answers {
    let answers = run(connection, shared, statements)?;
    for statement in statements {
        match statement.work {
            Work::Signal(topic) => told.topics[topic as usize] = true,
            Work::Appends(_) => told.appends = true,
            _ => {}
        }
    }
    if end == End::Commit {
        let committed = command(connection, "COMMIT");
        let committed = committed.map_err(|error| store_error(&shared.at, error));
        // Else it is stored where nobody finds it.
        committed.and_then(|()| shared.files.check()).map_err(Failed::store)?;
        let topics = shared.signals.iter().zip(told.topics).filter(|(_, tell)| *tell);
        topics.for_each(|(sender, _)| sender.send_modify(|count| *count += 1));
        if told.appends {
            shared.appending.appended();
        }
    }
    Ok(answers)
}

/// Who asked may be gone meanwhile.
fn answer<T>(reply: oneshot::Sender<Result<T, Failed>>, answered: Result<T, Failed>) {
    let _ = reply.send(answered);
}

/// Runs statements in the open transaction of a connection.
pub(crate) fn run(connection: &Connection, shared: &Shared, statements: &[Statement]) -> Answers {
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

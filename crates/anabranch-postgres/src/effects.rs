//! Transactions of consumers: batches of statements, pipelined.
//!
//! Begin, statements, fence and commit leave in one go; the answers are taken as they arrive. If one
//! fails, the server refuses those after it, and answers the commit with a rollback.

use crate::activity;
use crate::connection::{Lease, Server};
use crate::error::Failure;
use crate::life::Life;
use crate::ready::{OURS, Ready, Unmet};
use crate::row_watch::Watch;
use crate::schema::MIGRATIONS;
use crate::wake::Wake;
use anabranch_core::StoreError;
use anabranch_store::database::{
    Answer, Blocked, Database, Dialect, End, Expect, Failed, LifeSign, Reason, RowWatch, Session,
    Statement, Topic, Who, Work,
};
use anabranch_store::migration::Schema;
use deadpool_postgres::{Object, Pool};
use futures_util::future::BoxFuture;
use futures_util::{pin_mut, poll};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::Error;

/// How long a batch may take. Statements of users may be slow; a server that is gone must be
/// noticed all the same.
const PATIENCE: Duration = Duration::from_secs(300);

/// Sessions for heartbeats and claims, which handlers must not hold up.
const CONTROL_SESSIONS: usize = 2;

/// How a transaction begins: under the name of whoever it belongs to, so that its heirs find it if it
/// is left behind, and an operator if it waits.
fn begin(who: &Who) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL application_name = '{}'; \
         SET LOCAL {OURS} = 'yes'",
        who.name()
    )
}

/// Where consumers write.
pub(crate) struct Effects {
    server: Server,
    handlers: Pool,
    /// Never in the hands of handlers.
    control: Pool,
    /// The most sessions of handlers.
    sessions: usize,
    dialect: Dialect,
    wake: Arc<Wake>,
    schema: Schema,
}

impl Effects {
    pub(crate) fn new(
        server: Server,
        sessions: usize,
        dialect: Dialect,
        wake: Arc<Wake>,
        schema: Schema,
    ) -> Result<Self, StoreError> {
        let handlers = server.pool(sessions, "")?;
        let control = server.pool(CONTROL_SESSIONS, "")?;
        Ok(Self { server, handlers, control, sessions, dialect, wake, schema })
    }

    fn session(&self, pool: &Pool, who: &Who) -> Box<dyn Session> {
        let (server, pool) = (self.server.clone(), pool.clone());
        let (wake, begin) = (Arc::clone(&self.wake), begin(who));
        let signal = wake.signal_statement(Topic::Workers);
        Box::new(PostgresSession { server, pool, wake, signal, begin, open: None, tasks: false })
    }

    fn life(&self) -> Life {
        Life::new(self.server.clone(), &self.dialect.namespace)
    }
}

impl Database for Effects {
    fn begin_as(&self, who: &Who) -> Box<dyn Session> {
        self.session(&self.handlers, who)
    }

    fn apart(&self) -> Result<Arc<dyn Database>, StoreError> {
        let (dialect, wake) = (self.dialect.clone(), Arc::clone(&self.wake));
        Ok(Arc::new(Self::new(self.server.clone(), self.sessions, dialect, wake, self.schema)?))
    }

    fn control(&self) -> Box<dyn Session> {
        self.session(&self.control, &Who { worker: String::new(), lane: "control".to_owned() })
    }

    fn hears(&self) -> bool {
        self.wake.hears()
    }

    fn show_life(&self, worker: &str) -> BoxFuture<'_, Result<LifeSign, StoreError>> {
        let life = self.life().show(worker.to_owned());
        Box::pin(async { Ok(Box::new(life.await?) as LifeSign) })
    }

    fn death_of(&self, worker: &str) -> BoxFuture<'static, ()> {
        Box::pin(self.life().death_of(worker.to_owned()))
    }

    fn bury<'a>(&'a self, worker: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(activity::end_sessions(&self.control, &self.server, worker))
    }

    fn blocked(&self) -> BoxFuture<'_, Result<Vec<Blocked>, StoreError>> {
        Box::pin(activity::blocked(&self.control, &self.server))
    }

    fn signals(&self, topic: Topic) -> watch::Receiver<u64> {
        self.wake.signals(topic)
    }

    fn row_watch(&self) -> Box<dyn RowWatch + '_> {
        Box::new(Watch::of(&self.dialect.namespace))
    }

    fn columns_of(&self, table: &str) -> Statement {
        crate::columns::of(table)
    }

    fn newest_schema(&self) -> u32 {
        MIGRATIONS.newest()
    }

    fn require_newest_schema(&self) -> Result<(), StoreError> {
        MIGRATIONS.require_newest(self.at(), &self.dialect.namespace, self.schema)
    }

    fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    fn at(&self) -> &str {
        &self.server.at
    }
}

struct PostgresSession {
    server: Server,
    pool: Pool,
    wake: Arc<Wake>,
    /// The statement that tells all workers.
    signal: String,
    /// How a transaction begins.
    begin: String,
    open: Option<Lease>,
    /// Whether there are tasks to tell of once it is committed. That is done afterwards, since a NOTIFY
    /// takes a lock of the whole server, and there may be many.
    tasks: bool,
}

impl PostgresSession {
    async fn send(&mut self, statements: Vec<Statement>, end: End) -> Result<Vec<Answer>, Failed> {
        let at = &self.server.at;
        let (lease, begun) = match self.open.take() {
            Some(lease) => (lease, true),
            None => (Lease::of(&self.pool).await.map_err(|e| Failed::store(e.at(at)))?, false),
        };
        let session = lease.session();
        self.tasks |= statements.iter().any(|one| matches!(one.work, Work::Signal(Topic::Tasks)));
        let own = Own { signal: &self.signal, begin: &self.begin };
        let work = batch(session, own, &statements, begun, end);
        let Ok(result) = tokio::time::timeout(PATIENCE, work).await else {
            return Err(Failed::store(Failure::Silent(PATIENCE).at(at)));
        };
        match result {
            Ok(answers) => {
                match end {
                    End::Commit => {
                        lease.give_back();
                        if std::mem::take(&mut self.tasks) {
                            self.wake.announce(Topic::Tasks);
                        }
                    }
                    End::Open { .. } => self.open = Some(lease),
                }
                Ok(answers)
            }
            Err(failed) => {
                let is_local = failed.statement.is_some()
                    && failed.error.code().is_none()
                    && !failed.error.is_closed();
                let failure = Failure::from(failed.error);
                if failure.is_stale_plan() {
                    // A table has changed since it was prepared: on another session it is prepared
                    // anew.
                    let source = "a table has changed meanwhile".into();
                    return Err(Failed::store(StoreError::Busy { at: at.clone(), source }));
                }
                // A session that the server spoke to, or that a statement never reached, is sound
                // once it has rolled back; of others we do not know where they stand.
                if (failure.leaves_session_sound() || is_local)
                    && self.server.in_time(session.batch_execute("ROLLBACK")).await.is_ok()
                {
                    lease.give_back();
                }
                Err(match failed.fence {
                    Some(Unmet::Unmatched) => {
                        Failed { statement: failed.statement, reason: Reason::Unmatched }
                    }
                    // Which statement it was, nobody knows.
                    Some(Unmet::Ended) => {
                        Failed { statement: None, reason: Reason::TransactionEnded }
                    }
                    None => Failed { statement: failed.statement, reason: reason(at, &failure) },
                })
            }
        }
    }
}

impl Session for PostgresSession {
    fn run(
        &mut self,
        statements: Vec<Statement>,
        end: End,
    ) -> BoxFuture<'_, Result<Vec<Answer>, Failed>> {
        Box::pin(self.send(statements, end))
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

/// What lies in the statement is the statement's fault; the rest is the database's.
fn reason(at: &str, failure: &Failure) -> Reason {
    match failure.at(at) {
        StoreError::Other { source, .. } => Reason::Refused { said: source.to_string() },
        other => Reason::Store(other),
    }
}

/// The first error of a batch.
struct FirstError {
    statement: Option<usize>,
    error: Error,
    /// Set where the error is the fence's way to say something.
    fence: Option<Unmet>,
}

impl FirstError {
    fn at(statement: usize, error: Error) -> Self {
        Self { statement: Some(statement), error, fence: None }
    }
}

impl From<Error> for FirstError {
    fn from(error: Error) -> Self {
        Self { statement: None, error, fence: None }
    }
}

/// The statements that come from us.
#[derive(Clone, Copy)]
struct Own<'a> {
    signal: &'a str,
    begin: &'a str,
}

async fn batch(
    session: &Object,
    own: Own<'_>,
    statements: &[Statement],
    begun: bool,
    end: End,
) -> Result<Vec<Answer>, FirstError> {
    // What follows a change of tables can be prepared only after it.
    if let Some(change) = statements.iter().position(changes_tables)
        && change + 1 < statements.len()
    {
        let (before, after) = statements.split_at(change + 1);
        let open = End::Open { idle: PATIENCE };
        let mut answers = Box::pin(batch(session, own, before, begun, open)).await?;
        let rest = Box::pin(batch(session, own, after, true, end)).await;
        let shifted = |error: FirstError| FirstError {
            statement: error.statement.map(|later| later + change + 1),
            ..error
        };
        answers.extend(rest.map_err(shifted)?);
        return Ok(answers);
    }
    let begin = match (begun, end) {
        (true, _) => None,
        (false, End::Commit) => Some(own.begin.to_owned()),
        (false, End::Open { idle }) => {
            let (begin, idle) = (own.begin, idle.as_millis());
            Some(format!("{begin}; SET LOCAL idle_in_transaction_session_timeout = {idle}"))
        }
    };
    let begin = async {
        match &begin {
            Some(begin) => session.batch_execute(begin).await,
            None => Ok(()),
        }
    };
    let commit = async {
        match end {
            End::Commit => session.batch_execute("COMMIT").await,
            End::Open { .. } => Ok(()),
        }
    };
    pin_mut!(begin, commit);
    // The first poll of each sends it; so the order of the polls is the order on the wire. Preparing
    // may wait for somebody's lock: then it is known by then who waits.
    let mut begun = poll!(&mut begin);
    // All are prepared before the first is sent; else one could overtake another.
    let prepare = async {
        let mut ready = Vec::with_capacity(statements.len());
        for (number, statement) in statements.iter().enumerate() {
            let prepared = Ready::of(session, own.signal, statement).await;
            ready.push(prepared.map_err(|error| FirstError::at(number, error))?);
        }
        Ok::<_, FirstError>(ready)
    };
    pin_mut!(prepare);
    // An answer may come in pieces, of which the driver keeps two for whoever does not take them; then
    // it reads no further. So what comes before is taken while something later is waited for.
    let ready = poll_fn(|context| {
        if begun.is_pending() {
            begun = begin.as_mut().poll(context);
        }
        prepare.as_mut().poll(context)
    });
    let ready = ready.await?;
    let mut sent = Vec::with_capacity(ready.len());
    for (statement, ready) in statements.iter().zip(&ready) {
        let mut answer = Box::pin(ready.send(session, statement));
        let first = poll!(&mut answer);
        let is_sent = !matches!(first, Poll::Ready(Err(_)));
        sent.push((answer, first));
        if !is_sent {
            // A value that does not fit is found before it is sent: then the commit must not be.
            break;
        }
    }
    let is_whole =
        sent.len() == statements.len() && !matches!(sent.last(), Some((_, Poll::Ready(Err(_)))));
    let committed = if is_whole { poll!(&mut commit) } else { Poll::Pending };

    let first_of = |polled: Poll<Result<(), Error>>| match polled {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    };
    match first_of(begun) {
        Some(done) => done?,
        None => begin.await?,
    }
    let mut answers = Vec::with_capacity(sent.len());
    for (number, (answer, first)) in sent.into_iter().enumerate() {
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => answer.await,
        };
        answers.push(answer.map_err(|error| {
            let is_fence = matches!(statements[number].expect, Expect::Changes(_))
                || matches!(statements[number].work, Work::Begun);
            let fence = Unmet::said_by(&error).filter(|_| is_fence);
            FirstError { fence, ..FirstError::at(number, error) }
        })?);
    }
    match first_of(committed) {
        Some(done) => done?,
        None => commit.await?,
    }
    Ok(answers)
}

/// Whether a statement makes, changes or drops something that a later one may name.
fn changes_tables(statement: &Statement) -> bool {
    let Work::Sql(sql, _) = &statement.work else { return false };
    let word = sql.split_whitespace().next().unwrap_or_default();
    ["CREATE", "ALTER", "DROP"].iter().any(|change| word.eq_ignore_ascii_case(change))
}

//! Transactions of consumers: on which session they run, and what becomes of it when they fail.
//!
//! | module | subject |
//! |---|---|
//! | `batch` | a batch of statements, pipelined |
//! | `describe` | a statement that is prepared and not run |

mod batch;
mod describe;

use crate::append::Appending;
use crate::background::to_the_end;
use crate::connection::Server;
use crate::error::Failure;
use crate::link::{Check, Link};
use crate::pool::Pool;
use crate::ready::{OURS, Unmet};
use crate::refusal::{reason, too_many_locks};
use crate::session::{Lease, Lent};
use crate::wake::Wake;
use anabranch_core::StoreError;
use anabranch_store::database::{
    Answer, Described, End, Failed, Reason, Session, Statement, Topic, Who, Work,
};
use batch::{Done, FirstError, Own, What, in_pieces, is_append};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long a batch may take. Statements of users may be slow; a server that is gone must be
/// noticed all the same.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long a heartbeat waits for a lock: others wait for the session meanwhile, and it comes again.
const BEAT_LOCK_WAIT: Duration = Duration::from_millis(250);

/// How a transaction begins: under the name of whoever it belongs to, so that its heirs find it if it
/// is left behind, and an operator if it waits.
fn begin(who: &Who) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL application_name = '{}'; \
         SET LOCAL {OURS} = 'yes'",
        who.name()
    )
}

/// Where the session of a transaction comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// One pool, or another if the server has no connection left for the first.
    Pool(Pool, Option<Pool>),
    Link(Arc<Link>),
}

impl Source {
    async fn lend(&self, who: &str) -> Lent {
        match self {
            Self::Pool(pool, instead) => match (pool.get(who).await, instead) {
                (Err(failure), Some(instead)) if failure.is_full() => instead.get(who).await,
                (lent, _) => lent,
            },
            Self::Link(link) => link.lend().await,
        }
    }

    /// What to make sure of together with a transaction: whether the session that shows life still does.
    fn check(&self, lease: &Lease) -> Option<Check> {
        match self {
            Self::Pool(..) => None,
            Self::Link(link) => Some(link.check(lease.session())),
        }
    }
}

/// A transaction over a session that is lent to it.
pub(crate) struct PostgresSession {
    server: Server,
    source: Source,
    wake: Arc<Wake>,
    /// Whose transaction it is.
    who: String,
    /// The statement that tells all workers.
    signal: String,
    /// How a transaction begins.
    begin: String,
    open: Option<Lease>,
    /// Whether statements of users run in it: its session is made as good as new at the end.
    is_users: bool,
    /// The topics to signal once it is committed. That is done afterwards, since a NOTIFY takes a lock of
    /// the whole server, and there may be many.
    topics: [bool; Topic::ALL.len()],
    /// Whether there are events to tell of, likewise.
    events: bool,
    appending: Arc<Appending>,
}

impl PostgresSession {
    pub(crate) fn new(
        server: Server,
        source: Source,
        wake: Arc<Wake>,
        appending: &Arc<Appending>,
        who: &Who,
    ) -> Self {
        let (mut begin, who) = (begin(who), who.name());
        if matches!(source, Source::Link(_)) {
            begin += &format!("; SET LOCAL lock_timeout = {}", BEAT_LOCK_WAIT.as_millis());
        }
        let signal = wake.signal_statement(Topic::Workers);
        let (open, appending) = (None, Arc::clone(appending));
        let (topics, events, is_users) = ([false; Topic::ALL.len()], false, false);
        Self { server, source, wake, who, signal, begin, open, is_users, topics, events, appending }
    }

    /// It is a user's, and writes nothing: the server sees to that.
    pub(crate) fn only_reads(&mut self) {
        self.is_users = true;
        self.begin += "; SET TRANSACTION READ ONLY";
    }

    /// The same transaction, for a task that does not end with its caller.
    fn taken(&mut self) -> Self {
        Self {
            server: self.server.clone(),
            source: self.source.clone(),
            wake: Arc::clone(&self.wake),
            who: self.who.clone(),
            signal: self.signal.clone(),
            begin: self.begin.clone(),
            open: self.open.take(),
            is_users: self.is_users,
            topics: std::mem::take(&mut self.topics),
            events: std::mem::take(&mut self.events),
            appending: Arc::clone(&self.appending),
        }
    }

    async fn send_to_the_end(
        &mut self,
        statements: Vec<Statement>,
        end: End,
    ) -> Result<Vec<Answer>, Failed> {
        let mut taken = self.taken();
        let sent = to_the_end(async move {
            let answers = taken.send(statements, end).await;
            (answers, taken)
        });
        let (answers, mut taken) = sent.await;
        (self.open, self.is_users) = (taken.open.take(), taken.is_users);
        (self.topics, self.events) = (taken.topics, taken.events);
        answers
    }

    /// Its session, and whether the transaction has begun on it.
    async fn lend(&mut self) -> Result<(Lease, bool), Failed> {
        if let Some(lease) = self.open.take() {
            return Ok((lease, true));
        }
        let lent = self.source.lend(&self.who).await;
        Ok((lent.map_err(|failure| Failed::store(failure.at(&self.server.at)))?, false))
    }

    async fn send(&mut self, statements: Vec<Statement>, end: End) -> Result<Vec<Answer>, Failed> {
        let (lease, begun) = self.lend().await?;
        let at = &self.server.at;
        let session = lease.session();
        let mut statements = statements;
        let check = self.source.check(&lease);
        if check.is_some() {
            statements.push(Check::statement());
        }
        for statement in &statements {
            if let Work::Signal(topic @ (Topic::Tasks | Topic::Permits)) = statement.work {
                self.topics[topic as usize] = true;
            }
        }
        self.events |= statements.iter().any(is_append);
        // One that stays open has somebody who reads in it; one that does not ends with this mark. A link
        // serves nobody's statements, and holds what must not be taken back.
        self.is_users |= matches!(self.source, Source::Pool(..))
            && (matches!(end, End::Open { .. })
                || statements.iter().any(|statement| matches!(statement.work, Work::Begun)));
        let is_users = self.is_users;
        let own =
            Own { signal: &self.signal, begin: &self.begin, appending: &self.appending, is_users };
        let work = in_pieces(session, own, &statements, begun, end);
        // A heartbeat runs nobody's statements.
        let patience = if check.is_some() { self.server.silence } else { PATIENCE };
        let Ok(result) = tokio::time::timeout(patience, work).await else {
            return Err(Failed::store(Failure::Silent(patience).at(at)));
        };
        match result {
            Ok(Done { mut answers, is_clear }) => {
                if let Some(check) = check {
                    let answer = answers.pop().unwrap_or_default();
                    let checked = check.answered(&answer, &self.server.room);
                    checked.map_err(|failure| Failed::store(failure.at(at)))?;
                }
                match end {
                    End::Commit => {
                        // A session that somebody has left his marks on serves nobody else.
                        match is_clear {
                            true => lease.give_back(),
                            false => drop(lease),
                        }
                        let topics = std::mem::take(&mut self.topics);
                        let told = Topic::ALL.into_iter().zip(topics).filter(|(_, tell)| *tell);
                        told.for_each(|(topic, _)| self.wake.announce(topic));
                        if std::mem::take(&mut self.events) {
                            self.wake.appended();
                        }
                    }
                    End::Open { .. } => self.open = Some(lease),
                }
                Ok(answers)
            }
            Err(FirstError { statement, what: What::Refused(reason) }) => {
                if self.server.in_time(session.roll_back(is_users)).await.is_ok() {
                    lease.give_back();
                }
                Err(Failed { statement, reason })
            }
            Err(FirstError { statement, what: What::Said(error, fence) }) => {
                let is_local = statement.is_some() && error.code().is_none() && !error.is_closed();
                let failure = Failure::from(error);
                if failure.is_stale_plan() {
                    // A table has changed since it was prepared: on another session it is prepared
                    // anew.
                    let source = "a table has changed meanwhile".into();
                    return Err(Failed::store(StoreError::Busy { at: at.clone(), source }));
                }
                // A session that the server spoke to, or that a statement never reached, is sound
                // once it has rolled back; of others we do not know where they stand.
                if (failure.leaves_session_sound() || is_local)
                    && self.server.in_time(session.roll_back(is_users)).await.is_ok()
                {
                    lease.give_back();
                }
                Err(match fence {
                    Some(Unmet::Unmatched) => Failed { statement, reason: Reason::Unmatched },
                    // Which statement it was, nobody knows.
                    Some(Unmet::Ended) => {
                        Failed { statement: None, reason: Reason::TransactionEnded }
                    }
                    // With fewer appends it may do; and after those of a batch there may be no lock left
                    // for what comes then.
                    None if failure.is_out_of_locks() && statements.iter().any(is_append) => {
                        Failed { statement, reason: too_many_locks(at, &failure) }
                    }
                    None => {
                        let blamed = statement.and_then(|number| statements.get(number));
                        Failed { statement, reason: reason(at, &failure, blamed) }
                    }
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
        match self.source {
            Source::Pool(..) => Box::pin(self.send(statements, end)),
            Source::Link(_) => Box::pin(self.send_to_the_end(statements, end)),
        }
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

impl Drop for PostgresSession {
    /// What is open is rolled back, and its session is as good as before.
    fn drop(&mut self) {
        let (Some(lease), Ok(runtime)) = (self.open.take(), Handle::try_current()) else { return };
        let (server, is_users) = (self.server.clone(), self.is_users);
        runtime.spawn(async move {
            if server.in_time(lease.session().roll_back(is_users)).await.is_ok() {
                lease.give_back();
            }
        });
    }
}

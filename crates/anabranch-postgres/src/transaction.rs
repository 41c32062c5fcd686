//! Transactions of consumers: batches of statements, pipelined.
//!
//! Begin, statements, fence and commit leave in one go; the answers are taken as they arrive. If one
//! fails, the server refuses those after it, and answers the commit with a rollback.

use crate::append::{self, Appending};
use crate::background::to_the_end;
use crate::connection::Server;
use crate::error::Failure;
use crate::link::{Check, Link};
use crate::pool::Pool;
use crate::ready::{OURS, Ready, Unmet};
use crate::refusal::{reason, too_many_locks};
use crate::session::{Connection, Lease, Lent};
use crate::wake::Wake;
use anabranch_core::{Append, StoreError};
use anabranch_store::database::{
    Answer, End, Expect, Failed, Reason, Session, Statement, Topic, Who, Work,
};
use futures_util::future::BoxFuture;
use futures_util::{pin_mut, poll};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_postgres::Error;

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

    async fn send(&mut self, statements: Vec<Statement>, end: End) -> Result<Vec<Answer>, Failed> {
        let at = &self.server.at;
        let (lease, begun) = match self.open.take() {
            Some(lease) => (lease, true),
            None => {
                let lent = self.source.lend(&self.who).await;
                (lent.map_err(|failure| Failed::store(failure.at(at)))?, false)
            }
        };
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

/// The first error of a batch.
struct FirstError {
    statement: Option<usize>,
    what: What,
}

enum What {
    /// What the server or the driver said, and what that means where it is a fence's way to say something.
    Said(Error, Option<Unmet>),
    /// An append was refused.
    Refused(Reason),
}

impl FirstError {
    fn at(statement: usize, error: Error) -> Self {
        Self { statement: Some(statement), what: What::Said(error, None) }
    }
}

impl From<Error> for FirstError {
    fn from(error: Error) -> Self {
        Self { statement: None, what: What::Said(error, None) }
    }
}

/// The statements that come from us.
#[derive(Clone, Copy)]
struct Own<'a> {
    signal: &'a str,
    begin: &'a str,
    appending: &'a Appending,
    /// Whether there are others among them.
    is_users: bool,
}

/// What came of a batch.
struct Done {
    answers: Vec<Answer>,
    /// Whether its session is as good as new, if it is committed.
    is_clear: bool,
}

/// A batch in pieces: what follows a change of tables can be prepared only after it, and what is appended is
/// decided by what is read under its locks.
async fn in_pieces(
    session: &Connection,
    own: Own<'_>,
    statements: &[Statement],
    begun: bool,
    end: End,
) -> Result<Done, FirstError> {
    let last = statements.len().saturating_sub(1);
    let parts =
        |(place, one): (usize, &Statement)| is_append(one) || (place < last && changes_tables(one));
    let Some(place) = statements.iter().enumerate().position(parts) else {
        return batch(session, own, statements, begun, end).await;
    };
    let shifted = |error: FirstError| FirstError {
        statement: error.statement.map(|later| later + place + 1),
        ..error
    };
    let open = End::Open { idle: PATIENCE };
    let mut answers = match &statements[place].work {
        Work::Appends(appends) => {
            let mut answers = batch(session, own, &statements[..place], begun, open).await?.answers;
            let appended = append_all(session, own.appending, appends).await;
            answers.push(appended.map_err(|what| FirstError { statement: Some(place), what })?);
            answers
        }
        _ => batch(session, own, &statements[..=place], begun, open).await?.answers,
    };
    let rest = Box::pin(in_pieces(session, own, &statements[place + 1..], true, end)).await;
    let Done { answers: rest, is_clear } = rest.map_err(shifted)?;
    answers.extend(rest);
    Ok(Done { answers, is_clear })
}

/// Appends in the open transaction of a session.
async fn append_all(
    session: &Connection,
    appending: &Appending,
    appends: &[Append],
) -> Result<Answer, What> {
    let appends: Vec<&Append> = appends.iter().collect();
    let answers = appending.append_in(append::Session::Open(session), &appends).await;
    Answer::of_appends(answers.map_err(|error| What::Said(error, None))?).map_err(What::Refused)
}

fn is_append(statement: &Statement) -> bool {
    matches!(statement.work, Work::Appends(_))
}

async fn batch(
    session: &Connection,
    own: Own<'_>,
    statements: &[Statement],
    begun: bool,
    end: End,
) -> Result<Done, FirstError> {
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
    let clear = async {
        match end {
            End::Commit if own.is_users => session.clear().await,
            _ => Ok(()),
        }
    };
    pin_mut!(begin, commit, clear);
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
    let cleared = if is_whole { poll!(&mut clear) } else { Poll::Pending };

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
            FirstError { statement: Some(number), what: What::Said(error, fence) }
        })?);
    }
    match first_of(committed) {
        Some(done) => done?,
        None => commit.await?,
    }
    let is_clear = match first_of(cleared) {
        Some(done) => done.is_ok(),
        None => clear.await.is_ok(),
    };
    Ok(Done { answers, is_clear })
}

/// Whether a statement makes, changes or drops something that a later one may name.
fn changes_tables(statement: &Statement) -> bool {
    let Work::Sql(sql, _) = &statement.work else { return false };
    let word = sql.split_whitespace().next().unwrap_or_default();
    ["CREATE", "ALTER", "DROP"].iter().any(|change| word.eq_ignore_ascii_case(change))
}

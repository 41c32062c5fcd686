//! A batch of statements, pipelined.
//!
//! Begin, statements, fence and commit leave in one go; the answers are taken as they arrive. If one
//! fails, the server refuses those after it, and answers the commit with a rollback.

use super::PATIENCE;
use crate::append::{self, Appending};
use crate::ready::{Ready, Unmet};
use crate::session::Connection;
use anabranch_core::Append;
use anabranch_store::control;
use anabranch_store::database::{Answer, End, Expect, Reason, Statement, Work};
use futures_util::{pin_mut, poll};
use std::future::poll_fn;
use std::task::Poll;
use tokio_postgres::Error;

/// The first error of a batch.
pub(super) struct FirstError {
    pub(super) statement: Option<usize>,
    pub(super) what: What,
}

pub(super) enum What {
    /// What the server or the driver said, and what that means where it is a fence's way to say something.
    Said(Error, Option<Unmet>),
    /// An append was refused.
    Refused(Reason),
}

impl FirstError {
    pub(super) fn at(statement: usize, error: Error) -> Self {
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
pub(super) struct Own<'a> {
    pub(super) signal: &'a str,
    pub(super) begin: &'a str,
    pub(super) appending: &'a Appending,
    /// Whether there are others among them.
    pub(super) is_users: bool,
}

/// What came of a batch.
pub(super) struct Done {
    pub(super) answers: Vec<Answer>,
    /// Whether its session is as good as new, if it is committed.
    pub(super) is_clear: bool,
}

/// A batch in pieces: what follows a change of tables can be prepared only after it, and what is appended is
/// decided by what is read under its locks.
pub(super) async fn in_pieces(
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

pub(super) fn is_append(statement: &Statement) -> bool {
    matches!(statement.work, Work::Appends(_))
}

pub(super) async fn batch(
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
    control::begins_with(sql, &["CREATE", "ALTER", "DROP"])
}

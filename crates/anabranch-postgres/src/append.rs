//! A batch of appends: lock, look, decide, write.
//!
//! Two round trips, unless `one_statement` does it in one: the first begins the transaction, takes the locks and the mark, and reads what
//! the decision needs; the second writes the rows and commits. Each statement has a snapshot of its
//! own, so what is read after the locks is what they protect.

use crate::conditions::Conditions;
use crate::insert::{Insert, Texts};
use crate::keys::{self, Classes, Locks};
use crate::one_statement::Credit;
use crate::row::event_of_row;
use crate::schema::Sql;
use crate::session::{Connection, prepare};
use anabranch_core::decide::{Decision, Ids, Known, decide};
use anabranch_core::{Append, AppendError, Appended, Event, HashRule, Limits, Position, StreamId};
use futures_util::future::try_join;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, GenericClient, Row, Statement, Transaction};
use uuid::Uuid;

/// One append's answer; `Err` with the keys that it would have had to wait for.
pub(crate) type Answer = Result<Result<Appended, AppendError>, Vec<i32>>;

/// What to do about locks that others hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    /// Leave out the appends that would have to wait.
    Try,
    /// Wait for them.
    Wait,
}

/// Each statement must see what was committed before it, whatever the user's default is.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Who waits for a lock does so in short turns, since sessions that wait are few.
const BEGIN_AND_WAIT: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '250ms'";

/// What all batches of a log have in common.
#[derive(Debug)]
pub(crate) struct Appending {
    pub(crate) sql: Sql,
    pub(crate) classes: Classes,
    pub(crate) rule: HashRule,
    /// Whether the function may be called that admits a batch in one statement.
    pub(crate) at_once: AtomicBool,
    pub(crate) limits: Limits,
    pub(crate) inserts: Texts,
    pub(crate) credit: Credit,
}

/// Whose transaction it is.
#[derive(Clone, Copy)]
pub(crate) enum Session<'a> {
    /// One of our own, which this module begins and ends.
    Own(&'a Connection),
    /// One of our own that somebody else begins and ends.
    Open(&'a Connection),
    /// The caller's, which is only used.
    Callers(&'a Transaction<'a>),
}

/// A statement that is ready to be sent without a round trip before it. All statements of a
/// pipeline are prepared before the first one is sent; else one could overtake another.
pub(crate) enum Ready<'a> {
    Prepared(Statement),
    Text(&'a str),
}

pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

impl Session<'_> {
    pub(crate) async fn ready<'s>(&self, sql: &'s str) -> Result<Ready<'s>, Error> {
        match self {
            Self::Own(session) | Self::Open(session) => {
                prepare(session, sql).await.map(Ready::Prepared)
            }
            Self::Callers(_) => Ok(Ready::Text(sql)),
        }
    }

    /// The same for a statement of which there are few shapes, however many placeholders they have.
    pub(crate) async fn kept<'s>(&self, sql: &'s str) -> Result<Ready<'s>, Error> {
        match self {
            Self::Own(session) | Self::Open(session) => {
                session.prepare_cached(sql).await.map(Ready::Prepared)
            }
            Self::Callers(_) => Ok(Ready::Text(sql)),
        }
    }

    pub(crate) async fn query(
        &self,
        statement: &Ready<'_>,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Own(session) | Self::Open(session) => {
                statement.query(session.client(), values).await
            }
            Self::Callers(tx) => statement.query(*tx, values).await,
        }
    }

    async fn begin(&self, begin: &str) -> Result<(), Error> {
        match self {
            Self::Own(session) => session.batch_execute(begin).await,
            Self::Open(_) | Self::Callers(_) => Ok(()),
        }
    }

    async fn end(&self, how: &str) -> Result<(), Error> {
        match self {
            Self::Own(session) => session.batch_execute(how).await,
            Self::Open(_) | Self::Callers(_) => Ok(()),
        }
    }
}

impl Ready<'_> {
    async fn query(
        &self,
        client: &impl GenericClient,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Text(sql) => client.query_typed(sql, values).await,
            Self::Prepared(statement) => {
                let values: Vec<_> = values.iter().map(|(value, _)| *value).collect();
                client.query(statement, &values).await
            }
        }
    }
}

impl Appending {
    /// Stores a batch. After an error the session must not be used before a rollback.
    pub(crate) async fn append(
        &self,
        session: Session<'_>,
        batch: &[&Append],
        ids: Ids,
        locking: Locking,
    ) -> Result<Vec<Answer>, Error> {
        if self.at_once.load(Ordering::Relaxed)
            && ids == Ids::Callers
            && locking == Locking::Try
            && let Some(answers) = self.append_at_once(session, batch).await?
        {
            return Ok(answers.into_iter().map(Ok).collect());
        }
        let (missed, mut looked) = self.look(session, batch, ids, locking).await?;
        let mut answers: Vec<Option<Answer>> = Vec::with_capacity(batch.len());
        let mut ready = Vec::with_capacity(batch.len());
        let mut matches = Vec::with_capacity(batch.len());
        for (append, found) in batch.iter().zip(std::mem::take(&mut looked.matches)) {
            match waits_for(append, &missed) {
                keys if !keys.is_empty() => answers.push(Some(Err(keys))),
                _ => {
                    answers.push(None);
                    ready.push(*append);
                    matches.push(found);
                }
            }
        }
        let mut known = Known { matches, ..looked };
        let mut decision = decide(&ready, &known);
        if ids == Ids::Callers && !decision.doubtful().is_empty() {
            let stored = self.stored(session, decision.doubtful()).await?;
            if !stored.is_empty() {
                known.ids.extend(stored);
                decision = decide(&ready, &known);
            }
        }
        let positions = if decision.rows.is_empty() {
            session.end("ROLLBACK").await?;
            Vec::new()
        } else {
            self.write(session, &decision).await?
        };
        let mut decided = decision.settle(&positions).into_iter();
        let answer = |answer: Option<Answer>| {
            answer.unwrap_or_else(|| Ok(decided.next().expect("one for each that was ready")))
        };
        Ok(answers.into_iter().map(answer).collect())
    }

    /// Stores appends in a transaction that is not this module's: all of them are answered, since it waits for
    /// the locks.
    pub(crate) async fn append_in(
        &self,
        session: Session<'_>,
        appends: &[&Append],
    ) -> Result<Vec<Result<Appended, AppendError>>, Error> {
        let answers = self.append(session, appends, Ids::All, Locking::Wait).await?;
        Ok(answers.into_iter().map(|answer| answer.expect("who waits misses no lock")).collect())
    }

    /// The first round trip.
    async fn look<'a>(
        &self,
        session: Session<'_>,
        batch: &[&'a Append],
        ids: Ids,
        locking: Locking,
    ) -> Result<(HashSet<i32>, Known<'a>), Error> {
        let (lock_keys, alone) = keys::of_batch(batch);
        let streams = distinct_streams(batch);
        let categories: Vec<&str> = streams.iter().map(|stream| stream.category()).collect();
        let stream_ids: Vec<&str> = streams.iter().map(|stream| stream.id()).collect();
        let ids: Vec<Uuid> = batch.iter().flat_map(|append| ids.of(append)).collect();
        let conditions = Conditions::of(batch, &self.sql);

        let (begin, lock) = match locking {
            Locking::Try => (BEGIN, session.ready(&self.sql.try_lock).await?),
            Locking::Wait => (BEGIN_AND_WAIT, session.ready(&self.sql.wait_lock).await?),
        };
        let versions = session.ready(&self.sql.stream_versions).await?;
        let by_id = session.ready(&self.sql.events_by_id).await?;
        let checks = conditions.ready(session, &self.sql).await?;

        let lock_values: [Value<'_>; 4] = [
            (&self.classes.keys, Type::INT4),
            (&lock_keys, Type::INT4_ARRAY),
            (&alone, Type::BOOL_ARRAY),
            (&self.classes.marks, Type::INT4),
        ];
        let version_values: [Value<'_>; 2] =
            [(&categories, Type::TEXT_ARRAY), (&stream_ids, Type::TEXT_ARRAY)];
        let id_values: [Value<'_>; 1] = [(&ids, Type::UUID_ARRAY)];
        let stored = async {
            if ids.is_empty() { Ok(Vec::new()) } else { session.query(&by_id, &id_values).await }
        };
        // Polled in this order, so sent in this order. All are waited for, and the first failure in
        // their order is told: that of a statement that was skipped may be heard first.
        let (begun, missed, versions, stored, matches) = tokio::join!(
            biased;
            session.begin(begin),
            session.query(&lock, &lock_values),
            session.query(&versions, &version_values),
            stored,
            conditions.first_matches(session, &checks),
        );
        begun?;
        let (missed, versions, stored, matches) = (missed?, versions?, stored?, matches?);

        let missed = missed.iter().map(|row| row.get(0)).collect();
        let version = |row: &Row| row.get::<_, Option<i64>>(0).unwrap_or(0).unsigned_abs();
        let versions = streams.into_iter().zip(versions.iter().map(version)).collect();
        Ok((missed, Known { versions, ids: by_id_of(&stored)?, matches }))
    }

    /// The stored events with these ids.
    async fn stored(
        &self,
        session: Session<'_>,
        ids: &[Uuid],
    ) -> Result<HashMap<Uuid, Event>, Error> {
        let by_id = session.ready(&self.sql.events_by_id).await?;
        by_id_of(&session.query(&by_id, &[(&ids, Type::UUID_ARRAY)]).await?)
    }

    /// The second round trip.
    async fn write(
        &self,
        session: Session<'_>,
        decision: &Decision<'_>,
    ) -> Result<Vec<Position>, Error> {
        let rows = Insert::of(&decision.rows, self.rule, self.sql.keeps_traces);
        let sql = rows.sql(&self.sql, &self.inserts);
        let insert = session.ready(&sql).await?;
        let values = rows.values();
        // If the insert fails, the server answers the COMMIT with a rollback.
        let (rows, ()) = try_join(session.query(&insert, &values), session.end("COMMIT")).await?;
        Ok(rows.iter().map(|row| Position::from_i64(row.get(0))).collect())
    }
}

fn by_id_of(rows: &[Row]) -> Result<HashMap<Uuid, Event>, Error> {
    rows.iter().map(|row| event_of_row(row).map(|event| (event.id(), event))).collect()
}

fn distinct_streams<'a>(batch: &[&'a Append]) -> Vec<&'a StreamId> {
    let mut seen = HashSet::new();
    let streams = batch.iter().flat_map(|append| append.parts()).map(|part| &part.stream);
    streams.filter(|stream| seen.insert(*stream)).collect()
}

/// The keys that this append needs and the batch could not get.
fn waits_for(append: &Append, missed: &HashSet<i32>) -> Vec<i32> {
    if missed.is_empty() {
        return Vec::new();
    }
    let mut locks = Locks::new();
    keys::lock(&mut locks, append);
    locks.into_keys().filter(|key| missed.contains(key)).collect()
}

//! A batch of appends inside one transaction.

use crate::error::is_constraint;
use crate::read;
use crate::schema::Sql;
use anabranch_core::decide::{Decision, Ids, Known, Row, decide};
use anabranch_core::{Append, AppendError, Appended, HashRule, Limits, Position, Slots};
use anabranch_store::sql::{Names, positions};
use rusqlite::{Connection, TransactionBehavior, params};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use uuid::Uuid;

/// What all appends of a log have in common.
#[derive(Debug)]
pub(crate) struct Appending {
    pub(crate) sql: Sql,
    pub(crate) rule: HashRule,
    pub(crate) limits: Limits,
    pub(crate) wake: Arc<watch::Sender<u64>>,
}

impl Appending {
    pub(crate) fn new(sql: Sql, rule: HashRule, limits: Limits) -> Self {
        Self { sql, rule, limits, wake: Arc::new(watch::Sender::new(0)) }
    }

    /// Tells readers that events have been stored.
    pub(crate) fn appended(&self) {
        self.wake.send_modify(|count| *count += 1);
    }
}

type Answers = Vec<Result<Appended, AppendError>>;

/// Stores a batch in a transaction of its own.
pub(crate) fn append_batch(
    connection: &mut Connection,
    sql: &Sql,
    rule: HashRule,
    batch: &[&Append],
) -> rusqlite::Result<Answers> {
    match attempt(connection, sql, rule, batch, Ids::Callers) {
        Err(error) if is_constraint(&error) => attempt(connection, sql, rule, batch, Ids::All),
        other => other,
    }
}

fn attempt(
    connection: &mut Connection,
    sql: &Sql,
    rule: HashRule,
    batch: &[&Append],
    ids: Ids,
) -> rusqlite::Result<Answers> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let answers = append_in(&tx, sql, rule, batch, ids)?;
    tx.commit()?;
    Ok(answers)
}

/// Stores a batch in the transaction that `tx` is in.
pub(crate) fn append_in(
    tx: &Connection,
    sql: &Sql,
    rule: HashRule,
    batch: &[&Append],
    ids: Ids,
) -> rusqlite::Result<Answers> {
    let mut known = look(tx, sql, batch, ids)?;
    let mut decision = decide(batch, &known);
    if ids == Ids::Callers && look_up(tx, sql, decision.doubtful(), &mut known)? {
        decision = decide(batch, &known);
    }
    let positions = write(tx, sql, rule, &decision)?;
    Ok(decision.settle(&positions))
}

/// Reads what the decision needs. The write lock is held already, so nothing changes meanwhile.
fn look<'a>(
    tx: &Connection,
    sql: &Sql,
    batch: &[&'a Append],
    ids: Ids,
) -> rusqlite::Result<Known<'a>> {
    let events = &sql.events;
    let version =
        format!("SELECT max(version) FROM {events} WHERE category = ?1 AND stream_id = ?2");
    let mut version = tx.prepare_cached(&version)?;
    let mut known = Known::default();
    for append in batch {
        for part in append.parts() {
            if known.versions.contains_key(&part.stream) {
                continue;
            }
            let stream = (part.stream.category(), part.stream.id());
            let found: Option<i64> = version.query_row(stream, |row| row.get(0))?;
            known.versions.insert(&part.stream, found.unwrap_or(0) as u64);
        }
        look_up(tx, sql, &ids.of(append).collect::<Vec<_>>(), &mut known)?;
        known.matches.push(first_match(tx, sql, append)?);
    }
    Ok(known)
}

/// Looks up ids; says whether one is in the log.
fn look_up(
    tx: &Connection,
    sql: &Sql,
    ids: &[Uuid],
    known: &mut Known<'_>,
) -> rusqlite::Result<bool> {
    let mut found = false;
    for id in ids {
        let stored = read::find(tx, sql, *id)?;
        found |= stored.is_some();
        known.ids.extend(stored.map(|stored| (*id, stored)));
    }
    Ok(found)
}

/// The first stored event that breaks an append's condition.
fn first_match(tx: &Connection, sql: &Sql, append: &Append) -> rusqlite::Result<Option<Position>> {
    let Some(condition) = append.condition() else {
        return Ok(None);
    };
    let position = |row: &rusqlite::Row<'_>| Ok(Position::from_i64(row.get(0)?));
    let after = condition.after.as_i64();
    if condition.query.is_all() {
        let first = format!("SELECT min(position) FROM {} WHERE position > ?1", sql.events);
        let found: Option<i64> = tx.prepare_cached(&first)?.query_row([after], |row| row.get(0))?;
        return Ok(found.map(Position::from_i64));
    }
    let names = Names { placeholder: '?', events: &sql.events, tags: &sql.tags };
    let matching = positions(&condition.query, names, false);
    let mut statement = tx.prepare_cached(&matching.sql)?;
    for (number, value) in [after, i64::MAX, 1].into_iter().enumerate() {
        statement.raw_bind_parameter(number + 1, value)?;
    }
    for (number, text) in matching.texts.iter().enumerate() {
        statement.raw_bind_parameter(number + 4, text)?;
    }
    let mut rows = statement.raw_query();
    rows.next()?.map(position).transpose()
}

/// Writes the rows and returns their positions.
fn write(
    tx: &Connection,
    sql: &Sql,
    rule: HashRule,
    decision: &Decision<'_>,
) -> rusqlite::Result<Vec<Position>> {
    if decision.rows.is_empty() {
        return Ok(Vec::new());
    }
    // Read anew each time: others may have deleted events meanwhile.
    let last: i64 = tx.prepare_cached(&sql.last_drawn)?.query_row((), |row| row.get(0))?;
    let mut event = tx.prepare_cached(&sql.insert_event)?;
    let mut tag = tx.prepare_cached(&format!("INSERT INTO {} VALUES (?1, ?2)", sql.tags))?;
    let recorded_us = now_us();
    let mut positions = Vec::with_capacity(decision.rows.len());
    for (row, position) in decision.rows.iter().zip(last + 1..) {
        insert(&mut event, rule, row, position, recorded_us)?;
        for name in row.event.tags() {
            tag.execute(params![name, position])?;
        }
        positions.push(Position::from_i64(position));
    }
    Ok(positions)
}

fn insert(
    statement: &mut rusqlite::Statement<'_>,
    rule: HashRule,
    row: &Row<'_>,
    position: i64,
    recorded_us: i64,
) -> rusqlite::Result<usize> {
    let body = row.event.body(row.stream);
    let slots = Slots::of(rule, body.stream_id, body.customer, body.correlation);
    statement.execute(params![
        position,
        row.event.id().as_bytes(),
        body.category,
        body.stream_id,
        row.version as i64,
        body.event_type,
        body.schema_version,
        body.data,
        body.metadata,
        body.correlation,
        body.causation,
        body.tenant,
        body.customer,
        body.tags.as_ref(),
        recorded_us,
        slots.entity.get(),
        slots.customer.map(|slot| slot.get()),
        slots.saga.map(|slot| slot.get()),
    ])
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Place;
    use crate::error::store_error;
    use crate::schema;
    use anabranch_core::{Expected, NewEvent, StoreError, StreamId};
    use anabranch_store::{Durability, Namespace, Options};

    /// The database may not grow: SQLite says that the disk is full, in the middle of a batch.
    #[test]
    fn a_full_disk_is_named_and_nothing_is_half_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = Some(directory.path().join("log.db"));
        let (durability, at) = (Durability::Full, "sqlite:log.db".to_owned());
        let place = Place { path, read_only: false, create: true, durability, at };
        let mut connection = place.open().unwrap();
        let options = Options::default();
        let (rule, _) = schema::prepare(
            &mut connection,
            &place,
            &options,
            &anabranch_store::Emitter::default(),
        )
        .unwrap();
        let sql = Sql::of(&Namespace::default());
        connection.pragma_update(None, "max_page_count", 60).unwrap();

        let count = |connection: &Connection| -> i64 {
            let count = "SELECT count(*) FROM anabranch_events";
            connection.query_row(count, (), |row| row.get(0)).unwrap()
        };
        let stream = StreamId::new("Order", "1").unwrap();
        let event = |_| NewEvent::new("E", "x".repeat(500)).tag("t");
        let append = || Append::new().to(&stream, Expected::Any, (0..20).map(event));
        let error = loop {
            let before = count(&connection);
            match append_batch(&mut connection, &sql, rule, &[&append()]) {
                Ok(answers) => assert!(answers.into_iter().all(|answer| answer.is_ok())),
                Err(error) => {
                    assert_eq!(count(&connection), before, "nothing of the batch is there");
                    break store_error(&place.at, error);
                }
            }
        };
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        assert!(error.to_string().contains("free some space"), "{error}");

        connection.pragma_update(None, "max_page_count", 600).unwrap();
        let answers = append_batch(&mut connection, &sql, rule, &[&append()]).unwrap();
        assert!(answers[0].is_ok(), "with space again, it goes on");
    }
}

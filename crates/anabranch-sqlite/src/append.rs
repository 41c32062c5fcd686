//! A batch of appends inside one transaction.

use crate::error::is_constraint;
use crate::read;
use crate::schema::Sql;
use crate::statements::{command, roll_back};
use anabranch_core::decide::{Decision, Ids, Known, Row, decide};
use anabranch_core::{Append, AppendError, Appended, HashRule, Limits, Position, Slots};
use anabranch_store::Clock;
use anabranch_store::sql::{Names, positions};
use rusqlite::{Connection, params};
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;

/// What all appends of a log have in common.
#[derive(Debug)]
pub(crate) struct Appending {
    pub(crate) sql: Sql,
    pub(crate) rule: HashRule,
    pub(crate) limits: Limits,
    pub(crate) wake: Arc<watch::Sender<u64>>,
    pub(crate) clock: Clock,
}

impl Appending {
    pub(crate) fn new(sql: Sql, rule: HashRule, limits: Limits, clock: Clock) -> Self {
        Self { sql, rule, limits, wake: Arc::new(watch::Sender::new(0)), clock }
    }

    /// Tells readers that events have been stored.
    pub(crate) fn appended(&self) {
        self.wake.send_modify(|count| *count += 1);
    }
}

type Answers = Vec<Result<Appended, AppendError>>;

/// Stores a batch in a transaction of its own.
pub(crate) fn append_batch(
    connection: &Connection,
    to: &Appending,
    batch: &[&Append],
) -> rusqlite::Result<Answers> {
    match attempt(connection, to, batch, Ids::Callers) {
        Err(error) if is_constraint(&error) => attempt(connection, to, batch, Ids::All),
        other => other,
    }
}

fn attempt(
    connection: &Connection,
    to: &Appending,
    batch: &[&Append],
    ids: Ids,
) -> rusqlite::Result<Answers> {
    command(connection, "BEGIN IMMEDIATE")?;
    let answers = append_in(connection, to, batch, ids);
    let stored = answers.and_then(|answers| command(connection, "COMMIT").map(|()| answers));
    if stored.is_err() {
        roll_back(connection);
    }
    stored
}

/// Stores a batch in the transaction that `tx` is in.
pub(crate) fn append_in(
    tx: &Connection,
    to: &Appending,
    batch: &[&Append],
    ids: Ids,
) -> rusqlite::Result<Answers> {
    let sql = &to.sql;
    let mut known = look(tx, sql, batch, ids)?;
    let mut decision = decide(batch, &known);
    if ids == Ids::Callers && look_up(tx, sql, decision.doubtful(), &mut known)? {
        decision = decide(batch, &known);
    }
    let positions = write(tx, to, &decision)?;
    Ok(decision.settle(&positions))
}

/// Reads what the decision needs. The write lock is held already, so nothing changes meanwhile.
fn look<'a>(
    tx: &Connection,
    sql: &Sql,
    batch: &[&'a Append],
    ids: Ids,
) -> rusqlite::Result<Known<'a>> {
    let mut version = tx.prepare_cached(&sql.version)?;
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
    to: &Appending,
    decision: &Decision<'_>,
) -> rusqlite::Result<Vec<Position>> {
    if decision.rows.is_empty() {
        return Ok(Vec::new());
    }
    let Appending { sql, rule, clock, .. } = to;
    // Read anew each time: others may have deleted events meanwhile.
    let last: i64 = tx.prepare_cached(&sql.last_drawn)?.query_row((), |row| row.get(0))?;
    let mut event = tx.prepare_cached(&sql.insert_event)?;
    let mut tag = tx.prepare_cached(&sql.insert_tag)?;
    let recorded_us = clock.now().as_microsecond();
    let mut positions = Vec::with_capacity(decision.rows.len());
    for (row, position) in decision.rows.iter().zip(last + 1..) {
        insert(&mut event, *rule, row, position, recorded_us)?;
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
    let slots = Slots::from_keys(rule, body.stream_id, body.customer, body.correlation);
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
        row.event.trace().map(|trace| trace.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Place;
    use crate::error::store_error;
    use crate::schema;
    use anabranch_core::{Expected, NewEvent, Query, StoreError, StreamId};
    use anabranch_store::{Durability, Emitter, Filter, Namespace, Options, ReadRequest, Scope};
    use rusqlite::StatementStatus;

    fn opened(directory: &tempfile::TempDir) -> (Connection, Place, Appending) {
        let path = Some(directory.path().join("log.db"));
        let (durability, at) = (Durability::Full, "sqlite:log.db".to_owned());
        let clock = Clock::machine();
        let place = Place { path, read_only: false, create: true, durability, at, clock };
        let mut connection = place.open().unwrap();
        let (options, events) = (Options::default(), Emitter::new(false));
        let (rule, _) = schema::prepare(&mut connection, &place, &options, &events).unwrap();
        let sql = Sql::of(&Namespace::default(), schema::MIGRATIONS.newest());
        let to = Appending::new(sql, rule, options.limits, Clock::machine());
        (connection, place, to)
    }

    /// To plan a statement takes longer than to run it, and SQLite plans one again that it thinks may do better
    /// with other values.
    #[test]
    fn statements_are_planned_once() {
        let directory = tempfile::tempdir().unwrap();
        let (connection, _, to) = opened(&directory);
        let stream = StreamId::new("Order", "1").unwrap();
        let query = Query::types(["E"]).tagged(["t", "u"]).or(Query::tags(["t"]));
        let read = |scope: Scope, backwards| {
            let (cursor, up_to, filter) =
                (u64::from(backwards) << 60, Position::END, Filter::default());
            ReadRequest { scope, filter, cursor, up_to, backwards, max_events: 7 }
        };
        let requests =
            [Scope::Stream(stream.clone()), Scope::Log(Query::all()), Scope::Log(query.clone())]
                .map(|scope| [false, true].map(|backwards| read(scope.clone(), backwards)));
        let requests = requests.as_flattened();
        for number in 0..5 {
            let event = NewEvent::new("E", number).with_tag("t").with_tag("u");
            let append = Append::new()
                .to(&stream, Expected::Exact(number), [event])
                .unless(query.clone(), Position::new(number));
            assert!(append_batch(&connection, &to, &[&append]).unwrap()[0].is_ok());
            for request in requests {
                let page = read::read(&connection, &to.sql, request).unwrap();
                assert_eq!(page.events.len() as u64, number + 1, "{request:?}");
            }
        }
        let planned_again = |statement: &rusqlite::CachedStatement<'_>| {
            assert!(statement.get_status(StatementStatus::Run) >= 4, "it is the one that ran");
            statement.get_status(StatementStatus::RePrepare)
        };
        let Sql { insert_event, insert_tag, version, last_drawn, .. } = &to.sql;
        let names = Names { placeholder: '?', events: &to.sql.events, tags: &to.sql.tags };
        let condition = positions(&query, names, false).sql;
        for sql in [insert_event, insert_tag, version, last_drawn, &condition] {
            assert_eq!(planned_again(&connection.prepare_cached(sql).unwrap()), 0, "{sql}");
        }
        for request in requests {
            let statement = read::prepare(&connection, &to.sql, request, 7, None).unwrap();
            assert_eq!(planned_again(&statement), 0, "{request:?}");
        }
    }

    /// The database may not grow: SQLite says that the disk is full, in the middle of a batch.
    #[test]
    fn a_full_disk_is_named_and_nothing_is_half_written() {
        let directory = tempfile::tempdir().unwrap();
        let (connection, place, to) = opened(&directory);
        connection.pragma_update(None, "max_page_count", 60).unwrap();

        let count = |connection: &Connection| -> i64 {
            let count = "SELECT count(*) FROM anabranch_events";
            connection.query_row(count, (), |row| row.get(0)).unwrap()
        };
        let stream = StreamId::new("Order", "1").unwrap();
        let event = |_| NewEvent::new("E", "x".repeat(500)).with_tag("t");
        let append = || Append::new().to(&stream, Expected::Any, (0..20).map(event));
        let error = loop {
            let before = count(&connection);
            match append_batch(&connection, &to, &[&append()]) {
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
        let answers = append_batch(&connection, &to, &[&append()]).unwrap();
        assert!(answers[0].is_ok(), "with space again, it goes on");
    }
}

//! One page of events.

use crate::schema::Sql;
use anabranch_core::cursor::Anchor;
use anabranch_core::event::{Body, TAG_SEPARATOR};
use anabranch_core::{Event, Position, Query, Slot, SlotColumn, Slots};
use anabranch_store::sql::{Names, positions};
use anabranch_store::{Filter, Look, Page, PageEnd, ReadRequest, Scope, Seen, SlotFilter};
use rusqlite::types::{FromSqlError, FromSqlResult, Type, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use std::borrow::Cow;
use uuid::Uuid;

/// Reads a page.
pub(crate) fn read(
    connection: &Connection,
    sql: &Sql,
    request: &ReadRequest,
) -> rusqlite::Result<Page> {
    let max_events = request.max_events.min(Page::MAX_EVENTS);
    if let Scope::Log(query) = &request.scope
        && request.is_scan()
    {
        return scan(connection, sql, request, query, max_events);
    }
    let head = head_for(connection, sql, request)?;
    let mut statement = prepare(connection, sql, request, max_events, head)?;
    let mut rows = statement.raw_query();
    let mut page = Page { events: Vec::new(), cursor: request.cursor, end: PageEnd::Last };
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let event = event_of_row(row)?;
        bytes += event.text_bytes();
        page.cursor = match request.scope {
            Scope::Stream(_) => event.version(),
            Scope::Log(_) => event.position().get(),
        };
        page.events.push(event);
        if page.events.len() == max_events || bytes >= Page::MAX_BYTES {
            page.end = PageEnd::More;
            return Ok(page);
        }
    }
    if let Some(head) = head {
        page.cursor = page.cursor.max(head.get());
    }
    Ok(page)
}

/// The event with an id.
pub(crate) fn find(
    connection: &Connection,
    sql: &Sql,
    id: Uuid,
) -> rusqlite::Result<Option<Event>> {
    let mut by_id = connection.prepare_cached(&format!("{} WHERE id = ?1", sql.event_columns))?;
    by_id.query_row([id.as_bytes()], event_of_row).optional()
}

/// What stands where, in one transaction and so at one moment; no identity if the log is older than that.
pub(crate) fn look(
    connection: &Connection,
    sql: &Sql,
    look: &Look,
) -> rusqlite::Result<(Option<String>, Seen)> {
    let at_one_moment = connection.unchecked_transaction()?;
    let events = &sql.events;
    let anchor = |row: &Row<'_>| {
        let (id, recorded_us) = (Uuid::from_bytes(row.get(1)?), row.get(2)?);
        Ok(Anchor { position: Position::from_i64(row.get(0)?), id, recorded_us })
    };
    let last = |up_to: Position| {
        let last = format!(
            "SELECT position, id, recorded_us FROM {events} WHERE position <= ?1 \
             ORDER BY position DESC LIMIT 1"
        );
        connection.prepare_cached(&last)?.query_row([up_to.as_i64()], anchor).optional()
    };
    let at = format!("SELECT position, id, recorded_us FROM {events} WHERE position = ?1");
    let mut by_position = connection.prepare_cached(&at)?;
    let mut found = Vec::with_capacity(look.anchors.len());
    for wanted in &look.anchors {
        found.push(by_position.query_row([wanted.position.as_i64()], anchor).optional()?);
    }
    let first = format!("SELECT min(position) FROM {events}");
    let first: Option<i64> = connection.prepare_cached(&first)?.query_row((), |row| row.get(0))?;
    let identity = connection.prepare_cached(&sql.identity)?.query_row((), |row| row.get(0));
    let seen = Seen {
        identity: Uuid::nil(),
        first: first.map(Position::from_i64),
        last: last(look.up_to)?,
        head: last(Position::END)?,
        found,
    };
    let identity = identity.optional()?;
    drop(by_position);
    at_one_moment.commit()?;
    Ok((identity, seen))
}

/// The end of the log, for a forward read of some of its events: all up to there is looked at, however
/// few match, so the next page need not look again.
fn head_for(
    connection: &Connection,
    sql: &Sql,
    request: &ReadRequest,
) -> rusqlite::Result<Option<Position>> {
    match &request.scope {
        Scope::Log(query) if !query.is_all() && !request.backwards => {
            let head = format!("SELECT coalesce(max(position), 0) FROM {}", sql.events);
            let head = connection.prepare_cached(&head)?.query_row((), |row| row.get(0))?;
            Ok(Some(Position::from_i64(head)))
        }
        _ => Ok(None),
    }
}

/// Reads a page of the events that pass a filter. A row that does not costs a step and a look at one
/// or two of its columns: nothing of it is copied.
fn scan(
    connection: &Connection,
    sql: &Sql,
    request: &ReadRequest,
    query: &Query,
    max_events: usize,
) -> rusqlite::Result<Page> {
    let window = Position::new(request.cursor.saturating_add(Filter::WINDOW));
    let bound = request.up_to.min(window);
    let mut statement = connection.prepare_cached(&format!(
        "{} WHERE position > ?1 AND position <= ?2 ORDER BY position",
        sql.event_columns
    ))?;
    let mut rows = statement.query([Position::new(request.cursor).as_i64(), bound.as_i64()])?;
    let mut page = Page { events: Vec::new(), cursor: request.cursor, end: PageEnd::Last };
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        page.cursor = Position::from_i64(row.get(0)?).get();
        if !passes(row, &request.filter, query)? {
            continue;
        }
        let event = event_of_row(row)?;
        bytes += event.text_bytes();
        page.events.push(event);
        if page.events.len() == max_events || bytes >= Page::MAX_BYTES {
            page.end = PageEnd::More;
            return Ok(page);
        }
    }
    if page.cursor < bound.get() {
        // Beyond the end, or in a hole that somebody made by deleting events.
        let next = format!("SELECT min(position) FROM {} WHERE position > ?1", sql.events);
        let after = [Position::new(page.cursor).as_i64()];
        let next: Option<i64> =
            connection.prepare_cached(&next)?.query_row(after, |row| row.get(0))?;
        let Some(next) = next.map(Position::from_i64) else { return Ok(page) };
        // Positions only grow, so nothing will ever be stored before an event that is there.
        page.cursor = bound.get().min(next.get() - 1).max(page.cursor);
    }
    page.end = PageEnd::More;
    Ok(page)
}

fn passes(row: &Row<'_>, filter: &Filter, query: &Query) -> rusqlite::Result<bool> {
    let text = |column| at(column, row.get_ref(column)?.as_str());
    if let Some(SlotFilter { column, slots }) = &filter.slots {
        let column = match column {
            SlotColumn::Entity => 15,
            SlotColumn::Customer => 16,
            SlotColumn::Saga => 17,
        };
        let number = at(column, row.get_ref(column)?.as_i64_or_null())?.unwrap_or(0);
        if !slots.contains(at(column, slot_of(number))?) {
            return Ok(false);
        }
    }
    let tenant = at(12, row.get_ref(12)?.as_str_or_null())?;
    if !filter.passes(text(4)?, tenant) {
        return Ok(false);
    }
    Ok(query.is_all()
        || query.matches(text(6)?, text(14)?.split(TAG_SEPARATOR).filter(|tag| !tag.is_empty())))
}

/// The statement of a request, with its values bound. Each placeholder has a sign, so that SQLite plans the statement
/// once; see [`Sql`].
pub(crate) fn prepare<'c>(
    connection: &'c Connection,
    sql: &Sql,
    request: &ReadRequest,
    max_events: usize,
    head: Option<Position>,
) -> rusqlite::Result<CachedStatement<'c>> {
    let columns = &sql.event_columns;
    let (beyond, order) = if request.backwards { ('<', "DESC") } else { ('>', "ASC") };
    let cursor = Position::new(request.cursor).as_i64();
    match &request.scope {
        Scope::Stream(stream) => {
            let mut statement = connection.prepare_cached(&format!(
                "{columns} WHERE category = +?1 AND stream_id = +?2 AND version {beyond} +?3 \
                 ORDER BY version {order} LIMIT +?4"
            ))?;
            statement.raw_bind_parameter(1, stream.category())?;
            statement.raw_bind_parameter(2, stream.id())?;
            statement.raw_bind_parameter(3, cursor)?;
            statement.raw_bind_parameter(4, max_events as i64)?;
            Ok(statement)
        }
        Scope::Log(query) if query.is_all() => {
            let mut statement = connection.prepare_cached(&format!(
                "{columns} WHERE position {beyond} +?1 ORDER BY position {order} LIMIT +?2"
            ))?;
            statement.raw_bind_parameter(1, cursor)?;
            statement.raw_bind_parameter(2, max_events as i64)?;
            Ok(statement)
        }
        Scope::Log(query) => {
            let names = Names { placeholder: '?', events: &sql.events, tags: &sql.tags };
            let matching = positions(query, names, request.backwards);
            let mut statement = connection.prepare_cached(&format!(
                "{columns} WHERE position IN ({}) ORDER BY position {order}",
                matching.sql
            ))?;
            let bound = head.map_or(0, Position::as_i64);
            statement.raw_bind_parameter(1, cursor)?;
            statement.raw_bind_parameter(2, bound)?;
            statement.raw_bind_parameter(3, max_events as i64)?;
            for (number, text) in matching.texts.iter().enumerate() {
                statement.raw_bind_parameter(number + 4, text)?;
            }
            Ok(statement)
        }
    }
}

/// The event of a row with the columns of `event_columns.sql`.
pub(crate) fn event_of_row(row: &Row<'_>) -> rusqlite::Result<Event> {
    let number = |column| at(column, row.get_ref(column)?.as_i64());
    let text = |column| at(column, row.get_ref(column)?.as_str());
    let optional = |column| match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => at(column, value.as_str()).map(Some),
    };
    let slot = |column| match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => at(column, value.as_i64().and_then(slot_of)).map(Some),
    };
    let id = at(2, row.get_ref(2)?.as_blob())?;
    let id = at(2, Uuid::from_slice(id).map_err(FromSqlError::other))?;
    let body = Body {
        category: text(4)?,
        stream_id: text(5)?,
        event_type: text(6)?,
        schema_version: number(7)? as u32,
        data: text(8)?,
        metadata: optional(9)?,
        correlation: optional(10)?,
        causation: optional(11)?,
        tenant: optional(12)?,
        customer: optional(13)?,
        tags: Cow::Borrowed(text(14)?),
    };
    let entity = at(15, slot_of(number(15)?))?;
    let slots = Slots { entity, customer: slot(16)?, saga: slot(17)? };
    let (position, version) = (Position::from_i64(number(0)?), number(1)? as u64);
    let recorded_us = number(3)?;
    Ok(Event::from_traced_row(position, version, id, recorded_us, slots, &body, optional(18)?))
}

fn slot_of(number: i64) -> FromSqlResult<Slot> {
    let slot = u16::try_from(number).ok().and_then(Slot::new);
    slot.ok_or(FromSqlError::OutOfRange(number))
}

/// Names the column in which something unexpected stands.
fn at<T>(column: usize, value: FromSqlResult<T>) -> rusqlite::Result<T> {
    value.map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Null, Box::new(error))
    })
}

//! One page of events.

use crate::decided::{Decided, Era};
use crate::horizon::{Asking, Horizon};
use crate::keys::{self, Classes};
use crate::row::{Micros, event_of_row};
use crate::schema::Sql;
use crate::session::{Connection, prepare};
use anabranch_core::cursor::Anchor;
use anabranch_core::{Event, Position, Query, SlotColumn, StreamId};
use anabranch_store::sql::{Names, positions};
use anabranch_store::{Filter, Head, Look, Page, PageEnd, ReadRequest, Scope, Seen};
use futures_util::future::try_join;
use futures_util::{StreamExt, pin_mut};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Reads over one session.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) session: &'a Connection,
    pub(crate) sql: &'a Sql,
    pub(crate) classes: Classes,
    /// The position up to which all events are known to be decided, shared by all readers.
    pub(crate) decided: &'a Decided,
    /// Which server answers.
    pub(crate) era: Era,
}

/// Rows that were read, and whether the page ended before the rows did.
struct Rows {
    events: Vec<Event>,
    full: bool,
}

impl Rows {
    fn last(&self) -> Option<Position> {
        self.events.last().map(Event::position)
    }
}

impl Reader<'_> {
    pub(crate) async fn read(&self, request: &ReadRequest) -> Result<Page, Error> {
        let max_events = request.max_events.min(Page::MAX_EVENTS) as i64;
        let cursor = Position::new(request.cursor);
        match &request.scope {
            Scope::Stream(stream) => {
                self.stream(stream, cursor, request.backwards, max_events).await
            }
            Scope::Log(query) if request.backwards => {
                let rows = self.rows(query, cursor, Position::START, true, max_events).await?;
                let end = if rows.full { PageEnd::More } else { PageEnd::Last };
                let cursor = rows.last().unwrap_or(Position::START);
                Ok(Page { events: rows.events, cursor: cursor.get(), end })
            }
            Scope::Log(query) if request.is_scan() => {
                self.scan(query, request, cursor, max_events).await
            }
            Scope::Log(query) => self.forward(query, cursor, max_events).await,
        }
    }

    /// The event with an id.
    pub(crate) async fn find(&self, id: Uuid) -> Result<Option<Event>, Error> {
        let by_id = prepare(self.session, &self.sql.events_by_id).await?;
        let row = self.session.query_opt(&by_id, &[&[id].as_slice()]).await?;
        row.as_ref().map(event_of_row).transpose()
    }

    /// What stands where; no identity if the log is older than that.
    pub(crate) async fn look(&self, look: &Look) -> Result<(Option<String>, Seen), Error> {
        let statement = self.session.prepare_cached(&self.sql.look).await?;
        let wanted: Vec<i64> = look.anchors.iter().map(|anchor| anchor.position.as_i64()).collect();
        let row = self.session.query_one(&statement, &[&look.up_to.as_i64(), &wanted]).await?;
        let anchor = |position: &str, id: &str, recorded_at: &str| {
            let position: Option<i64> = row.get(position);
            position.map(|at| {
                let Micros(recorded_us) = row.get(recorded_at);
                Anchor { position: Position::from_i64(at), id: row.get(id), recorded_us }
            })
        };
        let ids: Vec<Option<Uuid>> = row.get("found_ids");
        let times: Vec<Option<Micros>> = row.get("found_recorded_at");
        let found = look.anchors.iter().zip(ids.into_iter().zip(times));
        let found = found.map(|(wanted, (id, time))| {
            let (id, Micros(recorded_us)) = id.zip(time)?;
            Some(Anchor { position: wanted.position, id, recorded_us })
        });
        let seen = Seen {
            identity: Uuid::nil(),
            first: row.get::<_, Option<i64>>("first").map(Position::from_i64),
            last: anchor("last_position", "last_id", "last_recorded_at"),
            head: anchor("head_position", "head_id", "head_recorded_at"),
            found: found.collect(),
        };
        Ok((row.get("identity"), seen))
    }

    /// A page of the events that pass a filter. Rows that do not pass look like gaps, so what is
    /// not yet known to be decided always takes the way of the horizon.
    async fn scan(
        &self,
        query: &Query,
        request: &ReadRequest,
        cursor: Position,
        max_events: i64,
    ) -> Result<Page, Error> {
        let window = Position::new(cursor.get().saturating_add(Filter::WINDOW));
        let bound = request.up_to.min(window);
        let decided = self.decided.by(self.era);
        if cursor < decided {
            let bound = bound.min(decided);
            let rows = self.passing(query, &request.filter, cursor, bound, max_events).await?;
            let looked_at = if rows.full { rows.last() } else { Some(bound) };
            return Ok(page(rows.events, looked_at.unwrap_or(cursor), PageEnd::More));
        }
        let horizon = self.horizon(query).await?;
        let end = if horizon.pending { PageEnd::Pending } else { PageEnd::Last };
        let bound = bound.min(horizon.bound);
        if bound <= cursor {
            return Ok(page(Vec::new(), cursor, end));
        }
        let (rows, (visible, decided)) = try_join(
            self.passing(query, &request.filter, cursor, bound, max_events),
            self.last_visible(bound, horizon.of_all),
        )
        .await?;
        self.decided.raise(self.era, decided);
        if rows.full {
            let last = rows.last().unwrap_or(cursor);
            return Ok(page(rows.events, last, PageEnd::More));
        }
        // A bound with a visible event at it or beyond is as safe as that event.
        let reached = if decided >= bound { bound } else { visible.max(cursor) };
        let more = bound < horizon.bound && reached > cursor;
        let end = if more { PageEnd::More } else { end };
        Ok(page(rows.events, reached, end))
    }

    /// The rows between a cursor and a bound that match and pass.
    async fn passing(
        &self,
        query: &Query,
        filter: &Filter,
        cursor: Position,
        bound: Position,
        max_events: i64,
    ) -> Result<Rows, Error> {
        let (cursor, bound) = (cursor.as_i64(), bound.as_i64());
        let mut sql = format!("{} WHERE position > $1 AND position <= $2", self.sql.event_columns);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&cursor, &bound, &max_events];
        let slots = filter.slots.as_ref().map(|slots| (slots.column, slots.slots.to_bytes()));
        if let Some((column, slots)) = &slots {
            values.push(slots);
            let column = match column {
                SlotColumn::Entity => "entity_slot",
                SlotColumn::Customer => "coalesce(customer_slot, 0)",
                SlotColumn::Saga => "coalesce(saga_slot, 0)",
            };
            sql += &format!(" AND get_bit(${}::bytea, {column}) = 1", values.len());
        }
        // In `coalesce`, so that no plan begins with an index on them: see SCANNING.
        for (column, names) in
            [("coalesce(category, '')", &filter.categories), ("tenant", &filter.tenants)]
        {
            if !names.is_empty() {
                values.push(names);
                sql += &format!(" AND {column} = ANY (${})", values.len());
            }
        }
        let items = query.items().iter().map(|item| {
            let mut terms = Vec::new();
            for (term, names) in
                [("coalesce(type, '') = ANY", &item.types), ("tags @>", &item.tags)]
            {
                if !names.is_empty() {
                    values.push(names);
                    terms.push(format!("{term} (${})", values.len()));
                }
            }
            format!("({})", terms.join(" AND "))
        });
        let items: Vec<String> = items.collect();
        if !items.is_empty() {
            sql += &format!(" AND ({})", items.join(" OR "));
        }
        sql += " ORDER BY position LIMIT $3";
        self.query(&sql, &values, max_events).await
    }

    /// Versions of a stream become visible in order, since its appends wait for each other.
    async fn stream(
        &self,
        stream: &StreamId,
        cursor: Position,
        backwards: bool,
        max_events: i64,
    ) -> Result<Page, Error> {
        let (beyond, order) = if backwards { ('<', "DESC") } else { ('>', "ASC") };
        let columns = &self.sql.event_columns;
        let sql = format!(
            "{columns} WHERE category = $1 AND stream_id = $2 AND version {beyond} $3 \
             ORDER BY version {order} LIMIT $4"
        );
        let values: [&(dyn ToSql + Sync); 4] =
            [&stream.category(), &stream.id(), &cursor.as_i64(), &max_events];
        let rows = self.query(&sql, &values, max_events).await?;
        let cursor = rows.events.last().map_or(cursor.get(), Event::version);
        let end = if rows.full { PageEnd::More } else { PageEnd::Last };
        Ok(Page { events: rows.events, cursor, end })
    }

    async fn forward(
        &self,
        query: &Query,
        cursor: Position,
        max_events: i64,
    ) -> Result<Page, Error> {
        let decided = self.decided.by(self.era);
        if cursor < decided {
            let rows = self.rows(query, cursor, decided, false, max_events).await?;
            let looked_at = if rows.full { rows.last() } else { Some(decided) };
            return Ok(page(rows.events, looked_at.unwrap_or(cursor), PageEnd::More));
        }
        if query.is_all() {
            let mut rows = self.rows(query, cursor, Position::END, false, max_events).await?;
            let without_gap = count_without_gap(cursor, &rows.events);
            if without_gap == rows.events.len() {
                let end = if rows.full { PageEnd::More } else { PageEnd::Last };
                let last = rows.last().unwrap_or(cursor);
                return Ok(page(rows.events, last, end));
            }
            if without_gap > 0 {
                rows.events.truncate(without_gap);
                let last = rows.last().unwrap_or(cursor);
                return Ok(page(rows.events, last, PageEnd::More));
            }
        }
        self.up_to_horizon(query, cursor, max_events).await
    }

    /// The rows up to the horizon, read in a statement after it.
    async fn up_to_horizon(
        &self,
        query: &Query,
        cursor: Position,
        max_events: i64,
    ) -> Result<Page, Error> {
        let horizon = self.horizon(query).await?;
        let Horizon { bound, of_all, .. } = horizon;
        let end = if horizon.holds_back() { PageEnd::Pending } else { PageEnd::Last };
        if bound <= cursor {
            return Ok(page(Vec::new(), cursor, end));
        }
        let (rows, (visible, decided)) = try_join(
            self.rows(query, cursor, bound, false, max_events),
            self.last_visible(bound, of_all),
        )
        .await?;
        self.decided.raise(self.era, decided);
        if rows.full {
            let last = rows.last().unwrap_or(cursor);
            return Ok(page(rows.events, last, PageEnd::More));
        }
        Ok(page(rows.events, visible.max(cursor), end))
    }

    /// The horizon of a query, and where the log ends.
    pub(crate) async fn ends(&self, query: &Query) -> Result<(Horizon, Head), Error> {
        let horizon = self.horizon(query).await?;
        let (visible, decided) = self.last_visible(Position::END, horizon.of_all).await?;
        self.decided.raise(self.era, decided);
        Ok((horizon, Head { visible, decided }))
    }

    /// The last position drawn by anybody.
    pub(crate) async fn drawn(&self) -> Result<Position, Error> {
        let last = self.session.prepare_cached(&self.sql.horizon_head).await?;
        let drawn = Position::from_i64(self.session.query_one(&last, &[]).await?.get(0));
        self.decided.has_drawn(drawn);
        Ok(drawn)
    }

    async fn horizon(&self, query: &Query) -> Result<Horizon, Error> {
        let scope = (!query.is_all()).then(|| keys::scope(query));
        let asking = Asking::new(self.session, self.sql, self.classes, scope.as_deref()).await?;
        let found = asking.ask().await?.horizon(scope.as_deref());
        self.decided.has_drawn(found.drawn);
        Ok(found)
    }

    /// The last visible positions up to two bounds.
    async fn last_visible(
        &self,
        bound: Position,
        of_all: Position,
    ) -> Result<(Position, Position), Error> {
        let found = self.last_visible_up_to(&[bound, of_all]).await?;
        Ok((found[0], found[1]))
    }

    /// The last visible position up to each of some bounds.
    pub(crate) async fn last_visible_up_to(
        &self,
        bounds: &[Position],
    ) -> Result<Vec<Position>, Error> {
        let bounds: Vec<i64> = bounds.iter().map(|bound| bound.as_i64()).collect();
        let statement = self.session.prepare_cached(&self.sql.last_visible).await?;
        let rows = self.session.query(&statement, &[&bounds]).await?;
        Ok(rows.iter().map(|row| Position::from_i64(row.get(0))).collect())
    }

    /// Matching rows between a cursor and a bound.
    async fn rows(
        &self,
        query: &Query,
        cursor: Position,
        bound: Position,
        backwards: bool,
        max_events: i64,
    ) -> Result<Rows, Error> {
        let columns = &self.sql.event_columns;
        let order = if backwards { "DESC" } else { "ASC" };
        let (cursor, bound) = (cursor.as_i64(), bound.as_i64());
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&cursor, &bound, &max_events];
        if query.is_all() {
            let range = if backwards {
                "position < $1 AND position >= $2"
            } else {
                "position > $1 AND position <= $2"
            };
            let sql = format!("{columns} WHERE {range} ORDER BY position {order} LIMIT $3");
            return self.query(&sql, &values, max_events).await;
        }
        let names = Names { placeholder: '$', events: &self.sql.events, tags: &self.sql.tags };
        let matching = positions(query, names, backwards);
        values.extend(matching.texts.iter().map(|text| text as &(dyn ToSql + Sync)));
        let sql =
            format!("{columns} WHERE position IN ({}) ORDER BY position {order}", matching.sql);
        self.query(&sql, &values, max_events).await
    }

    /// Takes rows until the page is full. Rows beyond that are dropped by the driver as they
    /// arrive; readers ask for fewer when events are large.
    async fn query(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
        max_events: i64,
    ) -> Result<Rows, Error> {
        let statement = prepare(self.session, sql).await?;
        let stream = self.session.query_raw(&statement, values.iter().copied()).await?;
        pin_mut!(stream);
        let (mut events, mut bytes) = (Vec::new(), 0);
        while let Some(row) = stream.next().await {
            let event = event_of_row(&row?)?;
            bytes += event.text_bytes();
            events.push(event);
            if events.len() as i64 == max_events || bytes >= Page::MAX_BYTES {
                return Ok(Rows { events, full: true });
            }
        }
        Ok(Rows { events, full: false })
    }
}

pub(crate) fn page(events: Vec<Event>, cursor: Position, end: PageEnd) -> Page {
    Page { events, cursor: cursor.get(), end }
}

/// How many events follow the cursor without a hole: they are decided, and so is all before them.
fn count_without_gap(cursor: Position, events: &[Event]) -> usize {
    let expected = cursor.get() + 1..;
    events.iter().zip(expected).take_while(|(event, next)| event.position().get() == *next).count()
}

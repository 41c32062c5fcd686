//! Small reads of several scopes in one round trip.
//!
//! The statements of the horizon (`horizon`) and the one for the rows of all reads go out together. The server runs them
//! in that order, each with a snapshot of its own, so the rows are read after the marks though nobody has waited for
//! those; each read then leaves out what lies beyond its own horizon. Its keys decide which marks it has to mind, so a
//! slow append in one scope holds up no read of another.
//!
//! The server looks for one tag of each item and for so many events of it at the most; what else a query asks for is
//! looked at here. So no read of a group can take long, whatever it asks for.

use crate::horizon::{Asking, Horizon, InFlight};
use crate::keys;
use crate::read::{Reader, page};
use crate::row::event_of_row;
use anabranch_core::{Event, Position, Query};
use anabranch_store::{Page, PageEnd, ReadRequest, Scope};
use futures_util::future::try_join;
use futures_util::{StreamExt, pin_mut};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Statement};

/// So many events of a tag are looked at, and no more are wanted by a read that shares. What comes after them is read
/// alone.
const MOST_EVENTS: usize = 256;
/// A query with more items than this is read alone.
const MOST_ITEMS: usize = 8;
/// So much text is taken for a group; a read that finds no room in it is read alone.
const MOST_BYTES: usize = 4 * Page::MAX_BYTES;

/// A read that can share a round trip: a small page of events, each of which has one of a few tags.
#[derive(Debug)]
pub(crate) struct ScopeRead {
    query: Query,
    cursor: Position,
    max_events: usize,
    /// What the appends hold that can store what it looks for.
    keys: Vec<i32>,
}

impl ScopeRead {
    pub(crate) fn of(request: &ReadRequest) -> Option<Self> {
        let Scope::Log(query) = &request.scope else { return None };
        let items = query.items();
        let is_small = items.len() <= MOST_ITEMS && (1..=MOST_EVENTS).contains(&request.max_events);
        let is_tagged = !query.is_all() && items.iter().all(|item| !item.tags.is_empty());
        if request.backwards || request.is_scan() || !is_small || !is_tagged {
            return None;
        }
        let (query, keys) = (query.clone(), keys::scope(query));
        let cursor = Position::new(request.cursor);
        Some(Self { query, cursor, max_events: request.max_events, keys })
    }

    /// The page, from the events of each of its tags up to where they were looked at.
    fn page(&self, found: Vec<Tagged>, horizon: &Horizon) -> Page {
        let looked_at = found.iter().map(Tagged::looked_at).min().unwrap_or(Position::END);
        let reached = looked_at.min(horizon.bound);
        let mut events: Vec<Event> = found.into_iter().flat_map(|tagged| tagged.events).collect();
        events.retain(|event| event.position() <= reached);
        events.sort_unstable_by_key(Event::position);
        events.dedup_by_key(|event| event.position());
        let last = events.last().map_or(self.cursor, Event::position);
        events.retain(|event| self.query.matches(event.event_type(), event.tags()));
        let mut bytes = 0;
        let fits = |event: &&Event| {
            let has_room = bytes < Page::MAX_BYTES;
            bytes += event.text_bytes();
            has_room
        };
        let fitting = events.iter().take(self.max_events).take_while(fits).count();
        if fitting < events.len() {
            events.truncate(fitting);
            let last = events.last().map_or(self.cursor, Event::position);
            return page(events, last, PageEnd::More);
        }
        if reached < horizon.bound {
            return page(events, reached, PageEnd::More);
        }
        if horizon.holds_back() {
            return page(events, last, PageEnd::Pending);
        }
        // All that was visible when it began has been looked at.
        page(events, last.max(horizon.visible), PageEnd::Last)
    }
}

/// The first events of a tag, for one read.
struct Tagged {
    read: usize,
    most: usize,
    events: Vec<Event>,
    bytes: usize,
    /// There was no room for all that was found.
    is_cut: bool,
}

impl Tagged {
    /// All its events up to here are there.
    fn looked_at(&self) -> Position {
        match self.events.len() < self.most {
            true => Position::END,
            false => self.events.iter().map(Event::position).max().unwrap_or(Position::END),
        }
    }
}

impl Reader<'_> {
    /// A page for each read, except those that are too large to be read with others.
    pub(crate) async fn scopes(&self, reads: &[&ScopeRead]) -> Result<Vec<Option<Page>>, Error> {
        let keys: Vec<i32> = reads.iter().flat_map(|read| read.keys.iter().copied()).collect();
        let asking = Asking::new(self.session, self.sql, self.classes, Some(&keys)).await?;
        // All statements are prepared before the first one is sent; else one could overtake another.
        let statement = self.session.prepare_cached(&self.sql.scopes).await?;
        let (in_flight, found) = try_join(asking.ask(), self.tagged(&statement, reads)).await?;
        self.learn(&in_flight);
        let horizons = reads.iter().map(|read| in_flight.horizon(Some(&read.keys)));
        let horizons: Vec<Horizon> = horizons.collect();
        let mut of_reads: Vec<Vec<Tagged>> = reads.iter().map(|_| Vec::new()).collect();
        found.into_iter().for_each(|tagged| of_reads[tagged.read].push(tagged));
        let pages = reads.iter().zip(of_reads).zip(&horizons);
        let pages = pages.map(|((read, found), horizon)| {
            let is_whole = !found.iter().any(|tagged| tagged.is_cut);
            is_whole.then(|| read.page(found, horizon))
        });
        let mut pages: Vec<Option<Page>> = pages.collect();
        self.pass_on(&mut pages, &horizons).await?;
        Ok(pages)
    }

    /// The events of all tags. Those of a tag are dropped as they arrive when they have become too many.
    async fn tagged(
        &self,
        statement: &Statement,
        reads: &[&ScopeRead],
    ) -> Result<Vec<Tagged>, Error> {
        let (mut tags, mut after, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for (number, read) in reads.iter().enumerate() {
            for item in read.query.items() {
                let is_plain = item.tags.len() == 1 && item.types.is_empty();
                let most = if is_plain { read.max_events } else { MOST_EVENTS };
                tags.extend(item.leading_tag());
                after.push(read.cursor.as_i64());
                found.push(Tagged {
                    read: number,
                    most,
                    events: Vec::new(),
                    bytes: 0,
                    is_cut: false,
                });
            }
        }
        let numbers: Vec<i32> = (0..tags.len() as i32).collect();
        let most: Vec<i64> = found.iter().map(|tagged| tagged.most as i64).collect();
        let values: [&(dyn ToSql + Sync); 4] = [&numbers, &tags, &after, &most];
        let rows = self.session.query_raw(statement, values).await?;
        pin_mut!(rows);
        let number_column = statement.columns().len() - 2;
        let mut bytes = 0;
        while let Some(row) = rows.next().await {
            let row = row?;
            let number: i32 = row.try_get(number_column)?;
            let tagged = &mut found[number as usize];
            tagged.is_cut |= tagged.bytes > Page::MAX_BYTES || bytes > MOST_BYTES;
            if !tagged.is_cut {
                let event = event_of_row(&row)?;
                tagged.bytes += event.text_bytes();
                bytes += event.text_bytes();
                tagged.events.push(event);
            }
        }
        Ok(found)
    }

    /// What is in flight tells all readers what is decided.
    fn learn(&self, in_flight: &InFlight) {
        let of_all = in_flight.horizon(None);
        self.decided.has_drawn(of_all.drawn);
        if !of_all.holds_back() {
            self.decided.raise(self.era, of_all.visible);
        }
    }

    /// Moves the reads that are held back up to the last visible event before their horizon, as
    /// [`up_to_horizon`](Self::up_to_horizon) does: else they would wait for what came after they began.
    async fn pass_on(&self, pages: &mut [Option<Page>], horizons: &[Horizon]) -> Result<(), Error> {
        let held = pages.iter_mut().zip(horizons);
        let held = held.filter_map(|(page, horizon)| Some((page.as_mut()?, horizon.bound)));
        let (held, bounds): (Vec<&mut Page>, Vec<Position>) =
            held.filter(|(page, _)| page.end == PageEnd::Pending).unzip();
        if !held.is_empty() {
            let visible = self.last_visible_up_to(&bounds).await?;
            for (page, visible) in held.into_iter().zip(visible) {
                page.cursor = page.cursor.max(visible.get());
            }
        }
        Ok(())
    }
}

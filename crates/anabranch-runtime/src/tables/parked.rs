//! Keys that failed, and the events that wait behind them.
//!
//! A key with a time (`retry_us`) is tried again by itself: it is *retrying*. One without waits for
//! somebody: it is *parked*. The tables keep both, since the events behind them are kept alike.
//!
//! Only the lane that owns a key's slot changes these rows, under the fence of its cursor. What
//! others want of a key they write into `asked`, and the lane does it.

use super::Tables;
use crate::lane::Wish;
use anabranch_core::{Position, Slot, SlotSet, StoreError};
use anabranch_store::database::{InsertRows, Session, Statement};
use anabranch_store::{Row, Value, params};
use std::borrow::Cow;
use std::time::Duration;

/// A key that is set aside: parked, or retrying.
#[derive(Clone, Debug)]
pub(crate) struct ParkedKey {
    pub(crate) key: String,
    pub(crate) slot: Slot,
    pub(crate) attempts: u32,
    pub(crate) error: String,
    pub(crate) since_us: i64,
    /// In how long it is tried again; never by itself if there is none.
    pub(crate) retry_in: Option<Duration>,
    /// What somebody asked for.
    pub(crate) asked: Option<Asked>,
    /// Up to which event, if that is to skip some. All of them, where a program of an earlier version has asked.
    pub(crate) asked_to: Option<Position>,
    /// How many events wait, where that was counted.
    pub(crate) events: u64,
    /// How many of them every cursor of the consumer has passed. A slower cursor counts the others with the
    /// positions before it.
    pub(crate) passed: u64,
    /// The first of them.
    pub(crate) first: Option<Position>,
}

impl ParkedKey {
    /// Whether it waits for somebody. Else a worker tries it again, at its time or because it was asked.
    pub(crate) fn is_parked(&self) -> bool {
        self.retry_in.is_none() && self.asked.is_none()
    }
}

/// How many keys are set aside, and how many events (or tasks) wait behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aside {
    pub(crate) parked_keys: usize,
    pub(crate) parked_events: u64,
    pub(crate) retrying_keys: usize,
    pub(crate) retrying_events: u64,
}

impl Aside {
    pub(crate) fn of<'a>(keys: impl IntoIterator<Item = &'a ParkedKey>) -> Self {
        let mut sum = Self::default();
        for key in keys {
            if key.is_parked() {
                sum.parked_keys += 1;
                sum.parked_events += key.events;
            } else {
                sum.retrying_keys += 1;
                sum.retrying_events += key.events;
            }
        }
        sum
    }
}

/// Wishes for a key that keep it though nothing waits behind it.
pub(super) const KEEPING: &str = "('replay', 'resend')";

/// What somebody wants of a key that is set aside, or is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Try it again, now.
    Retry,
    /// Leave out its first event and try the others.
    Skip,
    /// Leave out all events that wait.
    SkipAll,
    /// Undo what was made of it, and handle all its events again.
    Replay,
    /// Deliver again those of its events that were collected for it.
    Resend,
}

impl Asked {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Skip => "skip",
            Self::SkipAll => "skip-all",
            Self::Replay => "replay",
            Self::Resend => "resend",
        }
    }

    /// Which of the events behind a key is the last one that it skips: the first of them, or the last.
    fn skips(self) -> Option<&'static str> {
        match self {
            Self::Skip => Some("min"),
            Self::SkipAll => Some("max"),
            Self::Retry | Self::Replay | Self::Resend => None,
        }
    }

    fn of(name: &str) -> Option<Self> {
        let all = [Self::Retry, Self::Skip, Self::SkipAll, Self::Replay, Self::Resend];
        all.into_iter().find(|asked| asked.name() == name)
    }
}

/// The longest error that is kept.
const MAX_ERROR_CHARS: usize = 4_000;

/// An error that every database can keep: PostgreSQL's text holds no NUL.
pub(crate) fn plain(error: &str) -> String {
    error.chars().take(MAX_ERROR_CHARS).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}

/// What a new attempt or a new key changes.
#[derive(Clone, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) key: &'a str,
    pub(crate) slot: Slot,
    pub(crate) attempts: u32,
    pub(crate) error: &'a str,
    pub(crate) retry_in: Option<Duration>,
}

impl Tables {
    /// The keys of a consumer that are set aside, the first to fail first.
    pub(crate) async fn parked(&self, consumer: &str) -> Result<Vec<ParkedKey>, StoreError> {
        self.parked_up_to(consumer, Position::END, Position::END).await
    }

    /// The same, with their events up to a position, and how many of these the lowest cursor has passed.
    pub(crate) async fn parked_up_to(
        &self,
        consumer: &str,
        up_to: Position,
        lowest: Position,
    ) -> Result<Vec<ParkedKey>, StoreError> {
        let select = format!("{} WHERE consumer = $1 ORDER BY since_us, key", self.select_parked());
        let rows = self
            .query(Statement::query(select, params![consumer, up_to, lowest.min(up_to)]))
            .await?;
        rows.iter().map(|row| self.parked_key(row)).collect()
    }

    /// The next keys that are set aside after one, by their names; or one key alone.
    pub(crate) async fn parked_after(
        &self,
        consumer: &str,
        after: Option<&str>,
        only: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ParkedKey>, StoreError> {
        let select = format!(
            "{} WHERE consumer = $1 AND key > $4 AND (key = $5 OR $5 = '') ORDER BY key LIMIT $6",
            self.select_parked()
        );
        let (end, after, only) =
            (Position::END, after.unwrap_or_default(), only.unwrap_or_default());
        let values = params![consumer, end, end, after, only, limit];
        let rows = self.query(Statement::query(select, values)).await?;
        rows.iter().map(|row| self.parked_key(row)).collect()
    }

    /// What is kept of keys `k`, with their events up to `$2`, and how many of these are up to `$3`.
    fn select_parked(&self) -> String {
        let (keys, events, now) = (&self.parked_keys, &self.parked_events, self.now);
        let asked_to = if self.has_key_replays() { "asked_to" } else { "NULL AS asked_to" };
        format!(
            "SELECT key, slot, attempts, error, since_us, retry_us - {now} AS retry_in, asked, {asked_to}, \
             (SELECT count(*) FROM {events} AS e \
              WHERE e.consumer = k.consumer AND e.key = k.key AND e.position <= $2) AS events, \
             (SELECT count(*) FROM {events} AS e \
              WHERE e.consumer = k.consumer AND e.key = k.key AND e.position <= $3) AS passed, \
             (SELECT min(position) FROM {events} AS e \
              WHERE e.consumer = k.consumer AND e.key = k.key) AS first \
             FROM {keys} AS k"
        )
    }

    /// How many keys are set aside, in an open transaction.
    pub(crate) async fn parked_in(
        &self,
        session: &mut dyn Session,
        consumer: &str,
    ) -> Result<usize, StoreError> {
        let count =
            format!("SELECT count(*) AS keys FROM {} WHERE consumer = $1", self.parked_keys);
        let rows = self.query_in(session, Statement::query(count, params![consumer])).await?;
        rows.first().map_or(Ok(0), |row| self.column(row, "keys"))
    }

    fn parked_key(&self, row: &Row) -> Result<ParkedKey, StoreError> {
        let retry_in: Option<i64> = self.column(row, "retry_in")?;
        let asked: Option<String> = self.column(row, "asked")?;
        Ok(ParkedKey {
            key: self.column(row, "key")?,
            slot: self.slot(row)?,
            attempts: self.column(row, "attempts")?,
            error: self.column(row, "error")?,
            since_us: self.column(row, "since_us")?,
            retry_in: retry_in.map(|micros| Duration::from_micros(micros.max(0).unsigned_abs())),
            asked: asked.as_deref().and_then(Asked::of),
            asked_to: self.column(row, "asked_to")?,
            events: self.column(row, "events")?,
            passed: self.column(row, "passed")?,
            first: self.column(row, "first")?,
        })
    }

    /// The first positions that wait behind a key, up to one.
    pub(crate) async fn parked_positions(
        &self,
        consumer: &str,
        key: &str,
        up_to: Position,
        limit: usize,
    ) -> Result<Vec<Position>, StoreError> {
        let select = format!(
            "SELECT position FROM {} WHERE consumer = $1 AND key = $2 AND position <= $3 \
             ORDER BY position LIMIT $4",
            self.parked_events
        );
        let values = params![consumer, key, up_to, limit];
        let rows = self.query(Statement::query(select, values)).await?;
        rows.iter().map(|row| self.column(row, "position")).collect()
    }

    /// The positions up to one that wait behind keys of these slots, in an open transaction.
    pub(crate) async fn parked_of(
        &self,
        session: &mut dyn Session,
        consumer: &str,
        slots: &SlotSet,
        up_to: Position,
    ) -> Result<Vec<Position>, StoreError> {
        let select = format!(
            "SELECT e.position, k.slot FROM {} AS e JOIN {} AS k ON k.consumer = e.consumer AND k.key = e.key \
             WHERE e.consumer = $1 AND e.position <= $2 ORDER BY e.position",
            self.parked_events, self.parked_keys
        );
        let rows =
            self.query_in(session, Statement::query(select, params![consumer, up_to])).await?;
        let mut positions = Vec::new();
        for row in &rows {
            if slots.contains(self.slot(row)?) {
                positions.push(self.column(row, "position")?);
            }
        }
        Ok(positions)
    }

    /// Sets a key aside, or notes one more failed attempt. Another first event that fails is another thing to wait for:
    /// whoever has decided about the one before has not seen it.
    pub(crate) fn park(&self, consumer: &str, attempt: &Attempt<'_>) -> Statement {
        let (keys, now) = (&self.parked_keys, self.now);
        let upsert = format!(
            "INSERT INTO {keys} (consumer, key, slot, attempts, error, since_us, retry_us) \
             VALUES ($1, $2, $3, $4, $5, {now}, {now} + $6) \
             ON CONFLICT (consumer, key) DO UPDATE SET attempts = excluded.attempts, \
             error = excluded.error, retry_us = excluded.retry_us, \
             since_us = CASE WHEN excluded.attempts <= 1 THEN excluded.since_us ELSE {keys}.since_us END"
        );
        let retry_in = attempt.retry_in.map(|wait| wait.as_micros() as u64);
        let (key, slot, error) = (attempt.key, attempt.slot.get(), plain(attempt.error));
        Statement::new(upsert, params![consumer, key, slot, attempt.attempts, error, retry_in])
    }

    /// Puts events behind their keys.
    pub(crate) fn park_events<'k>(
        &self,
        consumer: &str,
        events: impl IntoIterator<Item = (&'k str, Position)>,
    ) -> Statement {
        let row = |(key, position): (&str, Position)| params![consumer, key, position];
        let rows: Vec<Vec<Value>> = events.into_iter().map(row).collect();
        let insert = InsertRows {
            table: Cow::Owned(self.parked_events.clone()),
            columns: Cow::Borrowed(&["consumer", "key", "position"]),
            conflict: Cow::Borrowed("ON CONFLICT DO NOTHING"),
            rows,
        };
        Statement::rows(insert)
    }

    /// Keeps a key behind which events are put and which is tried already: what was behind it may all be done by now, and
    /// nobody else would know of it.
    pub(crate) fn park_again(&self, consumer: &str, key: &str, slot: Slot) -> Statement {
        let (keys, now) = (&self.parked_keys, self.now);
        let insert = format!(
            "INSERT INTO {keys} (consumer, key, slot, attempts, error, since_us, retry_us) \
             VALUES ($1, $2, $3, 0, 'its events are being tried', {now}, {now}) \
             ON CONFLICT (consumer, key) DO NOTHING"
        );
        Statement::new(insert, params![consumer, key, slot.get()])
    }

    /// Takes handled or skipped events from behind a key: all up to a position, which are so many.
    pub(crate) fn unpark_events(
        &self,
        consumer: &str,
        key: &str,
        up_to: Position,
        count: usize,
    ) -> Statement {
        let delete = format!(
            "DELETE FROM {} WHERE consumer = $1 AND key = $2 AND position <= $3",
            self.parked_events
        );
        Statement::fence(delete, params![consumer, key, up_to], count as u64)
    }

    /// Lets a key go whose events are all done, unless they are to be handled again.
    pub(crate) fn unpark(&self, consumer: &str, key: &str) -> Statement {
        let (keys, events) = (&self.parked_keys, &self.parked_events);
        let delete = format!(
            "DELETE FROM {keys} WHERE consumer = $1 AND key = $2 AND coalesce(asked, '') NOT IN {KEEPING} \
             AND NOT EXISTS (SELECT 1 FROM {events} WHERE consumer = $1 AND key = $2)"
        );
        Statement::new(delete, params![consumer, key])
    }

    /// Takes away the events behind a key up to a position.
    pub(crate) fn clear_events(&self, consumer: &str, key: &str, up_to: Position) -> Statement {
        let delete = format!(
            "DELETE FROM {} WHERE consumer = $1 AND key = $2 AND position <= $3",
            self.parked_events
        );
        Statement::new(delete, params![consumer, key, up_to])
    }

    /// Notes that what somebody wanted is done, unless they want something else by now, or more of it.
    pub(crate) fn answered(&self, consumer: &str, wish: &Wish) -> Statement {
        let mut update = format!(
            "UPDATE {} SET asked = NULL, asked_to = NULL WHERE consumer = $1 AND key = $2 AND asked = $3",
            self.parked_keys
        );
        let mut values = params![consumer, wish.key.as_str(), wish.asked.name()];
        if wish.asked.skips().is_some() {
            update += " AND coalesce(asked_to, -1) = $4";
            values.push(wish.up_to.map_or(-1, Position::as_i64).into());
        }
        Statement::fence(update, values, 1)
    }

    /// Whether a key of these slots is yet to be tried: somebody has asked for something, or it has
    /// events up to a position and waits for its next attempt.
    pub(crate) async fn is_unsettled(
        &self,
        consumer: &str,
        slots: &SlotSet,
        up_to: Position,
        waits: bool,
    ) -> Result<bool, StoreError> {
        let (keys, events) = (&self.parked_keys, &self.parked_events);
        let due = if waits { String::new() } else { format!(" AND retry_us <= {}", self.now) };
        let select = format!(
            "SELECT DISTINCT slot FROM {keys} AS k WHERE consumer = $1 AND (asked IS NOT NULL \
             OR (retry_us IS NOT NULL{due} AND EXISTS (SELECT 1 FROM {events} AS e \
              WHERE e.consumer = k.consumer AND e.key = k.key AND e.position <= $2)))"
        );
        for row in self.query(Statement::query(select, params![consumer, up_to])).await? {
            if slots.contains(self.slot(&row)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes what somebody wants of a key. One whose events are to be handled again is tried with that.
    pub(crate) fn ask(&self, consumer: &str, key: &str, asked: Asked) -> Statement {
        let mut values = params![consumer, key, asked.name()];
        let asks = self.asks(asked, Position::END, &mut values);
        let update =
            format!("UPDATE {} AS k SET {asks} WHERE consumer = $1 AND key = $2", self.parked_keys);
        Statement::fence(update, values, 1)
    }

    /// What sets what is asked of a key `k` where `$3` is wanted: one whose events are to be handled again is tried with
    /// that. What is skipped is there now, and no later than a position: what comes behind the key until a lane hears of
    /// it, nobody has seen.
    pub(super) fn asks(&self, asked: Asked, up_to: Position, values: &mut Vec<Value>) -> String {
        let asks =
            format!("asked = CASE WHEN asked IN {KEEPING} AND $3 = 'retry' THEN asked ELSE $3 END");
        if !self.has_key_replays() {
            return asks;
        }
        let Some(which) = asked.skips() else { return format!("{asks}, asked_to = NULL") };
        values.push(up_to.into());
        format!(
            "{asks}, asked_to = coalesce((SELECT {which}(e.position) FROM {} AS e \
             WHERE e.consumer = k.consumer AND e.key = k.key AND e.position <= ${}), 0)",
            self.parked_events,
            values.len()
        )
    }
}

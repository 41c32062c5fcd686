//! Keys whose events are to be handled again: who can do that, what was asked for, and the events until all are there.
//!
//! The events of a key are collected apart from those that wait behind it, since a lane that dies in between must leave
//! nothing behind the key that was not undone: they go there in the transaction that undoes what was made of them.

use super::Tables;
use super::parked::Asked;
use anabranch_core::{Cursor, Position, Slot, StoreError};
use anabranch_store::database::{InsertRows, Statement};
use anabranch_store::migration::since;
use anabranch_store::params;
use std::borrow::Cow;

/// What somebody reads who asked for it.
const ASKED: &str = "its events are to be handled again";

impl Tables {
    /// Whether there is room for the events of keys that are to be handled again.
    pub(crate) fn has_key_replays(&self) -> bool {
        self.database.schema() >= since::OPERATIONS
    }

    /// The statement that stores whether one key of a consumer can be handled again. Usually it is stored already.
    pub(crate) fn keep_replays_keys(&self, consumer: &str, replays: bool) -> Statement {
        let update = format!(
            "UPDATE {} SET replays_keys = $2 WHERE name = $1 \
             AND (replays_keys IS NULL OR replays_keys <> $2)",
            self.consumers
        );
        Statement::new(update, params![consumer, replays])
    }

    /// Whether one key of a consumer can be handled again, if that is known.
    pub(crate) async fn replays_keys(&self, consumer: &str) -> Result<Option<bool>, StoreError> {
        let select = format!("SELECT replays_keys FROM {} WHERE name = $1", self.consumers);
        let rows = self.query(Statement::query(select, params![consumer])).await?;
        rows.first().map_or(Ok(None), |row| self.column(row, "replays_keys"))
    }

    /// The living workers that run a consumer and whose program is too old to handle one key again, in words.
    pub(crate) async fn workers_before_key_replays(
        &self,
        consumer: &str,
    ) -> Result<Vec<String>, StoreError> {
        self.workers_before(consumer, since::OPERATIONS).await
    }

    /// The statement after which nothing is known to be wrong with a consumer: somebody asks for something else. It needs
    /// the consumer to exist.
    pub(crate) fn no_problem(&self, consumer: &str) -> Statement {
        let update = format!("UPDATE {} SET problem = NULL WHERE name = $1", self.consumers);
        Statement::fence(update, params![consumer], 1)
    }

    /// The fence of a consumer that is not forgotten.
    pub(crate) fn is_there(&self, consumer: &str) -> Statement {
        let update = format!("UPDATE {} SET name = name WHERE name = $1", self.consumers);
        Statement::fence(update, params![consumer], 1)
    }

    /// The statement that asks for a key to be handled again, which may be set aside or not. All of its events are more
    /// than some of them.
    pub(crate) fn ask_again(
        &self,
        consumer: &str,
        (key, slot): (&str, Slot),
        asked: Asked,
    ) -> Statement {
        let upsert = format!(
            "INSERT INTO {} AS kept (consumer, key, slot, attempts, error, since_us, asked) \
             VALUES ($1, $2, $3, 0, '{ASKED}', {}, $4) ON CONFLICT (consumer, key) DO UPDATE SET \
             asked = CASE kept.asked WHEN 'replay' THEN kept.asked ELSE excluded.asked END",
            self.parked_keys, self.now
        );
        Statement::new(upsert, params![consumer, key, slot.get(), asked.name()])
    }

    /// The fence of what is asked of a key.
    pub(crate) fn is_asked(&self, consumer: &str, key: &str, asked: Asked) -> Statement {
        let update = format!(
            "UPDATE {} SET asked = asked WHERE consumer = $1 AND key = $2 AND asked = $3",
            self.parked_keys
        );
        Statement::fence(update, params![consumer, key, asked.name()], 1)
    }

    /// The query for what is asked of a key now, in the transaction that does it: nobody asks for something else before
    /// that ends.
    pub(crate) fn select_asked(&self, consumer: &str, key: &str) -> Statement {
        let select = format!(
            "SELECT asked FROM {} WHERE consumer = $1 AND key = $2{}",
            self.parked_keys, self.for_update
        );
        Statement::query(select, params![consumer, key])
    }

    /// The fence of a cursor that stands where its lane believes: what lies behind it was handled, and nothing else.
    pub(crate) fn stands(&self, holder: &Cursor) -> Statement {
        let update = format!(
            "UPDATE {} SET epoch = epoch WHERE id = $1 AND epoch = $2 AND position = $3",
            self.cursors
        );
        Statement::fence(update, params![holder.id, holder.epoch, holder.position], 1)
    }

    /// The statement that forgets which events of a key were collected.
    pub(crate) fn clear_replayed(&self, consumer: &str, key: &str) -> Statement {
        let delete =
            format!("DELETE FROM {} WHERE consumer = $1 AND key = $2", self.replayed_events);
        Statement::new(delete, params![consumer, key])
    }

    /// The statement that collects events of a key, each with the row that it belongs to.
    pub(crate) fn keep_replayed(
        &self,
        consumer: &str,
        key: &str,
        events: impl IntoIterator<Item = (Position, Option<String>)>,
    ) -> Statement {
        let row =
            |(position, row): (Position, Option<String>)| params![consumer, key, position, row];
        Statement::rows(InsertRows {
            table: Cow::Owned(self.replayed_events.clone()),
            columns: Cow::Borrowed(&["consumer", "key", "position", "row_key"]),
            conflict: Cow::Borrowed("ON CONFLICT DO NOTHING"),
            rows: events.into_iter().map(row).collect(),
        })
    }

    /// The statements that put the events that were collected behind their key: those that its cursor, which is locked,
    /// has passed. The others come anyway.
    pub(crate) fn put_behind(&self, consumer: &str, key: &str, holder: &Cursor) -> [Statement; 2] {
        let insert = format!(
            "INSERT INTO {} (consumer, key, position) SELECT consumer, key, position FROM {} \
             WHERE consumer = $1 AND key = $2 AND position <= (SELECT position FROM {} WHERE id = $3) \
             ON CONFLICT DO NOTHING",
            self.parked_events, self.replayed_events, self.cursors
        );
        let insert = Statement::new(insert, params![consumer, key, holder.id]);
        [insert, self.clear_replayed(consumer, key)]
    }
}

//! Which log a consumer's cursors belong to, and the events by which they know it. Logs of older versions have no such
//! columns.

use super::Tables;
use super::parked::plain;
use anabranch_core::cursor::Anchor;
use anabranch_core::{Cursor, StoreError};
use anabranch_store::database::{End, Statement};
use anabranch_store::migration::since;
use anabranch_store::{Row, Value, params};
use uuid::Uuid;

/// What is stored about the log of a consumer.
#[derive(Debug)]
pub(crate) struct Belonging {
    pub(crate) log: Uuid,
    /// What was found out about it.
    pub(crate) wound_back: Option<String>,
    pub(crate) generation: i64,
    /// The log on which a replay was asked for, if one was.
    pub(crate) replay_on: Option<Uuid>,
    /// The events by which its cursors know the log.
    pub(crate) anchors: Vec<Anchor>,
}

impl Tables {
    /// Whether there is room for anchors.
    pub(crate) fn has_anchors(&self) -> bool {
        self.database.schema() >= since::ANCHORS
    }

    /// What is stored about the log of a consumer.
    pub(crate) async fn belonging(&self, consumer: &str) -> Result<Belonging, StoreError> {
        let select = format!(
            "SELECT log_identity, (SELECT value FROM {} WHERE name = 'identity') AS own, wound_back, \
             generation, reset_to IS NOT NULL AS wants_reset, reset_log FROM {} WHERE name = $1",
            self.database.dialect().table("settings"),
            self.consumers
        );
        let select = Statement::query(select, params![consumer]);
        let statements = vec![select, self.select_cursors(consumer, "")];
        let answers = self.database.control().run(statements, End::Commit).await;
        let answers = answers.map_err(|failed| self.error(failed))?;
        let [consumers, cursors] = &answers[..] else {
            return Err(self.corrupt("a look at a consumer without answers".to_owned()));
        };
        let Some(row) = consumers.rows.first() else {
            return Err(self.corrupt(format!("no consumer `{consumer}`")));
        };
        let cursors = cursors.rows.iter().map(|row| self.cursor(row));
        let cursors: Vec<Cursor> = cursors.collect::<Result<_, _>>()?;
        let mut anchors: Vec<Anchor> = cursors.iter().filter_map(|cursor| cursor.anchor).collect();
        anchors.sort_unstable();
        anchors.dedup();
        let log = self.log_of(row)?.unwrap_or(self.column(row, "own")?);
        let wants_reset: bool = self.column(row, "wants_reset")?;
        // An older program asks without saying where.
        let replay_on = self.column::<Option<Uuid>>(row, "reset_log")?.unwrap_or(log);
        Ok(Belonging {
            log,
            wound_back: self.column(row, "wound_back")?,
            generation: self.column(row, "generation")?,
            replay_on: wants_reset.then_some(replay_on),
            anchors,
        })
    }

    /// The column `log_identity`: none means the log in this database.
    pub(crate) fn log_of(&self, row: &Row) -> Result<Option<Uuid>, StoreError> {
        self.column(row, "log_identity")
    }

    /// The statement that says which log a consumer's cursors belong to.
    pub(crate) fn belongs_to(&self, consumer: &str, log: Uuid) -> Statement {
        let update = format!("UPDATE {} SET log_identity = $2 WHERE name = $1", self.consumers);
        Statement::new(update, params![consumer, log])
    }

    /// The statement that writes down that the log was wound back, unless somebody has said meanwhile where the
    /// consumer goes on.
    pub(crate) fn is_wound_back(&self, consumer: &str, generation: i64, what: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET wound_back = $3 WHERE name = $1 AND generation = $2 AND reset_to IS NULL",
            self.consumers
        );
        Statement::new(update, params![consumer, generation, plain(what)])
    }

    /// The columns about the log of a consumer, after a comma.
    pub(super) fn log_columns(&self) -> &'static str {
        match self.has_anchors() {
            true => ", log_identity, wound_back, reset_log",
            false => ", NULL AS log_identity, NULL AS wound_back, NULL AS reset_log",
        }
    }

    /// That no replay is asked for any more, after a comma.
    pub(super) fn no_reset_log(&self) -> &'static str {
        if self.has_anchors() { ", reset_log = NULL" } else { "" }
    }

    /// The columns of an anchor, after a comma.
    pub(super) fn anchor_columns(&self) -> &'static str {
        match self.has_anchors() {
            true => ", anchor_position, anchor_id, anchor_recorded_us",
            false => ", NULL AS anchor_position, NULL AS anchor_id, NULL AS anchor_recorded_us",
        }
    }

    /// An anchor, from the row of a cursor. One beyond its cursor was left behind by an older program.
    pub(super) fn anchor(&self, row: &Row) -> Result<Option<Anchor>, StoreError> {
        let id: Option<Uuid> = self.column(row, "anchor_id")?;
        let Some(id) = id else { return Ok(None) };
        let recorded_us = self.column(row, "anchor_recorded_us")?;
        let anchor = Anchor { position: self.column(row, "anchor_position")?, id, recorded_us };
        let stands = self.column(row, "position")?;
        Ok(Some(anchor).filter(|anchor| anchor.position <= stands))
    }
}

/// The values of an anchor.
pub(super) fn values(anchor: Option<Anchor>) -> Vec<Value> {
    params![
        anchor.map(|anchor| anchor.position),
        anchor.map(|anchor| anchor.id),
        anchor.map(|anchor| anchor.recorded_us)
    ]
}

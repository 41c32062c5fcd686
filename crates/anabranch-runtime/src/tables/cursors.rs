//! Slots, positions, epochs: claim, release, and the fence.
//!
//! What to change is decided by pure functions of the core; here the rows are locked, read, and
//! written. Law 1 is checked whenever they are read and whenever they are written.

use super::audit::{Entry, Tip};
use super::{Tables, anchors};
use crate::identity::Stored;
use crate::run_error::RunError;
use anabranch_core::cursor::{self, Change, Move};
use anabranch_core::{Cursor, Position, SlotSet, StoreError};
use anabranch_store::database::{End, Session, Statement, Topic};
use anabranch_store::{Row, params};
use std::collections::HashSet;
use uuid::Uuid;

/// What a worker holds after a claim.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) cursors: Vec<Cursor>,
    /// Who holds slots that it wants.
    pub(crate) waiting: Vec<String>,
    pub(crate) generation: i64,
}

/// What a worker wants of a consumer's slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// What each of its lanes should hold.
    pub(crate) lanes: &'a [SlotSet],
    /// What it would hold if nobody else did.
    pub(crate) all: &'a SlotSet,
}

impl Tables {
    /// Takes what is free of the slots that a worker wants, a set for each of its lanes. `is_same` says
    /// whether the consumer still is what the worker runs: another one gets nothing.
    pub(crate) async fn claim(
        &self,
        consumer: &str,
        is_same: impl Fn(&Stored) -> Result<(), RunError>,
        worker: &str,
        wanted: Wanted<'_>,
    ) -> Result<Held, RunError> {
        let mut session = self.database.control();
        let mut locked = self.lock_consumer(session.as_mut(), consumer).await?;
        let Locked { generation, .. } = locked;
        let (cursors, waiting) = (Vec::new(), Vec::new());
        let nothing = Held { cursors, waiting, generation };
        if let Some(stored) = self.identity_in(session.as_mut(), consumer).await? {
            is_same(&stored)?;
        }
        if locked.reset_to.is_some() {
            // A worker that runs now would stand in the way of the replay that comes first.
            session.run(Vec::new(), End::Commit).await.map_err(|failed| self.error(failed))?;
            return Ok(nothing);
        }
        let alive = format!("SELECT id FROM {} WHERE lease_us > {}", self.workers, self.now);
        let alive = self.query_in(session.as_mut(), Statement::query(alive, vec![])).await?;
        let alive: HashSet<String> =
            alive.iter().map(|row| self.column(row, "id")).collect::<Result<_, _>>()?;
        if !alive.contains(worker) {
            // Somebody may be taking our cursors; with no lease there is nothing to claim.
            session.run(Vec::new(), End::Commit).await.map_err(|failed| self.error(failed))?;
            return Ok(nothing);
        }
        locked.cursors = self.lock_takeable(session.as_mut(), consumer).await?;
        self.check_cover(consumer, &locked.cursors, &locked.slots)?;
        let is_alive = |owner: &str| alive.contains(owner);
        let claim = cursor::claim(&locked.cursors, worker, wanted.lanes, is_alive);
        let mut waiting: Vec<String> = locked
            .cursors
            .iter()
            .filter(|cursor| !cursor.slots.is_disjoint(wanted.all))
            .filter_map(|cursor| cursor.owner.clone())
            .filter(|owner| owner != worker && alive.contains(owner))
            .collect();
        waiting.sort_unstable();
        waiting.dedup();
        let change = claim.change;
        let cursors = self.change(session.as_mut(), consumer, &locked, change, false).await?;
        let mine = |cursor: &Cursor| cursor.owner.as_deref() == Some(worker);
        let cursors = cursors.into_iter().filter(mine).collect();
        Ok(Held { cursors, waiting, ..nothing })
    }

    /// Frees what a worker holds.
    pub(crate) async fn release(&self, consumer: &str, worker: &str) -> Result<(), StoreError> {
        if self.registered(Some(consumer)).await?.is_empty() {
            // It was forgotten, or has taken the place of another one, and its cursors with it.
            return Ok(());
        }
        let mut session = self.database.control();
        let locked = self.lock(session.as_mut(), consumer).await?;
        let change = cursor::release(&locked.cursors, worker);
        self.change(session.as_mut(), consumer, &locked, change, true).await.map(drop)
    }

    /// All cursors of a consumer, in one look.
    pub(crate) async fn cursors(&self, consumer: &str) -> Result<Vec<Cursor>, StoreError> {
        let rows = self.query(self.select_cursors(consumer, "")).await?;
        rows.iter().map(|row| self.cursor(row)).collect()
    }

    pub(super) fn select_cursors(&self, consumer: &str, lock: &str) -> Statement {
        let select = format!(
            "SELECT id, slots, position, epoch, owner{}{} FROM {} WHERE consumer = $1 ORDER BY id{lock}",
            self.anchor_columns(),
            self.tip_column(),
            self.cursors
        );
        Statement::query(select, params![consumer])
    }

    /// Locks a consumer and its cursors and reads them.
    pub(crate) async fn lock(
        &self,
        session: &mut dyn Session,
        consumer: &str,
    ) -> Result<Locked, StoreError> {
        let mut locked = self.lock_consumer(session, consumer).await?;
        if !self.for_update.is_empty() {
            // While this waits for an owner's commit, that owner may let go of slots: their new row is
            // not among those that it was about to lock. Only what is read afterwards is whole.
            self.cursors_in(session, consumer, self.for_update).await?;
        }
        locked.cursors = self.cursors_in(session, consumer, "").await?;
        self.check_cover(consumer, &locked.cursors, &locked.slots)?;
        Ok(locked)
    }

    /// Locks the cursors of a locked consumer that are free or belong to the dead, then reads all.
    /// Those of the living are not locked: their owners go on meanwhile. What such an owner lets go
    /// in between is free, and nobody takes it while the consumer is locked. Who was dead a moment
    /// ago is dead now: a lease that is over is not renewed.
    async fn lock_takeable(
        &self,
        session: &mut dyn Session,
        consumer: &str,
    ) -> Result<Vec<Cursor>, StoreError> {
        if !self.for_update.is_empty() {
            let (cursors, workers, now) = (&self.cursors, &self.workers, self.now);
            let lock = format!(
                "SELECT id FROM {cursors} WHERE consumer = $1 AND (owner IS NULL OR owner NOT IN \
                 (SELECT w.id FROM {workers} AS w WHERE w.lease_us > {now})) ORDER BY id{}",
                self.for_update
            );
            self.query_in(session, Statement::query(lock, params![consumer])).await?;
        }
        self.cursors_in(session, consumer, "").await
    }

    /// The cursors of a consumer, in an open transaction.
    pub(crate) async fn cursors_in(
        &self,
        session: &mut dyn Session,
        consumer: &str,
        lock: &str,
    ) -> Result<Vec<Cursor>, StoreError> {
        let rows = self.query_in(session, self.select_cursors(consumer, lock)).await?;
        rows.iter().map(|row| self.cursor(row)).collect()
    }

    /// Locks a consumer, so that nobody claims or releases; its owners may still commit.
    pub(crate) async fn lock_consumer(
        &self,
        session: &mut dyn Session,
        consumer: &str,
    ) -> Result<Locked, StoreError> {
        let (consumers, lock) = (&self.consumers, self.for_update);
        let log = self.log_columns();
        let select = format!(
            "SELECT generation, reset_to, slots{log} FROM {consumers} WHERE name = $1{lock}"
        );
        let select = Statement::query(select, params![consumer]);
        let mut rows = self.query_in(session, select.clone()).await?;
        if rows.is_empty() {
            // A switch may have given the name to another row while this waited for the old one.
            rows = self.query_in(session, select).await?;
        }
        let Some(row) = rows.first() else {
            return Err(self.corrupt(format!("no consumer `{consumer}`")));
        };
        Ok(Locked {
            generation: self.column(row, "generation")?,
            reset_to: self.column(row, "reset_to")?,
            reset_log: self.column(row, "reset_log")?,
            slots: self.slots(row)?,
            cursors: Vec::new(),
        })
    }

    /// Writes a change and commits; returns all cursors as they are then.
    async fn change(
        &self,
        session: &mut dyn Session,
        consumer: &str,
        locked: &Locked,
        change: Change,
        signal: bool,
    ) -> Result<Vec<Cursor>, StoreError> {
        let mut after: Vec<Cursor> = locked.cursors.clone();
        let written: HashSet<i64> = change.write.iter().map(|cursor| cursor.id).collect();
        after.retain(|cursor| !change.delete.contains(&cursor.id) && !written.contains(&cursor.id));
        let (mut statements, inserts) = self.write(consumer, &change);
        if signal {
            statements.push(Statement::signal(Topic::Workers));
        }
        let answers = session.run(statements, End::Commit).await;
        let answers = answers.map_err(|failed| self.error(failed))?;
        let mut ids = Vec::new();
        for number in inserts {
            for row in &answers[number].rows {
                ids.push(self.column::<i64>(row, "id")?);
            }
        }
        let mut ids = ids.into_iter();
        for mut cursor in change.write {
            if cursor.id == 0 {
                cursor.id =
                    ids.next().ok_or_else(|| self.corrupt("an insert without id".into()))?;
            }
            after.push(cursor);
        }
        debug_assert!(cursor::covers(&after, &locked.slots).is_ok());
        Ok(after)
    }

    /// The statements of a change, and which of them answer with new ids.
    pub(crate) fn write(&self, consumer: &str, change: &Change) -> (Vec<Statement>, Vec<usize>) {
        let cursors = &self.cursors;
        let (mut statements, mut inserts) = (Vec::new(), Vec::new());
        for id in &change.delete {
            let delete = format!("DELETE FROM {cursors} WHERE id = $1");
            statements.push(Statement::new(delete, params![*id]));
        }
        // In their own order: the ids that are answered are handed out in it. Cursors of one point stand together.
        let mut joined = None;
        for cursor in &change.write {
            let mut tip = Tip::of(cursor);
            if tip == Tip::Last && joined != Some(cursor.point()) {
                // Its cursors name it as what was added last, so they come right behind it.
                joined = Some(cursor.point());
                match change.joins.iter().find(|join| join.point == cursor.point()) {
                    Some(join) => statements.push(self.record_join(consumer, join)),
                    None => tip = Tip::None,
                }
            }
            statements.push(self.write_cursor(consumer, cursor, tip));
            inserts.extend((cursor.id == 0).then(|| statements.len() - 1));
        }
        (statements, inserts)
    }

    /// The statement that adds a cursor, or replaces the row with its id; an added one is answered with its id.
    pub(super) fn write_cursor(&self, consumer: &str, cursor: &Cursor, tip: Tip) -> Statement {
        let (cursors, tip) = (&self.cursors, self.tip(tip));
        let (position, epoch, owner) = (cursor.position, cursor.epoch, cursor.owner.clone());
        let slots = cursor.slots.to_bytes();
        if cursor.id == 0 {
            let (anchors, places) = match self.has_anchors() {
                true => (self.anchor_columns(), ", $6, $7, $8"),
                false => ("", ""),
            };
            let (audit, tip) = match tip {
                Some(tip) => (", audit", format!(", {tip}")),
                None => ("", String::new()),
            };
            let insert = format!(
                "INSERT INTO {cursors} (consumer, slots, position, epoch, owner{anchors}{audit}) \
                 VALUES ($1, $2, $3, $4, $5{places}{tip}) RETURNING id"
            );
            let mut values = params![consumer, slots, position, epoch, owner];
            if self.has_anchors() {
                values.extend(anchors::values(cursor.anchor));
            }
            return Statement::query(insert, values);
        }
        let anchors = match self.has_anchors() {
            true => ", anchor_position = $6, anchor_id = $7, anchor_recorded_us = $8",
            false => "",
        };
        let tip = tip.map(|tip| format!(", audit = {tip}")).unwrap_or_default();
        let update = format!(
            "UPDATE {cursors} SET slots = $2, position = $3, epoch = $4, owner = $5{anchors}{tip} \
             WHERE id = $1"
        );
        let mut values = params![cursor.id, slots, position, epoch, owner];
        if self.has_anchors() {
            values.extend(anchors::values(cursor.anchor));
        }
        Statement::new(update, values)
    }

    /// The fence (law 2): moves a cursor on if it still is what its owner believes. The old position
    /// stands in it too: a commit whose answer was lost is found out by it, not repeated.
    fn advance(&self, step: &Move, tip: &str) -> Statement {
        let ((from, epoch), to) = (step.from, step.cursor.point());
        // Where the log is in this database, there never is an anchor.
        let set = match to.anchor.is_some() {
            true => ", anchor_position = $5, anchor_id = $6, anchor_recorded_us = $7",
            false => "",
        };
        let update = format!(
            "UPDATE {} SET position = $4{set}{tip} WHERE id = $1 AND epoch = $2 AND position = $3",
            self.cursors
        );
        let mut values = params![step.cursor.id, epoch, from, to.position];
        if to.anchor.is_some() {
            values.extend(anchors::values(to.anchor));
        }
        Statement::fence(update, values, 1)
    }

    /// The statements that write a step of a cursor, each of them a fence. `entry` is for the record, if the
    /// consumer is audited.
    pub(crate) fn move_cursor(
        &self,
        consumer: &str,
        step: &Move,
        entry: Option<&Entry>,
    ) -> Vec<Statement> {
        let ((from, epoch), cursor) = (step.from, &step.cursor);
        let mut recorded = Vec::new();
        let mut tip = String::new();
        if let Some(entry) = entry {
            recorded.push(self.record_step(step, entry));
            tip = self.tip_is_last();
        }
        if step.absorbed.is_empty() && !step.lets_go() {
            recorded.push(self.advance(step, &tip));
            return recorded;
        }
        let cursors = &self.cursors;
        let update = format!(
            "UPDATE {cursors} SET position = $4, slots = $5, epoch = $6, owner = $7, \
             anchor_position = $8, anchor_id = $9, anchor_recorded_us = $10{tip} \
             WHERE id = $1 AND epoch = $2 AND position = $3"
        );
        let (to, slots, owner) = (cursor.position, cursor.slots.to_bytes(), cursor.owner.clone());
        let mut values = params![cursor.id, epoch, from, to, slots, cursor.epoch, owner];
        values.extend(anchors::values(cursor.anchor));
        let mut statements = vec![(cursor.id, Statement::fence(update, values, 1))];
        for other in &step.absorbed {
            let delete =
                format!("DELETE FROM {cursors} WHERE id = $1 AND epoch = $2 AND position = $3");
            let values = params![other.id, other.epoch, other.position];
            statements.push((other.id, Statement::fence(delete, values, 1)));
        }
        // In the order in which a claim locks them, so that the two cannot wait for each other.
        statements.sort_by_key(|(id, _)| *id);
        recorded.extend(statements.into_iter().map(|(_, each)| each));
        if let Some(freed) = &step.freed {
            // Both parts go on from the same row.
            let tip = match freed.record {
                Some(_) => Tip::Of(cursor.id),
                None => Tip::None,
            };
            recorded.push(self.write_cursor(consumer, freed, tip));
        }
        recorded
    }

    /// The fence for effects that move no cursor: those of parked events.
    pub(crate) fn hold(&self, id: i64, epoch: i64) -> Statement {
        let update =
            format!("UPDATE {} SET epoch = epoch WHERE id = $1 AND epoch = $2", self.cursors);
        Statement::fence(update, params![id, epoch], 1)
    }

    pub(super) fn cursor(&self, row: &Row) -> Result<Cursor, StoreError> {
        Ok(Cursor {
            id: self.column(row, "id")?,
            slots: self.slots(row)?,
            position: self.column(row, "position")?,
            epoch: self.column(row, "epoch")?,
            owner: self.column(row, "owner")?,
            anchor: self.anchor(row)?,
            record: self.column(row, "audit")?,
        })
    }

    pub(crate) fn slots(&self, row: &Row) -> Result<SlotSet, StoreError> {
        self.slots_in(row, "slots")
    }

    pub(crate) fn slots_in(&self, row: &Row, column: &str) -> Result<SlotSet, StoreError> {
        let bytes: Vec<u8> = self.column(row, column)?;
        let slots = SlotSet::from_bytes(&bytes);
        slots.ok_or_else(|| self.corrupt(format!("a slot set of {} bytes", bytes.len())))
    }

    fn check_cover(
        &self,
        consumer: &str,
        cursors: &[Cursor],
        slots: &SlotSet,
    ) -> Result<(), StoreError> {
        let broken = |error| self.corrupt(format!("cursors of `{consumer}` that {error}"));
        cursor::covers(cursors, slots).map_err(broken)
    }
}

/// A consumer, locked, and its cursors, if they are too.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) generation: i64,
    /// Where somebody wants it to begin again.
    pub(crate) reset_to: Option<Position>,
    /// The log on which that was asked for, if that is stored.
    pub(crate) reset_log: Option<Uuid>,
    pub(crate) slots: SlotSet,
    pub(crate) cursors: Vec<Cursor>,
}

//! Leaving out what is not handled: up to the end of the log, or up to a place that somebody was shown.

use crate::consumers::Consumers;
use crate::operate_error::OperateError;
use crate::standing;
use crate::tables::consumers::ParkedEvents;
use anabranch_core::audit::RecordKind;
use anabranch_core::{Cursor, Position, SlotSet, StoreError};
use anabranch_store::database::End;
use uuid::Uuid;

impl Consumers {
    /// Leaves out everything up to the end of the log, parked keys included. Returns that end. A consumer
    /// that stands beyond the log ([`Reason::BeyondLog`](crate::Reason::BeyondLog)) goes back to its end.
    pub async fn skip_to_head(&self, name: &str) -> Result<Position, OperateError> {
        self.must_follow_log(name).await?;
        let head = self.log.head().await?;
        self.skip_to(name, head).await
    }

    /// Leaves out everything up to a position, which is not beyond the end of the log: what was appended after somebody
    /// has looked is handled. Slots that have come further stay where they are. Keys that are set aside lose their events
    /// up to there. Returns the position.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::Consumers;
    /// let shown = log.head().await?;
    /// println!("everything up to {shown} would be left out");
    /// Consumers::new(&log).skip_to("order_summary", shown).await?;
    /// # Ok(()) }
    /// ```
    pub async fn skip_to(&self, name: &str, to: Position) -> Result<Position, OperateError> {
        self.must_follow_log(name).await?;
        // Read before the transaction, which may keep all others from the database. What stood beyond
        // all that was drawn later is not of this log.
        let before = self.tables.cursors(name).await?;
        let (head, drawn) = (self.log.head().await?, self.log.store().drawn().await?);
        let is_beyond = before.iter().any(|cursor| cursor.position > drawn);
        let other = self.is_other(name).await?;
        let to = standing::point(&self.log, to.min(head)).await?;
        let mut session = self.tables.database.control();
        let locked = self.tables.lock(session.as_mut(), name).await?;
        let is_elsewhere = |cursor: &Cursor| {
            other.is_some_and(|(is_other, _)| is_other) || (is_beyond && cursor.position > drawn)
        };
        // Lanes may have passed that position meanwhile; nothing is to be handled twice.
        let moves = |cursor: &&Cursor| is_elsewhere(cursor) || cursor.position <= to.position;
        let (moved, kept): (Vec<&Cursor>, Vec<&Cursor>) = locked.cursors.iter().partition(moves);
        let moved: Vec<Cursor> = moved.into_iter().cloned().collect();
        let all_are_elsewhere = !moved.is_empty() && moved.iter().all(is_elsewhere);
        let events =
            ParkedEvents::UpTo(if all_are_elsewhere { Position::END } else { to.position });
        let mut statements = Vec::new();
        for cursor in kept {
            let skipped = self.tables.parked_of(session.as_mut(), name, &cursor.slots, to.position);
            statements.extend(self.tables.record_skipped(cursor, &skipped.await?));
            statements.push(self.tables.free(cursor));
        }
        let slots = moved.iter().fold(SlotSet::empty(), |all, cursor| all.union(&cursor.slots));
        let fresh = if slots.is_empty() { Vec::new() } else { vec![Cursor::free(slots, to)] };
        let jump = RecordKind::Jump;
        statements.extend(self.tables.restart_with(name, &moved, fresh, events, jump));
        statements.extend(other.map(|(_, log)| self.tables.belongs_to(name, log)));
        match session.run(self.around(statements), End::Commit).await {
            Ok(_) => Ok(to.position),
            Err(failed) if failed.is_unmatched() => Err(self.unknown(name).await),
            Err(failed) => Err(self.tables.error(failed).into()),
        }
    }

    /// Whether the log is another one now than the consumer's, or was wound back; and which it is. Nothing if the
    /// database is older than that.
    async fn is_other(&self, name: &str) -> Result<Option<(bool, Uuid)>, StoreError> {
        if !self.tables.has_anchors() {
            return Ok(None);
        }
        let belonging = self.tables.belonging(name).await?;
        let is_other = standing::compare(&self.log, &belonging).await?.is_err();
        let is_other = is_other || belonging.wound_back.is_some();
        Ok(Some((is_other, self.log.identity().await?)))
    }
}

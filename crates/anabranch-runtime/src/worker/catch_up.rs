//! Whether the end is reached, for a worker that is to catch up and no more.

use super::Keeper;
use crate::run_error::RunError;
use anabranch_core::{Position, SlotSet};

impl Keeper {
    /// Whether the end is reached; not yet, if the database is away.
    pub(super) async fn is_at_end(&self, target: Position) -> Result<bool, RunError> {
        match self.is_done_or_others_are(target).await {
            Err(RunError::Store(error)) if error.is_transient() => Ok(false),
            done => done,
        }
    }

    /// Whether everything is handled up to a position, here or by those who hold it, and nothing that
    /// somebody asked for is left.
    async fn is_done_or_others_are(&self, target: Position) -> Result<bool, RunError> {
        if !self.running.iter().all(|running| running.is_settled()) {
            return Ok(false);
        }
        for running in &self.running {
            // Rows say nothing of how far those of others are done.
            if (running.is_alone() || running.has_rows()) && running.is_done(target) {
                continue;
            }
            if running.has_rows() {
                return Ok(false);
            }
            let cursors = self.tables.cursors(&running.consumer.name).await?;
            let behind = |cursor: &anabranch_core::Cursor| {
                cursor.position < target && !cursor.slots.is_disjoint(&running.universe)
            };
            if cursors.iter().any(behind) {
                return Ok(false);
            }
        }
        for running in &self.running {
            let slots = running.lane_slots.iter();
            let slots = slots.fold(SlotSet::empty(), |sum, slots| sum.union(slots));
            if self.tables.is_asked(&running.consumer.name, &slots).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

//! Claims: what a worker wants and is free is taken, and handed to its lanes.

use super::Keeper;
use crate::identity::Stored;
use crate::run_error::RunError;
use crate::tables::cursors::Wanted;
use anabranch_core::{Happening, Notice, StoreError};
use std::sync::Arc;

impl Keeper {
    /// Claims what is wanted and free, and hands it to the lanes.
    pub(super) async fn claim_all(&mut self) -> Result<(), RunError> {
        for number in 0..self.running.len() {
            if !self.running[number].claim || !self.running[number].is_up() {
                self.running[number].claim = false;
                continue;
            }
            let running = &self.running[number];
            let name = running.consumer.name.clone();
            let (consumer, rule) = (Arc::clone(&running.consumer), self.log.hash_rule());
            let is_same = |stored: &Stored| consumer.still_is(rule, Some(stored));
            let (worker, lanes) = (&self.worker.id, &running.lane_slots);
            let (wanted, losses) = (Wanted { lanes, all: &running.universe }, running.losses());
            let claimed = self.tables.claim(&name, is_same, worker, wanted).await;
            let held = match claimed {
                Ok(held) => held,
                Err(RunError::Store(error)) if error.is_worth_waiting() => {
                    self.notice_of(&name, Notice::CannotClaim, &error);
                    continue;
                }
                // Gone since the last heartbeat; the next one says so.
                Err(RunError::Store(StoreError::Corrupt { .. })) if self.is_gone(&name).await => {
                    continue;
                }
                // Or has another version since, of which this program knows.
                Err(RunError::Refused { .. }) if self.has_new_version(number) => {
                    self.running[number].claim = false;
                    continue;
                }
                Err(error) => {
                    self.is_broken(number, error)?;
                    continue;
                }
            };
            match self.stands_in_log(number, &held.cursors).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    self.is_broken(number, error)?;
                    continue;
                }
            }
            let running = &mut self.running[number];
            running.claim = false;
            if running.generation.is_some_and(|before| before != held.generation) {
                running.forget_all();
            }
            running.generation = Some(held.generation);
            let waiting = if running.lacks_slots() { held.waiting } else { Vec::new() };
            if waiting != running.waiting_for && !waiting.is_empty() {
                let awaited = Happening::slots_awaited(waiting.clone());
                self.tables.events.of(&name).emit(awaited);
            }
            running.waiting_for = waiting;
            running.hand_out(&held.cursors, &losses, self.membership.assigned.made);
        }
        Ok(())
    }

    async fn is_gone(&self, consumer: &str) -> bool {
        let known = self.tables.registered(Some(consumer)).await;
        known.is_ok_and(|known| known.is_empty())
    }
}

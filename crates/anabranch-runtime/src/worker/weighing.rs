//! What this worker measures of the load of its slots, told to the set every now and then.

use super::Keeper;
use crate::run_error::RunError;
use crate::tables::loads::{Measured, Weighed};
use anabranch_core::{Happening, Notice, Rates, SlotSet};
use std::time::Instant;

impl Keeper {
    /// Adds what was measured of the load of its slots, every now and then.
    pub(super) async fn weigh(&mut self) -> Result<(), RunError> {
        let Some(every) = self.plan.tuning.rebalance else { return Ok(()) };
        let seconds = self.membership.counting.elapsed().as_secs_f32();
        let owns = |running: &super::Running| !running.share().is_empty();
        if seconds < every.as_secs_f32() || !self.running.iter().any(owns) {
            return Ok(());
        }
        self.membership.counting = Instant::now();
        let measured = self.measured(seconds);
        let generation = self.membership.assigned.generation;
        let (worker, measured) = (self.worker.id.as_str(), measured.as_slice());
        let weighed = Weighed { worker, generation, measured, pause: every * 2 };
        match self.tables.weigh(&self.plan.name, weighed).await {
            Ok(Some(made)) => {
                let what = Happening::noticed(Notice::LoadMoved, None);
                self.tables.events.emit(what);
                self.tables.events.emit(made);
            }
            Ok(None) => {}
            Err(error) if error.is_worth_waiting() => {
                self.notice(Notice::CannotWeigh, &error);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.membership.weighed = Some(generation);
        Ok(())
    }

    /// Events per second: of the consumers that all members run together, since they move together, and of
    /// each other one.
    fn measured(&self, seconds: f32) -> Vec<Measured> {
        let assigned = &self.membership.assigned;
        let is_apart =
            |running: &&super::Running| assigned.apart.contains_key(&running.consumer.name);
        let (apart, together): (Vec<_>, Vec<_>) = self.running.iter().partition(is_apart);
        let measure = |consumer, of: &[&super::Running], slots: &SlotSet| {
            let mut rates = Rates::default();
            for slot in slots.iter() {
                let events: u32 = of.iter().map(|run| run.feed.take_count(slot)).sum();
                rates.set(slot, events as f32 / seconds);
            }
            Measured { consumer, rates, slots: slots.clone() }
        };
        let mut measured = vec![measure(None, &together, &assigned.of_set.slots)];
        measured.extend(apart.into_iter().map(|running| {
            let name = &running.consumer.name;
            measure(Some(name.clone()), &[running], &assigned.of(name).slots)
        }));
        measured
    }
}

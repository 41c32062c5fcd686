//! Whether all workers of a pool know its limit: one that does not takes no permits, so it does not hold.

use super::Keeper;
use super::running::Running;
use crate::status::Unlimited;
use anabranch_core::{Happening, Notice};

impl Keeper {
    /// Says so, once, if others run something without the limit that this worker knows.
    pub(super) async fn check_limits(&mut self) {
        let has_limit = |running: &Running| running.consumer.max_parallelism().is_some();
        if !self.running.iter().any(has_limit) {
            return;
        }
        let workers = match self.tables.workers().await {
            Ok(workers) => workers,
            // `status` knows it in any case.
            Err(error) => return self.notice(Notice::CannotSeeLimits, &error),
        };
        for running in self.running.iter_mut().filter(|running| has_limit(running)) {
            let consumer = &running.consumer.name;
            let unlimited = Unlimited::of(consumer, &workers);
            if let Some(unlimited) = unlimited.filter(|_| !running.is_unlimited) {
                let what = Happening::noticed(Notice::LimitNotHeld, unlimited.to_string());
                self.tables.events.of(consumer).emit(what);
            }
            running.is_unlimited = unlimited.is_some();
        }
    }
}

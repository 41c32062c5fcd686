//! For a worker that is to catch up and no more: whether the end is reached, and what is left then.

use super::Keeper;
use super::running::Running;
use crate::backlog::Backlog;
use crate::incomplete::{Incomplete, Left};
use crate::replica_set::Progress;
use crate::report::Doing;
use crate::run_error::RunError;
use anabranch_core::{Position, StoreError};
use anabranch_store::Backoff;
use std::time::{Duration, Instant};

/// How long to ask a database that is away what is left.
const ASK: Duration = Duration::from_secs(5);

impl Keeper {
    /// Whether its own lanes have done all they can, as far as they know: cheap.
    pub(super) fn seems_at_end(&self, target: Position) -> bool {
        self.up().all(|running| running.is_done(target) && running.is_settled())
    }

    /// Those that can still go on.
    fn up(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().filter(|running| running.is_up())
    }

    /// Whether the end is reached; not yet, if the database is away.
    pub(super) async fn is_at_end(&self, target: Position) -> Result<bool, RunError> {
        match self.is_done_or_others_are(target).await {
            Err(error) if error.is_worth_waiting() => Ok(false),
            done => Ok(done?),
        }
    }

    /// Whether everything up to a position is handled or parked, here or by those who hold it, and
    /// nothing that somebody asked for is left.
    async fn is_done_or_others_are(&self, target: Position) -> Result<bool, StoreError> {
        for running in self.up() {
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
        // After the cursors: what they have passed is handled, or in these tables.
        for running in self.up() {
            let (name, slots) = (&running.consumer.name, &running.universe);
            let is_unsettled = match running.has_rows() {
                true => {
                    let backlog = self.backlog(running, target).await?;
                    // A standby has no lanes that could say that nothing is left.
                    let is_standby = running.share().is_empty();
                    !running.is_settled()
                        || backlog.aside(slots).retrying_keys > 0
                        || (is_standby && backlog.tasks(slots) > 0)
                }
                false => self.tables.is_unsettled(name, slots, target).await?,
            };
            if is_unsettled {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn backlog(&self, running: &Running, target: Position) -> Result<Backlog, StoreError> {
        Backlog::up_to(&self.tables, &running.consumer.name, !running.has_rows(), target).await
    }

    /// A success, if everything up to the target is handled; otherwise what is left.
    pub(super) async fn complete(
        &self,
        target: Position,
        was_stopped: bool,
        progress: Progress,
    ) -> Result<Progress, RunError> {
        let (mut backoff, until) = (Backoff::default(), Instant::now() + ASK);
        let left = loop {
            match self.left(target, was_stopped).await {
                Err(error) if error.is_worth_waiting() && Instant::now() < until => {
                    tokio::time::sleep(backoff.wait()).await;
                }
                left => break left?,
            }
        };
        if left.is_empty() {
            return Ok(progress);
        }
        let replica_set = self.plan.name.clone();
        let left = Incomplete { replica_set, target, was_stopped, left, progress };
        Err(RunError::Incomplete(Box::new(left)))
    }

    async fn left(&self, target: Position, was_stopped: bool) -> Result<Vec<Left>, StoreError> {
        let mut all = Vec::new();
        for running in &self.running {
            let (name, slots) = (running.consumer.name.clone(), &running.universe);
            // Before the keys: what the cursors have passed is handled, or one of those.
            let mut unseen = 0;
            if was_stopped && !running.has_rows() {
                let cursors = self.tables.cursors(&name).await?;
                let ours = cursors.iter().filter(|cursor| !cursor.slots.is_disjoint(slots));
                let lowest = ours.map(|cursor| cursor.position).min().unwrap_or_default();
                unseen = target.get().saturating_sub(lowest.get());
            }
            let mut backlog = self.backlog(running, target).await?;
            // A key may have none up to the target; one of a pool may be paused and have no tasks.
            backlog.keys.retain(|key| slots.contains(key.slot) && key.events > 0);
            let aside = backlog.aside(slots);
            if was_stopped && running.has_rows() {
                unseen = backlog.tasks(slots).saturating_sub(aside.retrying_events);
            }
            let left = Left {
                consumer: name,
                is_pool: running.has_rows(),
                unseen,
                parked_keys: aside.parked_keys,
                parked_events: aside.parked_events,
                retrying_keys: aside.retrying_keys,
                retrying_events: aside.retrying_events,
                first_error: backlog.keys.first().map(|key| Doing::cut(&key.error)),
            };
            if !left.is_nothing() {
                all.push(left);
            }
        }
        Ok(all)
    }
}

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
    pub(super) fn seems_at_end(&self) -> bool {
        let is_at = |target| {
            self.up().all(|running: &Running| running.is_done(target) && self.is_settled(running))
        };
        self.target.is_some_and(is_at)
    }

    /// Whether nothing of a consumer is tried again by itself in this run: by a clock that stands still nothing
    /// is.
    fn is_settled(&self, running: &Running) -> bool {
        self.is_by_hand() || running.is_settled()
    }

    fn is_by_hand(&self) -> bool {
        self.tables.database.clock().is_by_hand()
    }

    /// Those that can still go on.
    fn up(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().filter(|running| running.is_up())
    }

    /// Whether the end is reached; not yet, if the database is away. What the consumers have appended on the way
    /// is theirs as well.
    pub(super) async fn is_at_end(&mut self) -> Result<bool, RunError> {
        let Some(target) = self.target else { return Ok(false) };
        match self.is_done_or_others_are(target).await {
            Ok(true) => match self.follow_appends().await {
                Err(error) if error.is_worth_waiting() => Ok(false),
                has_more => Ok(!has_more?),
            },
            Err(error) if error.is_worth_waiting() => Ok(false),
            done => Ok(done?),
        }
    }

    /// If the consumers may have appended since the target was taken, the end of the log is the target. Says
    /// whether that is further. One that only found what it had appended before changes nothing.
    async fn follow_appends(&mut self) -> Result<bool, StoreError> {
        let asked = |any, running: &Running| running.has_appended() | any;
        self.has_appended |= self.running.iter().fold(false, asked);
        if !self.has_appended {
            return Ok(false);
        }
        let head = self.log.head().await?;
        self.has_appended = false;
        let is_further = self.target.is_some_and(|target| target < head);
        if is_further {
            self.target = Some(head);
        }
        Ok(is_further)
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
                    !self.is_settled(running)
                        || (!self.is_by_hand() && backlog.aside(slots).retrying_keys > 0)
                        || (is_standby && backlog.tasks(slots) > 0)
                }
                false => {
                    let waits = !self.is_by_hand();
                    self.tables.is_unsettled(name, slots, target, waits).await?
                }
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
        &mut self,
        was_stopped: bool,
        progress: Progress,
    ) -> Result<Progress, RunError> {
        let (mut backoff, until) = (Backoff::default(), Instant::now() + ASK);
        let left = loop {
            match self.left(was_stopped).await {
                Err(error) if error.is_worth_waiting() && Instant::now() < until => {
                    tokio::time::sleep(backoff.wait()).await;
                }
                left => break left?,
            }
        };
        if left.is_empty() {
            return Ok(progress);
        }
        let (replica_set, target) = (self.plan.name.clone(), self.target.unwrap_or_default());
        let left = Incomplete { replica_set, target, was_stopped, left, progress };
        Err(RunError::Incomplete(Box::new(left)))
    }

    async fn left(&mut self, was_stopped: bool) -> Result<Vec<Left>, StoreError> {
        if was_stopped {
            self.follow_appends().await?;
        }
        let (target, mut all) = (self.target.unwrap_or_default(), Vec::new());
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

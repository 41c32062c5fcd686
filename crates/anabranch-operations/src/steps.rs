//! Carrying it out step by step: each step with how far it is, for whoever has the turn.

use crate::basis::Bound;
use crate::journal::Stage;
#[cfg(feature = "webhook")]
use crate::look::delivery_filter;
use crate::operation_error::OperationError;
use crate::operations::Operations;
use crate::plan::{Plan, PlanState};
use crate::request::{Request, task_filter};
use crate::turn::Turn;
use anabranch_core::{ErrorKind, StoreError};
use anabranch_runtime::ParkedPage;
use anabranch_store::database::{End, Statement};
#[cfg(feature = "webhook")]
use anabranch_webhook::{Deliveries, ResendPlace};
use anabranch_workpool::{TaskPage, Tasks};
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How many things a step is about if no rate was asked for.
pub(crate) const STEP: usize = 500;
/// How long a database is waited for that is away, and how soon to look again.
const PATIENCE: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_secs(1);
/// How many steps there are in a second if one was.
const STEPS_A_SECOND: u32 = 5;

impl Operations {
    /// Carries out a plan step by step, or goes on with one that was left.
    pub(crate) async fn carry_many(
        &self,
        plan: &Plan,
        progress: &mut (dyn FnMut(&Plan) + Send),
    ) -> Result<Plan, OperationError> {
        // Of this call alone: whoever applies the plan as well, with this handle or another, is somebody else.
        let runner = Uuid::now_v7().to_string();
        self.begin(plan, &runner).await?;
        let _turn = Turn::keep(self, plan.id, &runner);
        let mut plan = self.get(plan.id).await?;
        let (size, pause) = pace(plan.readable()?.per_second());
        let (mut next, mut away_since) = (Instant::now(), None);
        loop {
            progress(&plan);
            tokio::time::sleep_until(next).await;
            next = Instant::now() + pause;
            let after = plan.after.clone();
            let stepped = |done: u64, last: &str| {
                vec![self.tables.stepped(plan.id, &runner, done, (after.as_deref(), last))]
            };
            let error = match self.step(&plan, after.as_deref(), size, stepped).await {
                Ok(Some((done, last))) => {
                    plan.done += done;
                    plan.after = Some(last);
                    away_since = None;
                    continue;
                }
                Ok(None) => match self.end(&plan, &runner).await {
                    Ok(ended) => return Ok(ended),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !is_away(&error) {
                return self.failed(&plan, &runner, error).await;
            }
            if away_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err(error);
            }
            next = Instant::now() + AGAIN;
            // What was stored last may be more than what was answered.
            if let Ok(stored) = self.get(plan.id).await {
                plan = stored;
            }
        }
    }

    /// Ends a plan that was left and that nobody can go on with, since it is out of date by now. Says why; or that
    /// somebody is at it.
    pub(crate) async fn end_left(&self, plan: &Plan, error: OperationError) -> OperationError {
        if is_away(&error) {
            return error;
        }
        let runner = Uuid::now_v7().to_string();
        let statements = vec![
            self.tables.taken_up(plan.id, &runner, &self.by),
            self.tables.gave_up(plan.id, &runner, &error.to_string()),
            self.tables.entry(plan, Stage::Failed, &self.by),
        ];
        match self.tables.database.control().run(statements, End::Commit).await {
            Err(failed) if failed.is_unmatched() => match self.get(plan.id).await {
                Ok(now) if now.state == PlanState::Running => {
                    OperationError::Running { id: plan.id }
                }
                Ok(now) => OperationError::Used { id: plan.id, state: now.state },
                Err(_) => error,
            },
            // What could not be written down now is found again by whoever applies it next.
            Ok(_) | Err(_) => error,
        }
    }

    /// What becomes of a plan whose step was refused: somebody has cancelled it or goes on with it, or it has failed.
    async fn failed(
        &self,
        plan: &Plan,
        runner: &str,
        error: OperationError,
    ) -> Result<Plan, OperationError> {
        let problem = error.to_string();
        let statements = vec![
            self.tables.gave_up(plan.id, runner, &problem),
            self.tables.entry(plan, Stage::Failed, &self.by),
        ];
        let stored = self.tables.database.control().run(statements, End::Commit).await;
        let Err(failed) = stored else { return Err(error) };
        // Why it failed is told, though it could not be written down.
        let Ok(now) = self.get(plan.id).await else { return Err(error) };
        match now.state {
            PlanState::Cancelled | PlanState::Done => Ok(now),
            PlanState::Running if failed.is_unmatched() => {
                Err(OperationError::Running { id: plan.id })
            }
            _ => Err(error),
        }
    }

    async fn begin(&self, plan: &Plan, runner: &str) -> Result<(), OperationError> {
        let known = plan.basis.consumers.iter();
        let unchanged = known.map(|known| self.consumers.unchanged(known));
        let mut statements: Vec<_> = unchanged.collect();
        match plan.state {
            PlanState::Open => {
                statements.push(self.tables.begun(plan.id, runner, &self.by));
                statements.push(self.tables.entry(plan, Stage::Began, &self.by));
            }
            _ => statements.push(self.tables.taken_up(plan.id, runner, &self.by)),
        }
        match self.tables.database.control().run(statements, End::Commit).await {
            Ok(_) => Ok(()),
            Err(failed) if failed.is_unmatched() => {
                let (now, has_expired) = self.stored(plan.id).await?;
                Err(match now.state {
                    PlanState::Open if has_expired => OperationError::Expired { id: plan.id },
                    PlanState::Open | PlanState::Running => match self.must_be_true(plan).await {
                        Err(error) => error,
                        Ok(()) => OperationError::Running { id: plan.id },
                    },
                    state => OperationError::Used { id: plan.id, state },
                })
            }
            Err(failed) => match self.get(plan.id).await {
                // The answer to the commit was lost, and not the commit.
                Ok(now) if now.runner.as_deref() == Some(runner) => Ok(()),
                _ => Err(failed.into_store_error(self.log.at()).into()),
            },
        }
    }

    async fn end(&self, plan: &Plan, runner: &str) -> Result<Plan, OperationError> {
        let statements = vec![
            self.tables.finished(plan.id, runner),
            self.tables.entry(plan, Stage::Done, &self.by),
        ];
        match self.tables.database.control().run(statements, End::Commit).await {
            Ok(_) => {}
            // Somebody has cancelled it just now, or has taken it up, or the answer to this was lost: its state says what.
            Err(failed) if failed.is_unmatched() => {}
            Err(failed) => return Err(failed.into_store_error(self.log.at()).into()),
        }
        self.get(plan.id).await
    }

    /// The next things that the filter of a plan finds: with how many it was done, and up to which. None at the end.
    pub(crate) async fn step(
        &self,
        plan: &Plan,
        after: Option<&str>,
        limit: usize,
        then: impl Fn(u64, &str) -> Vec<Statement> + Send + Sync,
    ) -> Result<Option<(u64, String)>, OperationError> {
        let (request, bound) = (plan.readable()?, plan.basis.bound);
        let unbound = || Err(self.unbound(request).into());
        match request {
            Request::Parked { consumer, action, filter, .. } => {
                let Bound::ParkedUpTo(up_to_us, up_to) = bound else { return unbound() };
                let action = *action;
                let page = ParkedPage { consumer, filter, up_to_us, up_to, after, limit, action };
                Ok(self.consumers.ask_page(&page, then).await?)
            }
            Request::Tasks { action, state, conditions, .. } => {
                let Bound::Tasks(bound) = bound else { return unbound() };
                let filter = task_filter(*action, *state, conditions)?;
                let after = after.map(str::parse).transpose();
                let after = after.map_err(|error| self.no_place(&error))?.unwrap_or(0);
                let page = TaskPage { filter: &filter, bound, after, limit, action: *action };
                let then = |done: u64, last: i64| then(done, &last.to_string());
                let stepped = Tasks::act_on_page(&self.log, &page, then).await?;
                Ok(stepped.map(|(done, last)| (done, last.to_string())))
            }
            #[cfg(feature = "webhook")]
            Request::Resend { consumer, filter, .. } => {
                let Bound::DeliveriesUpTo(until_us) = bound else { return unbound() };
                let filter = delivery_filter(consumer, filter, until_us)?;
                let place = after.map(serde_json::from_str).transpose();
                let place: Option<ResendPlace> = place.map_err(|error| self.no_place(&error))?;
                let written =
                    |place: &ResendPlace| serde_json::to_string(place).unwrap_or_default();
                let then = |asked: u64, last: &ResendPlace| then(asked, &written(last));
                let deliveries = Deliveries::new(&self.log);
                let sent = deliveries.resend_page(&filter, place.as_ref(), limit, then).await?;
                Ok(sent.last.map(|last| (sent.asked, written(&last))))
            }
            #[cfg(not(feature = "webhook"))]
            Request::Resend { .. } => Err(OperationError::NoWebhooks),
            // Each is one transaction.
            Request::Pause { .. }
            | Request::Resume { .. }
            | Request::Replay { .. }
            | Request::ReplayKey { .. }
            | Request::SkipToHead { .. }
            | Request::Task { .. }
            | Request::Rebalance { .. }
            | Request::PauseKey { .. }
            | Request::ResumeKey { .. }
            | Request::SwitchRebuild { .. }
            | Request::Forget { .. } => Ok(None),
        }
    }

    /// That what is stored is no place to go on from. To begin again at the first would do things twice.
    fn no_place(&self, error: &dyn std::error::Error) -> StoreError {
        self.tables.corrupt(format!("a plan that does not say how far it is: `after`: {error}"))
    }
}

/// Whether the database cannot do it for the time being.
fn is_away(error: &OperationError) -> bool {
    error.kind() == ErrorKind::Unavailable
}

/// How many things a step is about, and how long it takes at least.
fn pace(rate: Option<NonZeroU32>) -> (usize, Duration) {
    let Some(rate) = rate.map(NonZeroU32::get) else { return (STEP, Duration::ZERO) };
    let size = rate.div_ceil(STEPS_A_SECOND);
    (size as usize, Duration::from_secs_f64(f64::from(size) / f64::from(rate)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_by_small_steps() {
        for rate in [1, 2, 4, 5, 7, 100, 12_345] {
            let (size, pause) = pace(NonZeroU32::new(rate));
            let is = size as f64 / pause.as_secs_f64();
            assert!((is - f64::from(rate)).abs() < 0.01 * f64::from(rate), "{rate}: {is}");
            assert!(pause <= Duration::from_secs(1), "{rate}: somebody waits for each step");
        }
        assert_eq!(pace(None), (STEP, Duration::ZERO));
    }
}

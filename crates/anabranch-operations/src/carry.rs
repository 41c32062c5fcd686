//! Carrying it out: in one transaction with its entry in the journal, or step by step, each step with how far it is.

use crate::basis::{Basis, Bound};
use crate::journal::Stage;
#[cfg(feature = "webhook")]
use crate::look::delivery_filter;
use crate::operation_error::OperationError;
use crate::operations::{Looked, Operations};
use crate::plan::{Plan, PlanState};
use crate::request::{Request, task_filter};
use anabranch_core::{ErrorKind, Position, time};
use anabranch_runtime::{ParkedPage, ReplayFrom};
use anabranch_store::database::{End, Statement};
#[cfg(feature = "webhook")]
use anabranch_webhook::{Deliveries, ResendPlace};
use anabranch_workpool::{TaskAction, TaskBound, TaskError, TaskPage, Tasks};
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How many things a step is about if no rate was asked for.
const STEP: usize = 500;
/// How long a database is waited for that is away, and how soon to look again.
const PATIENCE: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_secs(1);
/// How many steps there are in a second if one was.
const STEPS_A_SECOND: u32 = 5;

/// Statements before and after those of an operation, in its transaction.
#[derive(Clone, Default)]
struct Around {
    before: Vec<Statement>,
    after: Vec<Statement>,
}

impl Operations {
    /// Carries out an open plan in one transaction.
    pub(crate) async fn carry_one(&self, plan: &Plan) -> Result<Plan, OperationError> {
        let unchanged = plan.basis.consumers.iter().map(|known| self.consumers.unchanged(known));
        let around = Around {
            before: unchanged.collect(),
            after: vec![
                self.tables.applied(plan.id),
                self.tables.entry(plan, Stage::Applied, &self.by),
            ],
        };
        let done = self.change(&plan.request, &plan.basis, around).await;
        if let Err(error) = done {
            // What was added to the transaction may be what did not match: that tells more.
            let (now, has_expired) = self.stored(plan.id).await?;
            return Err(match now.state {
                PlanState::Open if has_expired => OperationError::Expired { id: plan.id },
                PlanState::Open => match self.must_be_true(plan).await {
                    Err(outdated @ OperationError::Outdated { .. }) => outdated,
                    _ => error,
                },
                state => OperationError::Used { id: plan.id, state },
            });
        }
        self.get(plan.id).await
    }

    /// Carries out a request on a log without plans.
    pub(crate) async fn carry_unwritten(&self, request: &Request) -> Result<Plan, OperationError> {
        let Looked { basis, effect, total } = self.look_at(request).await?;
        let now = time::from_micros(0);
        let mut plan = Plan {
            id: Uuid::nil(),
            verb: request.verb(),
            target: request.target().into_owned(),
            hash: basis.hash(request),
            request: request.clone(),
            effect,
            who: self.by.who.clone(),
            via: self.by.via.clone(),
            state: PlanState::Done,
            made_at: now,
            expires_at: now,
            began_at: None,
            ended_at: None,
            total,
            done: 0,
            gone: 0,
            problem: None,
            basis,
            after: None,
        };
        if !request.is_of_many() {
            self.change(request, &plan.basis, Around::default()).await?;
            plan.done = 1;
            return Ok(plan);
        }
        let mut after = None;
        while let Some((done, last)) =
            self.step(&plan, after.as_deref(), STEP, |_, _| Vec::new()).await?
        {
            plan.done += done;
            after = Some(last);
        }
        plan.gone = plan.total.saturating_sub(plan.done);
        Ok(plan)
    }

    /// One change, in one transaction.
    async fn change(
        &self,
        request: &Request,
        basis: &Basis,
        Around { before, after }: Around,
    ) -> Result<(), OperationError> {
        let bound = basis.bound;
        let consumers = self.consumers.in_transaction_with(before.clone(), after.clone());
        match request {
            Request::Pause { consumer } => consumers.pause(consumer).await?,
            Request::Resume { consumer } => consumers.resume(consumer).await?,
            Request::Replay { consumer, new_ids, .. } => {
                let Bound::ReplayAfter(to) = bound else { return Ok(()) };
                let from = ReplayFrom::After(to);
                match new_ids {
                    true => consumers.replay_under_new_ids(consumer, from, true).await?,
                    false => consumers.replay_what_is_left(consumer, from).await?,
                };
            }
            Request::ReplayKey { consumer, key, accept_missing } => match accept_missing {
                true => consumers.replay_what_is_left_of_key(consumer, key).await?,
                false => consumers.replay_key(consumer, key).await?,
            },
            Request::Rebalance { replica_set } => match &basis.set {
                Some((_, generation)) => {
                    drop(consumers.rebalance_of(replica_set, *generation).await?);
                }
                None => drop(consumers.rebalance(replica_set).await?),
            },
            Request::SkipToHead { consumer } => {
                let to = if let Bound::SkipUpTo(to) = bound { to } else { Position::START };
                consumers.skip_to(consumer, to).await?;
            }
            Request::Forget { consumer } => {
                if self.consumers.status(consumer).await?.is_run() {
                    return Err(OperationError::StillRunning { consumer: consumer.clone() });
                }
                // And nobody may begin to run it in between.
                let before = [vec![self.consumers.not_run(consumer)], before].concat();
                self.consumers.in_transaction_with(before, after).forget(consumer).await?;
            }
            Request::SwitchRebuild { consumer, tables } => {
                self.rebuild(consumer, tables).in_transaction_with(before, after).switch().await?;
            }
            Request::PauseKey { pool, key } => {
                Tasks::new(&self.log, pool).in_transaction_with(after).pause_key(key).await?;
            }
            Request::ResumeKey { pool, key } => {
                Tasks::new(&self.log, pool).in_transaction_with(after).resume_key(key).await?;
            }
            Request::Task { action, id, force } => {
                let tasks = Tasks::new(&self.log, "").in_transaction_with(after);
                match action {
                    TaskAction::Retry if *force => drop(tasks.retry_anyway(*id).await?),
                    TaskAction::Retry => tasks.retry(*id).await?,
                    TaskAction::Discard => tasks.discard(*id).await?,
                    TaskAction::Cancel => self.cancel_task(&tasks, *id).await?,
                }
            }
            Request::Parked { .. } | Request::Tasks { .. } | Request::Resend { .. } => {}
        }
        Ok(())
    }

    async fn cancel_task(&self, tasks: &Tasks, id: Uuid) -> Result<(), OperationError> {
        if tasks.cancel(id).await? {
            return Ok(());
        }
        let Some(task) = tasks.status(id).await? else {
            return Err(TaskError::NoSuchTask { task: id }.into());
        };
        let (state, wanted) = (task.state, "an open one can be cancelled");
        Err(TaskError::WrongState { task: id, state, wanted }.into())
    }

    /// Carries out a plan step by step, or goes on with one that was left.
    pub(crate) async fn carry_many(
        &self,
        plan: &Plan,
        progress: &mut (dyn FnMut(&Plan) + Send),
    ) -> Result<Plan, OperationError> {
        // Of this call alone: whoever applies the plan as well, with this handle or another, is somebody else.
        let runner = Uuid::now_v7().to_string();
        self.begin(plan, &runner).await?;
        let mut plan = self.get(plan.id).await?;
        let rate = plan.request.per_second();
        let (size, pause) = pace(rate);
        let (mut next, mut away_since) = (Instant::now(), None);
        loop {
            progress(&plan);
            tokio::time::sleep_until(next).await;
            next = Instant::now() + pause;
            let after = plan.after.clone();
            let stepped = |done: u64, last: &str| {
                vec![self.tables.stepped(plan.id, &runner, done, (after.as_deref(), last))]
            };
            match self.step(&plan, after.as_deref(), size, stepped).await {
                Ok(Some((done, last))) => {
                    plan.done += done;
                    plan.after = Some(last);
                    away_since = None;
                }
                Ok(None) => return self.end(&plan, &runner).await,
                Err(error) if is_away(&error) => {
                    let since = *away_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        return Err(error);
                    }
                    next = Instant::now() + AGAIN;
                    // What was stored last may be more than what was answered.
                    if let Ok(stored) = self.get(plan.id).await {
                        plan = stored;
                    }
                }
                Err(error) => return self.failed(&plan, &runner, error).await,
            }
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
        let now = self.get(plan.id).await?;
        match (stored, now.state) {
            (Err(_), PlanState::Cancelled | PlanState::Done) => Ok(now),
            (Err(_), PlanState::Running) => Err(OperationError::Running { id: plan.id }),
            _ => Err(error),
        }
    }

    async fn begin(&self, plan: &Plan, runner: &str) -> Result<(), OperationError> {
        let known = plan.basis.consumers.iter();
        let unchanged = known.map(|known| self.consumers.unchanged(known));
        let mut statements: Vec<_> = unchanged.collect();
        match plan.state {
            PlanState::Open => {
                statements.push(self.tables.begun(plan.id, runner));
                statements.push(self.tables.entry(plan, Stage::Began, &self.by));
            }
            _ => statements.push(self.tables.taken_up(plan.id, runner)),
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
            Err(failed) => Err(failed.into_store_error(self.log.at()).into()),
        }
    }

    async fn end(&self, plan: &Plan, runner: &str) -> Result<Plan, OperationError> {
        let statements = vec![
            self.tables.finished(plan.id, runner),
            self.tables.entry(plan, Stage::Done, &self.by),
        ];
        match self.tables.database.control().run(statements, End::Commit).await {
            Ok(_) => {}
            // Somebody has cancelled it just now, or has taken it up: it says itself how it stands.
            Err(failed) if failed.is_unmatched() => {}
            Err(failed) => return Err(failed.into_store_error(self.log.at()).into()),
        }
        self.get(plan.id).await
    }

    /// The next things that the filter of a plan finds: with how many it was done, and up to which. None at the end.
    async fn step(
        &self,
        plan: &Plan,
        after: Option<&str>,
        limit: usize,
        then: impl Fn(u64, &str) -> Vec<Statement> + Send + Sync,
    ) -> Result<Option<(u64, String)>, OperationError> {
        match &plan.request {
            Request::Parked { consumer, action, filter, .. } => {
                let Bound::ParkedUpTo(up_to_us) = plan.basis.bound else { return Ok(None) };
                let action = *action;
                let page = ParkedPage { consumer, filter, up_to_us, after, limit, action };
                Ok(self.consumers.ask_page(&page, then).await?)
            }
            Request::Tasks { action, state, conditions, .. } => {
                let bound = match plan.basis.bound {
                    Bound::Tasks(bound) => bound,
                    _ => TaskBound::NONE,
                };
                let filter = task_filter(*action, *state, conditions)?;
                let after = after.and_then(|after| after.parse().ok()).unwrap_or(0);
                let page = TaskPage { filter: &filter, bound, after, limit, action: *action };
                let then = |done: u64, last: i64| then(done, &last.to_string());
                let stepped = Tasks::act_on_page(&self.log, &page, then).await?;
                Ok(stepped.map(|(done, last)| (done, last.to_string())))
            }
            #[cfg(feature = "webhook")]
            Request::Resend { consumer, filter, .. } => {
                let Bound::DeliveriesUpTo(until_us) = plan.basis.bound else { return Ok(None) };
                let filter = delivery_filter(consumer, filter, until_us)?;
                let place = after.and_then(|after| serde_json::from_str(after).ok());
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

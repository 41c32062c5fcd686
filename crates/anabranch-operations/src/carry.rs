//! Carrying it out in one transaction, with its entry in the journal. (What goes step by step is in `steps`.)

use crate::basis::{Basis, Bound};
use crate::journal::Stage;
use crate::operation_error::OperationError;
use crate::operations::{Looked, Operations};
use crate::plan::{Plan, PlanState};
use crate::request::Request;
use crate::steps::STEP;
use anabranch_core::{StoreError, time};
use anabranch_runtime::ReplayFrom;
use anabranch_store::database::Statement;
use anabranch_workpool::{TaskAction, TaskError, Tasks};
use uuid::Uuid;

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
        // Of this call alone, so that it knows its own commit from that of another one.
        let runner = Uuid::now_v7().to_string();
        let around = Around {
            before: unchanged.collect(),
            after: vec![
                self.tables.applied(plan.id, &runner, &self.by),
                self.tables.entry(plan, Stage::Applied, &self.by),
            ],
        };
        let done = self.change(plan.readable()?, &plan.basis, around).await;
        if let Err(error) = done {
            // What was added to the transaction may be what did not match: that tells more.
            let (now, has_expired) = self.stored(plan.id).await?;
            return match now.state {
                // The answer to the commit was lost, and not the commit.
                PlanState::Done if now.runner.as_ref() == Some(&runner) => Ok(now),
                PlanState::Open if has_expired => Err(OperationError::Expired { id: plan.id }),
                PlanState::Open => match self.must_be_true(plan).await {
                    Err(outdated @ OperationError::Outdated { .. }) => Err(outdated),
                    _ => Err(error),
                },
                state => Err(OperationError::Used { id: plan.id, state }),
            };
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
            request: Some(request.clone()),
            effect,
            who: self.by.who.clone(),
            via: self.by.via.clone(),
            applied_by: Some(self.by.who.clone()),
            applied_via: Some(self.by.via.clone()),
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
            unreadable: None,
            runner: None,
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
                let Bound::ReplayAfter(to) = bound else {
                    return Err(self.unbound(request).into());
                };
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
                let Bound::SkipUpTo(to) = bound else { return Err(self.unbound(request).into()) };
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
            // What goes step by step is not carried out here.
            Request::Parked { .. } | Request::Tasks { .. } | Request::Resend { .. } => {}
        }
        Ok(())
    }

    /// A plan that does not say up to where it goes, though all plans of its kind do. Nothing is done for it: whoever
    /// applied it would take it for done.
    pub(crate) fn unbound(&self, request: &Request) -> StoreError {
        self.tables.corrupt(format!("a plan to {} that has no bound", request.verb()))
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
}

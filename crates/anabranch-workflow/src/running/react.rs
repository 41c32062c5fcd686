//! What follows from an event, enqueued in the transaction that moves the cursor past it: once.

use super::job::{Job, task_id, timer_key};
use super::{action_pool, command_pool};
use crate::lifecycle::{Lifecycle, is_ours};
use crate::{Reaction, Reactions, Workflow, Workflows};
use anabranch_core::{Event, Partition, TraceContext};
use anabranch_runtime::{HandlerError, HandlerResult, Projection, RawTx, Settings, Tx};
use anabranch_store::Backoff;
use anabranch_workpool::{NewTask, Tasks};
use std::collections::BTreeMap;

/// Turns the events of a workflow into tasks.
pub(super) struct React<W: Workflow> {
    name: String,
    workflows: Workflows<W>,
    commands: Tasks,
    actions: Tasks,
}

impl<W: Workflow> React<W> {
    pub(super) fn of(workflows: &Workflows<W>) -> Self {
        let (log, name) = (workflows.log(), workflows.workflow().name());
        Self {
            name: format!("{name}.react"),
            workflows: workflows.clone(),
            commands: Tasks::new(log, command_pool(name)),
            actions: Tasks::new(log, action_pool(name)),
        }
    }

    /// What follows from an event. It may read, so it comes before the first statement of the transaction: a
    /// database may have one connection for both.
    async fn reactions(&self, event: &Event) -> HandlerResult<Reactions<W>> {
        let (inner, id) = (&self.workflows.inner, event.stream_id());
        let mut backoff = Backoff::default();
        let (after, happened) = loop {
            match inner.state_after(event, inner.reacted.take(id)).await {
                // That is not the event's fault.
                Err(error) if error.is_transient() => tokio::time::sleep(backoff.wait()).await,
                folded => break folded?,
            }
        };
        let reactions =
            happened.map(|happened| self.workflows.workflow().react(id, &after.state, &happened));
        inner.reacted.keep(id, after, |this, kept| this.version > kept.version);
        Ok(reactions.unwrap_or_default())
    }

    async fn enqueue(
        &self,
        event: &Event,
        reactions: Reactions<W>,
        tx: &mut Tx,
        batch: &mut Batch,
    ) -> HandlerResult {
        let id = event.stream_id();
        batch.trace = tx.trace();
        if is_ours(event.event_type()) {
            batch.flush(tx, self).await?;
            return self.change(id, &Lifecycle::decode(event)?, tx).await;
        }
        for (number, reaction) in reactions.into_iter().enumerate() {
            let task = task_id(event.id(), number);
            match reaction {
                Reaction::Command(command) => {
                    let command = serde_json::to_value(command)?;
                    batch.add(self.commands.pool(), Job::command(id, command, task));
                }
                Reaction::Action(action) => {
                    batch.add(self.actions.pool(), NewTask::new(id, &action).with_id(task));
                }
                Reaction::Timer { name, due, command } => {
                    let unique = timer_key(id, &name);
                    batch.flush(tx, self).await?;
                    self.commands.cancel_unique_in(tx, &unique).await?;
                    let job = Job::command(id, serde_json::to_value(command)?, task);
                    let time = due.of(event.recorded_at());
                    batch.add(self.commands.pool(), job.unique(unique).run_at(time));
                }
                Reaction::CancelTimer { name } => {
                    batch.flush(tx, self).await?;
                    self.commands.cancel_unique_in(tx, &timer_key(id, &name)).await?;
                }
                Reaction::Tell { workflow, id, command } => {
                    let unwritable = |problem| {
                        HandlerError::new(format!("a command to {workflow} `{id}`: {problem}"))
                    };
                    let command = command.map_err(unwritable)?;
                    let command = serde_json::from_str(command.as_str())?;
                    batch.add(&command_pool(&workflow), Job::command(&id, command, task));
                }
            }
        }
        Ok(())
    }

    /// Pause, resume, cancel: what is under way of the instance waits, goes on, or ends.
    async fn change(&self, id: &str, change: &Lifecycle, tx: &mut Tx) -> HandlerResult {
        for tasks in [&self.commands, &self.actions] {
            match change {
                Lifecycle::Paused { .. } => tasks.pause_key_in(tx, id).await?,
                Lifecycle::Resumed => tasks.resume_key_in(tx, id).await?,
                Lifecycle::Cancelled { .. } => {
                    tasks.cancel_key_in(tx, id).await?;
                    // It may have been paused before.
                    tasks.resume_key_in(tx, id).await?;
                }
            }
        }
        Ok(())
    }
}

/// Tasks that are enqueued together.
#[derive(Default)]
struct Batch {
    pools: BTreeMap<String, Vec<NewTask>>,
    /// What the tasks that are added now go on with: that of the event that they follow from.
    trace: Option<TraceContext>,
}

impl Batch {
    fn add(&mut self, pool: &str, task: NewTask) {
        let task = task.carried_by(self.trace);
        match self.pools.get_mut(pool) {
            Some(tasks) => tasks.push(task),
            None => drop(self.pools.insert(pool.to_owned(), vec![task])),
        }
    }

    async fn flush<W: Workflow>(&mut self, tx: &mut Tx, react: &React<W>) -> HandlerResult {
        for (pool, tasks) in std::mem::take(&mut self.pools) {
            Tasks::new(react.workflows.log(), pool).enqueue_in(tx, &tasks).await?;
        }
        Ok(())
    }
}

impl<W: Workflow> Projection for React<W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        Partition::entity(self.workflows.workflow().category())
    }

    fn settings(&self) -> Settings {
        Settings::default()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.handle_batch(std::slice::from_ref(event), tx).await
    }

    async fn handle_batch(&self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        let mut all = Vec::with_capacity(events.len());
        for (number, event) in events.iter().enumerate() {
            tx.for_event(number);
            all.push(self.reactions(event).await?);
        }
        let mut batch = Batch::default();
        for (number, (event, reactions)) in events.iter().zip(all).enumerate() {
            tx.for_event(number);
            self.enqueue(event, reactions, tx, &mut batch).await?;
        }
        tx.for_several();
        batch.flush(tx, self).await
    }
}

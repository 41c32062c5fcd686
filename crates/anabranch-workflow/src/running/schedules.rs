//! Sees to it that each schedule has a next time, as a task that waits for it. From then on that task
//! enqueues the one after it.

use super::command_pool;
use super::commands::schedule_key;
use super::job::Job;
use crate::{Schedule, Workflow, Workflows};
use anabranch_runtime::{Holding, RowConsumer, RunError};
use anabranch_workpool::{NewTask, TaskError, Tasks};
use jiff::Timestamp;
use std::collections::HashSet;

/// Looks after the schedules whose names belong to its slots.
pub(super) struct Schedules<W: Workflow> {
    name: String,
    workflows: Workflows<W>,
    commands: Tasks,
}

impl<W: Workflow> Schedules<W> {
    pub(super) fn of(workflows: &Workflows<W>) -> Self {
        let name = workflows.workflow().name();
        let commands = Tasks::new(workflows.log(), command_pool(name));
        Self { name: format!("{name}.schedules"), workflows: workflows.clone(), commands }
    }
}

impl<W: Workflow> RowConsumer for Schedules<W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "schedules"
    }

    async fn look_after(&self, holding: &mut Holding) -> Result<(), RunError> {
        let (rule, mut seen) = (holding.log().hash_rule(), HashSet::new());
        let mut tenure = holding.tenure();
        while !holding.is_stopping() {
            holding.let_go(&anabranch_core::SlotSet::empty()).await?;
            if tenure != holding.tenure() {
                tenure = holding.tenure();
                seen.clear();
            }
            let (slots, mut is_missed) = (holding.keep(), false);
            for schedule in self.workflows.workflow().schedules() {
                let is_here = slots.contains(rule.slot(schedule.name()));
                if !is_here || seen.contains(schedule.name()) {
                    continue;
                }
                // One that waits already is left as it is: it may be due since an outage.
                let Some(task) = next(&schedule, holding.database().clock().now()) else {
                    continue;
                };
                match self.commands.enqueue(task).await {
                    Ok(_) => drop(seen.insert(schedule.name().to_owned())),
                    Err(TaskError::Store(error)) => {
                        holding.wait_out(error).await?;
                        is_missed = true;
                    }
                    Err(error) => return Err(holding.refuse(error.to_string())),
                }
            }
            if !is_missed {
                holding.stands((false, false), 0, 0);
                holding.news().await;
            }
        }
        holding.let_go(&anabranch_core::SlotSet::empty()).await
    }
}

/// The next time of a schedule, as a task.
pub(super) fn next<W: Workflow>(schedule: &Schedule<W>, now: Timestamp) -> Option<NewTask> {
    let at = schedule.cron().after(now)?;
    let (name, cron) = (schedule.name().to_owned(), schedule.cron().to_string());
    let unique = schedule_key(&name, &cron);
    let next = NewTask::new(schedule.id(), &Job::Schedule { name, cron, at }).unique(unique);
    // Each time begins a trace: one that goes on with the time before would never end.
    Some(next.run_at(at).without_trace())
}

//! The pool that runs actions. The task of an action is its journal: what it saved on its way, that it
//! is done, and with that the commands that follow from it.

use super::job::{Job, task_id};
use super::{action_pool, command_pool};
use crate::{ActionGaveUp, ActionRun, Journal, Workflow, Workflows};
use anabranch_runtime::HandlerResult;
use anabranch_workpool::{NewTask, OutsidePool, PoolSettings, Run, Task};
use futures_util::future::BoxFuture;
use uuid::Uuid;

/// Runs the actions of a workflow.
pub(super) struct Actions<W: Workflow> {
    name: String,
    commands: String,
    workflows: Workflows<W>,
}

impl<W: Workflow> Actions<W> {
    pub(super) fn of(workflows: &Workflows<W>) -> Self {
        let workflow = workflows.workflow().name();
        let (name, commands) = (action_pool(workflow), command_pool(workflow));
        Self { name, commands, workflows: workflows.clone() }
    }

    /// Commands that follow from an action, as tasks with ids of this cause.
    fn tasks(
        &self,
        task: &Task,
        cause: Uuid,
        commands: Vec<W::Command>,
    ) -> HandlerResult<Vec<(String, NewTask)>> {
        let mut tasks = Vec::with_capacity(commands.len());
        for (number, command) in commands.into_iter().enumerate() {
            let command = serde_json::to_value(command)?;
            let job = Job::command(task.key(), command, task_id(cause, number));
            tasks.push((self.commands.clone(), job));
        }
        Ok(tasks)
    }
}

impl<W: Workflow> OutsidePool for Actions<W> {
    type Output = usize;

    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> PoolSettings {
        let workflow = self.workflows.workflow();
        let settings = PoolSettings::default().retry(workflow.retry());
        let settings = settings.in_flight_per_process(workflow.in_flight_per_process());
        workflow.max_parallelism().map_or(settings, |limit| settings.max_parallelism(limit))
    }

    /// Answers how many commands follow.
    async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult<usize> {
        let action: W::Action = task.payload()?;
        let key = task.idempotency_key();
        let mut journal = TaskJournal(run);
        let mut attempt = ActionRun::new(task.key(), &key, task.attempt(), &mut journal);
        let commands = self.workflows.workflow().act(&action, &mut attempt).await?;
        let count = commands.len();
        for (pool, task) in self.tasks(task, task.id(), commands)? {
            run.then(pool, task);
        }
        Ok(count)
    }

    fn gave_up(&self, task: &Task, error: &str) -> anabranch_workpool::TaskGaveUp {
        use anabranch_workpool::TaskGaveUp as Pool;
        let Ok(action) = task.payload::<W::Action>() else { return Pool::Park };
        match self.workflows.workflow().gave_up(&action, error) {
            ActionGaveUp::Park => Pool::Park,
            ActionGaveUp::GoOn(commands) => {
                // Not the ids of what follows from a success: if somebody tries it again all the same, that
                // would be taken for sent.
                let cause = Uuid::new_v5(&task.id(), b"gave up");
                self.tasks(task, cause, commands).map_or(Pool::Park, Pool::GoOn)
            }
        }
    }
}

/// A task as the journal of an action.
struct TaskJournal<'a>(&'a mut Run);

impl Journal for TaskJournal<'_> {
    fn checkpoint(&self) -> Option<&str> {
        self.0.checkpoint_json()
    }

    fn save(&mut self, json: String) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.0.save_json(json))
    }
}

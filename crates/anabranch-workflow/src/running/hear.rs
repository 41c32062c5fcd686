//! What follows from events of others: commands, enqueued once.

use super::command_pool;
use super::job::{Job, task_id};
use crate::{Workflow, Workflows};
use anabranch_core::{Event, Partition};
use anabranch_runtime::{HandlerResult, Projection, Scope, Settings, Tx};
use anabranch_workpool::Tasks;

/// Turns events of others into commands.
pub(super) struct Hear<W: Workflow> {
    name: String,
    workflows: Workflows<W>,
    scope: Scope,
    commands: Tasks,
}

impl<W: Workflow> Hear<W> {
    pub(super) fn of(workflows: &Workflows<W>, scope: Scope) -> Self {
        let name = workflows.workflow().name();
        let commands = Tasks::new(workflows.log(), command_pool(name));
        Self { name: format!("{name}.hear"), workflows: workflows.clone(), scope, commands }
    }
}

impl<W: Workflow> Projection for Hear<W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        Partition::entities()
    }

    fn settings(&self) -> Settings {
        Settings::default().scope(self.scope.clone())
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let heard = self.workflows.workflow().hear(event)?;
        let mut tasks = Vec::with_capacity(heard.len());
        for (number, (id, command)) in heard.into_iter().enumerate() {
            // Two workflows may hear the same event.
            let cause = uuid::Uuid::new_v5(&event.id(), self.name.as_bytes());
            let command = serde_json::to_value(command)?;
            tasks.push(Job::command(&id, command, task_id(cause, number)));
        }
        self.commands.enqueue_in(tx, &tasks).await
    }
}

//! Commands of programs that do not have the code of a workflow: they are enqueued for the workers that have it.

use crate::running::{command_pool, is_sent, sent};
use anabranch_core::{InputError, InputProblem};
use anabranch_store::Log;
use anabranch_workpool::{TaskError, Tasks};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Where a program sends commands that knows a workflow only by its name: an HTTP server, say. Cheap to clone.
///
/// A command is a task of the pool `NAME.commands`, which the workers of the workflow run: those of one instance one at a
/// time, in the order in which they were sent. It is carried out **once** for its id and its instance, however often it is
/// enqueued or delivered, and also if a program with the code sends the same id by [`send_as`](crate::Workflows::send_as).
///
/// What became of it is the result of the task: `{"done": {"events": 1, "version": 7}}`, `{"rejected": {"why": "…"}}`,
/// `{"unreadable": {"why": "…"}}` if it is no command of that workflow, or `"cancelled"`.
///
/// ```
/// # use anabranch_store::Log;
/// # use anabranch_workflow::CommandQueue;
/// # use std::time::Duration;
/// # async fn f(log: Log) -> Result<(), Box<dyn std::error::Error>> {
/// let orders = CommandQueue::new(&log, "orders");
/// let queued = orders.enqueue("ord-123", uuid::Uuid::now_v7(), r#"{"Place": {"total": 40}}"#).await?;
/// let task = orders.tasks().wait(queued.task, Duration::from_secs(30)).await?;
/// println!("{}: {:?}", task.state, task.result);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct CommandQueue {
    tasks: Tasks,
}

/// Where a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queued {
    /// Its task: what is waited for.
    pub task: Uuid,
    /// Whether it was not there before. A task that has ended is kept for a while only; the command is not carried out
    /// again after that either, if it has led to events.
    pub is_new: bool,
    /// Whether another command was sent to the instance under this id: then that one is meant, and this one is not carried
    /// out.
    pub is_other: bool,
}

impl CommandQueue {
    /// The commands of a workflow, by its name.
    #[must_use]
    pub fn new(log: &Log, workflow: &str) -> Self {
        Self { tasks: Tasks::new(log, command_pool(workflow)) }
    }

    /// The pool in which they wait.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Enqueues a command for an instance: JSON as serde writes the command's type. It is stored when this returns.
    pub async fn enqueue(
        &self,
        instance: &str,
        command_id: Uuid,
        command: &str,
    ) -> Result<Queued, TaskError> {
        let command = RawValue::from_string(command.trim().to_owned()).map_err(|error| {
            let subject = format!("command for `{}`", instance.escape_debug());
            TaskError::from(InputError::new(subject, InputProblem::NotJson(error.to_string())))
        })?;
        let id = task_id(self.tasks.pool(), instance, command_id);
        let enqueued = self.tasks.enqueue(sent(instance, id, command_id, &command)).await?;
        let there = match enqueued.is_new {
            true => None,
            false => self.tasks.details(enqueued.id).await?,
        };
        let is_other = there.is_some_and(|there| !is_sent(&there.payload, &command));
        Ok(Queued { task: enqueued.id, is_new: enqueued.is_new, is_other })
    }
}

/// The id of a command's task. The instance is part of it, since one command id may be used for several.
fn task_id(pool: &str, instance: &str, command_id: Uuid) -> Uuid {
    Uuid::new_v5(&command_id, format!("{pool}:{instance}").as_bytes())
}

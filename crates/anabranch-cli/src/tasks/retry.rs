//! Tries tasks again: one, or all dead ones that meet conditions.

use super::look::state;
use super::many::Which;
use crate::confirm::Confirm;
use crate::planned::{Planned, operations};
use crate::refusal::refuse;
use anabranch::operations::Request;
use anabranch::workpool::{TaskAction, TaskState, Tasks};
use anabranch_terminal::say;
use clap::Args;
use uuid::Uuid;

/// Try dead tasks again, as if they had never failed; what their keys held back follows
///
/// One by its id, or several by --all or --where. A task that waits for its next attempt, given by its id, has that
/// attempt now. A task that was compensated (others were enqueued instead of
/// it) is refused with what was enqueued, since to try it again would do both; --force does.
#[derive(Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    which: Which,

    /// With --all or --where, which ones: dead (they wait for somebody), skipped, or, with --force, compensated
    #[arg(long, value_parser = state, default_value = "dead", conflicts_with = "id")]
    state: TaskState,

    /// Also a task that was compensated: it is done besides what was enqueued instead of it
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    planned: Planned,
}

impl Retry {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if let Some(id) = self.which.id {
            return self.one(id).await;
        }
        match self.state {
            TaskState::Compensated if !self.force => refuse!(
                TaskCompensated,
                "compensated tasks would be done besides what was enqueued instead of them; add --force if that \
                 is meant (`anabranch tasks show ID` names what was enqueued)"
            ),
            state if !state.is_dead() => refuse!(
                WrongTaskState,
                "{state} tasks cannot be tried again; use dead, skipped or compensated"
            ),
            _ => {}
        }
        let Self { which, state, confirm, planned, .. } = self;
        which.change_all(TaskAction::Retry, Some(state), &confirm, &planned).await
    }

    async fn one(&self, id: Uuid) -> anyhow::Result<()> {
        let (log, task) = self.which.find(id).await?;
        let details = Tasks::new(&log, "").details(id).await?;
        let request = Request::Task { action: TaskAction::Retry, id, force: self.force };
        if self.planned.carry_out(&operations(&log), &request, None).await?.is_none() {
            return Ok(());
        }
        for instead in details.into_iter().flat_map(|details| details.compensated_by) {
            say!("not undone: {instead}");
        }
        say!("task {id} of `{}` is ready again", task.key);
        Ok(())
    }
}

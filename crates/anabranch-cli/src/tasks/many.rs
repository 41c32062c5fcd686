//! One task by its id, or all that meet conditions: what `retry`, `discard` and `cancel` have in common.

use super::{WHICH_POOLS, none};
use crate::confirm::Confirm;
use crate::planned::{Planned, operations};
use crate::refusal::refuse;
use crate::target::Target;
use anabranch::Log;
use anabranch::operations::{Effect, Plan, Request};
use anabranch::workpool::{TaskAction, TaskCondition, TaskState, TaskStatus, Tasks};
use anabranch_terminal::output::count;
use anabranch_terminal::say;
use clap::{ArgGroup, Args};
use std::num::NonZeroU32;
use uuid::Uuid;

/// Which tasks.
#[derive(Args)]
#[command(group(ArgGroup::new("which").required(true).args(["id", "all", "conditions"])))]
pub(super) struct Which {
    #[command(flatten)]
    target: Target,

    /// The task, as `tasks list` shows it
    #[arg(value_parser = super::id)]
    pub(super) id: Option<Uuid>,

    /// All tasks of all pools
    #[arg(long)]
    all: bool,

    /// Only those of which this is true: pool=NAME, key=KEY or error=TEXT; with ~ for =, those that contain the
    /// text. Upper and lower case differ. Given several times, all of it must be true
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<TaskCondition>,

    /// At most this many tasks per second, so that what they call is not flooded
    #[arg(long, value_name = "TASKS", conflicts_with = "id")]
    per_second: Option<NonZeroU32>,
}

impl Which {
    /// The log, and the task that is named.
    pub(super) async fn find(&self, id: Uuid) -> anyhow::Result<(Log, TaskStatus)> {
        let log = self.target.connect().await?;
        let task = Tasks::new(&log, "").status(id).await?.ok_or_else(|| none(id))?;
        Ok((log, task))
    }

    /// Does something with all tasks that are meant, and says with how many.
    pub(super) async fn change_all(
        &self,
        action: TaskAction,
        state: Option<TaskState>,
        confirm: &Confirm,
        planned: &Planned,
    ) -> anyhow::Result<()> {
        if let Some(plan) = self.carry_out(action, state, confirm, planned).await? {
            let done = match action {
                TaskAction::Retry => "ready again",
                TaskAction::Discard => "discarded",
                TaskAction::Cancel => "cancelled",
            };
            say!("{} {done}", count(plan.done, &format!("{} task", stand(action, state))));
        }
        Ok(())
    }

    /// The same without a word; none if there are none, or it is only planned.
    async fn carry_out(
        &self,
        action: TaskAction,
        state: Option<TaskState>,
        confirm: &Confirm,
        planned: &Planned,
    ) -> anyhow::Result<Option<Plan>> {
        let log = self.target.connect().await?;
        let operations = operations(&log);
        let request = Request::Tasks {
            action,
            state,
            conditions: self.conditions.iter().map(ToString::to_string).collect(),
            per_second: self.per_second,
        };
        let pools = super::pools(&log).await?;
        if let Some(wrong) = self.conditions.iter().find(|given| given.is_of_no_pool(&pools)) {
            refuse!(NoSuchPool, "there is no pool for which `{wrong}` is true; {WHICH_POOLS}");
        }
        if planned.plan.is_none() && !planned.dry_run {
            let effect = operations.look(&request).await?;
            let Effect { says, counts, .. } = effect;
            match counts.get("tasks") {
                None | Some(0) => {
                    say!(
                        "no {} task is as you say; `anabranch tasks` shows the pools",
                        stand(action, state)
                    );
                    return Ok(None);
                }
                // To try one again is no more than to name it by its id.
                Some(1) if action == TaskAction::Retry => {}
                Some(_) => confirm.require(&says)?,
            }
        }
        planned.carry_out(&operations, &request, None).await
    }
}

/// The state of the tasks that are meant.
fn stand(action: TaskAction, state: Option<TaskState>) -> String {
    match (state, action) {
        (Some(state), _) => state.to_string(),
        (None, TaskAction::Cancel) => "open".to_owned(),
        (None, _) => "dead".to_owned(),
    }
}

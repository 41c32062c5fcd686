//! Tries tasks again: one, or all dead ones that meet conditions.

use super::look::state;
use super::{WHICH_POOLS, none};
use crate::confirm::Confirm;
use crate::refusal::refuse;
use crate::target::Target;
use anabranch::workpool::{TaskCondition, TaskFilter, TaskState, Tasks};
use anabranch_terminal::output::count;
use anabranch_terminal::say;
use clap::{ArgGroup, Args};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How often to say how far it is.
const TELL: Duration = Duration::from_secs(1);

/// Try dead tasks again, as if they had never failed; what their keys held back follows
///
/// One by its id, or several by --all or --where. A task that waits for its next attempt, given by its id, has that
/// attempt now. A task that was compensated (others were enqueued instead of
/// it) is refused with what was enqueued, since to try it again would do both; --force does.
#[derive(Args)]
#[command(group(ArgGroup::new("which").required(true).args(["id", "all", "conditions"])))]
pub(crate) struct Retry {
    #[command(flatten)]
    target: Target,

    /// The task, as `tasks list` shows it
    #[arg(value_parser = super::id)]
    id: Option<Uuid>,

    /// All tasks of all pools that wait for somebody
    #[arg(long)]
    all: bool,

    /// Only those of which this is true: pool=NAME, key=KEY or error=TEXT; with ~ for =, those that contain the
    /// text. Upper and lower case differ. Given several times, all of it must be true
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<TaskCondition>,

    /// With --all or --where, which ones: dead (they wait for somebody), skipped, or, with --force, compensated
    #[arg(long, value_parser = state, default_value = "dead", conflicts_with = "id")]
    state: TaskState,

    /// Also a task that was compensated: it is done besides what was enqueued instead of it
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    confirm: Confirm,
}

impl Retry {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.id {
            Some(id) => self.one(id).await.map(|()| ExitCode::SUCCESS),
            None => self.many().await,
        }
    }

    async fn one(&self, id: Uuid) -> anyhow::Result<()> {
        let tasks = super::tasks(&self.target).await?;
        let task = tasks.status(id).await?.ok_or_else(|| none(id))?;
        if !self.force {
            tasks.retry(id).await?;
        } else {
            for instead in tasks.retry_anyway(id).await? {
                say!("not undone: {instead}");
            }
        }
        say!("task {id} of `{}` is ready again", task.key);
        Ok(())
    }

    async fn many(self) -> anyhow::Result<ExitCode> {
        let mut filter = match self.state {
            TaskState::Dead => TaskFilter::dead(),
            TaskState::Skipped => TaskFilter::skipped(),
            TaskState::Compensated if self.force => TaskFilter::compensated(),
            TaskState::Compensated => refuse!(
                TaskCompensated,
                "compensated tasks would be done besides what was enqueued instead of them; add --force if that \
                 is meant (`anabranch tasks show ID` names what was enqueued)"
            ),
            other => refuse!(
                WrongTaskState,
                "{other} tasks cannot be tried again; use dead, skipped or compensated"
            ),
        };
        for condition in &self.conditions {
            filter = filter.and(condition.clone());
        }
        let log = self.target.connect().await?;
        let found = Tasks::count_where(&log, &filter).await?;
        let all: u64 = found.iter().map(|(_, tasks)| tasks).sum();
        let what = format!("{} task", self.state);
        if all == 0 {
            let pools = super::pools(&log).await?;
            if let Some(wrong) = self.conditions.iter().find(|given| given.is_of_no_pool(&pools)) {
                refuse!(NoSuchPool, "there is no pool for which `{wrong}` is true; {WHICH_POOLS}");
            }
            say!("no {what} is as you say; `anabranch tasks` shows the pools");
            return Ok(ExitCode::SUCCESS);
        }
        let pools = found.iter().map(|(pool, tasks)| format!("{tasks} of pool `{pool}`"));
        let pools = pools.collect::<Vec<_>>().join(", ");
        if all > 1 {
            let consequence = format!("{} would be tried again: {pools}", count(all, &what));
            self.confirm.require(&consequence)?;
        }
        let mut told = Instant::now();
        let retried = Tasks::retry_where(&log, &filter, |retried| {
            if told.elapsed() >= TELL {
                told = Instant::now();
                say!("{retried} of {all} …");
            }
        });
        say!("{} ready again", count(retried.await?, &what));
        Ok(ExitCode::SUCCESS)
    }
}

//! Tasks of work pools.
//!
//! | module | subject |
//! |---|---|
//! | `look` | pools, lists of tasks, one task |
//! | `enqueue` | one task from the command line |
//! | `change` | cancel, discard; pause and resume a key |
//! | `retry` | try dead tasks again: one, or all that meet conditions |
//! | `show` | one task with all that is kept of it |

mod change;
mod enqueue;
mod look;
mod retry;
mod show;

pub(crate) use look::number;

use crate::target::Target;
use anabranch::{StoreError, TaskStatus, Tasks};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::process::ExitCode;
use uuid::Uuid;

/// Tasks of work pools: how many there are, each of them, and what can be done with it
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TasksOf {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    pools: look::Pools,
}

#[derive(Subcommand)]
enum What {
    Pools(look::Pools),
    List(look::List),
    Show(show::Show),
    Enqueue(enqueue::Enqueue),
    Cancel(change::Cancel),
    Retry(retry::Retry),
    Discard(change::Discard),
    PauseKey(change::PauseKey),
    ResumeKey(change::ResumeKey),
}

impl TasksOf {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            None => self.pools.run().await?,
            Some(What::Pools(pools)) => pools.run().await?,
            Some(What::List(list)) => list.run().await?,
            Some(What::Show(show)) => show.run().await?,
            Some(What::Enqueue(enqueue)) => enqueue.run().await?,
            Some(What::Cancel(cancel)) => cancel.run().await?,
            Some(What::Retry(retry)) => return retry.run().await,
            Some(What::Discard(discard)) => return discard.run().await,
            Some(What::PauseKey(pause)) => pause.run().await?,
            Some(What::ResumeKey(resume)) => resume.run().await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A task by its id.
#[derive(Args)]
struct One {
    #[command(flatten)]
    target: Target,

    /// The task, as `tasks list` and `tasks enqueue` show it
    id: Uuid,
}

impl One {
    /// The tasks, of whichever pool this one is, and how it stands.
    async fn find(&self) -> anyhow::Result<(Tasks, TaskStatus)> {
        let tasks = tasks(&self.target, "").await?;
        let status = tasks.status(self.id).await?.with_context(|| none(self.id))?;
        Ok((tasks, status))
    }
}

fn none(id: Uuid) -> String {
    format!(
        "there is no task {id}; those that have ended are kept for a while only, and `anabranch tasks` shows \
         the pools"
    )
}

/// The tasks of a pool. Looking after a log does not upgrade it, nor create it.
async fn tasks(target: &Target, pool: &str) -> Result<Tasks, StoreError> {
    Ok(Tasks::of(&target.connect().await?, pool))
}

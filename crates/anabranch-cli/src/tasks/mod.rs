//! Tasks of work pools.
//!
//! | module | subject |
//! |---|---|
//! | `look` | pools, lists of tasks, one task |
//! | `enqueue` | one task from the command line |
//! | `change` | cancel, discard; pause and resume a key |
//! | `many` | one task, or all that meet conditions |
//! | `retry` | try dead tasks again: one, or all that meet conditions |
//! | `show` | one task with all that is kept of it |

mod change;
mod enqueue;
mod look;
mod many;
mod retry;
mod show;

use crate::refusal::{Refusal, refuse};
use crate::status::POOL;
use crate::target::Target;
use anabranch::errors::ErrorCode;
use anabranch::operate::Consumers;
use anabranch::workpool::Tasks;
use anabranch::{Log, StoreError};
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
            Some(What::Retry(retry)) => retry.run().await?,
            Some(What::Discard(discard)) => discard.run().await?,
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
    #[arg(value_parser = id)]
    id: Uuid,
}

fn none(id: Uuid) -> Refusal {
    let said = format!(
        "there is no task {id}; those that have ended are kept for a while only, and `anabranch tasks` shows \
         the pools"
    );
    Refusal::new(ErrorCode::NoSuchTask, said)
}

/// An id, as it is written.
fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        "the id of a task looks like 0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11; `anabranch tasks list POOL` shows \
         those of a pool"
            .to_owned()
    })
}

/// How to find out which pools there are.
const WHICH_POOLS: &str = "one appears when a task is enqueued for it or a worker first runs it; `anabranch tasks` \
                           shows those that have tasks, and `anabranch status` those that were run";

/// The names of all pools.
async fn pools(log: &Log) -> anyhow::Result<Vec<String>> {
    let mut pools = Tasks::pools(log).await?;
    let run = Consumers::new(log).list().await?.into_iter().filter(|status| status.kind == POOL);
    pools.extend(run.map(|status| status.name));
    Ok(pools)
}

/// Refuses a pool that nobody has: what is said of it would be true, and about nothing.
async fn must_exist(log: &Log, pool: &str) -> anyhow::Result<()> {
    match pools(log).await?.iter().any(|known| known == pool) {
        true => Ok(()),
        false => refuse!(NoSuchPool, "there is no pool `{}`; {WHICH_POOLS}", pool.escape_debug()),
    }
}

/// The tasks of whichever pool. To look at a log or operate it does not upgrade it, nor create it.
async fn tasks(target: &Target) -> Result<Tasks, StoreError> {
    Ok(Tasks::new(&target.connect().await?, ""))
}

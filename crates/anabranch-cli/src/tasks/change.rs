//! What is done with a task or a key that is there.

use super::One;
use crate::confirm::Confirm;
use crate::refusal::refuse;
use crate::target::Target;
use anabranch::workpool::{TaskState, Tasks};
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Cancel a task that has not ended: it is not run, or what it does is not stored
#[derive(Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    one: One,
}

/// Discard a dead task for good; what its key held back goes on
///
/// One that was compensated or skipped is only cleared away: its key has gone on already.
#[derive(Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    one: One,

    #[command(flatten)]
    confirm: Confirm,
}

/// A key of a pool.
#[derive(Args)]
struct Key {
    #[command(flatten)]
    target: Target,

    /// The pool
    pool: String,

    /// The key
    key: String,
}

impl Key {
    /// The tasks of its pool, which must be there.
    async fn tasks(&self) -> anyhow::Result<Tasks> {
        let log = self.target.connect().await?;
        super::must_exist(&log, &self.pool).await?;
        Ok(Tasks::new(&log, &self.pool))
    }
}

/// Run nothing of a key until it is resumed; what runs at this moment is finished
#[derive(Args)]
pub(crate) struct PauseKey {
    #[command(flatten)]
    key: Key,
}

/// Go on with a paused key
#[derive(Args)]
pub(crate) struct ResumeKey {
    #[command(flatten)]
    key: Key,
}

impl Cancel {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (tasks, task) = self.one.find().await?;
        let id = task.id;
        if task.state.is_dead() {
            refuse!(
                WrongTaskState,
                "task {id} is {}; `anabranch tasks discard {id}` clears it away",
                task.state
            );
        }
        if !tasks.cancel(id).await? {
            let (_, task) = self.one.find().await?;
            refuse!(WrongTaskState, "task {id} is {} already", task.state);
        }
        say!("task {id} of `{}` is cancelled", task.key);
        Ok(())
    }
}

impl Discard {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let (tasks, task) = self.one.find().await?;
        let id = task.id;
        if task.state.is_open() {
            refuse!(
                WrongTaskState,
                "task {id} is {}; `anabranch tasks cancel {id}` cancels it",
                task.state
            );
        }
        if !task.state.is_dead() {
            refuse!(WrongTaskState, "task {id} is {} already", task.state);
        }
        let waits = task.state == TaskState::Dead;
        let consequence = match waits {
            true => format!(
                "task {id} would never be run, and the later tasks of `{}` would go on without it",
                task.key
            ),
            false => {
                format!("task {id}, which is {}, could not be tried again any more", task.state)
            }
        };
        self.confirm.require(&consequence)?;
        tasks.discard(id).await?;
        match waits {
            true => say!("task {id} is discarded; what waits of `{}` goes on", task.key),
            false => say!("task {id} is discarded; `{}` had gone on before", task.key),
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl PauseKey {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let tasks = self.key.tasks().await?;
        let Key { pool, key, .. } = self.key;
        tasks.pause_key(&key).await?;
        say!("`{key}` is paused; go on with it by `anabranch tasks resume-key {pool} {key}`");
        Ok(())
    }
}

impl ResumeKey {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let tasks = self.key.tasks().await?;
        let Key { pool, key, .. } = self.key;
        tasks.resume_key(&key).await?;
        say!("`{key}` of pool `{pool}` is not paused any more");
        Ok(())
    }
}

//! What is done with a task or a key that is there.

use super::look::state;
use super::many::Which;
use crate::confirm::Confirm;
use crate::planned::{Planned, operations};
use crate::refusal::refuse;
use crate::target::Target;
use anabranch::operations::Request;
use anabranch::workpool::{TaskAction, TaskState};
use anabranch_terminal::say;
use clap::Args;
use uuid::Uuid;

/// Cancel tasks that have not ended: they are not run, or what they do is not stored
///
/// One by its id, or several by --all or --where; several need --yes.
#[derive(Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: Which,

    /// With --all or --where, only those that are ready, scheduled or held
    #[arg(long, value_parser = state, conflicts_with = "id")]
    state: Option<TaskState>,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    planned: Planned,
}

/// Discard dead tasks for good; what their keys held back goes on
///
/// One by its id, or several by --all or --where. One that was compensated or skipped is only cleared away: its key has
/// gone on already.
#[derive(Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    which: Which,

    /// With --all or --where, which ones: dead (they wait for somebody), skipped or compensated
    #[arg(long, value_parser = state, conflicts_with = "id")]
    state: Option<TaskState>,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    planned: Planned,
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

    #[command(flatten)]
    planned: Planned,
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
        let Self { which, state, confirm, planned } = self;
        match which.id {
            Some(id) => Self::one(&which, id, &planned).await,
            None => which.change_all(TaskAction::Cancel, state, &confirm, &planned).await,
        }
    }

    async fn one(which: &Which, id: Uuid, planned: &Planned) -> anyhow::Result<()> {
        let (log, task) = which.find(id).await?;
        if task.state.is_dead() {
            refuse!(
                WrongTaskState,
                "task {id} is {}; `anabranch tasks discard {id}` clears it away",
                task.state
            );
        }
        if !task.state.is_open() {
            refuse!(WrongTaskState, "task {id} is {} already", task.state);
        }
        let request = Request::Task { action: TaskAction::Cancel, id, force: false };
        if planned.carry_out(&operations(&log), &request, None).await?.is_some() {
            say!("task {id} of `{}` is cancelled", task.key);
        }
        Ok(())
    }
}

impl Discard {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Self { which, state, confirm, planned } = self;
        match which.id {
            Some(id) => Self::one(&which, id, &confirm, &planned).await,
            None => which.change_all(TaskAction::Discard, state, &confirm, &planned).await,
        }
    }

    async fn one(
        which: &Which,
        id: Uuid,
        confirm: &Confirm,
        planned: &Planned,
    ) -> anyhow::Result<()> {
        let (log, task) = which.find(id).await?;
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
        let request = Request::Task { action: TaskAction::Discard, id, force: false };
        if planned.carry_out(&operations(&log), &request, Some(confirm)).await?.is_none() {
            return Ok(());
        }
        match task.state == TaskState::Dead {
            true => say!("task {id} is discarded; what waits of `{}` goes on", task.key),
            false => say!("task {id} is discarded; `{}` had gone on before", task.key),
        }
        Ok(())
    }
}

impl PauseKey {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Key { target, pool, key, planned } = self.key;
        let request = Request::PauseKey { pool: pool.clone(), key: key.clone() };
        if planned.carry_out(&target.operations().await?, &request, None).await?.is_some() {
            say!("`{key}` is paused; go on with it by `anabranch tasks resume-key {pool} {key}`");
        }
        Ok(())
    }
}

impl ResumeKey {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Key { target, pool, key, planned } = self.key;
        let request = Request::ResumeKey { pool: pool.clone(), key: key.clone() };
        if planned.carry_out(&target.operations().await?, &request, None).await?.is_some() {
            say!("`{key}` of pool `{pool}` is not paused any more");
        }
        Ok(())
    }
}

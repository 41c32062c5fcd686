//! One task with all that is kept of it.

use super::look::time;
use super::{One, none};
use anabranch::workpool::{TaskDetails, TaskState};
use anabranch_terminal::output;
use clap::Args;
use std::fmt::Display;

/// Show a task: how it stands, its payload, what it saved on its way, its result or its error, what follows
/// it, and what was done instead of it
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    one: One,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let id = self.one.id;
        let tasks = super::tasks(&self.one.target).await?;
        let task = tasks.details(id).await?.ok_or_else(|| none(id))?;
        match self.json {
            true => output::json(&task),
            false => print(&task),
        }
    }
}

/// What a state means for the reader, where its name does not say it.
fn meaning(state: TaskState) -> &'static str {
    match state {
        TaskState::Dead => {
            " (its attempts are used up: its key waits for `tasks retry` or `tasks discard`)"
        }
        TaskState::Compensated => {
            " (its attempts are used up: its key has gone on, and others were enqueued)"
        }
        TaskState::Skipped => " (its attempts are used up: its key has gone on without it)",
        TaskState::Held => " (it waits behind a dead task, or its key is paused)",
        _ => "",
    }
}

fn print(task: &TaskDetails) -> anyhow::Result<()> {
    let line = |name: &str, text: &dyn Display| output::line(format_args!("{name:<12}{text}"));
    let or_none =
        |text: Option<&dyn Display>| text.map_or_else(|| "-".to_owned(), ToString::to_string);
    let status = &task.status;
    line("id", &status.id)?;
    line("pool", &status.pool)?;
    line("key", &status.key)?;
    line("state", &format!("{}{}", status.state, meaning(status.state)))?;
    line("attempts", &format!("{} failed", status.attempts))?;
    line("enqueued", &time(Some(status.enqueued_at)))?;
    line("run at", &time(status.run_at))?;
    line("finished", &time(status.finished_at))?;
    line("error", &or_none(status.error.as_ref().map(|error| error as _)))?;
    line("result", &or_none(status.result.as_ref().map(|result| result as _)))?;
    line("unique key", &or_none(task.unique_key.as_ref().map(|key| key as _)))?;
    line("payload", &task.payload)?;
    line("checkpoint", &or_none(task.checkpoint.as_ref().map(|json| json as _)))?;
    match &task.on_complete {
        Some(next) => {
            let (pool, key, payload) = (&next.pool, &next.key, &next.payload);
            line("then", &format!("pool `{pool}`, key `{key}`, {payload}"))?;
        }
        None => line("then", &"-")?,
    }
    task.compensated_by.iter().try_for_each(|instead| line("instead", instead))
}

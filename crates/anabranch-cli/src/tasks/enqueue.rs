//! One task from the command line.

use crate::refusal::Refusal;
use crate::target::Target;
use crate::times::duration;
use anabranch::errors::ErrorCode;
use anabranch::operate::Consumers;
use anabranch::workpool::{NewTask, Tasks};
use anabranch_terminal::output;
use anabranch_terminal::say;
use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use serde_json::value::RawValue;
use std::time::Duration;
use uuid::Uuid;

/// Enqueue a task, and print its id
#[derive(Args)]
pub(crate) struct Enqueue {
    #[command(flatten)]
    target: Target,

    /// The pool
    pool: String,

    /// The key: tasks of one key are run one at a time, in this order
    key: String,

    /// The payload
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    payload: String,

    /// Not before so much time has passed, for example 5s, 10m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "at")]
    after: Option<Duration>,

    /// Not before this time, for example 2026-11-15T09:16:47Z
    #[arg(long, value_name = "RFC3339", value_parser = crate::replay::timestamp)]
    at: Option<Timestamp>,

    /// Only if no open task of the pool has this unique key; else that one is printed
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,

    /// The id of the task: enqueueing it again changes nothing
    #[arg(long, value_name = "UUID", value_parser = super::id)]
    id: Option<Uuid>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Enqueue {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let payload = RawValue::from_string(self.payload.trim().to_owned());
        let payload = payload.map_err(|error| {
            Refusal::new(ErrorCode::InvalidJson, format!("the payload is not JSON: {error}"))
        })?;
        let mut task = NewTask::new(self.key, &payload);
        if let Some(delay) = self.after {
            task = task.run_after(delay);
        }
        if let Some(time) = self.at {
            task = task.run_at(time);
        }
        if let Some(key) = self.unique {
            task = task.unique(key);
        }
        if let Some(id) = self.id {
            task = task.with_id(id);
        }
        let (pool, log) = (&self.pool, self.target.connect().await?);
        let enqueued = Tasks::new(&log, pool).enqueue(task).await?;
        let printed = match self.json {
            true => output::json(&json!({ "id": enqueued.id, "is_new": enqueued.is_new })),
            false => output::line(enqueued.id),
        };
        output::of_work(printed, || format!("the task was enqueued as {}", enqueued.id))?;
        if !enqueued.is_new {
            say!("it was there already, and stays as it is");
        }
        if Consumers::new(&log).list().await?.iter().all(|consumer| consumer.name != *pool) {
            say!("no worker has run a pool `{pool}` yet: the task waits for the first that does");
        }
        Ok(())
    }
}

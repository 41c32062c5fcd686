//! Pools, lists of tasks, one task.

use super::One;
use crate::output::{self, Table};
use crate::target::Target;
use anabranch::{PoolCounts, TaskState, TaskStatus, Tasks};
use clap::Args;
use jiff::Timestamp;
use serde_json::json;

/// Show how many tasks each pool has, by how they stand
#[derive(Args)]
pub(crate) struct Pools {
    #[command(flatten)]
    target: Target,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// List tasks of a pool, the oldest first
///
/// Without a state those that have not been run: the dead first, since they wait for somebody, then
/// the held, the ready and the scheduled.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: Target,

    /// The pool
    pool: String,

    /// Only those that stand so: ready, scheduled, held, dead, done or cancelled
    #[arg(long, value_parser = state)]
    state: Option<TaskState>,

    /// How many at most
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Show a task: how it stands, its result or its error
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    one: One,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Those that have not been run: the dead first, since they wait for somebody.
fn not_run() -> Vec<TaskState> {
    let place = |state: &TaskState| match state {
        TaskState::Dead => 0,
        TaskState::Held => 1,
        TaskState::Ready => 2,
        TaskState::Scheduled => 3,
        TaskState::Done | TaskState::Cancelled => 4,
    };
    let mut states = TaskState::ALL.to_vec();
    states.retain(|state| !state.is_finished());
    states.sort_by_key(place);
    states
}

fn state(name: &str) -> Result<TaskState, String> {
    let found = TaskState::ALL.into_iter().find(|state| state.name() == name);
    found.ok_or_else(|| format!("use one of {}", TaskState::ALL.map(TaskState::name).join(", ")))
}

/// How many tasks of a pool stand so.
pub(crate) fn number(pool: &PoolCounts, state: TaskState) -> u64 {
    pool.tasks.iter().find(|(of, _)| *of == state).map_or(0, |(_, number)| *number)
}

impl Pools {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let pools = Tasks::counts(&self.target.connect().await?).await?;
        if self.json {
            return pools.iter().try_for_each(|pool| {
                let mut line = json!({ "pool": pool.pool });
                TaskState::ALL.iter().for_each(|state| {
                    line[state.name()] = number(pool, *state).into();
                });
                output::json(&line)
            });
        }
        if pools.is_empty() {
            eprintln!("there are no tasks");
            return Ok(());
        }
        let headings = [">READY", ">SCHEDULED", ">HELD", ">DEAD", ">DONE", ">CANCELLED"];
        let [ready, scheduled, held, dead, done, cancelled] = headings;
        let mut table = Table::new(["POOL", ready, scheduled, held, dead, done, cancelled]);
        for pool in &pools {
            let [ready, scheduled, held, dead, done, cancelled] =
                TaskState::ALL.map(|state| number(pool, state).to_string());
            table.row([pool.pool.clone(), ready, scheduled, held, dead, done, cancelled]);
        }
        table.print()
    }
}

impl List {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let tasks = super::tasks(&self.target, &self.pool).await?;
        let states = self.state.map_or_else(not_run, |state| vec![state]);
        let mut found = Vec::new();
        for state in states {
            found.extend(tasks.list(state, self.limit - found.len()).await?);
        }
        if self.json {
            return found.iter().try_for_each(output::json);
        }
        if found.is_empty() {
            let which = self.state.map_or_else(|| "open or dead".to_owned(), |of| of.to_string());
            eprintln!(
                "pool `{}` has no {which} tasks; `anabranch tasks` shows the pools",
                self.pool
            );
            return Ok(());
        }
        let mut table =
            Table::new(["ID", "KEY", "STATE", ">ATTEMPTS", "ENQUEUED", "RUN AT", "ERROR"]);
        for task in found {
            table.row([
                task.id.to_string(),
                task.key.clone(),
                task.state.to_string(),
                task.attempts.to_string(),
                time(Some(task.enqueued_at)),
                time(task.run_at),
                task.error.unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        table.print()
    }
}

impl Show {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (_, task) = self.one.find().await?;
        if self.json {
            return output::json(&task);
        }
        print(&task)
    }
}

fn print(task: &TaskStatus) -> anyhow::Result<()> {
    output::line(format_args!("id        {}", task.id))?;
    output::line(format_args!("pool      {}", task.pool))?;
    output::line(format_args!("key       {}", task.key))?;
    output::line(format_args!("state     {}", task.state))?;
    output::line(format_args!("attempts  {} failed", task.attempts))?;
    output::line(format_args!("enqueued  {}", time(Some(task.enqueued_at))))?;
    output::line(format_args!("run at    {}", time(task.run_at)))?;
    output::line(format_args!("finished  {}", time(task.finished_at)))?;
    output::line(format_args!("error     {}", task.error.as_deref().unwrap_or("-")))?;
    match &task.result {
        Some(result) => output::line(format_args!("result    {result}")),
        None => output::line("result    -"),
    }
}

fn time(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| output::time(time.as_microsecond()))
}

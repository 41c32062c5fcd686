//! Pools, and lists of tasks.

use crate::target::Target;
use anabranch::workpool::{TaskState, Tasks};
use anabranch_terminal::output::{self, Table};
use anabranch_terminal::say;
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
/// Without a state those for which something is left to do: the dead first, since they wait for somebody,
/// then the held, the ready and the scheduled.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: Target,

    /// The pool
    pool: String,

    /// Only those that stand so: ready, scheduled, held, dead (waits for somebody), compensated (dead, and
    /// others were enqueued instead), skipped (dead, and its key went on without it), done or cancelled
    #[arg(long, value_parser = state)]
    state: Option<TaskState>,

    /// How many at most
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Those for which something is left to do: the dead first, since they wait for somebody.
const LEFT: [TaskState; 4] =
    [TaskState::Dead, TaskState::Held, TaskState::Ready, TaskState::Scheduled];

pub(super) fn state(name: &str) -> Result<TaskState, String> {
    let found = TaskState::ALL.into_iter().find(|state| state.name() == name);
    found.ok_or_else(|| format!("use one of {}", TaskState::ALL.map(TaskState::name).join(", ")))
}

/// A pool and a cell for each state.
fn row(pool: &str, cell: impl Fn(TaskState) -> String) -> [String; 1 + TaskState::ALL.len()] {
    std::array::from_fn(|column| match column.checked_sub(1) {
        None => pool.to_owned(),
        Some(state) => cell(TaskState::ALL[state]),
    })
}

impl Pools {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let pools = Tasks::counts(&self.target.connect().await?).await?;
        if self.json {
            return pools.iter().try_for_each(|pool| {
                let mut line = json!({ "pool": pool.pool });
                TaskState::ALL.iter().for_each(|state| {
                    line[state.name()] = pool.count(*state).into();
                });
                output::json(&line)
            });
        }
        if pools.is_empty() {
            say!("there are no tasks");
            return Ok(());
        }
        let headings = row("POOL", |state| format!(">{}", state.name().to_uppercase()));
        let mut table = Table::new(headings.each_ref().map(String::as_str));
        for pool in &pools {
            table.row(row(&pool.pool, |state| pool.count(state).to_string()));
        }
        table.print()
    }
}

impl List {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let log = self.target.connect().await?;
        let tasks = Tasks::new(&log, &self.pool);
        let states = self.state.map_or_else(|| LEFT.to_vec(), |state| vec![state]);
        let mut found = Vec::new();
        for state in states {
            found.extend(tasks.list(state, self.limit - found.len()).await?);
        }
        if found.is_empty() {
            super::must_exist(&log, &self.pool).await?;
        }
        if found.len() == self.limit {
            say!("these are the first {}, and there may be more: --limit shows them", self.limit);
        }
        if self.json {
            return found.iter().try_for_each(output::json);
        }
        if found.is_empty() {
            let which = self.state.map_or_else(|| "open or dead".to_owned(), |of| of.to_string());
            say!("pool `{}` has no {which} tasks; `anabranch tasks` shows the pools", self.pool);
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

pub(super) fn time(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), output::time)
}

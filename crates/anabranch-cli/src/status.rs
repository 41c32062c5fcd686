//! How the consumers stand, and who runs them.

use crate::output::{self, Table, count};
use crate::target::Target;
use anabranch::{ConsumerStatus, CursorStatus, Owner, WorkerStatus};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Show the consumers: how far they are, and whether somebody runs them
///
/// With a name also its cursors: which slots are done up to where, who owns them, and by name why one
/// does not advance: nobody wants it, it is about to change hands, its lane is blocked by a backend of
/// the database, its handler fails, its keys are parked, no wakes arrive.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    target: Target,

    /// Only this consumer, with its cursors
    consumer: Option<String>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// A status as JSON.
#[derive(Serialize)]
struct Line<'a> {
    state: String,
    #[serde(flatten)]
    status: &'a ConsumerStatus,
}

impl Status {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let all = match &self.consumer {
            Some(name) => vec![consumers.status(name).await?],
            None => consumers.list().await?,
        };
        if self.json {
            let line = |status| output::json(&Line { state: state(status), status });
            all.iter().try_for_each(line)?;
            return Ok(ExitCode::SUCCESS);
        }
        if all.is_empty() {
            eprintln!("there are no consumers yet; one appears when it first runs");
            return Ok(ExitCode::SUCCESS);
        }
        print(&all)?;
        if self.consumer.is_some() {
            output::line("")?;
            print_cursors(&all[0], &consumers.workers().await?)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(all: &[ConsumerStatus]) -> anyhow::Result<()> {
    let mut table = Table::new([
        "CONSUMER",
        "KIND",
        "STRATEGY",
        ">VERSION",
        "STATE",
        ">POSITION",
        ">HEAD",
        ">LAG",
        "PARKED",
    ]);
    for status in all {
        let parked = match status.parked_keys {
            0 => "-".to_owned(),
            keys => {
                format!("{}, {}", count(keys as u64, "key"), count(status.parked_events, "event"))
            }
        };
        table.row([
            status.name.clone(),
            status.kind.clone(),
            status.strategy.clone(),
            status.version.to_string(),
            state(status),
            status.position.to_string(),
            status.head.to_string(),
            status.lag.to_string(),
            parked,
        ]);
    }
    table.print()
}

fn print_cursors(status: &ConsumerStatus, workers: &[WorkerStatus]) -> anyhow::Result<()> {
    let mut table = Table::new(["SLOTS", ">COUNT", ">POSITION", ">LAG", "OWNER", "REASON"]);
    for cursor in &status.cursors {
        table.row([
            cursor.slots.clone(),
            cursor.slot_count.to_string(),
            cursor.position.to_string(),
            cursor.lag.to_string(),
            owner(&cursor.owner, workers),
            reasons(cursor),
        ]);
    }
    table.print()
}

/// Why a cursor does not advance, in words.
fn reasons(cursor: &CursorStatus) -> String {
    match cursor.reasons.as_slice() {
        [] => "-".to_owned(),
        reasons => reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// What a consumer is doing, in words.
pub(crate) fn state(status: &ConsumerStatus) -> String {
    let mut words = Vec::new();
    if status.paused {
        words.push("paused");
    }
    if status.replay_from.is_some() {
        words.push("replay asked");
    }
    if words.is_empty() {
        let is_owned = |owner: &Owner| matches!(owner, Owner::Worker(_));
        let owned = status.cursors.iter().filter(|cursor| is_owned(&cursor.owner)).count();
        words.push(match owned {
            0 => "no worker",
            owned if owned == status.cursors.len() => "running",
            _ => "running in part",
        });
    }
    words.join(", ")
}

/// Whether a worker that is alive runs some of it.
pub(crate) fn is_run(status: &ConsumerStatus) -> bool {
    status.cursors.iter().any(|cursor| matches!(cursor.owner, Owner::Worker(_)))
}

/// Who owns a cursor, in words.
pub(crate) fn owner(owner: &Owner, workers: &[WorkerStatus]) -> String {
    match owner {
        Owner::Unassigned => "unassigned".to_owned(),
        Owner::Worker(worker) => in_words(worker),
        Owner::Dead(id) => match workers.iter().find(|worker| worker.id == *id) {
            Some(worker) => format!("dead worker {}", in_words(worker)),
            None => format!("dead worker {id}"),
        },
    }
}

pub(crate) fn in_words(worker: &WorkerStatus) -> String {
    let WorkerStatus { replica_set, host, pid, runs, .. } = worker;
    format!("{replica_set} on {host}, pid {pid}, {runs}")
}

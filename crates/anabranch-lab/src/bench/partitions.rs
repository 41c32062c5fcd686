//! Fixed partitions: four processes against one that does everything.

use super::Side;
use super::bare::Bare;
use super::handlers::Upsert;
use super::own_log::OwnLog;
use super::report::{Case, Rates, rounded};
use crate::throwaway;
use anabranch::{FixedPartition, Namespace, ReplicaSet};
use anabranch_terminal::output;
use anyhow::Context;
use clap::Args;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

const PROCESSES: u16 = 4;
/// A session that has ended reports what it did a moment later.
const REPORT: Duration = Duration::from_millis(500);

/// One fixed partition of a measurement, in a process of its own
#[derive(Args)]
pub(crate) struct PartitionWorker {
    /// The database; from the environment, since others can see arguments
    #[arg(long, env = "ANABRANCH_URL", hide_env_values = true)]
    url: String,

    #[arg(long)]
    namespace: String,

    /// The consumer's name
    #[arg(long)]
    consumer: String,

    #[arg(long)]
    table: String,

    #[arg(long)]
    index: u16,

    #[arg(long)]
    of: u16,
}

/// What a process prints when it is done.
#[derive(Serialize, Deserialize)]
struct Done {
    handled: u64,
    batches: u64,
}

impl PartitionWorker {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let namespace = Namespace::new(self.namespace)?;
        let log = throwaway::connect(&self.url, &namespace, false).await?;
        let set = ReplicaSet::new("bench")
            .projection(Upsert::new(self.consumer, self.table.leak()))
            .partition(FixedPartition::new(self.index, self.of)?);
        let progress = set.catch_up(&log).await?;
        let mut done = Done { handled: 0, batches: 0 };
        for consumer in progress.consumers {
            done.handled += consumer.handled;
            done.batches += consumer.batches;
        }
        output::json(&done)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Four processes with one upsert an event, and one process that does the same.
pub(crate) async fn measure(
    own: &mut OwnLog,
    events: u64,
    repeats: u64,
    turns: impl Fn(u64) -> [Side; 2],
    say: impl Fn(String),
) -> anyhow::Result<Case> {
    let mut rates = Rates::default();
    let (mut read, mut scanned) = (0, 0);
    for repeat in 1..=repeats {
        for side in turns(repeat) {
            let of = if side == Side::Limit { 1 } else { PROCESSES };
            let name = format!("partitions_{repeat}_{of}");
            let table = own.table(&name);
            let before = rows_scanned(own).await?;
            let started = Instant::now();
            let handled = run_all(own, &name, table, of).await?;
            let rate = events as f64 / started.elapsed().as_secs_f64();
            own.verify(table, events).await?;
            say(format!("partitions: repeat {repeat}, {of} processes {rate:.0} events/s"));
            if of == 1 {
                rates.bare.push(rate);
            } else {
                rates.ours.push(rate);
                read += handled;
                scanned += rows_scanned(own).await? - before;
            }
        }
    }
    let what = "4 processes, 1 upsert an event; limit: 1 process; read: what they say they handled \
                (the server filters by slot); looked at: rows of the log by the server's statistics";
    let case = Case::new("", "partitions-4", 1, what, rates);
    let all = (events * repeats) as f64;
    Ok(Case {
        read_ratio: Some(rounded(read as f64 / all, 3)),
        scan_ratio: Some(rounded(scanned as f64 / all, 3)),
        ..case
    })
}

async fn rows_scanned(own: &OwnLog) -> anyhow::Result<i64> {
    tokio::time::sleep(REPORT).await;
    match &own.bare {
        Bare::Postgres(bare) => bare.rows_scanned().await,
        Bare::Sqlite(_) => Ok(0),
    }
}

/// Runs all partitions of so many to the end; returns how many events they handled.
async fn run_all(own: &OwnLog, name: &str, table: &str, of: u16) -> anyhow::Result<u64> {
    let mut children = Vec::new();
    let mut failed = None;
    for index in 0..of {
        match start(own, name, table, index, of) {
            Ok(child) => children.push(child),
            Err(error) => failed = Some(error),
        }
    }
    let mut handled = 0;
    for output in join_all(children.into_iter().map(Child::wait_with_output)).await {
        let output = output?;
        anyhow::ensure!(output.status.success(), "a partition has failed: {}", output.status);
        handled += serde_json::from_slice::<Done>(&output.stdout)?.handled;
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(handled),
    }
}

fn start(own: &OwnLog, name: &str, table: &str, index: u16, of: u16) -> anyhow::Result<Child> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command
        .args(["bench", "partition-worker", "--namespace", own.namespace.as_str()])
        .args(["--consumer", name, "--table", table])
        .args(["--index", &index.to_string(), "--of", &of.to_string()])
        .env("ANABRANCH_URL", &own.url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().context("cannot start a process for a partition")
}

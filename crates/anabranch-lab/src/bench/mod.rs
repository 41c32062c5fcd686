//! How fast, beside a limit: the bare driver on the same schema, with the same durability, in the
//! same run. Ratios hold on a noisy machine where rates do not.
//!
//! | module | subject |
//! |---|---|
//! | `log` | appending and reading |
//! | `appenders` | appending in several processes |
//! | `dcb` | tags, conditions and decisions |
//! | `project` | catching up |
//! | `run` | consumers of a file: SQL, and programs |
//! | `webhook` | events to a server on this machine |
//! | `webhook_outage` | that server is down for a while |
//! | `partitions` | four processes against one |
//! | `serve`, `serve_tails` | the HTTP API: appends, and tails |
//! | `serve_client`, `serve_process` | what speaks to it, and its process |
//! | `latency` | from an append to its handler |
//! | `rescale` | processes that come and go |
//! | `rolling` | processes that are replaced one by one |
//! | `workpool` | tasks, from being enqueued to being done |
//! | `workflow` | commands, from being sent to their actions |
//! | `observer` | what an observer costs, in CPU time |
//! | `audit` | what an audit costs, in CPU time |
//! | `cpu` | CPU time of this process and of the server |
//! | `batch` | rows of a table, by one instance and by three |
//! | `events` | the events that are appended |
//! | `own_log` | a log of a benchmark's own |
//! | `handlers` | the consumers that are measured |
//! | `bare` | the limit: what the driver alone can do, on either database |
//! | `bare_sqlite`, `bare_postgres` | the limit on each |
//! | `limit` | the limit of a projection: the same effect by hand |
//! | `limit_sqlite`, `limit_postgres` | that on each |
//! | `tasks_limit` | the limit of a work pool, on either database |
//! | `report` | what is printed |

mod appenders;
mod audit;
pub(crate) mod bare;
mod bare_postgres;
mod bare_sqlite;
mod batch;
mod cpu;
mod dcb;
mod events;
mod handlers;
mod latency;
mod limit;
mod limit_postgres;
mod limit_sqlite;
mod log;
mod observer;
pub(crate) mod own_log;
mod partitions;
mod project;
mod report;
mod rescale;
mod rolling;
mod run;
mod serve;
mod serve_client;
mod serve_process;
mod serve_tails;
mod tasks_limit;
mod webhook;
mod webhook_outage;
mod workflow;
mod workpool;

use crate::throwaway::Throwaway;
use anabranch_terminal::cut_short::unless_unread;
use anabranch_terminal::say;
use clap::{Args, Subcommand};
use futures_util::future::LocalBoxFuture;
use std::process::ExitCode;

/// What every benchmark is asked for.
#[derive(Args)]
struct Measured {
    /// The database: sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(
        long,
        env = "ANABRANCH_URL",
        hide_env_values = true,
        default_value = "sqlite:anabranch-bench.db"
    )]
    url: String,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,

    /// Begin with the other side of each comparison, to see that the order decides nothing
    #[arg(long, hide = true)]
    swap: bool,
}

/// How long a measurement takes at the most.
const MAX_SECONDS: f64 = 3600.0;

/// Refuses times and repeats that measure nothing, before anything is made.
fn check_times(seconds: f64, repeats: usize) -> anyhow::Result<()> {
    anyhow::ensure!(
        (0.01..=MAX_SECONDS).contains(&seconds) && repeats > 0,
        "--seconds must be from 0.01 to {MAX_SECONDS}, and --repeats more than 0"
    );
    Ok(())
}

/// The sides of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    Limit,
}

impl Measured {
    /// Measures with logs that are removed however it ends.
    async fn run(
        &self,
        measure: impl AsyncFnOnce(&Throwaway) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let made = Throwaway::new(&self.url)?;
        let measured = Box::pin(unless_unread(measure(&made))).await;
        made.remove(measured).await?;
        Ok(ExitCode::SUCCESS)
    }

    /// Both sides, each first in every second repeat: what comes first may find colder caches, and what
    /// comes later a larger database.
    fn turns(&self, repeat: u64) -> [Side; 2] {
        match repeat.is_multiple_of(2) == self.swap {
            true => [Side::Limit, Side::Ours],
            false => [Side::Ours, Side::Limit],
        }
    }

    /// Says how far it is, unless the output is for a program.
    fn say(&self, text: impl FnOnce() -> String) {
        if !self.json {
            say!("{}", text());
        }
    }
}

/// Measures how fast it is here, beside the bare driver on the same schema.
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Log(log::BenchLog),
    Dcb(dcb::BenchDcb),
    Project(project::BenchProject),
    Run(run::BenchRun),
    Webhook(webhook::BenchWebhook),
    Serve(serve::BenchServe),
    Latency(latency::BenchLatency),
    Rescale(rescale::BenchRescale),
    Workpool(workpool::BenchWorkpool),
    Workflow(workflow::BenchWorkflow),
    Batch(batch::BenchBatch),
    Observer(observer::BenchObserver),
    Audit(audit::BenchAudit),
    #[command(hide = true)]
    Appender(appenders::Appender),
    #[command(hide = true)]
    PartitionWorker(partitions::PartitionWorker),
    #[command(hide = true)]
    Server(serve_process::Server),
    #[command(hide = true)]
    PoolWorker(workpool::PoolWorker),
}

impl Bench {
    /// Runs the benchmark. Boxed, so that it is compiled with this crate, and not with the one that calls it.
    pub fn run(self) -> LocalBoxFuture<'static, anyhow::Result<ExitCode>> {
        Box::pin(self.run_here())
    }

    async fn run_here(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::Log(bench) => bench.run().await,
            What::Dcb(bench) => bench.run().await,
            What::Project(bench) => bench.run().await,
            What::Run(bench) => bench.run().await,
            What::Webhook(bench) => bench.run().await,
            What::Serve(bench) => bench.run().await,
            What::Latency(bench) => bench.run().await,
            What::Rescale(bench) => bench.run().await,
            What::Workpool(bench) => bench.run().await,
            What::Workflow(bench) => bench.run().await,
            What::Batch(bench) => bench.run().await,
            What::Audit(bench) => bench.run().await,
            What::Observer(bench) => bench.run().await,
            What::Appender(appender) => appender.run().await,
            What::Server(server) => server.run().await,
            What::PoolWorker(worker) => worker.run().await,
            What::PartitionWorker(worker) => worker.run().await,
        }
    }
}

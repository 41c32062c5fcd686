//! The processes that run consumers.

use crate::target::Target;
use anabranch::operate::Runner;
use anabranch_terminal::output::{self, Table, time};
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Show the workers: the processes that run consumers
///
/// CONSUMERS are those that each of them runs. Workers of one replica set need not run the same: a consumer's
/// slots belong to those who run it. One that a worker cannot run for the time being has its reason behind it.
#[derive(Args)]
pub(crate) struct Workers {
    #[command(flatten)]
    target: Target,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Workers {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let workers = self.target.consumers().await?.workers().await?;
        if self.json {
            workers.iter().try_for_each(output::json)?;
            return Ok(ExitCode::SUCCESS);
        }
        if workers.is_empty() {
            say!("there are no workers");
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new([
            "REPLICA SET",
            "HOST",
            ">PID",
            "RUNS",
            ">LANES",
            "STATE",
            "SINCE",
            "ID",
            "CONSUMERS",
        ]);
        for worker in workers {
            table.row([
                worker.replica_set,
                worker.host,
                worker.pid.to_string(),
                worker.runs,
                worker.lanes.to_string(),
                if worker.is_alive { "alive" } else { "dead" }.to_owned(),
                time(worker.started_at),
                worker.id,
                consumers(&worker.consumers),
            ]);
        }
        table.print()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// `orders, mails (cannot: connection refused)`.
fn consumers(runners: &[Runner]) -> String {
    let one = |runner: &Runner| match &runner.unable {
        Some(why) => format!("{} (cannot: {why})", runner.consumer),
        None => runner.consumer.clone(),
    };
    runners.iter().map(one).collect::<Vec<_>>().join(", ")
}

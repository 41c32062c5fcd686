//! Rows that have failed.

use super::Job;
use anabranch_terminal::output::{self, Table};
use anabranch_terminal::say;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// List rows that have failed: why, how often they were tried, and when
#[derive(Args)]
pub(crate) struct Failed {
    #[command(flatten)]
    job: Job,

    /// How many at most, the oldest first
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
    limit: usize,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Failed {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.job.target.connect().await?;
        let failed = self.job.batch().failed(&log, self.limit).await?;
        if self.json {
            for row in &failed {
                let time = output::time(row.at);
                let (key, error, attempts) = (&row.key, &row.error, row.attempts);
                let line =
                    json!({ "key": key, "error": error, "attempts": attempts, "time": time });
                output::json(&line)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        if failed.is_empty() {
            say!("no row of `{}` has failed", self.job.job);
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(["KEY", ">ATTEMPTS", "TIME", "ERROR"]);
        for row in failed {
            table.row([row.key, row.attempts.to_string(), output::time(row.at), row.error]);
        }
        table.print()?;
        Ok(ExitCode::SUCCESS)
    }
}

//! How fast, beside a limit: the bare driver on the same schema, with the same durability, in the
//! same run. Ratios hold on a noisy machine where rates do not.
//!
//! | module | subject |
//! |---|---|
//! | `log` | appending and reading |
//! | `bare` | the limit: what the driver alone can do, on either database |
//! | `bare_sqlite`, `bare_postgres` | the limit on each |
//! | `report` | what is printed |

mod bare;
mod bare_postgres;
mod bare_sqlite;
mod log;
mod report;

use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum Bench {
    Log(log::BenchLog),
}

impl Bench {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Log(bench) => bench.run().await,
        }
    }
}

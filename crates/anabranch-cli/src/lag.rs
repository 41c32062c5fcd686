//! How far consumers are behind, in a line each: for people in a hurry, and for scripts.

use crate::chosen::chosen;
use crate::status::{POOL, state};
use crate::target::Target;
use anabranch::operate::{ConsumerStatus, Consumers, UnrunPool};
use anabranch_terminal::output::{self, Table};
use anabranch_terminal::say;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Show how far the consumers are behind, in a line each
///
/// LAG is what is not handled: events, or tasks of a pool. PARKED are keys that wait for somebody, RETRYING those that
/// are tried again by themselves. `anabranch status` says more.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 done; 1 with --max, if a lag is above it or not known, or if the command failed"
)]
pub(crate) struct Lag {
    #[command(flatten)]
    target: Target,

    /// Only this consumer
    consumer: Option<String>,

    /// End with exit code 1 if a lag is above this, or is not known
    #[arg(long, value_name = "N")]
    max: Option<u64>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// One line.
#[derive(Serialize)]
struct Line {
    consumer: String,
    kind: String,
    /// None if it is not known: its log is another one, or was wound back.
    lag: Option<u64>,
    /// What more workers could do of it.
    ready: Option<u64>,
    parked: u64,
    retrying: u64,
    state: String,
}

impl Line {
    fn of(status: &ConsumerStatus) -> Self {
        let known = |number: u64| status.is_lag_known().then_some(number);
        Self {
            consumer: status.name.clone(),
            kind: status.kind.clone(),
            lag: known(status.lag),
            ready: known(status.lag_ready),
            parked: status.parked_keys as u64,
            retrying: status.retrying_keys as u64,
            state: state(status),
        }
    }

    fn of_unrun(pool: &UnrunPool) -> Self {
        Self {
            consumer: pool.name.clone(),
            kind: POOL.to_owned(),
            lag: Some(pool.lag),
            ready: Some(pool.lag_ready),
            parked: 0,
            retrying: 0,
            state: "no worker has run it yet".to_owned(),
        }
    }
}

impl Lag {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let lines = self.lines().await?;
        if self.json {
            lines.iter().try_for_each(output::json)?;
        } else if lines.is_empty() {
            say!("there are no consumers yet; one appears when it first runs");
        } else {
            print(&lines)?;
        }
        Ok(match self.max.map(|max| too_far(&lines, max)) {
            Some(true) => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        })
    }

    async fn lines(&self) -> anyhow::Result<Vec<Line>> {
        let consumers = Consumers::new(&self.target.connect().await?);
        let (all, unrun) = chosen(&consumers, self.consumer.as_deref()).await?;
        Ok(all.iter().map(Line::of).chain(unrun.iter().map(Line::of_unrun)).collect())
    }
}

fn print(lines: &[Line]) -> anyhow::Result<()> {
    let mut table = Table::new(["CONSUMER", ">LAG", ">PARKED", ">RETRYING", "STATE"]);
    for line in lines {
        table.row([
            line.consumer.clone(),
            line.lag.map_or_else(|| "unknown".to_owned(), |lag| lag.to_string()),
            line.parked.to_string(),
            line.retrying.to_string(),
            line.state.clone(),
        ]);
    }
    table.print()
}

/// Whether a lag is above the most that it may be; says which.
fn too_far(lines: &[Line], max: u64) -> bool {
    let mut is_too_far = false;
    for line in lines.iter().filter(|line| line.lag.is_none_or(|lag| lag > max)) {
        is_too_far = true;
        match line.lag {
            Some(lag) => say!("the lag of {} is {lag}, above {max}", line.consumer),
            None => say!("the lag of {} is not known: {}", line.consumer, line.state),
        }
    }
    is_too_far
}

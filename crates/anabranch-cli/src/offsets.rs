//! How far a consumer is, partition by partition.

use crate::status;
use crate::target::Target;
use anabranch::Position;
use anabranch::operate::{Offset, Offsets as Found, WorkerStatus};
use anabranch::partitioning::Extent;
use anabranch::partitioning::SLOTS;
use anabranch_terminal::output::{self, Table};
use clap::Args;
use std::process::ExitCode;

/// Show how far a consumer is: its positions, the lowest of them, and the lag
///
/// A line for each cursor, or with --partitions for each fixed partition of that many, whether or not
/// it runs as such. The lag is what is not handled: the positions from the lowest one to the head of the
/// log, and the events of keys that have failed. What is parked of it waits for somebody, not for workers.
#[derive(Args)]
pub(crate) struct Offsets {
    #[command(flatten)]
    target: Target,

    /// The consumer
    consumer: String,

    /// For so many fixed partitions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(SLOTS)))]
    partitions: Option<u16>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Offsets {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let offsets = consumers.offsets(&self.consumer, self.partitions).await?;
        match self.json {
            true => output::json(&offsets)?,
            false => print(&offsets, &consumers.workers().await?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(offsets: &Found, workers: &[WorkerStatus]) -> anyhow::Result<()> {
    let mut table = Table::new(["SLOTS", ">COUNT", ">LOWEST", ">HIGHEST", ">LAG", "OWNER"]);
    for Offset { part, extent, lag, owners, .. } in &offsets.parts {
        let owners: Vec<String> = owners.iter().map(|o| status::owner(o, workers)).collect();
        let [lowest, highest] = positions(extent);
        let (count, lag) = (extent.slots.to_string(), lag.to_string());
        table.row([part.clone(), count, lowest, highest, lag, owners.join(" and ")]);
    }
    table.print()?;
    let Found { minimum, head, lag, lag_ready, .. } = offsets;
    let parked = match lag - lag_ready {
        0 => String::new(),
        parked => format!(", {parked} of it parked"),
    };
    output::line(format_args!("\nminimum {minimum}, head {head}, lag {lag}{parked}"))
}

/// Where the slots stand, lowest and highest.
pub(crate) fn positions(extent: &Extent) -> [String; 2] {
    let text = |position: Option<Position>| position.map_or("-".to_owned(), |p| p.to_string());
    [text(extent.lowest), text(extent.highest)]
}

//! The history of assignments: when, why, who had what.

use crate::output::{self, Table, time};
use crate::target::Target;
use anabranch::Generation;
use clap::Args;
use std::process::ExitCode;

/// Show the generations of replica sets: when slots were assigned anew, why, and who got how many
///
/// The newest comes first. A generation is made whenever a worker joins, leaves or dies, and when the
/// load of slots has become uneven.
#[derive(Args)]
pub(crate) struct Generations {
    #[command(flatten)]
    target: Target,

    /// Only this replica set
    replica_set: Option<String>,

    /// How many
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    limit: u16,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Generations {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let set = self.replica_set.as_deref();
        let found = consumers.generations(set, usize::from(self.limit)).await?;
        if self.json {
            found.iter().try_for_each(output::json)?;
            return Ok(ExitCode::SUCCESS);
        }
        if found.is_empty() {
            match set {
                Some(set) => eprintln!("there is no replica set `{}` yet", set.escape_debug()),
                None => eprintln!("there are no generations yet; one is made when a worker joins"),
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(["REPLICA SET", ">GENERATION", "WHEN", "WHY", "WHO HAD WHAT"]);
        for generation in &found {
            table.row([
                generation.replica_set.clone(),
                generation.generation.to_string(),
                time(generation.at_us),
                generation.reason.clone(),
                members(generation),
            ]);
        }
        table.print()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// `host:1: 2520 slots, host:2: 2520 slots`.
fn members(generation: &Generation) -> String {
    if generation.members.is_empty() {
        return "nobody".to_owned();
    }
    let member = |m: &anabranch::GenerationMember| format!("{}: {} slots", m.place, m.slots);
    generation.members.iter().map(member).collect::<Vec<_>>().join(", ")
}

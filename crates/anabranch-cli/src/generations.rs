//! The history of assignments: when, why, who had what.

use crate::refusal::refuse;
use crate::target::Target;
use anabranch::operate::{Generation, GenerationMember};
use anabranch_terminal::output::{self, Table, time};
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Show the generations of replica sets: when slots were assigned anew, why, and who got how many
///
/// The newest comes first. A generation is made whenever a worker joins, leaves or dies, when one cannot run
/// a consumer for the time being or can again, and when the load of slots has become uneven. A consumer that
/// not all members could run stands behind `of NAME:`, with those who could.
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
        if let Some(set) = set.filter(|_| found.is_empty()) {
            refuse!(
                NoSuchReplicaSet,
                "there is no replica set `{}`; one appears when its first worker joins, and `anabranch generations` \
                 shows them all",
                set.escape_debug()
            );
        }
        if self.json {
            found.iter().try_for_each(output::json)?;
            return Ok(ExitCode::SUCCESS);
        }
        if found.is_empty() {
            say!("there are no generations yet; one is made when a worker joins");
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(["REPLICA SET", ">GENERATION", "WHEN", "WHY", "WHO HAD WHAT"]);
        for generation in &found {
            table.row([
                generation.replica_set.clone(),
                generation.generation.to_string(),
                time(generation.at),
                generation.reason.clone(),
                members(generation),
            ]);
        }
        table.print()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// `host:1: 2520 slots, host:2: 2520 slots; of mails: host:1: 5040 slots`.
fn members(generation: &Generation) -> String {
    if generation.members.is_empty() {
        return "nobody".to_owned();
    }
    let list = |members: &[GenerationMember]| {
        let one = |m: &GenerationMember| format!("{}: {} slots", m.place, m.slots);
        members.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let apart = generation.apart.iter();
    let apart = apart.map(|(consumer, members)| format!("of {consumer}: {}", list(members)));
    let parts = std::iter::once(list(&generation.members)).chain(apart);
    parts.collect::<Vec<_>>().join("; ")
}

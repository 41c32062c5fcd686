//! Slots that are to move for their load, at once.

use crate::planned::Planned;
use crate::target::Target;
use anabranch::operations::Request;
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Move slots of a replica set for the load that its workers have measured, now
///
/// Workers do that by themselves, with a pause between two moves; this is for when somebody does not want to wait. As few
/// slots move as balance allows, and none if no worker has a quarter more than its share.
#[derive(Args)]
pub(crate) struct Rebalance {
    #[command(flatten)]
    target: Target,

    /// The replica set
    replica_set: String,

    #[command(flatten)]
    planned: Planned,
}

impl Rebalance {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let operations = self.target.operations().await?;
        let request = Request::Rebalance { replica_set: self.replica_set.clone() };
        if let Some(plan) = self.planned.carry_out(&operations, &request, None).await? {
            match plan.effect.counts.get("slots") {
                None | Some(0) => say!("{}", plan.effect.says.replace("would move", "moved")),
                Some(slots) => say!("{slots} slots of `{}` move now", self.replica_set),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

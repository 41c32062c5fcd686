//! A consumer that is to stand still for a while.

use crate::planned::{Planned, operations};
use crate::status::awaits_decision;
use crate::target::Target;
use anabranch::operate::Consumers;
use anabranch::operations::Request;
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Let a consumer stand still: its workers finish their batches and wait
#[derive(Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    target: Target,

    /// The consumer
    name: String,

    #[command(flatten)]
    planned: Planned,
}

/// Let a consumer go on that was paused, or that has stopped by itself
///
/// A consumer whose handler fails wherever it runs stops by itself, and is tried with one event after growing
/// pauses, a minute at the most. This tries it again at once: use it when what it needs is back. If it fails
/// again, it stops again.
///
/// One whose log was wound back or emptied waits for another decision: replay, or skip-to-head.
#[derive(Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    target: Target,

    /// The consumer
    name: String,

    #[command(flatten)]
    planned: Planned,
}

impl Pause {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let (operations, name) = (self.target.operations().await?, &self.name);
        let request = Request::Pause { consumer: name.clone() };
        if self.planned.carry_out(&operations, &request, None).await?.is_some() {
            say!("`{name}` is paused; `anabranch resume {name}` lets it go on");
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Resume {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let (log, name) = (self.target.connect().await?, &self.name);
        let before = Consumers::new(&log).status(name).await?;
        let request = Request::Resume { consumer: name.clone() };
        let operations = operations(&log);
        if self.planned.carry_out(&operations, &request, None).await?.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(reason) = awaits_decision(&before) {
            say!(
                "`{name}` does not go on by that: {reason} (`anabranch replay {name} --from-start`, \
                 `anabranch skip-to-head {name}`)"
            );
            return Ok(ExitCode::SUCCESS);
        }
        match (before.paused, before.outage.is_some()) {
            (false, false) if before.retrying_keys > 0 => say!(
                "`{name}` was neither paused nor stopped, so nothing has changed; {} of its keys wait for \
                 their next attempt, and `anabranch parked retry {name} --all` tries them now",
                before.retrying_keys
            ),
            (false, false) => {
                say!("`{name}` was neither paused nor stopped, so nothing has changed");
            }
            _ => say!("`{name}` goes on"),
        }
        Ok(ExitCode::SUCCESS)
    }
}

//! A consumer that is to stand still for a while.

use crate::status::awaits_decision;
use crate::target::Target;
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
}

impl Pause {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let name = &self.name;
        self.target.consumers().await?.pause(name).await?;
        say!("`{name}` is paused; `anabranch resume {name}` lets it go on");
        Ok(ExitCode::SUCCESS)
    }
}

impl Resume {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let (consumers, name) = (self.target.consumers().await?, &self.name);
        let before = consumers.status(name).await?;
        consumers.resume(name).await?;
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

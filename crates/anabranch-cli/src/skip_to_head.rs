//! A consumer that is to leave out what it has not handled.

use crate::confirm::Confirm;
use crate::output::count;
use crate::target::Target;
use clap::Args;
use std::process::ExitCode;

/// Leave out all that a consumer has not handled yet, keys that have failed included
#[derive(Args)]
pub(crate) struct SkipToHead {
    #[command(flatten)]
    target: Target,

    /// The consumer
    name: String,

    #[command(flatten)]
    confirm: Confirm,
}

impl SkipToHead {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let name = &self.name;
        let before = consumers.status(name).await?;
        let consequence = format!(
            "`{name}` would never handle its events after position {} up to {}, nor those of its {}",
            before.position,
            before.head,
            count((before.parked_keys + before.retrying_keys) as u64, "failed key")
        );
        if let Some(refusal) = self.confirm.refusal(&consequence) {
            return Ok(refusal);
        }
        let head = consumers.skip_to_head(name).await?;
        eprintln!("`{name}` goes on after position {head}; it stood at {}", before.position);
        Ok(ExitCode::SUCCESS)
    }
}

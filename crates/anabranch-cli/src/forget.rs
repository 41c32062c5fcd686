//! A consumer that no longer exists.

use crate::confirm::Confirm;
use crate::refusal::refuse;
use crate::status::is_run;
use crate::target::Target;
use anabranch_terminal::output::count;
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Remove a consumer that no longer exists, with its cursors and the keys that have failed; its tables stay
#[derive(Args)]
pub(crate) struct Forget {
    #[command(flatten)]
    target: Target,

    /// The consumer
    name: String,

    #[command(flatten)]
    confirm: Confirm,
}

impl Forget {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let name = &self.name;
        let status = consumers.status(name).await?;
        if is_run(&status) {
            refuse!(
                StillRunning,
                "`{name}` is being run; stop its workers first (`anabranch status {name}`)"
            );
        }
        let consequence = format!(
            "how far `{name}` is (position {}) and its {} would be gone, and it would \
             begin anew if it ran again",
            status.position,
            count((status.parked_keys + status.retrying_keys) as u64, "failed key")
        );
        self.confirm.require(&consequence)?;
        consumers.forget(name).await?;
        say!("`{name}` is forgotten; what it wrote is still there");
        Ok(ExitCode::SUCCESS)
    }
}

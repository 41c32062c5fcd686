//! A consumer that no longer exists.

use crate::confirm::Confirm;
use crate::planned::Planned;
use crate::target::Target;
use anabranch::operations::Request;
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

    #[command(flatten)]
    planned: Planned,
}

impl Forget {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let (operations, name) = (self.target.operations().await?, &self.name);
        let request = Request::Forget { consumer: name.clone() };
        if self.planned.carry_out(&operations, &request, Some(&self.confirm)).await?.is_some() {
            say!("`{name}` is forgotten; what it wrote is still there");
        }
        Ok(ExitCode::SUCCESS)
    }
}

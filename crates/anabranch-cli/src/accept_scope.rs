//! A program asks for another scope than its consumer has: saying that it is meant.

use crate::confirm::Confirm;
use crate::refusal::refuse;
use crate::target::Target;
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Accept that a program asks for another scope than its consumer has been run with
///
/// A program whose scope is not the stored one is refused, since the consumer has passed events that
/// only match now: they would be left out without a word. This shows what that is, and with --yes lets
/// the consumer go on from where it is with the new scope. Workers with the old one stop. As long as a
/// worker of the last version lives, which knows nothing of this, it is refused.
#[derive(Args)]
pub(crate) struct AcceptScope {
    #[command(flatten)]
    target: Target,

    /// The consumer
    name: String,

    #[command(flatten)]
    confirm: Confirm,
}

impl AcceptScope {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let name = &self.name;
        let Some(change) = consumers.scope_change(name).await? else {
            refuse!(
                NoScopeChange,
                "no program asks for another scope of `{name}`; one that does is refused when it \
                 starts, and can be accepted then"
            );
        };
        self.confirm.require(&format!("of `{name}`: {change}"))?;
        let change = consumers.accept_scope(&change).await?;
        say!("accepted for `{name}`: {change}");
        Ok(ExitCode::SUCCESS)
    }
}

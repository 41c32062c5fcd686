//! A consumer that is to leave out what it has not handled.

use crate::confirm::Confirm;
use crate::status::{beyond, is_of_other_log};
use crate::target::Target;
use anabranch_terminal::output::count;
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// Leave out all that a consumer has not handled yet, keys that have failed included
///
/// A consumer that stands beyond the log, because the log was emptied, restored from an older backup, or
/// its sequence was reset, goes back to its end.
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
        if is_of_other_log(&before) && self.target.events_url.is_none() {
            // Refused: nobody has said where the log is, so there is no head to tell of.
            consumers.skip_to_head(name).await?;
        }
        let failed = count((before.parked_keys + before.retrying_keys) as u64, "failed key");
        let consequence = match beyond(&before) {
            Some(drawn) => format!(
                "`{name}` stands at position {}, beyond {drawn}, the last one that the log has ever \
                 drawn; it would go back to {} and never handle the events that are there now, nor \
                 those of its {failed}",
                before.position, before.head,
            ),
            None if is_of_other_log(&before) => format!(
                "this is another log than the one of which `{name}` has handled the events up to position {}; \
                 it would go on at the end of this one, and belong to it",
                before.position,
            ),
            None => format!(
                "`{name}` would never handle its events after position {} up to {}, nor those of its \
                 {failed}",
                before.position, before.head,
            ),
        };
        self.confirm.require(&consequence)?;
        let head = consumers.skip_to_head(name).await?;
        say!("`{name}` goes on after position {head}; it stood at {}", before.position);
        Ok(ExitCode::SUCCESS)
    }
}

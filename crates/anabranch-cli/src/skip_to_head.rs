//! A consumer that is to leave out what it has not handled.

use crate::confirm::Confirm;
use crate::planned::{Planned, operations};
use crate::status::is_of_other_log;
use crate::target::Target;
use anabranch::operate::Consumers;
use anabranch::operations::Request;
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

    #[command(flatten)]
    planned: Planned,
}

impl SkipToHead {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let (log, name) = (self.target.connect().await?, &self.name);
        let consumers = Consumers::new(&log);
        let before = consumers.status(name).await?;
        if is_of_other_log(&before) && self.target.events_url.is_none() {
            // Refused: nobody has said where the log is, so there is no head to tell of.
            consumers.skip_to_head(name).await?;
        }
        let request = Request::SkipToHead { consumer: name.clone() };
        let operations = operations(&log);
        if self.planned.carry_out(&operations, &request, Some(&self.confirm)).await?.is_some() {
            let (after, stood) = (consumers.status(name).await?.position, before.position);
            match after == stood && before.parked_keys + before.retrying_keys == 0 {
                true => say!(
                    "`{name}` stands at position {stood} already: there was nothing to leave out"
                ),
                false => say!("`{name}` goes on after position {after}; it stood at {stood}"),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

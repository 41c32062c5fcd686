//! A consumer that is to begin again.

use crate::confirm::Confirm;
use crate::refusal::refuse;
use crate::status::{is_of_other_log, is_run};
use crate::target::Target;
use anabranch::Position;
use anabranch::operate::{ReplayError, ReplayFrom};
use anabranch::webhook::Deliveries;
use anabranch_terminal::say;
use clap::Args;
use jiff::Timestamp;
use std::process::ExitCode;

/// Ask for a consumer's events to be handled again
///
/// The worker that runs it does it, or the next one that will: it calls the consumer's own `reset`
/// hook and puts its cursors back, in one transaction. Keys that are parked are handled again too.
///
/// If the log no longer has the event with which it would begin, it says from where it can, and asks for
/// --yes: what the consumer made of deleted events cannot be made again. (On PostgreSQL a position whose
/// append was rolled back looks the same.)
#[derive(Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    target: Target,

    /// The consumer
    name: String,

    #[command(flatten)]
    from: From,

    /// Of a webhook: send what comes again under new ids, so that receivers take it for new
    #[arg(long)]
    new_id: bool,

    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct From {
    /// From the first event on
    #[arg(long)]
    from_start: bool,

    /// From the first event on that the log still has, if those before it were deleted: the `reset` hook
    /// is told to undo only what comes again
    #[arg(long)]
    from_first_kept: bool,

    /// From the event after this position on
    #[arg(long, value_name = "POSITION")]
    after: Option<u64>,

    /// From the first event on that was recorded at this time or later, for example
    /// 2026-11-15T09:16:47Z
    #[arg(long, value_name = "RFC3339", value_parser = timestamp)]
    from_time: Option<Timestamp>,
}

impl From {
    fn replay_from(&self) -> ReplayFrom {
        match (self.after, self.from_time) {
            _ if self.from_first_kept => ReplayFrom::FirstKept,
            (Some(after), _) => ReplayFrom::After(Position::new(after)),
            (_, Some(time)) => ReplayFrom::Time(time.as_microsecond()),
            (None, None) => ReplayFrom::Start,
        }
    }
}

impl Replay {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let (name, from) = (&self.name, self.from.replay_from());
        let status = consumers.status(name).await?;
        if let ReplayFrom::After(after) = from
            && after > status.position
        {
            refuse!(
                ReplayForwards,
                "`{name}` stands at position {}, and a replay goes back: after {after} it would leave \
                 events out; choose a position up to {0}, or `anabranch skip-to-head {name}`",
                status.position
            );
        }
        if status.kind == "webhook" {
            let from = match from {
                ReplayFrom::After(after) => format!("after position {after}"),
                _ => "from there on".to_owned(),
            };
            self.confirm.require(&format!(
                "`{name}` is a webhook: every event {from}, up to position {}, is sent to its endpoint again, {}",
                status.position,
                if self.new_id { "under new ids" } else { "under the same ids" }
            ))?;
        }
        if is_of_other_log(&status) && self.target.events_url.is_some() {
            self.confirm.require(&format!(
                "this is another log than the one of which `{name}` has handled the events up to position {}; it \
                 would begin with this one, and belong to it",
                status.position
            ))?;
        }
        if self.new_id && status.kind != "webhook" {
            let kind = &status.kind;
            refuse!(InvalidArguments, "`{name}` is a {kind}, and only webhooks have ids");
        }
        let deliveries = Deliveries::new(&self.target.connect().await?);
        let ask = async |accepts_missing| match (self.new_id, accepts_missing) {
            (true, _) => deliveries.replay_anew(name, from, accepts_missing).await,
            (false, true) => consumers.replay_what_is_left(name, from).await,
            (false, false) => consumers.replay(name, from).await,
        };
        let to = match ask(false).await {
            Err(ReplayError::Missing(missing)) => {
                self.confirm.require(&missing.to_string())?;
                ask(true).await?
            }
            asked => asked?,
        };
        let who = match is_run(&status) {
            true => "its worker does it now",
            false => "no worker runs it now, so the next one that does will do it",
        };
        say!("asked `{name}` to begin again after position {to}; {who}");
        Ok(ExitCode::SUCCESS)
    }
}

pub(crate) fn timestamp(text: &str) -> Result<Timestamp, String> {
    let wrong = |_| "write the time with its zone, as in 2026-11-15T09:16:47Z".to_owned();
    text.parse().map_err(wrong)
}

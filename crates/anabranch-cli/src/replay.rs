//! A consumer that is to begin again.

use crate::confirm::Confirm;
use crate::planned::{Planned, operations};
use crate::refusal::refuse;
use crate::status::is_of_other_log;
use crate::target::Target;
use anabranch::Position;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, ReplayError, ReplayFrom};
use anabranch::operations::{Begin, OperationError, Operations, Request};
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

    #[command(flatten)]
    planned: Planned,
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

    /// From as many of its last events on, or fewer if it has not handled as many: at most so many come again
    #[arg(long, value_name = "EVENTS")]
    last: Option<u64>,

    /// Only this key, as `parked list` and `why` write it, from its first event on: its later events wait meanwhile, and
    /// other keys go on
    #[arg(long, value_name = "KEY", conflicts_with = "new_id")]
    key: Option<String>,
}

impl From {
    fn begin(&self) -> Begin {
        match (self.after, self.from_time, self.last) {
            _ if self.from_first_kept => Begin::FirstKept,
            (Some(after), ..) => Begin::After(Position::new(after)),
            (_, Some(time), _) => Begin::Time(time),
            (.., Some(events)) => Begin::Last(events),
            (None, None, None) => Begin::Start,
        }
    }
}

impl Replay {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.target.connect().await?;
        let (consumers, operations) = (Consumers::new(&log), operations(&log));
        if let Some(key) = &self.from.key {
            return self.one_key(&operations, key).await;
        }
        let (name, from) = (&self.name, self.from.begin());
        let status = consumers.status(name).await?;
        if let Begin::After(after) = from
            && after > status.position
        {
            refuse!(
                ReplayForwards,
                "`{name}` stands at position {}, and a replay goes back: after {after} it would leave \
                 events out; choose a position up to {0}, or `anabranch skip-to-head {name}`",
                status.position
            );
        }
        if is_of_other_log(&status) && self.target.events_url.is_none() {
            // Refused: nobody has said where the log is.
            consumers.replay_position(name, ReplayFrom::Start, false).await?;
        }
        let request = |accept_missing| {
            let (consumer, new_ids) = (name.clone(), self.new_id);
            Request::Replay { consumer, from, accept_missing, new_ids }
        };
        let asked = request(false);
        let asked = match operations.look(&asked).await {
            // Of a plan that was decided when it was made.
            Err(OperationError::Replay(ReplayError::Missing(missing)))
                if self.planned.plan.is_none() =>
            {
                if !self.planned.dry_run {
                    self.confirm.require(&missing.to_string())?;
                }
                request(true)
            }
            _ => asked,
        };
        let confirm = Some(&self.confirm);
        let Some(plan) = self.planned.carry_out(&operations, &asked, confirm).await? else {
            return Ok(ExitCode::SUCCESS);
        };
        let who = match status.is_run() {
            true => format!("if its worker cannot, `anabranch status {name}` says why"),
            false => "no worker runs it now, so the next one that does will do it".to_owned(),
        };
        let from =
            plan.replays_after().map_or_else(String::new, |to| format!(" after position {to}"));
        say!("asked `{name}` to begin again{from}; {who}");
        Ok(ExitCode::SUCCESS)
    }
}

impl Replay {
    async fn one_key(&self, operations: &Operations, key: &str) -> anyhow::Result<ExitCode> {
        let request = |accept_missing| {
            let (consumer, key) = (self.name.clone(), key.to_owned());
            Request::ReplayKey { consumer, key, accept_missing }
        };
        let lacks = |error: &OperationError| error.code() == ErrorCode::EventsMissing;
        let asked = match operations.look(&request(false)).await {
            Err(error) if lacks(&error) && self.planned.plan.is_none() => {
                if !self.planned.dry_run {
                    self.confirm.require(&error.to_string())?;
                }
                request(true)
            }
            _ => request(false),
        };
        let confirm = Some(&self.confirm);
        if self.planned.carry_out(operations, &asked, confirm).await?.is_some() {
            say!(
                "asked `{}` to handle `{key}` again; the worker that owns its slot does it, or the next one",
                self.name
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

pub(crate) fn timestamp(text: &str) -> Result<Timestamp, String> {
    let wrong = |_| "write the time with its zone, as in 2026-11-15T09:16:47Z".to_owned();
    text.parse().map_err(wrong)
}

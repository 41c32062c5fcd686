//! Keys that are set aside because an event of them failed: parked, or tried again by themselves.

use crate::confirm::Confirm;
use crate::event_line::event_line;
use crate::planned::Planned;
use crate::refusal::refuse;
use crate::target::Target;
use anabranch::Event;
use anabranch::operate::{Consumers, KeyState, Parked, ParkedAction, ParkedFilter};
use anabranch::operations::{Plan, Request};
use anabranch_terminal::output::{self, Table, count, time};
use anabranch_terminal::say;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

/// What to do with parked keys.
#[derive(Subcommand)]
pub(crate) enum ParkedKeys {
    List(List),
    Show(Show),
    Retry(Retry),
    Skip(Skip),
}

/// List the keys of a consumer that have failed, the oldest first
///
/// STATE says what becomes of a key: `parked` waits for somebody to retry or skip it; `retrying` is tried
/// again by itself, and its NEXT ATTEMPT says when.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: Target,

    /// The consumer
    name: String,

    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<State>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// What becomes of a key that has failed.
#[derive(Clone, Copy, ValueEnum)]
enum State {
    /// It waits for somebody.
    Parked,
    /// It is tried again by itself.
    Retrying,
}

/// Show a key that has failed: its error, and the first events that wait
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    target: Target,

    /// The consumer
    name: String,

    /// The key, as `parked list` shows it
    key: String,

    /// How many of the events that wait
    #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT")]
    lines: usize,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Ask for keys that have failed to be tried again at once: one, or all that --all or the filters find
#[derive(Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    planned: Planned,
}

/// Ask for the first event of keys that have failed to be left out, and the others to be tried
///
/// One key, or all that --all or the filters find. Those that a filter finds need --yes; a key that is named does not,
/// though this cannot be taken back.
#[derive(Args)]
pub(crate) struct Skip {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    which: Which,

    /// Leave out all events that wait, not only the first
    #[arg(long)]
    all_events: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    planned: Planned,
}

/// Which keys that have failed.
#[derive(Args)]
#[command(group(ArgGroup::new("which").required(true).multiple(true)
    .args(["key", "all", "key_contains", "error_contains"])))]
struct Which {
    /// The consumer
    name: String,

    /// The key, as `parked list` shows it
    #[arg(conflicts_with_all = ["all", "key_contains", "error_contains", "state"])]
    key: Option<String>,

    /// All keys of the consumer that have failed
    #[arg(long)]
    all: bool,

    /// Keys with this text in them
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    key_contains: Option<String>,

    /// Keys whose last error has this text in it
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    error_contains: Option<String>,

    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<State>,

    /// At most this many keys per second, so that what they wait for is not flooded
    #[arg(long, value_name = "KEYS")]
    per_second: Option<NonZeroU32>,
}

impl Which {
    fn request(&self, action: ParkedAction) -> Request {
        let filter = ParkedFilter {
            key: self.key.clone(),
            key_contains: self.key_contains.clone(),
            error_contains: self.error_contains.clone(),
            state: self.state.map(State::key_state),
        };
        let (consumer, per_second) = (self.name.clone(), self.per_second);
        Request::Parked { consumer, action, filter, per_second }
    }
}

impl State {
    fn key_state(self) -> KeyState {
        match self {
            Self::Parked => KeyState::Parked,
            Self::Retrying => KeyState::Retrying,
        }
    }
}

impl ParkedKeys {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::List(list) => list.run().await?,
            Self::Show(show) => show.run().await?,
            Self::Retry(retry) => retry.run().await?,
            Self::Skip(skip) => skip.run().await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl List {
    async fn run(self) -> anyhow::Result<()> {
        let mut parked = self.target.consumers().await?.parked(&self.name).await?;
        let state = self.state.map(State::key_state);
        parked.retain(|key| state.is_none_or(|state| key.state == state));
        if self.json {
            return parked.iter().try_for_each(output::json);
        }
        if parked.is_empty() {
            let what = state.map_or("parked or retrying", KeyState::name);
            say!("`{}` has no {what} keys", self.name);
            return Ok(());
        }
        let mut table = Table::new([
            "KEY",
            "STATE",
            ">EVENTS",
            ">FIRST",
            ">ATTEMPTS",
            "SINCE",
            "NEXT ATTEMPT",
            "ERROR",
        ]);
        for key in parked {
            table.row([
                key.key.clone(),
                key.state.name().to_owned(),
                key.events.to_string(),
                key.first.map_or_else(|| "-".to_owned(), |first| first.to_string()),
                key.attempts.to_string(),
                time(key.since),
                next_attempt(&key),
                key.error,
            ]);
        }
        table.print()
    }
}

/// A parked key with its events, as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    parked: &'a Parked,
    first_events: &'a [Event],
}

impl Show {
    async fn run(self) -> anyhow::Result<()> {
        let consumers = self.target.consumers().await?;
        let parked = find(&consumers, &self.name, &self.key).await?;
        let events = consumers.parked_events(&self.name, &self.key, self.lines).await?;
        if self.json {
            return output::json(&Shown { parked: &parked, first_events: &events });
        }
        output::line(format_args!("key           {}", parked.key))?;
        output::line(format_args!("state         {}", parked.state.name()))?;
        output::line(format_args!("slot          {}", parked.slot))?;
        output::line(format_args!("since         {}", time(parked.since)))?;
        output::line(format_args!("attempts      {}", parked.attempts))?;
        output::line(format_args!("next attempt  {}", next_attempt(&parked)))?;
        output::line(format_args!("error         {}", parked.error))?;
        output::line(format_args!("waiting       {}", count(parked.events, "event")))?;
        output::line("")?;
        events.iter().try_for_each(|event| output::line(event_line(event)))
    }
}

impl Retry {
    async fn run(self) -> anyhow::Result<()> {
        let operations = self.target.operations().await?;
        let request = self.which.request(ParkedAction::Retry);
        if let Some(plan) = self.planned.carry_out(&operations, &request, None).await? {
            let asked = count(plan.done, "key");
            say!(
                "asked for {asked} of `{}` to be tried again{}; {BY_WHOM}",
                self.which.name,
                gone(&plan)
            );
        }
        Ok(())
    }
}

impl Skip {
    async fn run(self) -> anyhow::Result<()> {
        let operations = self.target.operations().await?;
        let action = if self.all_events { ParkedAction::SkipAll } else { ParkedAction::Skip };
        // What waits behind one key was looked at when it was named.
        let confirm = Some(&self.confirm).filter(|_| self.which.key.is_none());
        let request = self.which.request(action);
        let Some(plan) = self.planned.carry_out(&operations, &request, confirm).await? else {
            return Ok(());
        };
        let what = if self.all_events { "all events that wait" } else { "the first event" };
        let of = match &self.which.key {
            Some(key) => format!("of `{key}`"),
            None => format!("behind {} of `{}`", count(plan.done, "key"), self.which.name),
        };
        say!("asked for {what} {of} to be left out{}; {BY_WHOM}", gone(&plan));
        Ok(())
    }
}

/// What was planned and is not there any more.
fn gone(plan: &Plan) -> String {
    match plan.gone {
        0 => String::new(),
        gone => {
            format!(" ({gone} of {} had gone on meanwhile, or were set aside anew)", plan.total)
        }
    }
}

const BY_WHOM: &str = "the worker that owns its slot does it, or the next one";

async fn find(consumers: &Consumers, name: &str, key: &str) -> anyhow::Result<Parked> {
    let parked = consumers.parked(name).await?;
    let found = parked.into_iter().find(|parked| parked.key == key);
    match found {
        Some(parked) => Ok(parked),
        None => refuse!(
            NoSuchKey,
            "`{name}` has no parked key `{key}`; `anabranch parked list {name}` shows them"
        ),
    }
}

pub(crate) fn next_attempt(parked: &Parked) -> String {
    match (parked.asked, parked.retry_in) {
        (Some(asked), _) => format!("{asked} asked"),
        (None, None) => "when asked".to_owned(),
        (None, Some(Duration::ZERO)) => "due".to_owned(),
        (None, Some(wait)) => format!("in {:.1} s", wait.as_secs_f64()),
    }
}

//! What webhooks have sent: list, show, send again, and try an endpoint.

use crate::confirm::Confirm;
use crate::file::{Described, refused};
use crate::planned::Planned;
use crate::refusal::refuse;
use crate::target::Target;
use anabranch::Log;
use anabranch::operations::{Request, ResendFilter};
use anabranch::webhook::{Attempt, Deliveries, Delivery, DeliveryState, Filter, Verdict, Webhook};
use anabranch_file::Sets;
use anabranch_file::file::File;
use anabranch_terminal::output::{self, Table, count, time};
use anabranch_terminal::say;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

/// What to do with deliveries.
#[derive(Subcommand)]
pub(crate) enum DeliveriesCommand {
    List(List),
    Show(Show),
    Resend(Resend),
    SendAgain(SendAgain),
    Test(Test),
}

/// List what webhooks have sent, the newest first
///
/// Kept are those that have not arrived, and the last 10,000 of each webhook that have.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    target: Target,

    /// Only of this webhook
    name: Option<String>,

    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<State>,

    /// Only of this key
    #[arg(long)]
    key: Option<String>,

    /// So many at most
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// How a delivery stands.
#[derive(Clone, Copy, ValueEnum)]
enum State {
    /// It was not tried, or waits for its endpoint.
    Open,
    /// It was refused, and is tried again or parked.
    Failed,
    /// It has arrived.
    Delivered,
}

impl State {
    fn state(self) -> DeliveryState {
        match self {
            Self::Open => DeliveryState::Open,
            Self::Failed => DeliveryState::Failed,
            Self::Delivered => DeliveryState::Delivered,
        }
    }
}

/// Show a delivery: the positions of its events, its last answer, and the last attempts that failed
#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    target: Target,

    /// Its id, as `deliveries list` shows it: what the receiver gets as webhook-id
    id: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Send deliveries once more, whatever became of them
///
/// The endpoint and its secret are those of the file. The id stays the same, so that a receiver that has it already can
/// tell. No cursor moves, and a key that is parked stays so: `anabranch parked retry` lets it go on.
#[derive(Args)]
pub(crate) struct Resend {
    #[command(flatten)]
    described: Described,

    /// Their ids, as `deliveries list` shows them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Send them under new ids: receivers take them for new
    #[arg(long)]
    new_id: bool,
}

/// Have workers send deliveries of a webhook once more, in the order of each key: by filter, at a rate
///
/// It needs no file: the workers that run the webhook have its endpoint and secret. Ids stay the same; the later events of
/// a key wait for what is sent again. `resend` sends from here, one by one, and at once.
#[derive(Args)]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["all", "id", "key", "state"])))]
pub(crate) struct SendAgain {
    #[command(flatten)]
    target: Target,

    /// The webhook
    name: String,

    /// All its deliveries that are kept
    #[arg(long)]
    all: bool,

    /// Only the one with this id
    #[arg(long)]
    id: Option<String>,

    /// Only those of this key
    #[arg(long)]
    key: Option<String>,

    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<State>,

    /// At most this many per second, so that the endpoint is not flooded
    #[arg(long, value_name = "DELIVERIES")]
    per_second: Option<NonZeroU32>,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    planned: Planned,
}

/// Send a message of the type webhook.test to the endpoint of a webhook of a file, and show what it answers
#[derive(Args)]
pub(crate) struct Test {
    #[command(flatten)]
    described: Described,

    /// The webhook
    name: String,
}

impl DeliveriesCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(show) => show.run().await,
            Self::Resend(resend) => resend.run().await.map_err(refused),
            Self::SendAgain(again) => again.run().await,
            Self::Test(test) => test.run().await.map_err(refused),
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.target.connect().await?;
        if let Some(name) = &self.name {
            // One that is not there is told from one that has sent nothing.
            anabranch::operate::Consumers::new(&log).status(name).await?;
        }
        let (consumer, key) = (self.name.clone(), self.key.clone());
        let state = self.state.map(State::state);
        let filter = Filter { consumer, state, key, limit: self.limit, ..Filter::default() };
        let found = Deliveries::new(&log).list(&filter).await?;
        if self.json {
            found.iter().try_for_each(output::json)?;
            return Ok(ExitCode::SUCCESS);
        }
        if found.is_empty() {
            say!("there are no such deliveries");
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new([
            "AT", "WEBHOOK", "KEY", "STATE", "TRIED", "STATUS", "TOOK", "EVENTS", "ID",
        ]);
        for one in &found {
            table.row([
                time(one.at),
                one.consumer.clone(),
                one.key.clone(),
                one.state.name().to_owned(),
                one.attempts.to_string(),
                status(one.status),
                one.took.map(took).unwrap_or_else(|| "-".to_owned()),
                one.members.len().to_string(),
                one.id.clone(),
            ]);
        }
        table.print()?;
        if found.len() == self.limit {
            say!("these are the newest {}; -n shows more", self.limit);
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Show {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.target.connect().await?;
        for one in with_id(&log, &self.id).await? {
            match self.json {
                true => output::json(&one)?,
                false => print(&one)?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The deliveries with an id: one, unless two webhooks chose the same.
async fn with_id(log: &Log, id: &str) -> anyhow::Result<Vec<Delivery>> {
    let filter = Filter { id: Some(id.to_owned()), ..Filter::default() };
    let found = Deliveries::new(log).list(&filter).await?;
    if found.is_empty() {
        let kept = "kept are those that have not arrived, and the last that have";
        refuse!(NoSuchDelivery, "there is no delivery `{id}`; {kept}");
    }
    Ok(found)
}

fn print(one: &Delivery) -> anyhow::Result<()> {
    let line = |name: &str, text: String| output::line(format_args!("{name:<12}{text}"));
    line("id", one.id.clone())?;
    line("webhook", one.consumer.clone())?;
    line("key", one.key.clone())?;
    line("state", one.state.name().to_owned())?;
    line("attempts", one.attempts.to_string())?;
    let positions: Vec<String> = one.members.iter().map(ToString::to_string).collect();
    line("positions", positions.join(", "))?;
    line(
        "last",
        format!("{} {} {}", time(one.at), status(one.status), one.answer.as_deref().unwrap_or("-")),
    )?;
    for failure in &one.failures {
        let (at, status, took) = (time(failure.at), status(failure.status), took(failure.took));
        line("failed", format!("{at} {status} {took} {}", failure.answer))?;
    }
    Ok(())
}

fn status(status: Option<u16>) -> String {
    status.map_or_else(|| "-".to_owned(), |status| status.to_string())
}

fn took(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

/// The webhook of a file, ready to send.
fn hook(file: &File, name: &str, log: &Log) -> anyhow::Result<Webhook> {
    match Sets::webhook_of(file, name, log)? {
        Some(webhook) => Ok(webhook),
        None => refuse!(NoSuchConsumer, "the file has no webhook `{name}`"),
    }
}

impl Resend {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let file = self.described.read()?;
        let log = self.described.target(&file)?.connect().await?;
        let mut failed = 0;
        for id in &self.ids {
            for delivery in with_id(&log, id).await? {
                let webhook = hook(&file, &delivery.consumer, &log)?;
                let (sent_as, attempt) = webhook.resend(&delivery, self.new_id).await?;
                say!("{} {sent_as}: {}", delivery.consumer, in_words(&attempt));
                failed += u64::from(attempt.verdict != Verdict::Arrived);
            }
        }
        if failed > 0 {
            say!("{} did not arrive", count(failed, "delivery"));
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl SendAgain {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let Self { target, name: consumer, id, key, state, per_second, .. } = &self;
        let state = state.map(|state| state.state().name().to_owned());
        let filter = ResendFilter { id: id.clone(), key: key.clone(), state };
        let (consumer, per_second) = (consumer.clone(), *per_second);
        let request = Request::Resend { consumer, filter, per_second };
        let (operations, confirm) = (target.operations().await?, Some(&self.confirm));
        if let Some(plan) = self.planned.carry_out(&operations, &request, confirm).await? {
            let asked = count(plan.done, "delivery");
            say!("asked the workers of `{}` to send {asked} again", self.name);
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Test {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let file = self.described.read()?;
        // Nothing of the log is needed: one in memory will do.
        let log = anabranch::connect("sqlite::memory:").await?;
        let attempt = hook(&file, &self.name, &log)?.test().await?;
        say!("{}", in_words(&attempt));
        Ok(match attempt.verdict {
            Verdict::Arrived => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}

fn in_words(attempt: &Attempt) -> String {
    format!("{} in {}", attempt.said(), took(attempt.took))
}

//! Events from the command line: one, or JSON Lines from standard input.

use crate::refusal::Refusal;
use crate::status::is_of_other_log;
use crate::target::Target;
use anabranch::errors::ErrorCode;
use anabranch::operate::Consumers;
use anabranch::trace::TraceContext;
use anabranch::{Append, Appended, Expected, Log, NewEvent, Position, StreamId};
use anabranch_file::EventLine;
use anabranch_terminal::{output, say};
use anyhow::Context;
use clap::Args;
use serde_json::value::RawValue;
use std::io::{BufRead, Read};
use std::process::ExitCode;

/// Append one event, or many from standard input
///
/// Prints where each was recorded: `POSITION VERSION ID`.
///
/// With --lines, each line of standard input is an object such as {"stream": "Order:ord-123",
/// "type": "OrderPlaced", "data": {"total": 40}, "tags": ["show:7"]}, with the optional fields
/// "id", "expected" ("any", "none" or a version), "schema_version", "metadata", "correlation", "causation",
/// "tenant", "customer" and "traceparent". Lines with an id may be sent again after a failure.
#[derive(Args)]
pub(crate) struct AppendEvent {
    #[command(flatten)]
    target: Target,

    /// The stream, as CATEGORY:ID, for example Order:ord-123
    #[arg(required_unless_present = "lines")]
    stream: Option<StreamId>,

    /// The type of the event, for example OrderPlaced
    #[arg(value_name = "TYPE", required_unless_present = "lines")]
    event_type: Option<String>,

    /// The data, as JSON; - reads it from standard input
    #[arg(default_value = "null", allow_hyphen_values = true)]
    data: String,

    /// Read JSON Lines from standard input
    #[arg(
        long,
        conflicts_with_all = [
            "stream", "event_type", "data", "expect", "id", "tags", "customer", "tenant",
            "correlation", "causation",
        ]
    )]
    lines: bool,

    /// With --lines: how many of them are stored at once, all or none
    #[arg(long, default_value_t = 1, value_name = "COUNT", requires = "lines", value_parser = batch)]
    batch: usize,

    /// What is expected of the stream: any, none (no events yet), or the version of its last event
    #[arg(
        long,
        default_value = "any",
        value_name = "EXPECTED",
        value_parser = expected,
        allow_hyphen_values = true
    )]
    expect: Expected,

    /// The id of the event: appending it again changes nothing
    #[arg(long, value_name = "UUID")]
    id: Option<uuid::Uuid>,

    /// A tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,

    /// The customer
    #[arg(long)]
    customer: Option<String>,

    /// The tenant
    #[arg(long)]
    tenant: Option<String>,

    /// What the event belongs to
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,

    /// What caused it
    #[arg(long, value_name = "ID")]
    causation: Option<String>,

    /// Where the append stands in a trace: a W3C trace context, such as the header of that name of a request. With
    /// --lines, of the lines that name none themselves
    #[arg(long, value_name = "CONTEXT")]
    traceparent: Option<TraceContext>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Says so if this is only the database of consumers whose events are elsewhere: nobody would read what is appended.
async fn say_who_reads_elsewhere(log: &Log) {
    // Whatever else is wrong, the append says.
    let Ok(all) = Consumers::new(log).list().await else { return };
    let elsewhere: Vec<&str> =
        all.iter().filter(|it| is_of_other_log(it)).map(|it| it.name.as_str()).collect();
    if !elsewhere.is_empty() {
        say!(
            "warning: {} here read another log, and will not see this; name that log by --events-url",
            elsewhere.join(", ")
        );
    }
}

impl AppendEvent {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.target.create_for_events().await?;
        if self.target.events_url.is_none() {
            say_who_reads_elsewhere(&log).await;
        }
        let appended = match self.lines {
            true => self.append_lines(&log).await,
            false => self.append_one(&log).await,
        };
        // Also of the lines before one that was refused.
        log.flush().await;
        appended.map(|()| ExitCode::SUCCESS)
    }

    async fn append_one(self, log: &Log) -> anyhow::Result<()> {
        let (expected, json) = (self.expect, self.json);
        let (stream, event) = self.into_event()?;
        let append = Append::new().to(&stream, expected, [event]);
        let appended = log.append_all(append).await?;
        let done = || format!("the event was appended at position {}", last_position(&appended));
        output::of_work(print(&appended, json), done)
    }

    fn into_event(self) -> anyhow::Result<(StreamId, NewEvent)> {
        let mut data = self.data;
        if data == "-" {
            data.clear();
            std::io::stdin().read_to_string(&mut data).context("cannot read the data")?;
        }
        let data = RawValue::from_string(data.trim().to_owned()).map_err(|error| {
            Refusal::new(ErrorCode::InvalidJson, format!("the data is not JSON: {error}"))
        })?;
        let name = self.event_type.context("there is no type")?;
        let mut event = NewEvent::from_json(name, data.get()).with_tags(self.tags);
        if let Some(id) = self.id {
            event = event.with_id(id);
        }
        if let Some(correlation) = self.correlation {
            event = event.with_correlation(correlation);
        }
        if let Some(causation) = self.causation {
            event = event.with_causation(causation);
        }
        if let Some(tenant) = self.tenant {
            event = event.with_tenant(tenant);
        }
        if let Some(customer) = self.customer {
            event = event.with_customer(customer);
        }
        if let Some(trace) = self.traceparent {
            event = event.with_trace(trace);
        }
        Ok((self.stream.context("there is no stream")?, event))
    }

    async fn append_lines(&self, log: &Log) -> anyhow::Result<()> {
        let mut append = Append::new();
        let mut last = 0;
        for (number, text) in std::io::stdin().lock().lines().enumerate() {
            last = number + 1;
            let text = text.with_context(|| format!("line {last}"))?;
            if text.trim().is_empty() {
                continue;
            }
            let line: EventLine = serde_json::from_str(&text).map_err(|error| {
                Refusal::new(ErrorCode::InvalidJson, format!("line {last} is refused: {error}"))
            })?;
            let (stream, expected) = (line.stream.clone(), line.expected());
            let event = line.into_event();
            let event = match self.traceparent.filter(|_| event.trace().is_none()) {
                Some(trace) => event.with_trace(trace),
                None => event,
            };
            append = append.to(&stream, expected, [event]);
            if append.event_count() == self.batch {
                self.append_batch(log, std::mem::take(&mut append), last).await?;
            }
        }
        if append.event_count() > 0 {
            self.append_batch(log, append, last).await?;
        }
        Ok(())
    }

    async fn append_batch(&self, log: &Log, append: Append, last: usize) -> anyhow::Result<()> {
        let appended = log.append_all(append).await;
        let up_to = || format!("nothing from the batch that ends with line {last} was stored");
        let appended = appended.with_context(up_to)?;
        let done = || {
            let at = last_position(&appended);
            format!(
                "the lines up to {last} were appended, the last at position {at}; nothing behind them was"
            )
        };
        output::of_work(print(&appended, self.json), done)
    }
}

fn last_position(appended: &Appended) -> Position {
    appended.events().last().map_or(Position::START, |recorded| recorded.position)
}

fn print(appended: &Appended, json: bool) -> anyhow::Result<()> {
    for recorded in appended.events() {
        let (position, version, id) = (recorded.position, recorded.version, recorded.id);
        if json {
            let object = serde_json::json!({ "position": position, "version": version, "id": id });
            output::line(object)?;
        } else {
            output::line(format_args!("{position} {version} {id}"))?;
        }
    }
    Ok(())
}

fn batch(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=10_000) => Ok(count),
        _ => Err("use a whole number from 1 to 10000".to_owned()),
    }
}

fn expected(text: &str) -> Result<Expected, String> {
    match text {
        "any" => Ok(Expected::Any),
        "none" => Ok(Expected::NoStream),
        number => number.parse().map(Expected::Exact).map_err(|_| {
            "use any, none, or the version of the stream's last event: a whole number from 0"
                .to_owned()
        }),
    }
}

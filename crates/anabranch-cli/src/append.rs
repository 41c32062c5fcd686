//! One event from the command line.

use crate::target::Target;
use anabranch::{Append, Expected, NewEvent, StreamId};
use anyhow::Context;
use clap::Args;
use std::io::Read;
use std::process::ExitCode;

/// Append one event
///
/// Prints where it was recorded: `POSITION VERSION ID`.
#[derive(Args)]
pub(crate) struct AppendEvent {
    #[command(flatten)]
    target: Target,

    /// The stream, as CATEGORY:ID, for example Order:ord-123
    stream: StreamId,

    /// The type of the event, for example OrderPlaced
    #[arg(value_name = "TYPE")]
    event_type: String,

    /// The data, as JSON; - reads it from standard input
    #[arg(default_value = "null", allow_hyphen_values = true)]
    data: String,

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

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl AppendEvent {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let data = match self.data.as_str() {
            "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("cannot read the data")?;
                text
            }
            data => data.to_owned(),
        };
        let mut event = NewEvent::from_json(self.event_type, data).with_tags(self.tags);
        if let Some(id) = self.id {
            event = event.with_id(id);
        }
        if let Some(customer) = self.customer {
            event = event.with_customer(customer);
        }
        if let Some(tenant) = self.tenant {
            event = event.with_tenant(tenant);
        }
        if let Some(correlation) = self.correlation {
            event = event.with_correlation(correlation);
        }
        if let Some(causation) = self.causation {
            event = event.with_causation(causation);
        }
        let log = self.target.connect(true, None).await?;
        let append = Append::new().to(&self.stream, self.expect, [event]);
        let recorded = log.append_all(append).await?.last();
        let (position, version, id) = (recorded.position, recorded.version, recorded.id);
        if self.json {
            let object = serde_json::json!({ "position": position, "version": version, "id": id });
            println!("{object}");
        } else {
            println!("{position} {version} {id}");
        }
        Ok(ExitCode::SUCCESS)
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

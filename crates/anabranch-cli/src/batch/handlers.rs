//! What is done with a row: a statement, a program or a webhook.

use super::command::CommandHandler;
use super::run::{seconds, seconds_or_none};
use super::webhook::Webhook;
use anabranch::batch::{Record, RowHandler, SqlHandler};
use anabranch::{Result, Retry, Tx};
use anyhow::Context;
use clap::Args;
use std::time::Duration;

/// One way to handle rows.
#[derive(Args)]
pub(super) struct Way {
    /// Run a statement for each row; :COLUMN stands for a value of the row
    #[arg(
        long,
        value_name = "SQL",
        required_unless_present_any = ["command", "webhook"],
        conflicts_with_all = ["command", "webhook", "per_page"]
    )]
    sql: Option<String>,

    /// Start a program for each row; the row comes as JSON on its standard input
    ///
    /// Exit code 0 is success; else the row has failed, with the last line of standard error. No shell is
    /// involved; words may be quoted. IDEMPOTENCY_KEY in its environment is JOB:KEY.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "webhook")]
    command: Option<String>,

    /// POST each row as JSON to a URL
    ///
    /// An answer of 2xx is success. The header Idempotency-Key is JOB:KEY. No answer, 408, 425, 429 and 5xx may
    /// pass: the row is tried again (see --retry-for), not before a Retry-After. Any other answer is for good.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,

    /// Hand over several rows at once, as a JSON array; the answer is an array of null (success) or an
    /// error, one for each row
    #[arg(long)]
    per_page: bool,

    /// How long a command or a request may take
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    timeout: Duration,

    /// How long a request is repeated that failed in a way that may pass, with growing pauses of up to five
    /// minutes; 0: not at all. Meanwhile the row stays claimed and others go on
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_none, default_value = "7200")]
    retry_for: Duration,
}

impl Way {
    /// How often a row is tried. What a statement or a program says stands.
    pub(super) fn retry(&self) -> Retry {
        match &self.webhook {
            Some(_) => Retry::outside().lasting(self.retry_for),
            None => Retry::never(),
        }
    }
}

pub(super) enum Handler {
    Sql(SqlHandler),
    Command(CommandHandler),
    Webhook(Webhook),
}

impl Handler {
    pub(super) fn of(way: &Way, job: &str) -> anyhow::Result<Self> {
        let Way { sql, command, webhook, per_page, timeout, .. } = way;
        match (sql, command, webhook) {
            (Some(sql), ..) => Ok(Self::Sql(
                SqlHandler::parse(sql).map_err(|error| anyhow::anyhow!("--sql: {error}"))?,
            )),
            (_, Some(line), _) => {
                let handler = CommandHandler::parse(line, job, *per_page, *timeout);
                Ok(Self::Command(handler.context("--command")?))
            }
            (_, _, Some(url)) => {
                let webhook = Webhook::new(url, job, *per_page, *timeout);
                Ok(Self::Webhook(webhook.context("--webhook")?))
            }
            _ => anyhow::bail!("give --sql, --command or --webhook"),
        }
    }
}

impl RowHandler for Handler {
    async fn handle(&self, record: &Record, tx: &mut Tx<'_>) -> Result<()> {
        match self {
            Self::Sql(sql) => sql.handle(record, tx).await,
            Self::Command(command) => command.handle(record).await,
            Self::Webhook(webhook) => webhook.handle(record).await,
        }
    }

    async fn handle_page(&self, page: &[Record]) -> Option<Vec<Result<()>>> {
        match self {
            Self::Sql(_) => None,
            Self::Command(command) => command.handle_page(page).await,
            Self::Webhook(webhook) => webhook.handle_page(page).await,
        }
    }
}

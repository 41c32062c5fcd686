//! What is done with a row: a statement, a program or a webhook.

use super::command::CommandHandler;
use super::run::{seconds, seconds_or_none};
use super::webhook::Webhook;
use crate::refusal::{Refusal, refuse};
use anabranch::batch::{Record, RowHandler, RowStatement, SqlHandler};
use anabranch::errors::ErrorCode;
use anabranch::{HandlerResult, Retry, Tx};
use anyhow::Context;
use clap::Args;
use std::time::Duration;

/// One way to handle rows.
#[derive(Args)]
pub(super) struct Way {
    /// Run a statement for each row; :COLUMN stands for a value of the row
    ///
    /// One that the database would refuse for any row (a table or a column that is not there, a wrong word) is
    /// refused before a row is claimed.
    #[arg(
        long,
        value_name = "SQL",
        required_unless_present_any = ["command", "webhook"],
        conflicts_with_all = ["command", "webhook", "per_page"]
    )]
    sql: Option<String>,

    /// Start a program for each row; the row comes as JSON on its standard input
    ///
    /// Exit code 0 is success. 75 (EX_TEMPFAIL) says that it may pass: the row is tried again (see --attempts).
    /// With any other code, by a signal or after --timeout the row has failed. The reason is the last line of
    /// standard error. No shell is involved; words may be quoted. IDEMPOTENCY_KEY in its environment is JOB:KEY.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "webhook")]
    command: Option<String>,

    /// Exit codes of --command that say that it may pass
    #[arg(
        long,
        value_name = "CODES",
        value_delimiter = ',',
        default_value = "75",
        value_parser = clap::value_parser!(u8).range(1..),
        conflicts_with_all = ["sql", "webhook"]
    )]
    retry_exit: Vec<u8>,

    /// POST each row as JSON to a URL
    ///
    /// An answer of 2xx is success. The header Idempotency-Key is JOB:KEY. No answer, 408, 425, 429 and 5xx may
    /// pass: the row is tried again (see --attempts), not before a Retry-After. Any other answer is for good.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,

    /// Hand over several rows at once, as a JSON array; the answer is an array of null (success) or an
    /// error, one for each row
    #[arg(long)]
    per_page: bool,

    /// How long a command or a request may take
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    timeout: Duration,

    /// How often a row is tried at most that fails in a way that may pass [default: as long as --retry-for
    /// says; a statement once]
    ///
    /// Between attempts are growing pauses of up to five minutes. Meanwhile the row stays claimed and others go
    /// on. What a statement was refused for may always pass, if this or --retry-for is given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,

    /// How long a row is tried again that fails in a way that may pass; 0: not at all [default: 7200; a
    /// statement: not at all]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_none)]
    retry_for: Option<Duration>,
}

/// How long rows are tried again whose effects are elsewhere.
const RETRY_FOR: Duration = Duration::from_secs(7_200);

impl Way {
    /// How often a row is tried.
    pub(super) fn retry(&self) -> Retry {
        let retry = Retry::outside();
        let retry = match (self.retry_for, &self.sql, self.attempts) {
            (Some(time), ..) => retry.lasting(time),
            (None, None, _) => retry.lasting(RETRY_FOR),
            (None, Some(_), Some(_)) => retry,
            (None, Some(_), None) => Retry::never(),
        };
        let most = self.attempts.unwrap_or(u32::MAX);
        retry.attempts(retry.attempts.min(most))
    }
}

pub(super) enum Handler {
    Sql(SqlHandler),
    Command(CommandHandler),
    Webhook(Box<Webhook>),
}

impl Handler {
    pub(super) fn of(way: &Way, job: &str) -> anyhow::Result<Self> {
        let Way { sql, command, webhook, per_page, timeout, retry_exit, .. } = way;
        match (sql, command, webhook) {
            (Some(sql), ..) => Ok(Self::Sql(SqlHandler::parse(sql).map_err(|error| {
                Refusal::new(ErrorCode::InvalidArguments, format!("--sql: {error}"))
            })?)),
            (_, Some(line), _) => {
                let handler = CommandHandler::parse(line, job, *per_page, *timeout, retry_exit);
                Ok(Self::Command(handler.context("--command")?))
            }
            (_, _, Some(url)) => {
                let webhook = Webhook::new(url, job, *per_page, *timeout);
                Ok(Self::Webhook(Box::new(webhook.context("--webhook")?)))
            }
            _ => refuse!(InvalidArguments, "give --sql, --command or --webhook"),
        }
    }
}

impl RowHandler for Handler {
    fn columns(&self) -> &[String] {
        match self {
            Self::Sql(sql) => sql.columns(),
            Self::Command(_) | Self::Webhook(_) => &[],
        }
    }

    fn statement(&self) -> Option<RowStatement<'_>> {
        match self {
            Self::Sql(sql) => sql.statement(),
            Self::Command(_) | Self::Webhook(_) => None,
        }
    }

    async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        match self {
            Self::Sql(sql) => sql.handle(record, tx).await,
            Self::Command(command) => command.handle(record).await,
            Self::Webhook(webhook) => webhook.handle(record).await,
        }
    }

    async fn handle_page(&self, page: &[Record]) -> Option<Vec<HandlerResult>> {
        match self {
            Self::Sql(_) => None,
            Self::Command(command) => command.handle_page(page).await,
            Self::Webhook(webhook) => webhook.handle_page(page).await,
        }
    }
}

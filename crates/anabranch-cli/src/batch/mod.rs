//! Rows of a table, each handled once by any number of instances.
//!
//! | module | subject |
//! |---|---|
//! | `run` | handle the rows |
//! | `handlers` | what is done with a row: one of the three below |
//! | `command` | a program for each row or page |
//! | `webhook` | an HTTP request for each row or page |
//! | `page` | the answers for a page |
//! | `display` | how far it is, and what came of it |
//! | `verify` | the proof |
//! | `failed` | rows that have failed |
//! | `import` | rows that were finished before, in a log of somebody else |

mod command;
mod display;
mod failed;
mod handlers;
mod import;
mod page;
mod run;
mod verify;
mod webhook;

use crate::target::Target;
use anabranch::batch::jobs::LOG_TABLE;
use anabranch::batch::{Batch, Source};
use clap::{Args, Subcommand};
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum BatchOf {
    Run(Box<run::Run>),
    Verify(verify::Verify),
    Failed(failed::Failed),
    Import(import::Import),
}

impl BatchOf {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Run(run) => run.run().await,
            Self::Verify(verify) => verify.run().await,
            Self::Failed(failed) => failed.run().await,
            Self::Import(import) => import.run().await,
        }
    }
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Which rows, and where it is kept how they went.
#[derive(Args)]
struct Job {
    #[command(flatten)]
    target: Target,

    /// The table of the rows, with its schema before a dot if it has one
    #[arg(long, value_name = "TABLE", required_unless_present = "query", conflicts_with = "query")]
    source: Option<String>,

    /// A query for the rows instead, for example "SELECT id, xml FROM applications WHERE year = 2026"; to run
    /// it takes --assume-unique
    #[arg(long, value_name = "SQL")]
    query: Option<String>,

    /// The column that tells the rows apart: whole numbers or text, unique, never NULL, as the catalogue must
    /// show
    #[arg(long, value_name = "COLUMN")]
    key: String,

    /// The name of the job: rows that were handled under it are not handled again
    ///
    /// Its first run stores the source and the key with it. Another source or key under the same name is refused.
    #[arg(long, value_name = "NAME")]
    job: String,

    /// The table of the processing log; tables named like it with _history, _sessions and _jobs belong to it
    #[arg(long, value_name = "TABLE", default_value = LOG_TABLE)]
    log_table: String,

    /// The schema of the processing log, made if it is not there (PostgreSQL)
    #[arg(long, value_name = "SCHEMA")]
    target_schema: Option<String>,
}

impl Job {
    /// The arguments that name this job to another command, as a shell reads them. Not the database: its URL
    /// may hold a password.
    fn arguments(&self) -> String {
        let source = match (&self.source, &self.query) {
            (None, Some(sql)) => ("--query", sql.as_str()),
            (table, _) => ("--source", table.as_deref().unwrap_or_default()),
        };
        let mut named = vec![source, ("--key", &self.key), ("--job", &self.job)];
        if self.log_table != LOG_TABLE {
            named.push(("--log-table", &self.log_table));
        }
        named.extend(self.target_schema.as_deref().map(|schema| ("--target-schema", schema)));
        let words: Vec<_> =
            named.iter().map(|(flag, value)| format!("{flag} {}", quoted(value))).collect();
        words.join(" ")
    }

    fn batch(&self) -> Batch {
        let source = match (&self.source, &self.query) {
            (None, Some(sql)) => Source::query(sql, &self.key),
            (table, _) => Source::table(table.as_deref().unwrap_or_default(), &self.key),
        };
        let batch = Batch::new(&self.job, source).log_table(&self.log_table);
        match &self.target_schema {
            Some(schema) => batch.schema(schema),
            None => batch,
        }
    }
}

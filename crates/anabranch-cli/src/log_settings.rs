//! What is logged, how, and where to: the flags that all commands have.

use crate::log_lines::LogLines;
use crate::refusal::Refusal;
use anabranch::errors::ErrorCode;
use anabranch_terminal::say;
use clap::{Args, ValueEnum};
use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// What is logged unless a flag or `RUST_LOG` says otherwise: failures, what programs of files say on standard error,
/// and what `run` tells.
const LOGGED: &str = "warn,anabranch::program=info,anabranch::run=info";

/// Levels, from few lines to many.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How this process logs.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// The log of the command: standard error, unless a file is named
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogSettings {
    /// What is logged: error, warn, info, debug or trace, or directives as RUST_LOG takes them, such as
    /// warn,anabranch_runtime=debug. It wins over RUST_LOG [default: warnings, and what programs say]
    #[arg(long, global = true, value_name = "LEVEL", value_parser = directives)]
    log_level: Option<String>,

    /// Lines of text, or one JSON object a line
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,

    /// Append the log to this file instead of standard error
    #[arg(long, global = true, value_name = "PATH")]
    log_file: Option<PathBuf>,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl LogSettings {
    /// Begins to log. A file that cannot be written is refused, before the command does anything.
    pub(crate) fn begin(&self) -> anyhow::Result<()> {
        let filter = match &self.log_level {
            Some(level) => EnvFilter::try_new(level)?,
            None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED)),
        };
        let file = self.file()?;
        let is_colourful = file.is_none() && std::io::stderr().is_terminal();
        let writer = match file {
            // Each line is one write, so processes that share a file do not mix their lines.
            Some(file) => BoxMakeWriter::new(Arc::new(file)),
            None => BoxMakeWriter::new(|| LogLines),
        };
        FORMAT.get_or_init(|| self.log_format);
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(writer)
            .with_ansi(is_colourful)
            // It would say so on standard error, of all places, and panic.
            .log_internal_errors(false);
        match self.log_format {
            Format::Text => log.init(),
            Format::Json => log.json().flatten_event(true).with_current_span(false).init(),
        }
        Ok(())
    }

    fn file(&self) -> Result<Option<File>, Refusal> {
        let Some(path) = &self.log_file else { return Ok(None) };
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.map(Some).map_err(|error| {
            let path = path.display();
            let said = format!(
                "--log-file: {path} cannot be written: {error}; name a file in a directory that is there and \
                 that you may write to"
            );
            Refusal::new(ErrorCode::InvalidArguments, said)
        })
    }
}

/// Says a line of `run` to people on standard error; where programs read the log, as a line of that.
pub(crate) fn tell(text: &str) {
    match FORMAT.get() {
        Some(Format::Json) => tracing::info!(target: "anabranch::run", "{text}"),
        _ => crate::log_lines::BAR.beside(|| say!("{text}")),
    }
}

/// The same of something that has failed.
pub(crate) fn tell_failure(text: &str) {
    match FORMAT.get() {
        Some(Format::Json) => tracing::error!(target: "anabranch::run", "{text}"),
        _ => crate::log_lines::BAR.beside(|| say!("{text}")),
    }
}

/// A lone word that is no level would be taken for the name of a module, and show nothing.
fn directives(text: &str) -> Result<String, String> {
    let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(text));
    if !is_level && !text.contains(['=', ',']) {
        return Err(format!(
            "it is none of {}, and no directive such as warn,anabranch=debug",
            LEVELS.join(", ")
        ));
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

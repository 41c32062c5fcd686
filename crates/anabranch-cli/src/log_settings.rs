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
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::Filter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// What is logged unless a flag or `RUST_LOG` says otherwise: failures, what programs of files say on standard error,
/// and what `run` tells.
const LOGGED: &str = "warn,anabranch::program=info,anabranch::run=info";

/// Levels, from few lines to many.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The target of the spans of the engine.
const SPANS: &str = "anabranch::trace";

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

/// What names a collector of spans.
#[cfg(not(feature = "otel"))]
const COLLECTOR: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl LogSettings {
    /// Begins to log, and to export spans (`exports`), until the answer is dropped. A file that cannot be written is
    /// refused, before the command does anything.
    pub(crate) fn begin(&self, exports: bool) -> anyhow::Result<Spans> {
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
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .with_ansi(is_colourful)
            // It would say so on standard error, of all places, and panic.
            .log_internal_errors(false);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match self.log_format {
            Format::Text => Box::new(lines),
            Format::Json => {
                let lines = lines.json().flatten_event(true);
                Box::new(lines.with_current_span(false).with_span_list(false))
            }
        };
        let lines = tracing_subscriber::registry().with(lines.with_filter(lines_of(filter)));
        Spans::begin(exports, lines)
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

/// What of a level is a line: each says itself where something happens, and spans would say it again, before it.
fn lines_of(filter: EnvFilter) -> impl Filter<Registry> {
    let no_spans = filter_fn(|what| what.target() != SPANS);
    // Without a hint nobody knows that nothing below the level is wanted, and every line would be made.
    filter.and(no_spans.with_max_level_hint(LevelFilter::TRACE))
}

/// The export of spans, until it is dropped.
pub(crate) struct Spans {
    #[cfg(feature = "otel")]
    _export: Option<anabranch::trace::Export>,
}

impl Spans {
    #[cfg(feature = "otel")]
    fn begin<S>(exports: bool, lines: S) -> anyhow::Result<Self>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync + 'static,
    {
        use anabranch::trace::Export;
        let export = match exports {
            true => Export::from_environment("anabranch")
                .map_err(|error| Refusal::new(ErrorCode::InvalidArguments, error.to_string()))?,
            false => None,
        };
        // Log lines are no part of a span: they are in the log.
        let ours = filter_fn(|what| what.is_span() && what.target() == SPANS)
            .with_max_level_hint(LevelFilter::INFO);
        lines.with(export.as_ref().map(|export| export.layer().with_filter(ours))).init();
        Ok(Self { _export: export })
    }

    #[cfg(not(feature = "otel"))]
    fn begin<S>(exports: bool, lines: S) -> anyhow::Result<Self>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync + 'static,
    {
        lines.init();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if let Some(name) = COLLECTOR.into_iter().find(|name| exports && is_set(*name)) {
            tracing::warn!(
                target: "anabranch::run",
                "{name} is set, but this build exports no spans; build it with --features otel"
            );
        }
        Ok(Self {})
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_nobody_wants_are_not_made() {
        for (level, wanted) in [(LOGGED, LevelFilter::INFO), ("debug", LevelFilter::DEBUG)] {
            assert_eq!(lines_of(EnvFilter::new(level)).max_level_hint(), Some(wanted), "{level}");
        }
    }
}

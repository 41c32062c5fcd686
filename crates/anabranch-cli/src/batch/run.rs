//! Handles the rows.

use super::Job;
use super::display::{self, Display};
use super::handlers::{Handler, Way};
use crate::refusal::refuse_unless;
use anabranch::Options;
use anabranch::batch::{Part, Summary};
use anabranch_terminal::output;
use anabranch_terminal::say;
use clap::Args;
use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// More connections than this are not opened unless they are asked for: slow handlers do not need them.
const MAX_DEFAULT_SESSIONS: usize = 16;

/// Handle the rows of a table, each once, together with all others that run the same job
///
/// Started several times, the instances share the rows by claims: no row is handled by two of them. With
/// --instance-id I --instance-count N an instance handles only rows with key % N = I (text: the FNV-1a hash
/// of the key).
///
/// What --sql writes commits together with the row's entry in the processing log, so it happens exactly
/// once. What a command or a webhook does happens at least once: after a crash it is told again, with the
/// same idempotency key.
///
/// The key must tell the rows apart: rows that share one are one row to a batch, and all but one of them would
/// never be handled. So the catalogue must show that it is unique and never NULL, or the run is refused. A query
/// or a view shows nothing: they need --assume-unique.
///
/// A row that fails is kept as failed, with the reason, and the others go on. On Ctrl-C or SIGTERM the rows
/// that were begun are finished, and the others given back.
///
/// Exit codes: 0 done, or stopped when told to; 1 rows have failed, in this run or before it (`batch failed` lists
/// them, --retry-failed tries them again, --allow-failures makes it 0), or it was refused or stopped by an error; 2
/// wrong arguments. With --instance-id it is about the rows of that part.
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    job: Job,

    /// Take the key for unique although the catalogue does not show it: for queries, views, and tables
    /// without such an index
    ///
    /// The run stops with exit code 1 when it meets rows that share a key, and `verify` finds them in any case.
    #[arg(long)]
    assume_unique: bool,

    /// Take another source than the one that is stored with the job, and store it instead: for a query that was
    /// edited, or a table that was renamed
    ///
    /// Each key must still name the row that it named before: rows whose keys are done are not handled again.
    /// Another key column is refused all the same.
    #[arg(long)]
    accept_source: bool,

    #[command(flatten)]
    way: Way,

    /// Handle only this part of the rows, from 0
    #[arg(long, value_name = "I", env = "ANABRANCH_INSTANCE_ID")]
    instance_id: Option<u32>,

    /// Of how many parts
    #[arg(long, value_name = "N", env = "ANABRANCH_INSTANCE_COUNT")]
    instance_count: Option<u32>,

    /// Spread whole numbers over the parts by their hash too: even when they cluster
    #[arg(long)]
    hash: bool,

    /// How many rows are handled at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    workers: usize,

    /// How many rows are claimed at a time, at most; of slow rows it claims fewer by itself
    #[arg(long, value_name = "ROWS", default_value_t = 1_000)]
    batch_size: usize,

    /// End after so many rows
    #[arg(long, value_name = "ROWS")]
    limit: Option<usize>,

    /// Handle rows again that have failed before
    #[arg(long)]
    retry_failed: bool,

    /// Exit with 0 also if rows have failed, now or before: they are kept as failed, and a warning says how many
    #[arg(long)]
    allow_failures: bool,

    /// Go on when all is done, and look for new rows this often
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    continuous: Option<Duration>,

    /// How long others wait for an instance that shows no sign of life before they take over its rows
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "5")]
    lease: Duration,

    /// How many connections store rows at the same time (PostgreSQL); default: one for each worker and one
    /// more, at most 16
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    sessions: Option<u16>,

    /// Say nothing on standard error but errors and warnings
    #[arg(short, long)]
    quiet: bool,

    /// Print the summary as a JSON object
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let part = Part::new(self.instance_id, self.instance_count, self.hash)?;
        refuse_unless!(
            !self.hash || part != Part::Elastic,
            InvalidArguments,
            "--hash is for parts; give --instance-id and --instance-count, or leave it out"
        );
        if part == Part::Elastic && !self.quiet {
            say_if_parts_are_named();
        }
        let handler = Handler::of(&self.way, &self.job.job)?;
        let display = Arc::new(Display::new(&self.job.job, self.quiet));
        let mut batch = self
            .job
            .batch()
            .part(part)
            .workers(self.workers)
            .batch_size(self.batch_size)
            .retry_failed(self.retry_failed)
            .retry(self.way.retry())
            .lease(self.lease)
            .accept_source(self.accept_source);
        if !self.quiet {
            let seen = Arc::clone(&display);
            batch = batch.on_progress(move |progress| seen.show(progress));
        }
        if self.assume_unique {
            batch = batch.assume_unique();
        }
        if let Some(rows) = self.limit {
            batch = batch.limit(rows);
        }
        if let Some(every) = self.continuous {
            batch = batch.continuous(every);
        }
        let sessions = (self.workers + 1).clamp(2, MAX_DEFAULT_SESSIONS);
        let sessions = self.sessions.map_or(sessions, usize::from);
        let namespace = self.job.target.namespace.clone();
        let options = Options { namespace, sessions, ..Options::default() };
        let log = anabranch::connect_with(&self.job.target.url, &options).await?;
        display.begin(part, self.workers);
        let told = async {
            anabranch::shutdown_signal().await;
            display.told();
        };
        let ran = batch.run_until(&log, handler, told).await;
        display.end();
        let ran = ran?;
        display::summary(&self.job.job, part, &ran, self.json)?;
        let Summary { failed, failed_before, .. } = ran;
        if failed + failed_before > 0 {
            let job = self.job.arguments();
            let rows = match (failed, failed_before) {
                (_, 0) => format!("{} failed", output::count(failed, "row")),
                (0, _) => format!("{} failed before", output::count(failed_before, "row")),
                _ => format!(
                    "{} failed, {failed_before} failed before",
                    output::count(failed, "row")
                ),
            };
            let them = if failed + failed_before == 1 { "it" } else { "them" };
            let (weight, code) = match self.allow_failures {
                true => ("warning", ExitCode::SUCCESS),
                false => ("error", ExitCode::FAILURE),
            };
            say!(
                "{weight}: {rows}; `anabranch batch failed {job}` lists {them}, and --retry-failed tries {them} \
                 again"
            );
            return Ok(code);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Workers read these; a batch has names of its own, and would run elastic without a word.
fn say_if_parts_are_named() {
    let names = ["PARTITION_KEY", "PARTITION_INDEX", "TOTAL_PARTITIONS"];
    let set: Vec<&str> = names.into_iter().filter(|name| env::var_os(name).is_some()).collect();
    if !set.is_empty() {
        let is = if set.len() == 1 { "is" } else { "are" };
        say!(
            "note: {} {is} not read by a batch, which shares all rows by claims; for a part of them set \
             ANABRANCH_INSTANCE_ID and ANABRANCH_INSTANCE_COUNT",
            set.join(" and ")
        );
    }
}

/// A time in seconds, or 0 for none.
pub(super) fn seconds_or_none(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "use a number of seconds, such as 60, or 0".to_owned())
}

/// A time in seconds, such as 0.5.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let refused = || "use a number of seconds above 0, such as 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| refused())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| refused())?;
    if time.is_zero() { Err(refused()) } else { Ok(time) }
}

//! The tests of a file.

use super::{Described, programs, refused};
use crate::refusal::{Refusal, refuse};
use anabranch::Options;
use anabranch::errors::ErrorCode;
use anabranch::postgres::ThrowawayDatabase;
use anabranch::testing::TestKit;
use anabranch_file::file::{DATABASES, File, Test as FileTest};
use anabranch_file::{Mismatch, test};
use anabranch_terminal::cut_short::unless_signalled;
use anabranch_terminal::{output, say};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// Run the tests of a file on the real engine, each in a throwaway database
///
/// A test has `given`, events, tasks and statements, and `then`, what is expected when all of that is handled: `sql`
/// with `rows`; `parked`, the keys that have failed, each as "CONSUMER KEY", and `error`, a part of what one of them says;
/// `appended`, the events that consumers have appended; or, with `consumer`, what a program was `sent` (events or tasks)
/// and has `answered` (messages). Only the fields count that are written. What fails is tried once and parked, whatever
/// its `retry` says, and what is parked and not expected fails the test.
#[derive(Args)]
pub(crate) struct Test {
    #[command(flatten)]
    described: Described,

    /// Where: sqlite (in memory) or postgres (a new database on the server of the url, dropped afterwards) [default: as
    /// the url]
    #[arg(long, value_name = "DATABASE", value_parser = DATABASES)]
    on: Option<String>,

    /// Only tests whose name holds this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Print one JSON object a test
    #[arg(long)]
    json: bool,
}

impl Test {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        self.run_tests().await.map_err(refused)
    }

    async fn run_tests(self) -> anyhow::Result<ExitCode> {
        let file = self.described.read()?;
        // In memory nothing is needed of what the file names.
        let url = match self.on.as_deref() {
            Some("sqlite") => String::new(),
            _ => self.described.target(&file)?.url,
        };
        let on = match &self.on {
            Some(on) => on.as_str(),
            None if url.starts_with("sqlite:") => "sqlite",
            None => "postgres",
        };
        if on == "postgres" && !url.starts_with("postgres") {
            refuse!(
                InvalidArguments,
                "--on postgres needs a server: name it by --url postgres://USER@HOST/DATABASE, or by the url of the \
                 file. The tests run in a new database there"
            );
        }
        if file.tests.is_empty() {
            refuse!(InvalidFile, "{} has no [[test]]", file.source.path.display());
        }
        let is_wanted = |test: &&FileTest| {
            let is_named = self.only.as_ref().is_none_or(|part| test.name.contains(part));
            is_named && test.on.is_none_or(|database| database == on)
        };
        let tests: Vec<&FileTest> = file.tests.iter().filter(is_wanted).collect();
        if tests.is_empty() {
            let count = output::count(file.tests.len() as u64, "test");
            refuse!(InvalidArguments, "no test matches; the file has {count}");
        }
        let mut failed = 0;
        for one in &tests {
            let ran = run_one(&file, one, on, &url).await?;
            failed += usize::from(!matches!(&ran, Ok(mismatches) if mismatches.is_empty()));
            match self.json {
                true => print_json(&file, one, &ran)?,
                false => print(&file, one, &ran)?,
            }
        }
        let count = output::count(tests.len() as u64, "test");
        if failed > 0 {
            let said = format!("{failed} of {count} failed, on {on}");
            return Err(Refusal::new(ErrorCode::TestFailed, said).into());
        }
        say!("{count} passed, on {on}");
        Ok(ExitCode::SUCCESS)
    }
}

/// How a test went: what is not as expected, or why it could not be run to its end.
type TestResult = Result<Vec<Mismatch>, String>;

/// Runs a test. An error is none of the test: a signal, or a server that makes no database.
async fn run_one(file: &File, one: &FileTest, on: &str, url: &str) -> anyhow::Result<TestResult> {
    if on == "sqlite" {
        return unless_signalled(Box::pin(run_at(file, one, "sqlite::memory:"))).await;
    }
    let made = ThrowawayDatabase::create(url).await?;
    let name = made.name().to_owned();
    let ran = unless_signalled(Box::pin(run_at(file, one, made.url()))).await;
    // However it went. What was found out about the test counts more than what is left behind.
    if let Err(error) = made.remove().await {
        say!("the database {name} of the test `{}` could not be dropped: {error}", one.name);
    }
    ran
}

async fn run_at(file: &File, one: &FileTest, url: &str) -> anyhow::Result<TestResult> {
    // What fails is part of the test, and no news.
    let options = Options { tracing: false, ..Options::default() };
    let log = match anabranch::connect_with(url, &options).await {
        Ok(log) => log,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let ran = test(file, one, TestKit::with_log(log.clone()), programs()).await;
    log.close().await;
    Ok(ran.map_err(|error| error.to_string()))
}

fn print(file: &File, one: &FileTest, ran: &TestResult) -> anyhow::Result<()> {
    let sign =
        if matches!(ran, Ok(mismatches) if mismatches.is_empty()) { "ok    " } else { "FAILED" };
    output::line(format_args!("{sign}  {}", one.name))?;
    let path = file.source.path.display();
    let mismatches = match ran {
        Ok(mismatches) => mismatches,
        Err(error) => {
            let line = file.source.place(one.span.start).line;
            output::line(format_args!("  it could not be run to its end ({path}:{line})"))?;
            for line in error.lines() {
                output::line(format_args!("    {line}"))?;
            }
            return Ok(());
        }
    };
    for mismatch in mismatches {
        let line = file.source.place(mismatch.at).line;
        output::line(format_args!("  {} ({path}:{line})", mismatch.what))?;
        let difference = mismatch.difference.shown(output::columns()).to_string();
        output::print(format_args!("{}", output::harmless(difference)))?;
    }
    Ok(())
}

fn print_json(file: &File, one: &FileTest, ran: &TestResult) -> anyhow::Result<()> {
    let mismatches = ran.as_deref().unwrap_or_default().iter();
    let mismatches: Vec<_> = mismatches
        .map(|mismatch| {
            json!({
                "what": mismatch.what,
                "line": file.source.place(mismatch.at).line,
                "expected": mismatch.difference.expected,
                "actual": mismatch.difference.actual,
            })
        })
        .collect();
    let passed = ran.is_ok() && mismatches.is_empty();
    let mut printed = json!({ "name": one.name, "passed": passed, "mismatches": mismatches });
    if let Err(error) = ran {
        printed["error"] = error.as_str().into();
    }
    output::json(&printed)
}

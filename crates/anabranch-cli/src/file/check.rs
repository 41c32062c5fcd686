//! Everything that is wrong with a file, in one run.

use super::{Described, MaybeDescribed, programs, refused};
use anabranch_file::file::{Problem, Problems, json_schema};
use anabranch_file::{CheckError, Checked, check, check_offline};
use anabranch_terminal::output::{self, Table};
use anabranch_terminal::say;
use clap::Args;
use serde_json::json;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Check a file: every mistake with its place and what to do, and which type each value must have
///
/// The statements are prepared on the database, after what the consumers are set up with was executed in a
/// transaction that is rolled back, and what the log has stored of the consumers is compared. Programs are started
/// and greeted, and get nothing to handle. Nothing is changed. A file of SQLite that is not there yet is checked as an
/// empty one.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    described: MaybeDescribed,

    /// Print the JSON Schema of such files, for editors
    #[arg(long, exclusive = true)]
    schema: bool,

    /// Only what can be told without a database
    #[arg(long)]
    offline: bool,

    /// Print one JSON object; or one for each mistake, with file, line, column, message and help
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let Some(described) = self.described.given() else {
            output::line(serde_json::to_string_pretty(&json_schema())?)?;
            return Ok(ExitCode::SUCCESS);
        };
        match self.check(described).await {
            Err(error) if self.json => match error.downcast_ref::<Problems>() {
                Some(problems) => print_problems(problems).map(|()| ExitCode::FAILURE),
                None => Err(error),
            },
            Err(error) => Err(refused(error)),
            checked => checked,
        }
    }

    async fn check(&self, described: &Described) -> anyhow::Result<ExitCode> {
        let file = described.read_to_check()?;
        let path = file.source.path.display();
        let offline = async || {
            let warnings = check_offline(&file, described.database(&file)).await;
            warnings.map_err(into_error)
        };
        if self.offline {
            self.warn(&offline().await?)?;
            say!("{path} has no mistakes that can be told without a database");
            return Ok(ExitCode::SUCCESS);
        }
        let target = described.target(&file)?;
        let (log, is_new) = match target.connect_to_check().await {
            Ok(connected) => connected,
            Err(error) => {
                // What is wrong with the file all the same.
                offline().await?;
                return Err(error.into());
            }
        };
        let programs = programs();
        let checked = check(&file, &log, &programs).await.map_err(into_error);
        programs.ended().await;
        let checked = checked?;
        match self.json {
            true => print_json(&checked)?,
            false => print(&checked)?,
        }
        self.warn(&checked.warnings)?;
        match is_new {
            true => say!("{path} has no mistakes, on {}, which is not there yet", target.url),
            false => say!("{path} has no mistakes, on {}", log.database().at()),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn warn(&self, warnings: &Problems) -> anyhow::Result<()> {
        if !self.json && !warnings.all().is_empty() {
            say!("{}\n", warnings.render(std::io::stderr().is_terminal()));
        }
        Ok(())
    }
}

fn into_error(error: CheckError) -> anyhow::Error {
    match error {
        CheckError::Problems(problems) => problems.into(),
        CheckError::Store(error) => error.into(),
    }
}

fn print(checked: &Checked) -> anyhow::Result<()> {
    if !checked.consumers.is_empty() {
        let mut table = Table::new(["CONSUMER", "KIND", "SET", "PARTITION"]);
        for one in &checked.consumers {
            let (name, kind) = (one.name.clone(), one.kind.to_owned());
            table.row([name, kind, one.set.clone(), one.partition.clone()]);
        }
        table.print()?;
    }
    if !checked.values.is_empty() {
        output::line("")?;
        let mut table = Table::new(["CONSUMER", "EVENT", "FIELD", "TYPE"]);
        for one in &checked.values {
            let wants = one.wants.clone().unwrap_or_else(|| "any".to_owned());
            let optional = if one.is_optional { ", or NULL if it is missing" } else { "" };
            let (consumer, event) = (one.consumer.clone(), one.event.clone());
            table.row([consumer, event, one.field.clone(), format!("{wants}{optional}")]);
        }
        table.print()?;
    }
    Ok(())
}

/// One object for each mistake.
fn print_problems(problems: &Problems) -> anyhow::Result<()> {
    objects(problems).iter().try_for_each(output::json)
}

fn objects(problems: &Problems) -> Vec<serde_json::Value> {
    let source = problems.source();
    let object = |problem: &Problem| {
        let place = source.place(problem.span.start);
        json!({
            "file": source.path, "line": place.line, "column": place.column,
            "message": problem.said, "help": problem.help,
        })
    };
    problems.all().iter().map(object).collect()
}

fn print_json(checked: &Checked) -> anyhow::Result<()> {
    let consumers: Vec<_> = checked
        .consumers
        .iter()
        .map(|one| {
            json!({
                "name": one.name, "kind": one.kind, "set": one.set, "partition": one.partition,
                "known": one.is_known,
            })
        })
        .collect();
    let values: Vec<_> = checked
        .values
        .iter()
        .map(|one| {
            json!({
                "consumer": one.consumer, "event": one.event, "field": one.field, "type": one.wants,
                "optional": one.is_optional,
            })
        })
        .collect();
    let warnings = objects(&checked.warnings);
    output::json(&json!({ "consumers": consumers, "values": values, "warnings": warnings }))
}

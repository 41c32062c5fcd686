//! What would happen if a file was run, and accepting the code of its consumers.

use super::Described;
use crate::refusal::refuse;
use anabranch::Log;
use anabranch::operate::Consumers;
use anabranch::running::ConsumerChange;
use anabranch_file::file::File;
use anabranch_file::{FilePlan, MadeSet, PlanError, plan};
use anabranch_terminal::output::{self, Table};
use anabranch_terminal::say;
use serde_json::json;
use std::process::ExitCode;

/// Of which consumers of a file the code is accepted.
#[derive(Clone, Debug, Default)]
pub(super) enum Accepts {
    /// Of none.
    #[default]
    None,
    /// Of all.
    All,
    /// Of these.
    Named(Vec<String>),
}

impl Accepts {
    /// As it was given: names, or none for all. They must be in the file.
    pub(super) fn of(given: Option<&[String]>, file: &File) -> anyhow::Result<Self> {
        let names = match given {
            None => return Ok(Self::None),
            Some([]) => return Ok(Self::All),
            Some(names) => names,
        };
        for name in names {
            if !file.consumers().any(|(_, known)| known.text == *name) {
                refuse!(InvalidArguments, "--accept {name}: the file has no consumer `{name}`");
            }
        }
        Ok(Self::Named(names.to_vec()))
    }

    pub(super) fn has(&self, consumer: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(names) => names.iter().any(|name| name == consumer),
        }
    }
}

/// Accepts the code of consumers of sets. Once, and not for as long as it runs: what another process accepts later
/// holds for this one, too.
pub(super) async fn accept(sets: &[MadeSet], log: &Log, accepts: &Accepts) -> anyhow::Result<()> {
    if matches!(accepts, Accepts::None) {
        return Ok(());
    }
    let consumers = Consumers::new(log);
    for MadeSet { set, .. } in sets {
        for (name, change) in set.changes_on(log).await? {
            if let ConsumerChange::Code(change) = change
                && accepts.has(&name)
            {
                consumers.accept_code(&change).await?;
                say!("accepted for `{name}`: {change}, and a `setup` is not executed again");
            }
        }
    }
    Ok(())
}

/// Shows what would happen.
pub(super) async fn show(
    described: &Described,
    file: &File,
    accepts: &Accepts,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let target = described.target(file)?;
    let (log, _) = target.connect_to_check().await?;
    let planned = plan(file, &log, |name| accepts.has(name)).await.map_err(into_error)?;
    match as_json {
        true => output::json(&json!({
            "consumers": planned.consumers,
            "refused": planned.refused,
            "has_refusals": planned.has_refusals(),
        }))?,
        false => print(&planned)?,
    }
    Ok(if planned.has_refusals() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(planned: &FilePlan) -> anyhow::Result<()> {
    let mut table = Table::new(["CONSUMER", "SET", "CHANGE", "WHAT HAPPENS"]);
    for one in &planned.consumers {
        let set = one.set.clone().unwrap_or_else(|| "-".to_owned());
        let says = match one.refused {
            true => format!("refused: {}", one.says),
            false => one.says.clone(),
        };
        table.row([one.name.clone(), set, one.change.name().to_owned(), says]);
    }
    table.print()?;
    planned.refused.iter().try_for_each(output::line)
}

fn into_error(error: PlanError) -> anyhow::Error {
    match error {
        PlanError::Problems(problems) => problems.into(),
        PlanError::Store(error) => error.into(),
    }
}

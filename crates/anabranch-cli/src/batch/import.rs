//! Rows that were finished before, in a log of somebody else.

use super::Job;
use crate::output;
use anabranch::batch::{Finished, Imported};
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// Take over rows that are finished in a log of your own, so that they are not handled again
///
/// They count as handled well, by a session of the part `imported`, and `verify` shows them. It may be repeated:
/// what was imported before is counted as already. Keys that no row of the source has are imported too, and
/// counted.
///
/// It is all or nothing. It is refused, with exit code 1, if the job has another entry for one of the keys: then
/// both have worked on that row. Also if rows have no key, no row fulfils the condition, or none of the keys is
/// in the source.
#[derive(Args)]
pub(crate) struct Import {
    #[command(flatten)]
    job: Job,

    /// The table of your own, with its schema before a dot if it has one
    #[arg(long, value_name = "TABLE")]
    from: String,

    /// Its column that holds the key of the source [default: the same as --key]
    #[arg(long, value_name = "COLUMN")]
    from_key: Option<String>,

    /// Which of its rows are finished, in SQL: "state = 'done'"; true for all
    #[arg(long, value_name = "CONDITION")]
    r#where: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.job.target.connect().await?;
        let key = self.from_key.as_ref().unwrap_or(&self.job.key);
        let finished = Finished::new(&self.from, key, &self.r#where);
        let imported = self.job.batch().import(&log, &finished).await?;
        let (job, from) = (&self.job.job, &self.from);
        if self.json {
            let mut object = serde_json::to_value(&imported)?;
            object["job"] = json!(job);
            output::json(&object)?;
        } else {
            let Imported { rows, keys, imported, already, gone, session } = imported;
            output::line(format_args!(
                "{job}: {} imported, {already} already, {gone} not in the source, of {} with {} in {from}, \
                 session {session}",
                output::count(imported, "row"),
                output::count(rows, "row"),
                output::count(keys, "key"),
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

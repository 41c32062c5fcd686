//! Rows that were finished before, in a log of somebody else.

use super::Job;
use anabranch::batch::{Finished, Imported};
use anabranch_terminal::output;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// Take over rows that are finished in a log of your own, so that they are not handled again
///
/// They count as handled well, by a session of the part `imported`, and `verify` shows them. It may be repeated:
/// what was imported before is counted as already. Keys that no row of the source has are imported too, counted,
/// and the first of them named. The log is created if there is none yet, as by `batch run`.
///
/// It is all or nothing. It is refused, with exit code 1, if the job has another entry for one of the keys: then
/// both have worked on that row. Also if rows have no key, no row fulfils the condition, none of the keys is in the
/// source, or some mean a row of it in another spelling, such as 007 for 7: import those from a view that casts
/// them.
#[derive(Args)]
pub(crate) struct Import {
    #[command(flatten)]
    job: Job,

    /// The table of your own, or a view, with its schema before a dot if it has one
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
        // As a run does, which comes next: there may be nothing of ours yet.
        let log = self.job.target.create(None).await?;
        let key = self.from_key.as_ref().unwrap_or(&self.job.key);
        let finished = Finished::new(&self.from, key, &self.r#where);
        let imported = self.job.batch().import(&log, &finished).await?;
        let done =
            format!("the import was done: {} imported", output::count(imported.imported, "row"));
        output::of_work(self.print(imported), || done)?;
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, imported: Imported) -> anyhow::Result<()> {
        let (job, from) = (&self.job.job, &self.from);
        if self.json {
            let mut object = serde_json::to_value(&imported)?;
            object["job"] = json!(job);
            output::json(&object)
        } else {
            let Imported { rows, keys, imported, already, gone, gone_keys, session, .. } = imported;
            let some = if gone_keys.len() < gone as usize { ", …" } else { "" };
            let named = match gone {
                0 => String::new(),
                _ => format!(" ({}{some})", gone_keys.join(", ")),
            };
            output::line(format_args!(
                "{job}: {} imported, {already} already, {gone} not in the source{named}, of {} with {} in {from}, \
                 session {session}",
                output::count(imported, "row"),
                output::count(rows, "row"),
                output::count(keys, "key"),
            ))
        }
    }
}

//! The proof: who handled what, and whether something is doubled or missing.

use super::Job;
use anabranch::batch::{SessionRows, Verified};
use anabranch_terminal::output::{self, Table};
use anabranch_terminal::say;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// Prove that no row was handled twice, and show which instance handled which rows
///
/// Prints the rows of each session (a run of an instance): how many, the lowest and the highest key, and of
/// how many partitions they are, which must be 1 for a fixed part.
///
/// Exits with 1 if the sums do not add up: rows share a key or have none, rows are not as many as entries and
/// rows without one, successes are not as many as the history has. Also if a row was handled well twice (it says
/// by which sessions, on which machines), a success has no proof, or a session has rows of another's part. Entries
/// whose row is not in the source any more are counted as gone, with a remark: that is no error.
#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    job: Job,

    /// Exit with 1 also if rows are not processed yet, or have failed
    #[arg(long)]
    complete: bool,

    /// With --complete: take rows that have failed for processed
    #[arg(long, requires = "complete")]
    allow_failures: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.job.target.connect().await?;
        let verified = self.job.batch().verify(&log).await?;
        let mut violations = verified.violations(self.complete);
        if self.complete && !self.allow_failures {
            violations.extend(verified.failures());
        }
        if self.json {
            let mut object = serde_json::to_value(&verified)?;
            object["violations"] = json!(violations);
            object["remarks"] = json!(verified.remarks());
            output::json(&object)?;
        } else {
            print(&verified)?;
            verified.remarks().iter().for_each(|remark| say!("remark: {remark}"));
            violations.iter().for_each(|violation| say!("violation: {violation}"));
        }
        Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(verified: &Verified) -> anyhow::Result<()> {
    let mut table = Table::new(["SESSION", "PART", ">ROWS", ">FIRST", ">LAST", ">PARTITIONS"]);
    for session in &verified.sessions {
        let SessionRows { session, part, rows, first, last, partitions, .. } = session.clone();
        // Only a fixed part has partitions to keep to.
        let is_fixed = part.contains(" of ");
        let partitions = if is_fixed { partitions.to_string() } else { "-".to_owned() };
        table.row([session, part, rows.to_string(), first, last, partitions]);
    }
    table.print()?;
    let Verified { rows, keys, null_keys, succeeded, failed, claimed, missing, gone, .. } =
        verified;
    let collisions = match verified.collisions.as_slice() {
        [] => "none".to_owned(),
        some => some.iter().map(|row| row.key.as_str()).collect::<Vec<_>>().join(", "),
    };
    output::line(format_args!("rows           {rows}"))?;
    output::line(format_args!("keys           {keys} ({null_keys} rows without)"))?;
    output::line(format_args!("success        {succeeded}"))?;
    output::line(format_args!("failed         {failed}"))?;
    output::line(format_args!("not processed  {} ({claimed} claimed)", missing + claimed))?;
    output::line(format_args!("gone           {gone}"))?;
    output::line(format_args!("collisions     {collisions}"))
}

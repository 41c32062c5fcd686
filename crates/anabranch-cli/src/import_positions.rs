//! A consumer that goes on where runners that were there before stopped.

use crate::confirm::Confirm;
use crate::target::Target;
use anabranch::operate::ImportedPartition;
use anabranch::operate::{CheckpointTable, Import, ImportPlan};
use anabranch::partitioning::{SLOTS, Strategy};
use anabranch::{HashRule, Log, Position};
use anabranch_terminal::output::{self, Table, count};
use anabranch_terminal::say;
use clap::Args;
use std::process::ExitCode;

/// The names of readers, if nothing else is said.
const READERS: &str = "{type}_runner_partition_{i}_of_{n}";

/// The strategies that hash a key: with a rule that is guessed, events would be lost and repeated.
const KEYED: [&str; 5] = ["entity", "customer", "saga", "dcb", "custom"];

/// Let a consumer go on where N runners that were there before stopped
///
/// The old runners each took the keys with hash(key) % N == i and kept their positions in a table of
/// this database, or somewhere else: then give each with --checkpoint. Each slot goes on exactly where
/// its old partition stood, so nothing is handled again and nothing is left out.
///
/// Stop the old runners first, look at it with --dry-run, import with --yes, then start the consumer. It
/// need not exist yet: its set-up hook is called when it first runs, and must bear tables that are there.
#[derive(Args)]
pub(crate) struct ImportPositions {
    #[command(flatten)]
    target: Target,

    /// The consumer
    consumer: String,

    /// How its events are keyed: entity, customer, saga, global, dcb or custom
    #[arg(long)]
    strategy: Strategy,

    /// How the old runners hash keys: fnv1a, md5 or integer
    #[arg(long, required_if_eq_any(KEYED.map(|name| ("strategy", name))))]
    rule: Option<HashRule>,

    /// How many old partitions there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(SLOTS)))]
    partitions: u16,

    #[command(flatten)]
    from: From,

    /// Also if the consumer has run: it repeats events, or leaves some out
    #[arg(long)]
    replace: bool,

    /// Show what would become of each partition, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    confirm: Confirm,
}

/// Where the positions come from.
#[derive(Args)]
struct From {
    #[command(flatten)]
    source: Source,

    /// The column of the positions
    #[arg(long, value_name = "COLUMN", requires = "table")]
    position_column: Option<String>,

    /// The column of the readers' names
    #[arg(long, value_name = "COLUMN", requires = "table")]
    name_column: Option<String>,

    /// How readers are named: as in the default, with {i} for the partition, {type} for what --type says
    /// and n for how many there are
    #[arg(long, value_name = "PATTERN", requires = "name_column", default_value = READERS)]
    name_pattern: String,

    /// What {type} is in the names of readers
    #[arg(long = "type", value_name = "TYPE", requires = "name_column")]
    reader: Option<String>,

    /// The column of the partitions' numbers, if names do not tell
    #[arg(long, value_name = "COLUMN", requires = "table")]
    index_column: Option<String>,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// The table of the old runners, with its schema if need be; spelt as the database does
    #[arg(long, requires = "position_column")]
    table: Option<String>,

    /// The position of a partition; give it for each
    #[arg(long = "checkpoint", value_name = "I=POSITION", value_parser = checkpoint)]
    checkpoints: Vec<(u16, Position)>,
}

impl ImportPositions {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(problem) = self.from.problem() {
            say!("error: {problem}");
            return Ok(ExitCode::from(2));
        }
        let log = self.target.connect().await?;
        let mut import = Import::new(&self.consumer)
            .strategy(self.strategy)
            .partitions(self.partitions)
            .checkpoints(self.from.checkpoints(&log, self.partitions).await?)
            .replace(self.replace);
        if let Some(rule) = self.rule {
            import = import.rule(rule);
        }
        let plan = import.check(&log).await?;
        if self.dry_run {
            self.print(&plan)?;
        }
        if !plan.refusals.is_empty() {
            for refusal in &plan.refusals {
                say!("error: `{}`: {refusal}", self.consumer);
            }
            return Ok(ExitCode::FAILURE);
        }
        if self.dry_run {
            say!("nothing was changed; leave --dry-run out and add --yes to import this");
            return Ok(ExitCode::SUCCESS);
        }
        self.confirm.require(&consequence(&plan))?;
        let plan = import.apply(&log).await?;
        self.print(&plan)?;
        self.advise(&log);
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, plan: &ImportPlan) -> anyhow::Result<()> {
        if self.json {
            return output::json(plan);
        }
        let mut table = Table::new(["PARTITION", ">SLOTS", ">POSITION", ">LAG", "NOW"]);
        for partition in &plan.partitions {
            table.row([
                format!("{} of {}", partition.index, plan.total),
                partition.slots.to_string(),
                partition.position.to_string(),
                partition.lag.to_string(),
                now(partition),
            ]);
        }
        table.print()?;
        let ImportPlan { strategy, minimum, head, lag, cursors, .. } = plan;
        let cursors = count(*cursors as u64, "cursor");
        output::line(format_args!(
            "\nby {strategy}, {cursors}, minimum {minimum}, head {head}, lag {lag}"
        ))
    }

    fn advise(&self, log: &Log) {
        let name = &self.consumer;
        say!(
            "`{name}` goes on at these positions; start it, with any number of partitions or lanes"
        );
        match self.rule {
            Some(rule) if rule != log.hash_rule() && self.strategy != Strategy::Global => {
                say!(
                    "note: the log hashes by {}, so its partition must say with_rule(HashRule::{rule:?})",
                    log.hash_rule()
                )
            }
            _ => {}
        }
    }
}

impl From {
    /// What clap cannot tell.
    fn problem(&self) -> Option<&'static str> {
        self.source.table.as_ref()?;
        let wants_type = self.name_column.is_some() && self.name_pattern.contains("{type}");
        if self.name_column.is_none() && self.index_column.is_none() {
            Some("give --name-column or --index-column, which tell the partitions apart")
        } else if wants_type && self.reader.is_none() {
            Some("give --type, which stands in the names of readers, or another --name-pattern")
        } else {
            None
        }
    }

    async fn checkpoints(&self, log: &Log, total: u16) -> anyhow::Result<Vec<(u16, Position)>> {
        let (Some(table), Some(position)) = (&self.source.table, &self.position_column) else {
            return Ok(self.source.checkpoints.clone());
        };
        let mut table = CheckpointTable::new(table, position);
        if let Some(column) = &self.name_column {
            let kind = self.reader.as_deref().unwrap_or_default();
            table = table.names(column, self.name_pattern.replace("{type}", kind));
        }
        if let Some(column) = &self.index_column {
            table = table.index(column);
        }
        Ok(table.read(log, total).await?)
    }
}

fn consequence(plan: &ImportPlan) -> String {
    let ImportPlan { consumer, total, minimum, head, .. } = plan;
    let parked = match plan.parked_keys as u64 {
        0 => String::new(),
        keys => format!(", and its {} would be dropped", count(keys, "parked key")),
    };
    format!(
        "`{consumer}` would go on where the {} stand, the last at position {minimum} of {head}{parked}; \
         --dry-run shows each",
        count((*total).into(), "old partition")
    )
}

/// Where a partition stands now, and what that means.
fn now(partition: &ImportedPartition) -> String {
    let Some((lowest, highest)) = partition.now.and_then(|now| now.lowest.zip(now.highest)) else {
        return "-".to_owned();
    };
    let mut text = match lowest == highest {
        true => format!("at {lowest}"),
        false => format!("at {lowest} to {highest}"),
    };
    for (what, positions) in [("repeats", partition.repeats), ("leaves out", partition.leaves_out)]
    {
        if positions > 0 {
            text += &format!(", {what} up to {positions}");
        }
    }
    text
}

fn checkpoint(text: &str) -> Result<(u16, Position), String> {
    let parts = text.split_once('=');
    let numbers = parts.map(|(index, position)| (index.trim().parse(), position.trim().parse()));
    match numbers {
        Some((Ok(index), Ok(position))) => Ok((index, Position::new(position))),
        _ => Err("write it as PARTITION=POSITION, for example 0=120".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use anabranch::FixedPartition;

    #[test]
    fn readers_are_named_as_everywhere() {
        let partition = FixedPartition::new(1, 3).unwrap();
        let name = READERS.replace("{type}", "order").replace("{i}", "1").replace("{n}", "3");
        assert_eq!(name, partition.reader_name("order"));
    }
}

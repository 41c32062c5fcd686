//! From N fixed partitions to M.

use crate::offsets::positions;
use crate::status::in_words;
use crate::target::Target;
use anabranch::operate::Rescale as Plan;
use anabranch::partitioning::SLOTS;
use anabranch_terminal::output::{self, Table, count};
use anabranch_terminal::say;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Show what going from N fixed partitions to M moves; there is nothing to migrate
///
/// Every key belongs to one of 5040 slots for ever, and each slot carries its own position. A partition
/// is no more than the slots that it asks for, so another number of partitions only means that other
/// processes ask for them: each slot goes on where it stood, whatever the positions are.
///
/// So this command shows and changes nothing, with --dry-run or without. To rescale, start M processes
/// with TOTAL_PARTITIONS=M and stop the N old ones, in any order: what an old one still holds, the new
/// ones wait for.
#[derive(Args)]
pub(crate) struct Rescale {
    #[command(flatten)]
    target: Target,

    /// The consumer
    consumer: String,

    /// How many partitions there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(SLOTS)))]
    from: u16,

    /// How many there will be
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u16).range(1..=i64::from(SLOTS)))]
    to: u16,

    /// Change nothing, as without it
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Object<'a> {
    consumer: &'a str,
    from: u16,
    to: u16,
    staying: usize,
    moving: usize,
    #[serde(flatten)]
    plan: &'a Plan,
}

impl Rescale {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let consumers = self.target.consumers().await?;
        let plan = consumers.rescale(&self.consumer, self.from, self.to).await?;
        if self.json {
            let (consumer, from, to) = (self.consumer.as_str(), self.from, self.to);
            let (staying, moving) = (plan.staying(), plan.moving());
            output::json(&Object { consumer, from, to, staying, moving, plan: &plan })?;
        } else {
            self.print(&plan)?;
        }
        self.advise(&plan);
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, plan: &Plan) -> anyhow::Result<()> {
        let mut table = Table::new(["PARTITION", "FROM", ">SLOTS", ">LOWEST", ">HIGHEST", ""]);
        for one in &plan.moves {
            let [lowest, highest] = positions(&one.extent);
            table.row([
                format!("{} of {}", one.to, self.to),
                format!("{} of {}", one.from, self.from),
                one.extent.slots.to_string(),
                lowest,
                highest,
                if one.stays() { "stays" } else { "moves" }.to_owned(),
            ]);
        }
        table.print()?;
        let (staying, moving) = (plan.staying() as u64, plan.moving());
        output::line(format_args!("\n{} stay, {moving} move", count(staying, "slot")))?;
        for (when, total, offsets) in
            [("before", self.from, &plan.before), ("after", self.to, &plan.after)]
        {
            let (total, minimum, lag) =
                (count(total.into(), "partition"), offsets.minimum, offsets.lag);
            output::line(format_args!("{when:<6}  {total}, minimum {minimum}, lag {lag}"))?;
        }
        Ok(())
    }

    fn advise(&self, plan: &Plan) {
        let Self { consumer, from, to, .. } = self;
        say!(
            "nothing was changed and nothing has to be: each slot keeps its position, so minimum and \
             lag are the same before and after"
        );
        if from == to {
            return;
        }
        for worker in &plan.running {
            say!("warning: `{consumer}` is still run by {}", in_words(worker));
        }
        let old = match plan.running.len() as u64 {
            0 => "no worker runs one of the old partitions now".to_owned(),
            running => {
                format!("stop the {} of the old partitions, in any order", count(running, "worker"))
            }
        };
        say!(
            "next: start {} with TOTAL_PARTITIONS={to} and PARTITION_KEY=0 to {}; {old}",
            match to {
                1 => "1 process".to_owned(),
                to => format!("{to} processes"),
            },
            to - 1
        );
    }
}

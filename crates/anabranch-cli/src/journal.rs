//! Who did what, when, and what came of it.

use crate::planned::{plan_id, show};
use crate::target::Target;
use anabranch::operations::{JournalEntry, JournalFilter, PlanState};
use anabranch_terminal::output::{self, Table, time};
use anabranch_terminal::say;
use clap::{Args, Subcommand};
use serde::Deserialize;
use std::process::ExitCode;
use uuid::Uuid;

/// Show who did what: every operation that changed something, by the command, the API or the console
///
/// The newest comes first. An operation on one thing is one entry, `applied`, written in the transaction that did it. One
/// on many goes step by step: it `began`, and then is `done`, was `cancelled` or has `failed`. DONE is with how many things it was done (of keys and
/// deliveries: how many were asked of workers), GONE how many of those that were planned were not there any more.
#[derive(Args)]
pub(crate) struct Journal {
    #[command(flatten)]
    target: Target,

    /// Only what was done with this consumer, pool or task
    about: Option<String>,

    /// Only what was done by this plan
    #[arg(long, value_name = "ID", value_parser = plan_id)]
    plan: Option<Uuid>,

    /// How many entries
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    limit: u16,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// What the effect and the outcome of an entry are read for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    says: String,
    done: u64,
    gone: u64,
}

impl Told {
    fn of(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }
}

impl Journal {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let limit = usize::from(self.limit);
        let is_narrowed = self.about.is_some() || self.plan.is_some();
        let filter = JournalFilter {
            target: self.about,
            plan: self.plan,
            limit,
            ..JournalFilter::default()
        };
        let entries = self.target.operations().await?.journal(&filter).await?;
        if self.json {
            entries.iter().try_for_each(output::json)?;
            return Ok(ExitCode::SUCCESS);
        }
        if entries.is_empty() {
            match is_narrowed {
                true => say!("nothing of that is in the journal"),
                false => say!("the journal is empty"),
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut table =
            Table::new(["AT", "WHO", "VIA", "WHAT", "STAGE", ">DONE", ">GONE", "PLANNED"]);
        for entry in &entries {
            table.row(row(entry));
        }
        table.print()?;
        if entries.len() == limit {
            say!("these are the newest {limit}; -n shows more");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn row(entry: &JournalEntry) -> [String; 8] {
    let outcome = entry.outcome.as_ref().map_or_else(Told::default, |told| Told::of(told.get()));
    [
        time(entry.at),
        entry.who.clone(),
        entry.via.clone(),
        format!("{} {}", entry.verb, entry.target),
        entry.stage.name().to_owned(),
        outcome.done.to_string(),
        outcome.gone.to_string(),
        Told::of(entry.effect.get()).says,
    ]
}

/// What --dry-run has planned, and what is being done step by step: a list, if nothing else is said
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Plans {
    #[command(subcommand)]
    what: Option<WithPlans>,

    #[command(flatten)]
    list: ListPlans,
}

/// What to do with plans.
#[derive(Subcommand)]
enum WithPlans {
    List(ListPlans),
    Show(ShowPlan),
    Cancel(CancelPlan),
}

/// List the newest plans: open, running, done, failed or cancelled
#[derive(Args)]
pub(crate) struct ListPlans {
    #[command(flatten)]
    target: Target,

    /// How many
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    limit: u16,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Show a plan: what it would do, or how far it is
#[derive(Args)]
pub(crate) struct ShowPlan {
    #[command(flatten)]
    target: Target,

    /// The plan
    #[arg(value_parser = plan_id)]
    id: Uuid,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Cancel a plan that is open or being carried out; what was done until then stays
#[derive(Args)]
pub(crate) struct CancelPlan {
    #[command(flatten)]
    target: Target,

    /// The plan
    #[arg(value_parser = plan_id)]
    id: Uuid,
}

impl Plans {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            None => self.list.run().await?,
            Some(WithPlans::List(list)) => list.run().await?,
            Some(WithPlans::Show(show)) => show.run().await?,
            Some(WithPlans::Cancel(cancel)) => cancel.run().await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl ListPlans {
    async fn run(self) -> anyhow::Result<()> {
        let plans = self.target.operations().await?.plans(None, usize::from(self.limit)).await?;
        if self.json {
            return plans.iter().try_for_each(output::json);
        }
        if plans.is_empty() {
            say!("there are no plans; --dry-run makes one");
            return Ok(());
        }
        let mut table = Table::new(["MADE", "WHO", "STATE", ">DONE", ">OF", "ID", "WHAT"]);
        for plan in plans {
            table.row([
                time(plan.made_at),
                plan.who,
                plan.state.to_string(),
                plan.done.to_string(),
                plan.total.to_string(),
                plan.id.to_string(),
                match plan.request {
                    Some(_) => plan.effect.says,
                    None => {
                        format!("{} (of another version: it cannot be read here)", plan.effect.says)
                    }
                },
            ]);
        }
        table.print()
    }
}

impl ShowPlan {
    async fn run(self) -> anyhow::Result<()> {
        let plan = self.target.operations().await?.get(self.id).await?;
        if self.json {
            return output::json(&plan);
        }
        show(&plan)?;
        let gone = match plan.gone {
            0 => String::new(),
            gone => format!(", {gone} gone"),
        };
        output::line(format_args!(
            "  {:<12}{}, {} of {} done{gone}",
            "state", plan.state, plan.done, plan.total
        ))?;
        if plan.state == PlanState::Open {
            output::line(format_args!("  {:<12}{}", "expires", time(plan.expires_at)))?;
        }
        Ok(())
    }
}

impl CancelPlan {
    async fn run(self) -> anyhow::Result<()> {
        let plan = self.target.operations().await?.cancel(self.id).await?;
        say!(
            "plan {} is cancelled after {} of {}; what was done stays",
            plan.id,
            plan.done,
            plan.total
        );
        Ok(())
    }
}

//! What changes something is one thing everywhere: planned, applied unless the plan is out of date, written in the journal.

use crate::confirm::Confirm;
use crate::target::Target;
use anabranch::Log;
use anabranch::operate::host;
use anabranch::operations::{By, OperationError, Operations, Plan, PlanState, Request};
use anabranch_terminal::cut_short::{self, CutShort};
use anabranch_terminal::output::{self, time};
use anabranch_terminal::say;
use clap::Args;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How often to say how far it is.
const TELL: Duration = Duration::from_secs(1);

/// Whether something is only planned, or was planned before.
#[derive(Args)]
pub(crate) struct Planned {
    /// Change nothing: say what would be done, counted, and keep that as a plan for ten minutes
    #[arg(long, conflicts_with = "plan")]
    pub(crate) dry_run: bool,

    /// Do what this plan says (the id that --dry-run has printed), unless it is out of date
    #[arg(long, value_name = "ID", value_parser = plan_id)]
    pub(crate) plan: Option<Uuid>,

    /// With --dry-run: print the plan as one JSON object
    #[arg(long, requires = "dry_run")]
    json: bool,
}

/// The operations on the log of a command, by whoever runs it.
pub(crate) fn operations(log: &Log) -> Operations {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = set("USER").or_else(|| set("LOGNAME")).unwrap_or_else(uid);
    Operations::new(log, By::new(format!("{user}@{}", host()), "cli"))
}

/// Who runs this, where the environment does not say.
fn uid() -> String {
    #[cfg(unix)]
    if let Ok(me) = std::fs::metadata("/proc/self") {
        use std::os::unix::fs::MetadataExt;
        return format!("uid{}", me.uid());
    }
    "somebody".to_owned()
}

impl Target {
    /// The operations on this log, which must be there.
    pub(crate) async fn operations(&self) -> anyhow::Result<Operations> {
        Ok(operations(&self.connect().await?))
    }
}

impl Planned {
    /// Does what is asked for, or only plans it: then there is nothing to say any more. What cannot be taken back is
    /// confirmed before, unless it was planned.
    pub(crate) async fn carry_out(
        &self,
        operations: &Operations,
        request: &Request,
        confirm: Option<&Confirm>,
    ) -> anyhow::Result<Option<Plan>> {
        if self.dry_run {
            self.show(&operations.plan(request).await?)?;
            return Ok(None);
        }
        if let Some(id) = self.plan {
            let plan = operations.get(id).await?;
            // One that cannot be read is refused when it is applied, which says why.
            if plan.request.as_ref().is_some_and(|planned| !is_same(planned, request)) {
                return Err(OperationError::Differs { id, says: plan.effect.says }.into());
            }
            return Ok(Some(apply(operations, id).await?));
        }
        if let Some(confirm) = confirm {
            let effect = operations.look(request).await?;
            if effect.is_final {
                confirm.require(&effect.says)?;
            }
        }
        if !operations.has_journal() {
            say!(
                "note: the schema of this log is older than the journal, so nothing is written there; `anabranch migrate` \
                 brings it up to date"
            );
            return Ok(Some(operations.carry_out(request, |_| {}).await?));
        }
        let plan = operations.plan(request).await?;
        Ok(Some(apply(operations, plan.id).await?))
    }

    fn show(&self, plan: &Plan) -> anyhow::Result<()> {
        if self.json {
            return output::json(plan);
        }
        show(plan)?;
        say!(
            "nothing was changed; to do it, repeat the command with --plan {} in the place of --dry-run, until {}",
            plan.id,
            time(plan.expires_at)
        );
        Ok(())
    }
}

/// What a plan would do.
pub(crate) fn show(plan: &Plan) -> anyhow::Result<()> {
    let effect = &plan.effect;
    output::line(&effect.says)?;
    for (what, number) in &effect.counts {
        output::line(format_args!("  {:<12}{number}", what.replace('_', " ")))?;
    }
    if !effect.first.is_empty() {
        let more = if plan.total > effect.first.len() as u64 { ", …" } else { "" };
        output::line(format_args!("  {:<12}{}{more}", "first", effect.first.join(", ")))?;
    }
    if let Some(seconds) = effect.seconds {
        output::line(format_args!("  {:<12}about {seconds:.0} s", "takes"))?;
    }
    effect.notes.iter().try_for_each(|note| output::line(format_args!("  {note}")))?;
    if effect.is_final {
        output::line("  this cannot be taken back")?;
    }
    Ok(())
}

/// Applies a plan. Ctrl-C cancels what is done step by step, and what was done until then stays.
async fn apply(operations: &Operations, id: Uuid) -> anyhow::Result<Plan> {
    let mut told = Instant::now();
    let applied = operations.apply(id, |plan| {
        if told.elapsed() >= TELL {
            told = Instant::now();
            say!("{} of {} …", plan.done, plan.total);
        }
    });
    let plan = tokio::select! {
        applied = applied => applied?,
        cut = cut_short::signalled() => return Err(cancel(operations, id, cut).await),
    };
    if plan.state == PlanState::Cancelled {
        say!("cancelled by somebody else after {} of {}", plan.done, plan.total);
    }
    Ok(plan)
}

async fn cancel(operations: &Operations, id: Uuid, cut: CutShort) -> anyhow::Error {
    match operations.cancel(id).await {
        Ok(plan) => say!("cancelled after {} of {}; what was done stays", plan.done, plan.total),
        Err(OperationError::Used { state, .. }) => say!("it was {state} already"),
        Err(error) => return error.into(),
    }
    cut.into()
}

/// Whether a plan is of what a command asks for: that events may be missing was decided when it was made.
fn is_same(planned: &Request, asked: &Request) -> bool {
    match (planned, asked) {
        (
            Request::Replay { consumer, from, new_ids, .. },
            Request::Replay { consumer: other, from: other_from, new_ids: other_ids, .. },
        ) => (consumer, from, new_ids) == (other, other_from, other_ids),
        (
            Request::ReplayKey { consumer, key, .. },
            Request::ReplayKey { consumer: other, key: other_key, .. },
        ) => (consumer, key) == (other, other_key),
        _ => planned == asked,
    }
}

/// An id, as it is written.
pub(crate) fn plan_id(text: &str) -> Result<Uuid, String> {
    let wrong = "the id of a plan looks like 0199d3a0-5f5e-7c3a-9d0e-6a1f6c1f0a11; `anabranch plans` shows them";
    text.parse().map_err(|_| wrong.to_owned())
}

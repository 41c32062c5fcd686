//! What would happen if a file was run: for each of its consumers, and for those that it no longer has. Nothing is changed.

use crate::file::{By, File, Pool, Problems, Set};
use crate::made_set::MadeSet;
use crate::running::Sets;
use anabranch::operate::{Consumers, WorkerStatus};
use anabranch::running::ConsumerChange;
use anabranch::{Log, RunError, StoreError};
use serde::Serialize;
use std::collections::BTreeSet;

/// What would happen if a file was run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FilePlan {
    /// Its consumers, in the order of the file, and then those that are known to the log and not in the file.
    pub consumers: Vec<PlannedConsumer>,
    /// Why a set is refused, whatever is stored.
    pub refused: Vec<String>,
}

impl FilePlan {
    /// Whether something of it is refused.
    #[must_use]
    pub fn has_refusals(&self) -> bool {
        !self.refused.is_empty() || self.consumers.iter().any(|one| one.refused)
    }
}

/// What would happen to a consumer.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PlannedConsumer {
    /// Its name.
    pub name: String,
    /// Its replica set in the file; none if it is not in the file.
    pub set: Option<String>,
    /// How it differs from what is stored.
    pub change: Change,
    /// What happens, and what to do.
    pub says: String,
    /// Whether it would be refused.
    pub refused: bool,
}

/// How a consumer of a file differs from what is stored of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Nothing is stored of it.
    New,
    /// It is what is stored.
    Unchanged,
    /// It does something else.
    Code,
    /// It handles other events.
    Scope,
    /// Its events are keyed in another way.
    Partition,
    /// It is another kind of consumer.
    Kind,
    /// It has another version.
    Version,
    /// It is as it was, in another replica set.
    Moved,
    /// It is not in the file.
    Gone,
}

impl Change {
    /// In a word or two.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Unchanged => "unchanged",
            Self::Code => "code changed",
            Self::Scope => "scope changed",
            Self::Partition => "partition changed",
            Self::Kind => "kind changed",
            Self::Version => "version changed",
            Self::Moved => "moved",
            Self::Gone => "gone",
        }
    }
}

/// Says what would happen if a file was run on a log. `accepts` says of which consumers the code would be accepted.
///
/// ```no_run
/// # async fn f(file: anabranch_file::file::File, log: anabranch::Log) -> Result<(), Box<dyn std::error::Error>> {
/// let plan = anabranch_file::plan(&file, &log, |_| false).await?;
/// for one in &plan.consumers {
///     println!("{}: {}, {}", one.name, one.change.name(), one.says);
/// }
/// # Ok(()) }
/// ```
pub async fn plan(
    file: &File,
    log: &Log,
    accepts: impl Fn(&str) -> bool,
) -> Result<FilePlan, PlanError> {
    let made = Sets::default().of(file, log)?;
    let consumers = Consumers::new(log);
    let workers: Vec<WorkerStatus> =
        consumers.workers().await?.into_iter().filter(|worker| worker.is_alive).collect();
    let mut plan = FilePlan { consumers: Vec::new(), refused: Vec::new() };
    for (of, MadeSet { name, set, .. }) in file.sets.iter().zip(&made) {
        let of_set = |error: &RunError| matches!(error, RunError::Set { .. });
        plan.refused
            .extend(set.check().iter().filter(|error| of_set(error)).map(ToString::to_string));
        for (consumer, change) in set.changes_on(log).await? {
            let set = Some(name.clone());
            let mut planned = planned(of, consumer, change, &accepts);
            if planned.change == Change::Unchanged
                && let Some(elsewhere) = run_elsewhere(&workers, name, &planned.name)
            {
                planned.change = Change::Moved;
                planned.says = format!(
                    "it is run in replica set `{elsewhere}` now, and goes on in `{name}` as workers of that one \
                     release it: start them with a file that does not have it there"
                );
            }
            plan.consumers.push(PlannedConsumer { set, ..planned });
        }
    }
    let known = consumers.list().await?;
    let in_file: BTreeSet<&str> =
        made.iter().flat_map(|made| made.consumers.iter().map(|(name, _)| name.as_str())).collect();
    let sets: BTreeSet<&str> = made.iter().map(|made| made.name.as_str()).collect();
    let gone = known.iter().filter(|known| !in_file.contains(known.name.as_str()));
    plan.consumers.extend(gone.filter_map(|gone| not_in_file(&workers, &sets, &gone.name)));
    Ok(plan)
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file has mistakes.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// The database cannot be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn planned(
    set: &Set,
    name: String,
    change: ConsumerChange,
    accepts: &impl Fn(&str) -> bool,
) -> PlannedConsumer {
    let refused = |refusal: &RunError| match refusal {
        RunError::Refused { problem, .. } => problem.clone(),
        other => other.to_string(),
    };
    let (change, says, refused) = match change {
        ConsumerChange::New => (Change::New, "is set up and begins".to_owned(), false),
        ConsumerChange::Unchanged => (Change::Unchanged, "goes on".to_owned(), false),
        ConsumerChange::Code(change) if accepts(&name) => {
            (Change::Code, format!("{}; {change}; it is accepted", what_changed(set, &name)), false)
        }
        ConsumerChange::Code(change) => {
            let or_rebuild = if is_projection(set, &name) { ", or a rebuild" } else { "" };
            let says = format!(
                "{}; {change}; it waits for --accept {name}{or_rebuild}",
                what_changed(set, &name)
            );
            (Change::Code, says, false)
        }
        ConsumerChange::Scope(change) => {
            let says = format!(
                "{change}; refused until that is said to be meant: run it once, then `anabranch accept-scope \
                 {name} --yes`"
            );
            (Change::Scope, says, true)
        }
        ConsumerChange::Twin { refusal } => (Change::New, refused(&refusal), true),
        ConsumerChange::Kind { refusal, .. } => (Change::Kind, refused(&refusal), true),
        ConsumerChange::Partition { refusal, .. } => (Change::Partition, refused(&refusal), true),
        ConsumerChange::Version { was, is, .. } if is > was && is_projection(set, &name) => {
            let says = format!(
                "the database has version {was} of it and the file has version {is}: `anabranch rebuild FILE {name}` \
                 builds it beside the old one, and switches to it"
            );
            (Change::Version, says, true)
        }
        ConsumerChange::Version { refusal, .. } => (Change::Version, refused(&refusal), true),
        other => (Change::Unchanged, format!("{other:?}"), true),
    };
    PlannedConsumer { name, set: None, change, says, refused }
}

/// Only those can be built beside themselves.
pub(crate) fn is_projection(set: &Set, consumer: &str) -> bool {
    set.projections.iter().any(|one| one.consumer.name.text == consumer)
}

/// What can have changed: only a hash of all of it is stored.
fn what_changed(set: &Set, consumer: &str) -> &'static str {
    let is_webhook = set.webhooks.iter().any(|one| one.consumer.name.text == consumer);
    let is_sent = |pool: &&Pool| pool.name.text == consumer && !matches!(pool.by, By::Program(_));
    if is_projection(set, consumer) {
        "its SQL is not the accepted one (a `setup` is not executed again)"
    } else if is_webhook || set.pools.iter().any(|pool| is_sent(&pool)) {
        "where its messages go, or their form, is not the accepted one"
    } else {
        "its command, its variables or its SQL is not the accepted one (a `setup` is not executed again)"
    }
}

/// The other set whose workers run a consumer.
fn run_elsewhere<'w>(workers: &'w [WorkerStatus], set: &str, consumer: &str) -> Option<&'w str> {
    let mut others = workers.iter().filter(|worker| worker.replica_set != set);
    let runs = others.find(|worker| worker.runs(consumer).is_some())?;
    let is_here = |worker: &WorkerStatus| worker.replica_set == set;
    let runs_here = |worker: &WorkerStatus| is_here(worker) && worker.runs(consumer).is_some();
    (!workers.iter().any(runs_here)).then_some(runs.replica_set.as_str())
}

/// A consumer that the log knows and the file does not have, unless other sets run it.
fn not_in_file(
    workers: &[WorkerStatus],
    sets: &BTreeSet<&str>,
    consumer: &str,
) -> Option<PlannedConsumer> {
    let mut runs = workers.iter().filter(|worker| worker.runs(consumer).is_some()).peekable();
    let is_run = runs.peek().is_some();
    if is_run && !runs.any(|worker| sets.contains(worker.replica_set.as_str())) {
        return None;
    }
    let forget = format!("`anabranch forget {consumer}` removes it");
    let says = match is_run {
        true => format!(
            "workers of this set still run it; it keeps its place, and {forget} when they have ended"
        ),
        false => format!("no worker runs it; it keeps its place, and {forget}"),
    };
    let (name, change) = (consumer.to_owned(), Change::Gone);
    Some(PlannedConsumer { name, set: None, change, says, refused: false })
}

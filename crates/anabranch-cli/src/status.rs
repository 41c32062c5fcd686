//! How the consumers stand, and who runs them.

use crate::target::Target;
use anabranch::Position;
use anabranch::operate::{
    ConsumerStatus, Consumers, CursorStatus, Owner, Reason, UnrunPool, WorkerStatus,
};
use anabranch::workpool::{PoolCounts, TaskState, Tasks};
use anabranch_terminal::output::{self, Table, count};
use anabranch_terminal::say;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

/// The kind of a work pool.
pub(crate) const POOL: &str = "pool";

/// Show the consumers: how far they are, and whether somebody runs them
///
/// LAG is what is not handled: the positions between POSITION and HEAD, and the events of keys that have
/// failed. READY is what more workers could do of it: all but what is parked. Scale by READY. RETRYING are
/// keys that fail and are tried again by themselves; PARKED are those that wait for somebody (`anabranch
/// parked`). STATE counts both of a consumer that runs, as keys that are failing and parked.
///
/// Pools have no position in the log: of them it counts tasks. PARKED are the dead, which wait for somebody
/// (`anabranch tasks list POOL`), and the held: they have not failed, but wait behind a dead task of their
/// key, or their key is paused. STATE says when a pool is at its limit (`max_parallelism`): more workers do
/// not help then. It also says when some workers know a limit and others none: then it does not hold. A pool
/// that has tasks and that no worker has ever run is shown too: its name may be misspelled where tasks are
/// enqueued.
///
/// With a name also whether no event of the log matches what it asks for, and its cursors: which slots are done up to where, who owns them, and by name why one
/// does not advance: it stands beyond the log, or that was wound back (no lag is shown then), no worker runs it or can, it is about
/// to change hands, its lane is blocked by a backend of the database, its handler fails, keys are parked or
/// wait for their next attempt, no wakes arrive.
///
/// With --watch the same as a picture that moves, in a terminal, with a map of all slots of a consumer: by their owners, lag
/// or reason. Its keys are at the bottom; q ends it. NO_COLOR=1 draws letters in place of colours.
#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    target: Target,

    /// Only this consumer, with its cursors
    consumer: Option<String>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,

    /// Show it in the terminal as it changes, with a map of slots, until q or Ctrl-C
    #[arg(long, conflicts_with = "json")]
    watch: bool,

    /// With --watch: look so often
    #[arg(long, value_name = "SECONDS", default_value = "1", requires = "watch", value_parser = seconds)]
    every: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let seconds = seconds.map(Duration::from_secs_f64);
    seconds.ok_or_else(|| "write seconds from 0.1 to 3600".to_owned())
}

/// A status as JSON.
#[derive(Serialize)]
struct Line<'a> {
    state: String,
    #[serde(flatten)]
    status: &'a ConsumerStatus,
    /// Of a pool.
    #[serde(flatten)]
    tasks: Option<OpenTasks>,
    /// Looked for only if one consumer is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    unmatched: Option<String>,
}

/// A pool that no worker has run, as JSON.
#[derive(Serialize)]
struct UnrunLine<'a> {
    state: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    pool: &'a UnrunPool,
}

/// How a pool stands that has tasks, and is no consumer yet.
pub(crate) const UNRUN: &str = "no worker has run it yet";

/// How many tasks of a pool have not ended, wait for somebody, and wait behind those or a paused key.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct OpenTasks {
    #[serde(rename = "open_tasks")]
    open: u64,
    #[serde(rename = "dead_tasks")]
    dead: u64,
    #[serde(rename = "held_tasks")]
    held: u64,
}

impl OpenTasks {
    /// Of a consumer that is a pool.
    pub(crate) fn of(status: &ConsumerStatus, pools: &[PoolCounts]) -> Option<Self> {
        let pool = pools.iter().find(|pool| pool.pool == status.name);
        let open = |pool: &PoolCounts| {
            let open = pool.tasks.iter().filter(|(state, _)| state.is_open());
            open.map(|(_, tasks)| tasks).sum()
        };
        let dead = pool.map_or(0, |pool| pool.count(TaskState::Dead));
        // Also those that no worker has put behind their key yet.
        let held = status.parked_events.saturating_sub(dead);
        (status.kind == POOL).then(|| Self { open: pool.map_or(0, open), dead, held })
    }

    pub(crate) fn in_words(self) -> String {
        match (self.dead, self.held) {
            (0, 0) => "-".to_owned(),
            (0, held) => count(held, "held task"),
            (dead, 0) => count(dead, "dead task"),
            (dead, held) => format!("{}, {held} held", count(dead, "dead task")),
        }
    }
}

impl Status {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        if self.watch {
            return self.watch().await;
        }
        let log = self.target.connect().await?;
        let consumers = Consumers::new(&log);
        let (mut all, mut unrun, mut unmatched) =
            (Vec::new(), consumers.unrun_pools().await?, None);
        match &self.consumer {
            None => all = consumers.list().await?,
            Some(name) => {
                unrun.retain(|pool| pool.name == *name);
                if unrun.is_empty() {
                    all.push(consumers.status(name).await?);
                    unmatched = consumers.unmatched(name).await?.map(|found| found.to_string());
                }
            }
        }
        let pools = match all.iter().any(|status| status.kind == POOL) {
            true => Tasks::open_counts(&log).await?,
            false => Vec::new(),
        };
        if self.json {
            all.iter().try_for_each(|status| {
                let (tasks, unmatched) = (OpenTasks::of(status, &pools), unmatched.clone());
                let line = Line { state: state(status), status, tasks, unmatched };
                output::json(&without_what_is_unknown(status, serde_json::to_value(line)?))
            })?;
            unrun
                .iter()
                .try_for_each(|pool| output::json(&UnrunLine { state: UNRUN, kind: POOL, pool }))?;
            return Ok(ExitCode::SUCCESS);
        }
        if all.is_empty() && unrun.is_empty() {
            say!("there are no consumers yet; one appears when it first runs");
            return Ok(ExitCode::SUCCESS);
        }
        print(&all, &pools, &unrun)?;
        for status in &all {
            if let Some(problem) = &status.problem {
                output::line(format_args!("problem of {}: {problem}", status.name))?;
            }
        }
        if self.target.events_url.is_some() && all.iter().any(is_of_other_log) {
            say!("the log that --events-url names is not the one that these consumers have read");
        }
        if let Some(unmatched) = unmatched {
            output::line(format_args!("nothing to handle: {unmatched}"))?;
        }
        if let (Some(_), [status]) = (&self.consumer, &all[..]) {
            output::line("")?;
            print_cursors(status, &consumers.workers().await?)?;
            print_runners(status)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    #[cfg(unix)]
    async fn watch(self) -> anyhow::Result<ExitCode> {
        Box::pin(crate::status_watch::watch(&self.target, self.consumer, self.every)).await
    }

    #[cfg(not(unix))]
    async fn watch(self) -> anyhow::Result<ExitCode> {
        crate::refusal::refuse!(
            InvalidArguments,
            "--watch draws on terminals of Unix only; see `anabranch status`, and for programs `anabranch status --json`"
        )
    }
}

fn print(all: &[ConsumerStatus], pools: &[PoolCounts], unrun: &[UnrunPool]) -> anyhow::Result<()> {
    let mut table = Table::new([
        "CONSUMER",
        "KIND",
        "STRATEGY",
        ">VERSION",
        "STATE",
        ">POSITION",
        ">HEAD",
        ">LAG",
        ">READY",
        "RETRYING",
        "PARKED",
    ]);
    for status in all {
        let tasks = OpenTasks::of(status, pools);
        let parked = match tasks {
            Some(tasks) => tasks.in_words(),
            None => keys(status.parked_keys, status.parked_events, "event"),
        };
        let event = if tasks.is_some() { "task" } else { "event" };
        let of_log = |number: u64| match tasks {
            Some(_) => "-".to_owned(),
            None => number.to_string(),
        };
        table.row([
            status.name.clone(),
            status.kind.clone(),
            status.strategy.clone(),
            status.version.to_string(),
            state(status),
            of_log(status.position.get()),
            if is_of_other_log(status) { "unknown".to_owned() } else { of_log(status.head.get()) },
            lag(&status.cursors, status.lag),
            lag(&status.cursors, status.lag_ready),
            keys(status.retrying_keys, status.retrying_events, event),
            parked,
        ]);
    }
    for pool in unrun {
        let none = || "-".to_owned();
        table.row([
            pool.name.clone(),
            POOL.to_owned(),
            none(),
            none(),
            UNRUN.to_owned(),
            none(),
            none(),
            pool.lag.to_string(),
            pool.lag_ready.to_string(),
            none(),
            none(),
        ]);
    }
    table.print()
}

/// Figures that mean nothing are null: somebody might scale by them.
fn without_what_is_unknown(status: &ConsumerStatus, mut line: Value) -> Value {
    if !status.is_lag_known() {
        (line["lag"], line["lag_ready"]) = (Value::Null, Value::Null);
    }
    if is_of_other_log(status) {
        line["head"] = Value::Null;
    }
    line
}

/// How many keys, and what waits behind them.
fn keys(keys: usize, events: u64, event: &str) -> String {
    match keys {
        0 => "-".to_owned(),
        keys => format!("{}, {}", count(keys as u64, "key"), count(events, event)),
    }
}

fn print_cursors(status: &ConsumerStatus, workers: &[WorkerStatus]) -> anyhow::Result<()> {
    let mut table = Table::new(["SLOTS", ">COUNT", ">POSITION", ">LAG", "OWNER", "REASON"]);
    for cursor in &status.cursors {
        table.row([
            cursor.slots.clone(),
            cursor.slot_count.to_string(),
            cursor.position.to_string(),
            lag(std::slice::from_ref(cursor), cursor.lag),
            owner(&cursor.owner, workers),
            reasons(cursor),
        ]);
    }
    table.print()
}

/// Who runs a consumer.
fn print_runners(status: &ConsumerStatus) -> anyhow::Result<()> {
    if status.runners.is_empty() {
        return Ok(());
    }
    output::line("")?;
    let mut table = Table::new(["RUN BY", "REPLICA SET", ">VERSION", ">SLOTS", "CANNOT BECAUSE"]);
    for runner in &status.runners {
        table.row([
            runner.place.clone(),
            runner.replica_set.clone(),
            runner.version.map_or_else(|| "-".to_owned(), |version| version.to_string()),
            runner.slots.to_string(),
            runner.unable.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.print()
}

/// How far behind they are; where the log is another one, was wound back, or ends before them, no number would mean
/// anything.
pub(crate) fn lag(cursors: &[CursorStatus], lag: u64) -> String {
    let word = |reason: &Reason| match reason {
        Reason::BeyondLog { .. } => Some("beyond the log"),
        Reason::WoundBack { .. } => Some("wound back"),
        Reason::OtherLog { .. } => Some("unknown"),
        _ => None,
    };
    let word = cursors.iter().flat_map(|cursor| &cursor.reasons).find_map(word);
    word.map_or_else(|| lag.to_string(), str::to_owned)
}

/// Whether its events are in another log than the one at hand, so that nobody can tell here how far behind it is.
pub(crate) fn is_of_other_log(status: &ConsumerStatus) -> bool {
    has_reason(status, |reason| matches!(reason, Reason::OtherLog { .. }))
}

fn has_reason(status: &ConsumerStatus, is: impl Fn(&Reason) -> bool) -> bool {
    status.cursors.iter().flat_map(|cursor| &cursor.reasons).any(is)
}

/// Why a consumer does not go on before somebody says where: a resume does not help.
pub(crate) fn awaits_decision(status: &ConsumerStatus) -> Option<&Reason> {
    let waits =
        |reason: &&Reason| matches!(reason, Reason::WoundBack { .. } | Reason::BeyondLog { .. });
    status.cursors.iter().flat_map(|cursor| &cursor.reasons).find(waits)
}

/// The last position that the log has ever drawn, if a consumer stands beyond it.
pub(crate) fn beyond(status: &ConsumerStatus) -> Option<Position> {
    status.cursors.iter().find_map(beyond_of)
}

fn beyond_of(cursor: &CursorStatus) -> Option<Position> {
    cursor.reasons.iter().find_map(|reason| match reason {
        Reason::BeyondLog { drawn } => Some(*drawn),
        _ => None,
    })
}

/// Why a cursor does not advance, in words.
fn reasons(cursor: &CursorStatus) -> String {
    match cursor.reasons.as_slice() {
        [] => "-".to_owned(),
        reasons => reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// What a consumer is doing, in words.
pub(crate) fn state(status: &ConsumerStatus) -> String {
    let mut words = Vec::new();
    if status.paused {
        words.push("paused".to_owned());
    }
    words.extend(status.outage.as_ref().map(ToString::to_string));
    if beyond(status).is_some() {
        words.push("beyond the log".to_owned());
    }
    if is_of_other_log(status) {
        words.push("its events are in another log".to_owned());
    }
    if has_reason(status, |reason| matches!(reason, Reason::WoundBack { .. })) {
        words.push("stopped: the log was wound back".to_owned());
    }
    if status.replay_from.is_some() {
        words.push("replay asked".to_owned());
    }
    // Workers with the accepted code may run it meanwhile.
    if has_reason(status, |reason| matches!(reason, Reason::OtherCode { .. })) && !status.is_run() {
        words.push("waits: workers have other code than the accepted one".to_owned());
    }
    if words.is_empty() {
        let is_owned = |owner: &Owner| matches!(owner, Owner::Worker(_));
        let owned = status.cursors.iter().filter(|cursor| is_owned(&cursor.owner)).count();
        let runs = match owned {
            0 => {
                let unable = status.runners.iter().filter(|runner| runner.unable.is_some()).count();
                return match unable {
                    0 => "no worker".to_owned(),
                    unable => format!("{} cannot run it", count(unable as u64, "worker")),
                };
            }
            owned if owned == status.cursors.len() => "running",
            _ => "running in part",
        };
        words.push(runs.to_owned());
        words.extend(status.limit.filter(|limit| limit.waiting > 0).map(|l| l.to_string()));
        words.extend(status.unlimited.map(|unlimited| unlimited.to_string()));
        // It runs, but not everything of it does.
        let parked = if status.kind == POOL { "held" } else { "parked" };
        for (keys, how) in [(status.retrying_keys, "failing"), (status.parked_keys, parked)] {
            if keys > 0 {
                words.push(format!("{} {how}", count(keys as u64, "key")));
            }
        }
    }
    words.join(", ")
}

/// Who owns a cursor, in words.
pub(crate) fn owner(owner: &Owner, workers: &[WorkerStatus]) -> String {
    match owner {
        Owner::Unassigned => "unassigned".to_owned(),
        Owner::Worker(worker) => in_words(worker),
        Owner::Dead(id) => match workers.iter().find(|worker| worker.id == *id) {
            Some(worker) => format!("dead worker {}", in_words(worker)),
            None => format!("dead worker {id}"),
        },
    }
}

pub(crate) fn in_words(worker: &WorkerStatus) -> String {
    let WorkerStatus { replica_set, host, pid, runs, .. } = worker;
    format!("{replica_set} on {host}, pid {pid}, {runs}")
}

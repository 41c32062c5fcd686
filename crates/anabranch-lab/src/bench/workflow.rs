//! Workflows: how many commands a second are decided, stored and reacted to, and how long a long
//! instance takes to load.

use super::Measured;
use super::own_log::OwnLog;
use super::report::{self, Case, Rates};
use super::workpool::{is_done, runs, until};
use crate::percentiles::Percentiles;
use anabranch::ReplicaSet;
use anabranch::operate::Consumers;
use anabranch::workflow::{ActionRun, Reactions, Workflow, WorkflowSet, Workflows};
use anabranch::workpool::{TaskState, Tasks};
use clap::Args;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// How many commands are on their way at the same time.
const IN_FLIGHT: usize = 256;
/// How many events one command of the long instance leads to: as many as are between snapshots.
const SNAPSHOT_EVERY: u64 = 1_000;
/// How often the long instance is loaded.
const LOADS: usize = 50;
const PATIENCE: Duration = Duration::from_secs(300);

/// Commands of workflows, from being sent to their actions, and a long instance that is loaded
///
/// Each command is decided and leads to one event; the event leads to one action, which does nothing.
/// 256 commands are on their way at the same time, and the same process runs the replica set. The
/// limit is the same commands while nobody reacts. Then an instance with a snapshot every 1000 events
/// is loaded without what is in memory, 999 events after its last snapshot. Works in tables of its own
/// and removes them at the end.
#[derive(Args)]
pub(crate) struct BenchWorkflow {
    #[command(flatten)]
    database: Measured,

    /// How many commands are sent
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    commands: u64,

    /// How many workflows they are spread over
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    workflows: u64,

    /// How many lanes the worker has
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    lanes: u64,

    /// How many events the instance has that is loaded
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,

    /// How often each measurement is repeated; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
}

/// Counts, and does nothing about it.
struct Counting {
    name: String,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Count {
    events: u64,
}

/// So many events.
#[derive(Serialize, Deserialize)]
struct Add(u64);

#[derive(Serialize, Deserialize)]
enum Counted {
    Counted,
}

#[derive(Serialize, Deserialize)]
struct Nothing;

impl Workflow for Counting {
    type State = Count;
    type Command = Add;
    type Event = Counted;
    type Action = Nothing;
    type Rejection = Infallible;

    fn name(&self) -> &str {
        &self.name
    }

    fn decide(&self, _: &Count, command: &Add) -> Result<Vec<Counted>, Infallible> {
        Ok((0..command.0).map(|_| Counted::Counted).collect())
    }

    fn evolve(&self, state: &mut Count, _: &Counted) {
        state.events += 1;
    }

    fn react(&self, _: &str, _: &Count, _: &Counted) -> Reactions<Self> {
        Reactions::none().action(Nothing)
    }

    async fn act(&self, _: &Nothing, _: &mut ActionRun<'_>) -> anabranch::HandlerResult<Vec<Add>> {
        Ok(Vec::new())
    }

    fn snapshot_every(&self) -> Option<u64> {
        Some(SNAPSHOT_EVERY)
    }
}

impl BenchWorkflow {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let measure = async |made: &_| self.measure(&OwnLog::create(made, "workflow").await?).await;
        self.database.run(measure).await
    }

    async fn measure(&self, own: &OwnLog) -> anyhow::Result<()> {
        let at = own.log.at().to_owned();
        self.database.say(|| format!("{at}: {} repeats, the median counts", self.repeats));
        let (mut sent, mut reacted, mut acted) = (Vec::new(), Vec::new(), Vec::new());
        for repeat in 1..=self.repeats {
            let rate = self.rate(self.send(&counting(own, &format!("sent_{repeat}"))).await?);
            let (react, act) = self.through(own, &format!("reacted_{repeat}")).await?;
            let (react, act) = (self.rate(react), self.rate(act));
            self.database.say(|| {
                format!(
                    "repeat {repeat}, sent {rate:.0}, react {react:.0}, action {act:.0} a second"
                )
            });
            sent.push(rate);
            reacted.push(react);
            acted.push(act);
        }
        let load_ms = self.load(own).await?;
        if !self.database.json {
            report::print_header("workflow")?;
        }
        let lanes = self.lanes as usize;
        let cases = [
            (
                "send",
                "decided and appended, 256 in flight, nobody reacts",
                sent.clone(),
                Vec::new(),
            ),
            (
                "react",
                "until every reaction is committed; limit: nobody reacts",
                reacted,
                sent.clone(),
            ),
            ("action", "until every action has run; limit: nobody reacts", acted, sent),
        ];
        for (name, what, ours, bare) in cases {
            let rates = Rates { ours, bare };
            Case::new("workflow", name, lanes, what, rates).print(self.database.json)?;
        }
        let what = "an instance loaded from its last snapshot and the events after it";
        let case = Case::new("workflow", "load", 1, what, Rates::default());
        Case { load_ms: Some(load_ms), ..case }.print(self.database.json)
    }

    fn rate(&self, time: Duration) -> f64 {
        self.commands as f64 / time.as_secs_f64()
    }

    /// Sends the commands; returns how long it took.
    async fn send(&self, workflows: &Workflows<Counting>) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let send = |number: u64| async move {
            workflows.send(&format!("id-{}", number % self.workflows), Add(1)).await
        };
        let sent = stream::iter(0..self.commands).map(send).buffer_unordered(IN_FLIGHT);
        sent.try_for_each(async |_| Ok(())).await?;
        Ok(started.elapsed())
    }

    /// Sends the commands while a replica set runs; returns how long it took until all reactions were
    /// committed, and until all actions had run.
    async fn through(&self, own: &OwnLog, name: &str) -> anyhow::Result<(Duration, Duration)> {
        let workflows = counting(own, name);
        let (stop, stopped) = oneshot::channel::<()>();
        let set = ReplicaSet::new(name).lanes(self.lanes as usize).workflow(&workflows);
        let log = own.log.clone();
        let running = async move { set.run_until(&log, async { drop(stopped.await) }).await };
        let mut worker = JoinSet::new();
        worker.spawn(running);
        let (react, actions) = (format!("{name}.react"), format!("{name}.actions"));
        let consumers = Consumers::new(&own.log);
        until("the worker runs", PATIENCE, async || runs(own, &actions, 1).await).await?;
        let started = Instant::now();
        self.send(&workflows).await?;
        until("all is reacted to", PATIENCE, async || Ok(consumers.status(&react).await?.lag == 0))
            .await?;
        let reacted = started.elapsed();
        until("all actions have run", PATIENCE, async || is_done(own, &actions).await).await?;
        let acted = started.elapsed();
        let _ = stop.send(());
        while let Some(ended) = worker.join_next().await {
            ended??;
        }
        let counts = Tasks::counts(&own.log).await?;
        let ran = counts.iter().find(|pool| pool.pool == actions);
        let ran = ran.map_or(0, |pool| pool.count(TaskState::Done));
        anyhow::ensure!(ran == self.commands, "{ran} of {} actions have run", self.commands);
        Ok((reacted, acted))
    }

    /// How long a process takes to load a long instance.
    async fn load(&self, own: &OwnLog) -> anyhow::Result<Percentiles> {
        let workflows = counting(own, "long");
        // One event less: the last snapshot is as old as it can be.
        let events = self.events.saturating_sub(1).max(1);
        for first in (0..events).step_by(SNAPSHOT_EVERY as usize) {
            workflows.send("one", Add(SNAPSHOT_EVERY.min(events - first))).await?;
        }
        workflows.flush().await;
        let mut times = Vec::with_capacity(LOADS);
        // A state of the past is not one that is in memory. The first look makes the connection.
        for number in 0..=LOADS {
            let started = Instant::now();
            let loaded = workflows.state_at("one", events).await?;
            if number > 0 {
                times.push(started.elapsed().as_secs_f64() * 1e3);
            }
            let folded = loaded.map_or(0, |loaded| loaded.state.events);
            anyhow::ensure!(folded == events, "{folded} of {events} events were folded");
        }
        Ok(Percentiles::of(times))
    }
}

fn counting(own: &OwnLog, name: &str) -> Workflows<Counting> {
    Workflows::new(&own.log, Counting { name: name.to_owned() })
}

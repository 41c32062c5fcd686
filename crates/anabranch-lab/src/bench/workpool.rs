//! Tasks that do nothing: how many a second go from being enqueued to being done, and whether a busy
//! key slows the others.

use super::own_log::OwnLog;
use super::report::{self, Case, Rates, median, rounded};
use super::tasks_limit;
use super::{Measured, Side};
use crate::throwaway;
use crate::worker_process::{self, WorkerProcess};
use anabranch::backend::database::Statement;
use anabranch::operate::{Consumers, Owner};
use anabranch::workpool::{NewTask, Pool, PoolSet, Task, TaskState, Tasks};
use anabranch::{Namespace, ReplicaSet, Row};
use anabranch::{Tx, params};
use clap::Args;
use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How many tasks are enqueued in one transaction.
pub(crate) const BATCH: u64 = 1_000;
const WORKERS: [(usize, &str); 2] = [(1, "1-worker"), (2, "2-workers")];
const LOOK: Duration = Duration::from_millis(10);
/// How long workers may take to start, and tasks to be done.
const START: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(300);
/// The key that has half of the tasks.
const HOT: &str = "hot";

/// Tasks of a work pool, from being enqueued to being done
///
/// The tasks do nothing. They are enqueued 1000 at a time while 1 and 2 worker processes run them; the
/// limit is the same rows inserted, read and updated by hand with the bare driver, 1000 in a
/// transaction, on three connections at the same time. Then the other tasks of a backlog in which one
/// key has every second task; the limit is the same tasks without that key. Works in tables of its own
/// and removes them at the end.
#[derive(Args)]
pub(crate) struct BenchWorkpool {
    #[command(flatten)]
    database: Measured,

    /// How many tasks are enqueued
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    tasks: u64,

    /// How many keys they are spread over
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,

    /// How many lanes each worker has
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    lanes: u64,

    /// How often each measurement is repeated; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
}

/// A worker that runs tasks that do nothing; it stops when its standard input ends
#[derive(Args)]
pub(crate) struct PoolWorker {
    /// The database; from the environment, since others can see arguments
    #[arg(long, env = "ANABRANCH_URL", hide_env_values = true)]
    url: String,

    #[arg(long)]
    namespace: String,

    #[arg(long)]
    pool: String,

    #[arg(long)]
    lanes: usize,
}

struct Nothing {
    name: String,
}

impl Pool for Nothing {
    type Output = ();

    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, _: &Task, _: &mut Tx) -> anabranch::HandlerResult<()> {
        Ok(())
    }
}

impl PoolWorker {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let told = worker_process::shutdown_signal();
        let log = throwaway::connect(&self.url, &Namespace::new(self.namespace)?, false).await?;
        let set = ReplicaSet::new("bench").lanes(self.lanes).pool(Nothing { name: self.pool });
        set.run_until(&log, told).await?;
        Ok(ExitCode::SUCCESS)
    }
}

impl BenchWorkpool {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let measure = async |made: &_| self.measure(&OwnLog::create(made, "workpool").await?).await;
        self.database.run(measure).await
    }

    async fn measure(&self, own: &OwnLog) -> anyhow::Result<()> {
        let at = own.log.at().to_owned();
        self.database.say(|| format!("{at}: {} repeats, the median counts", self.repeats));
        let (mut limits, mut rates) = (Vec::new(), WORKERS.map(|_| Vec::new()));
        let (mut hot, mut slower) = (Rates::default(), Vec::new());
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat) {
                if side == Side::Limit {
                    let (pool, all) = (format!("limit_{repeat}"), self.tasks(0..self.tasks));
                    let limit = tasks_limit::rate(own, &pool, all).await?;
                    self.database.say(|| format!("repeat {repeat}, limit {limit:.0} tasks/s"));
                    limits.push(limit);
                    continue;
                }
                for ((workers, _), rates) in WORKERS.into_iter().zip(&mut rates) {
                    let pool = format!("through_{workers}_{repeat}");
                    let rate = self.through(own, &pool, workers).await?;
                    self.database
                        .say(|| format!("repeat {repeat}, {workers} workers {rate:.0} tasks/s"));
                    rates.push(rate);
                }
            }
            let (mut bare, mut ours) = (0.0, 0.0);
            for side in self.database.turns(repeat) {
                let hot = side == Side::Ours;
                let pool = format!("others_{hot}_{repeat}");
                let rate = self.others(own, &pool, hot).await?;
                *if hot { &mut ours } else { &mut bare } = rate;
            }
            self.database.say(|| format!("repeat {repeat}, others {ours:.0} tasks/s of {bare:.0}"));
            slower.push((bare / ours - 1.0) * 100.0);
            hot.bare.push(bare);
            hot.ours.push(ours);
        }
        if !self.database.json {
            report::print_header("workpool")?;
        }
        let lanes = self.lanes as usize;
        let what = "tasks that do nothing, enqueued meanwhile; limit: the same rows by hand";
        for ((workers, name), ours) in WORKERS.into_iter().zip(rates) {
            let rates = Rates { ours, bare: limits.clone() };
            let case = Case::new("workpool", name, lanes, what, rates);
            let per_worker = case.rate.map(|rate| (rate / workers as f64).round());
            Case { per_worker, ..case }.print(self.database.json)?;
        }
        let what = "the others while one key has every second task; limit: without that key";
        let case = Case::new("workpool", "hot-key", lanes, what, hot);
        let slower_percent = median(slower).map(|percent| rounded(percent, 1));
        Case { slower_percent, ..case }.print(self.database.json)
    }

    fn tasks(&self, numbers: std::ops::Range<u64>) -> Vec<NewTask> {
        let task = |number: u64| NewTask::new(format!("key-{}", number % self.keys), &number);
        numbers.map(task).collect()
    }

    /// Enqueues tasks while so many workers run; returns how many a second went through.
    async fn through(&self, own: &OwnLog, pool: &str, workers: usize) -> anyhow::Result<f64> {
        let crew = self.start(own, pool, workers)?;
        until("the workers run", START, async || runs(own, pool, workers).await).await?;
        // Made before, as those of the limit are.
        let firsts = (0..self.tasks).step_by(BATCH as usize);
        let batches = firsts.map(|first| self.tasks(first..self.tasks.min(first + BATCH)));
        let batches: Vec<Vec<NewTask>> = batches.collect();
        let (tasks, started) = (Tasks::new(&own.log, pool), Instant::now());
        for batch in batches {
            tasks.enqueue_all(batch).await?;
        }
        until("all is done", PATIENCE, async || is_done(own, pool).await).await?;
        let elapsed = started.elapsed();
        stop(crew)?;
        let (done, _) = done(own, pool).await?;
        anyhow::ensure!(done == self.tasks, "{done} of {} tasks are done", self.tasks);
        Ok(self.tasks as f64 / elapsed.as_secs_f64())
    }

    /// Runs a backlog of half the tasks on one worker, with as many of a hot key in between if so;
    /// returns how many a second of the others were done.
    async fn others(&self, own: &OwnLog, pool: &str, hot: bool) -> anyhow::Result<f64> {
        let tasks = Tasks::new(&own.log, pool);
        let others = self.tasks.div_ceil(2);
        for first in (0..others).step_by(BATCH as usize) {
            let mut batch = Vec::new();
            for task in self.tasks(first..others.min(first + BATCH)) {
                batch.extend(hot.then(|| NewTask::new(HOT, &first)));
                batch.push(task);
            }
            tasks.enqueue_all(batch).await?;
        }
        let crew = self.start(own, pool, 1)?;
        until("all is done", PATIENCE, async || is_done(own, pool).await).await?;
        stop(crew)?;
        let (done, seconds) = done(own, pool).await?;
        anyhow::ensure!(done == others, "{done} of {others} other tasks are done");
        Ok(others as f64 / seconds)
    }

    fn start(
        &self,
        own: &OwnLog,
        pool: &str,
        workers: usize,
    ) -> anyhow::Result<Vec<WorkerProcess>> {
        let start = |_| {
            let mut command = WorkerProcess::command()?;
            command
                .args(["bench", "pool-worker", "--namespace", own.namespace.as_str()])
                .args(["--pool", pool, "--lanes", &self.lanes.to_string()])
                .env("ANABRANCH_URL", &own.url);
            WorkerProcess::start(&mut command)
        };
        (0..workers).map(start).collect()
    }
}

fn stop(mut crew: Vec<WorkerProcess>) -> anyhow::Result<()> {
    crew.iter_mut().for_each(WorkerProcess::tell_to_stop);
    for worker in &mut crew {
        let status = worker.wait()?;
        anyhow::ensure!(status.success(), "a worker has failed: {status}");
    }
    Ok(())
}

/// Waits for a condition.
pub(crate) async fn until(
    what: &str,
    at_most: Duration,
    mut check: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let started = Instant::now();
    while !check().await? {
        anyhow::ensure!(started.elapsed() < at_most, "waited for {at_most:?} in vain: {what}");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Whether so many workers own all slots of a pool.
pub(crate) async fn runs(own: &OwnLog, pool: &str, workers: usize) -> anyhow::Result<bool> {
    let all = Consumers::new(&own.log).list().await?;
    let Some(status) = all.into_iter().find(|status| status.name == pool) else {
        return Ok(false);
    };
    let mut owners = HashSet::new();
    for cursor in status.cursors {
        match cursor.owner {
            Owner::Worker(worker) => owners.insert(worker.id),
            _ => return Ok(false),
        };
    }
    Ok(owners.len() == workers)
}

pub(crate) async fn is_done(own: &OwnLog, pool: &str) -> anyhow::Result<bool> {
    let table = own.log.database().dialect().table("tasks");
    let state = TaskState::Ready.code();
    // From the end: what is done stands before it, and to look through that would slow down what is measured.
    let ready = format!(
        "SELECT seq FROM {table} WHERE pool = $1 AND state = {state} ORDER BY seq DESC LIMIT 1"
    );
    Ok(query(own, Statement::query(ready, params![pool])).await?.is_empty())
}

/// How many tasks are done that are not of the hot key, and how many seconds they took from the first
/// of all to their last, by the database's clock.
async fn done(own: &OwnLog, pool: &str) -> anyhow::Result<(u64, f64)> {
    let table = own.log.database().dialect().table("tasks");
    let done = TaskState::Done.code();
    let sums = format!(
        "SELECT count(*) AS tasks, max(finished_us) - (SELECT min(finished_us) FROM {table} \
         WHERE pool = $1 AND state = {done}) AS time_us FROM {table} \
         WHERE pool = $1 AND state = {done} AND key <> $2"
    );
    let rows = query(own, Statement::query(sums, params![pool, HOT])).await?;
    let Some(row) = rows.first() else { anyhow::bail!("no tasks are done") };
    let time_us: i64 = row.get("time_us")?;
    Ok((row.get("tasks")?, time_us.max(1) as f64 / 1e6))
}

async fn query(own: &OwnLog, statement: Statement) -> anyhow::Result<Vec<Row>> {
    Ok(own.log.database().rows(statement).await?)
}

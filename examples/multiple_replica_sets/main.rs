//! Two replica sets in one process that scale and fail apart; see the README.
//!
//!     cargo run --release -p anabranch --example multiple_replica_sets
//!     cargo run --release -p anabranch --example multiple_replica_sets -- postgres://…

#![allow(
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "an example shows what it does"
)]

#[path = "../measured/mod.rs"]
mod measured;

use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Failure, FixedPartition, HandlerError, Retry, RunError};
use measured::crew::{ATTACHED, Crew, told_to_leave};
use measured::ledger::{Ledger, now_us};
use measured::load::Load;
use measured::proof::Rows;
use measured::text::grouped;
use measured::watch::{Since, all_work, caught_up, generations, settled};
use measured::{Outcome, arguments, as_partition, connect, report, url_or};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Both the names of the sets and of their one projection.
const CRITICAL: &str = "critical";
const ANALYTICS: &str = "analytics";
const EVENTS_PER_SECOND: u64 = 500;

#[tokio::main]
async fn main() -> ExitCode {
    report(run().await)
}

async fn run() -> Outcome<()> {
    let arguments = Arguments::parse()?;
    let log = connect(&arguments.url).await?;
    match arguments.work {
        Some(set) => {
            let set = as_partition(sets(&set, &Arc::default())?, arguments.partition);
            set.run_until(&log, told_to_leave()).await?;
            Ok(())
        }
        None => show(&log, &arguments).await,
    }
}

/// The sets of the application: what must be quick has more lanes, and a name of its own to scale by.
fn sets(name: &str, broken: &Arc<AtomicBool>) -> Outcome<ReplicaSet> {
    match name {
        CRITICAL => Ok(ReplicaSet::new(CRITICAL).projection(Ledger(CRITICAL)).lanes(4)),
        ANALYTICS => {
            let analytics = Analytics { ledger: Ledger(ANALYTICS), broken: Arc::clone(broken) };
            // The program wants to know, and decides itself when it goes on.
            Ok(ReplicaSet::new(ANALYTICS).projection(analytics).fail_fast())
        }
        other => Err(format!("there is no set `{other}`").into()),
    }
}

/// A ledger that can be broken.
struct Analytics {
    ledger: Ledger,
    broken: Arc<AtomicBool>,
}

impl Projection for Analytics {
    fn name(&self) -> &str {
        self.ledger.name()
    }

    fn partition(&self) -> Partition {
        self.ledger.partition()
    }

    fn settings(&self) -> Settings {
        // A report with holes is worth nothing: it stops at the first failure instead.
        Settings::default().retry(Retry::never().then(Failure::Stop))
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        if self.broken.load(Ordering::Relaxed) {
            return Err(HandlerError::new("the warehouse is full"));
        }
        self.ledger.handle(event, tx).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        self.ledger.set_up(tx).await
    }
}

async fn show(log: &Log, arguments: &Arguments) -> Outcome<()> {
    let (broken, began_us) = (Arc::<AtomicBool>::default(), now_us());
    let mut stage = Stage {
        log,
        lasts: arguments.step,
        crew: Crew::new(&arguments.url),
        critical: Here::start(log, sets(CRITICAL, &broken)?),
        phases: Vec::new(),
    };
    let me = [std::process::id()];
    let mut analytics = Here::start(log, sets(ANALYTICS, &broken)?);
    for set in [CRITICAL, ANALYTICS] {
        settled(log, set, set, &me).await?;
        caught_up(log, set).await?;
    }
    let load = Load::start(log, EVENTS_PER_SECOND).await?;
    let after = load.after;
    println!(
        "{EVENTS_PER_SECOND} events/s; two sets, `critical` with 4 lanes, `analytics` with 1\n"
    );
    println!("{:<34}{:<26}analytics", "", "critical");
    stage.phase("both in one process", "1 process").await?;

    stage.crew.start(&["work", CRITICAL])?;
    stage.crew.start(&["work", CRITICAL])?;
    let critical = [&me[..], &stage.crew.pids()].concat();
    settled(log, CRITICAL, CRITICAL, &critical).await?;
    stage.phase("critical in 3 processes", "1 process").await?;
    all_work(log, &Ledger(CRITICAL), Since { after, at_us: 0 }, &critical).await?;

    broken.store(true, Ordering::Relaxed);
    let error = analytics.failure().await?;
    stage.phase("analytics fails", "stopped").await?;

    broken.store(false, Ordering::Relaxed);
    analytics = Here::start(log, sets(ANALYTICS, &broken)?);
    let second = stage.crew.start(&["work", ANALYTICS])?;
    settled(log, ANALYTICS, ANALYTICS, &[me[0], second]).await?;
    stage.phase("mended, and in 2 processes", "2 processes").await?;
    all_work(log, &Ledger(ANALYTICS), Since { after, at_us: 0 }, &[me[0], second]).await?;

    stage.crew.dismiss_last();
    settled(log, ANALYTICS, ANALYTICS, &me).await?;
    stage.phase("after", "1 process").await?;

    load.stop().await?;
    for set in [CRITICAL, ANALYTICS] {
        caught_up(log, set).await?;
    }
    let phases = stage.finish().await?;
    analytics.stop().await?;
    println!("\nanalytics had stopped by itself: {error}");
    generations(log, &[CRITICAL, ANALYTICS], began_us).await?;
    let rows = Rows::read(log, &Ledger(CRITICAL), after).await?;
    println!("\n{:<42}{:>9}{:>9}{:>9}", "delay of critical's events", "p50", "p99", "max");
    for Phase { title, from_us, to_us } in &phases {
        println!("  {title:<40}{}", rows.delays(*from_us, *to_us));
    }
    println!("\n{}", rows.prove()?);
    println!("{}", Rows::read(log, &Ledger(ANALYTICS), after).await?.prove()?);
    Ok(())
}

struct Stage<'a> {
    log: &'a Log,
    lasts: Duration,
    crew: Crew,
    critical: Here,
    phases: Vec<Phase>,
}

struct Phase {
    title: &'static str,
    from_us: i64,
    to_us: i64,
}

impl Stage<'_> {
    /// Goes on like this for a while, and says how both stand.
    async fn phase(&mut self, title: &'static str, analytics: &str) -> Outcome<()> {
        let last_us = self.phases.last().map_or_else(now_us, |phase| phase.to_us);
        tokio::time::sleep(self.lasts).await;
        self.crew.check()?;
        let (critical, lag) = (self.generation(CRITICAL).await?, self.lag(CRITICAL).await?);
        let theirs = (self.generation(ANALYTICS).await?, self.lag(ANALYTICS).await?);
        println!(
            "{title:<34}{:<26}generation {}, lag {}; {analytics}",
            format!("generation {critical}, lag {}", grouped(lag)),
            theirs.0,
            grouped(theirs.1)
        );
        self.phases.push(Phase { title, from_us: last_us, to_us: now_us() });
        Ok(())
    }

    async fn generation(&self, set: &str) -> Outcome<i64> {
        let last = Consumers::new(self.log).generations(Some(set), 1).await?;
        Ok(last.first().map_or(0, |generation| generation.generation))
    }

    async fn lag(&self, consumer: &str) -> Outcome<usize> {
        Ok(Consumers::new(self.log).status(consumer).await?.lag as usize)
    }

    async fn finish(self) -> Outcome<Vec<Phase>> {
        self.critical.stop().await?;
        self.crew.dismiss()?;
        Ok(self.phases)
    }
}

/// A replica set that runs in this process, until it is stopped or fails.
struct Here {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), RunError>>,
}

impl Here {
    fn start(log: &Log, set: ReplicaSet) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let log = log.clone();
        let task = tokio::spawn(async move {
            let stop = async { drop(stopped.await) };
            set.run_until(&log, stop).await.map(drop)
        });
        Self { stop, task }
    }

    async fn stop(self) -> Outcome<()> {
        let _ = self.stop.send(());
        Ok(self.task.await??)
    }

    /// Waits until it ends by itself.
    async fn failure(self) -> Outcome<RunError> {
        match self.task.await? {
            Ok(()) => Err("a set with a broken handler ended well".into()),
            Err(error) => Ok(error),
        }
    }
}

/// `[URL] [--seconds S]`, or `work SET [--partition-key I --total-partitions N]` for one process of a set.
struct Arguments {
    url: String,
    partition: Option<FixedPartition>,
    work: Option<String>,
    /// How long each phase lasts.
    step: Duration,
}

impl Arguments {
    fn parse() -> Outcome<Self> {
        let (url, step) = (url_or("sqlite:multiple_replica_sets.db"), Duration::from_secs(2));
        let (arguments, partition) = arguments()?;
        let mut parsed = Self { url, partition, work: None, step };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut next = || arguments.next().unwrap_or_default();
            match argument.as_str() {
                "work" => parsed.work = Some(next()),
                ATTACHED => {}
                "--seconds" => parsed.step = Duration::try_from_secs_f64(next().parse()?)?,
                url if url.contains(':') => parsed.url = url.to_owned(),
                _ => return Err(format!("`{argument}` is none of URL, --seconds S, work SET, --partition-key I --total-partitions N").into()),
            }
        }
        Ok(parsed)
    }
}

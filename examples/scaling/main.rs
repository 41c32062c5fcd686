//! One worker, then several, then one again, under load; see the README.
//!
//!     cargo run --release -p anabranch --example scaling
//!     cargo run --release -p anabranch --example scaling -- postgres://…

#![allow(
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "an example shows what it does"
)]

#[path = "../measured/mod.rs"]
mod measured;

use anabranch::FixedPartition;
use anabranch::partitioning::SLOTS;
use anabranch::prelude::*;
use measured::crew::{ATTACHED, Crew, told_to_leave};
use measured::ledger::{Ledger, now_us};
use measured::load::{Load, ORDERS};
use measured::proof::Rows;
use measured::text::{bar, grouped};
use measured::watch::{Since, all_work, caught_up, generations, settled};
use measured::{Outcome, arguments, as_partition, connect, report, url_or};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const SET: &str = "scaling";
const LEDGER: Ledger = Ledger("scaling");
const LANES: usize = 2;

#[tokio::main]
async fn main() -> ExitCode {
    report(run().await)
}

async fn run() -> Outcome<()> {
    let arguments = Arguments::parse()?;
    let log = connect(&arguments.url).await?;
    match arguments.role {
        Role::Show => show(&log, &arguments).await,
        Role::Work { attached } => work(&log, arguments.partition, attached).await,
        Role::Load => {
            let load = Load::start(&log, arguments.rate).await?;
            tokio::time::sleep(arguments.step).await;
            load.stop().await
        }
    }
}

/// All that a worker does. How many there are is nobody's setting: they find each other, unless each is told which
/// partition it is.
async fn work(log: &Log, partition: Option<FixedPartition>, attached: bool) -> Outcome<()> {
    let set = ReplicaSet::new(SET).projection(LEDGER).lanes(LANES);
    let set = as_partition(set, partition);
    if attached {
        set.run_until(log, told_to_leave()).await?;
        return Ok(());
    }
    let said = Mutex::new(0);
    let say = move |progress: &anabranch::running::Progress| {
        let (Some(now), Ok(mut said)) = (progress.consumers.first(), said.lock()) else { return };
        if *said != now.slots {
            *said = now.slots;
            println!("holds {} of {SLOTS} slots, {} events handled", now.slots, now.handled);
        }
    };
    let done = set.on_progress(say).run(log).await?; // until SIGTERM or Ctrl-C
    let handled = done.consumers.first().map_or(0, |consumer| consumer.handled);
    println!("left; handled {handled} events");
    Ok(())
}

async fn show(log: &Log, arguments: &Arguments) -> Outcome<()> {
    let Arguments { workers, rate, step, .. } = arguments;
    println!("1 → {workers} → 1 workers of {LANES} lanes, {rate} events/s in {ORDERS} orders");
    let mut stage = Stage { log, crew: Crew::new(&arguments.url), steps: Vec::new() };
    let began_us = now_us();
    // What an earlier run has left is handled first, so that it is not measured.
    stage.crew.start(&["work"])?;
    settled(log, SET, LEDGER.0, &stage.crew.pids()).await?;
    caught_up(log, LEDGER.0).await?;

    let load = Load::start(log, *rate).await?;
    let after = load.after;
    stage.step("1 worker", |_| Ok(()), *step, after).await?;
    let grow = |crew: &mut Crew| (1..*workers).try_for_each(|_| crew.start(&["work"]).map(drop));
    stage.step(&format!("{workers} workers"), grow, *step, after).await?;
    let shrink = |crew: &mut Crew| {
        for _ in 1..*workers {
            match arguments.kill {
                true => crew.kill_last()?,
                false => crew.dismiss_last(),
            }
        }
        Ok(())
    };
    let title = if arguments.kill { "1 worker, the others killed" } else { "1 worker" };
    stage.step(title, shrink, *step, after).await?;

    load.stop().await?;
    caught_up(log, LEDGER.0).await?;
    stage.crew.dismiss()?;
    generations(log, &[SET], began_us).await?;
    let rows = Rows::read(log, &LEDGER, after).await?;
    pauses(&rows, &stage.steps);
    println!("\n{}", rows.prove()?);
    Ok(())
}

struct Stage<'a> {
    log: &'a Log,
    crew: Crew,
    /// What was done, and when.
    steps: Vec<(String, i64)>,
}

impl Stage<'_> {
    /// Changes the crew, waits until the slots are shared out anew, lets it run for a while and prints
    /// who owns what.
    async fn step(
        &mut self,
        title: &str,
        change: impl FnOnce(&mut Crew) -> Outcome<()>,
        lasts: Duration,
        after: Position,
    ) -> Outcome<()> {
        let (began, began_us) = (Instant::now(), now_us());
        self.steps.push((title.to_owned(), began_us));
        change(&mut self.crew)?;
        let pids = self.crew.pids();
        settled(self.log, SET, LEDGER.0, &pids).await?;
        let took = began.elapsed().as_secs_f64();
        tokio::time::sleep(lasts).await;
        self.crew.check()?;
        all_work(self.log, &LEDGER, Since { after, at_us: began_us }, &pids).await?;

        let owners = settled(self.log, SET, LEDGER.0, &pids).await?;
        let generation = owners.generation;
        let handled = Rows::read(self.log, &LEDGER, after).await?.by_process(began_us);
        println!("\n{title}, shared out in {took:.2} s: generation {generation}");
        for share in owners.shares {
            let events = grouped(handled.get(&share.pid).copied().unwrap_or(0));
            let bar = bar(share.slots, SLOTS.into());
            println!("  {:<20} {:>5} slots {events:>7} events  {bar}", share.place, share.slots);
        }
        Ok(())
    }
}

/// What the changes cost: slots that moved, and slots that did not.
fn pauses(rows: &Rows, steps: &[(String, i64)]) {
    println!("\n{:<42}{:>9}{:>9}{:>9}", "", "p50", "p99", "max");
    for (number, (title, from_us)) in steps.iter().enumerate().skip(1) {
        let to_us = steps.get(number + 1).map_or(i64::MAX, |(_, at_us)| *at_us);
        let cost = rows.hand_over(*from_us, to_us);
        println!("to {title}");
        let (moved, stayed) = (cost.pauses.len(), cost.stayed_slots);
        println!("  {:<40}{}", format!("pause of {moved} slots that changed hands"), cost.pauses);
        println!("  {:<40}{}", format!("delay of events of {stayed} that stayed"), cost.stayed);
    }
}

/// `[URL] [work [--partition-key I --total-partitions N] | load] [--workers N] [--seconds S] [--rate EVENTS] [--kill]`
struct Arguments {
    url: String,
    role: Role,
    partition: Option<FixedPartition>,
    workers: usize,
    /// How long each step lasts once the slots are shared out.
    step: Duration,
    rate: u64,
    kill: bool,
}

enum Role {
    Show,
    Work { attached: bool },
    Load,
}

impl Arguments {
    fn parse() -> Outcome<Self> {
        let (arguments, partition) = arguments()?;
        let mut parsed = Self {
            url: url_or("sqlite:scaling.db"),
            role: Role::Show,
            partition,
            workers: 4,
            step: Duration::from_secs(3),
            rate: 1000,
            kill: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().unwrap_or_default();
            match argument.as_str() {
                "work" => parsed.role = Role::Work { attached: false },
                ATTACHED => parsed.role = Role::Work { attached: true },
                "load" => parsed.role = Role::Load,
                "--workers" => parsed.workers = number().parse()?,
                "--seconds" => parsed.step = Duration::try_from_secs_f64(number().parse()?)?,
                "--rate" => parsed.rate = number().parse()?,
                "--kill" => parsed.kill = true,
                url if url.contains(':') => parsed.url = url.to_owned(),
                _ => {
                    return Err(format!(
                        "`{argument}` is none of URL, work, load, --partition-key I --total-partitions N, --workers N, --seconds S, \
                         --rate EVENTS, --kill"
                    )
                    .into());
                }
            }
        }
        if parsed.workers < 2 {
            return Err("--workers is 2 or more".into());
        }
        Ok(parsed)
    }
}

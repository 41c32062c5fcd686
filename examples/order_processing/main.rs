//! Orders from the shop to the parcel, as a workflow in as many processes as there are; see the README.
//!
//!     cargo run --release -p anabranch --example order_processing
//!     cargo run --release -p anabranch --example order_processing -- postgres://…

#![allow(
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "an example shows what it does"
)]

mod customers;
#[path = "../measured/mod.rs"]
mod measured;
mod order;
mod outside;
mod proof;
mod shop;
mod story;

use anabranch::FixedPartition;
use anabranch::partitioning::SLOTS;
use anabranch::prelude::*;
use anabranch::running::Progress;
use anabranch::workflow::Workflow;
use anabranch::workflow::Workflows;
use anabranch::workpool::TaskState;
use anabranch::workpool::Tasks;
use customers::Customers;
use measured::crew::{ATTACHED, Crew, told_to_leave};
use measured::ledger::now_us;
use measured::text::bar;
use measured::watch::settled;
use measured::{Outcome, arguments, as_partition, connect, report, url_or};
use order::Orders;
use outside::Outside;
use proof::Proof;
use shop::Shop;
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

const SET: &str = "order-processing";
const WORKERS: usize = 3;
/// The consumer whose slots are shown. Those of the others are shared out in the same way.
const REACTIONS: &str = "orders.react";

#[tokio::main]
async fn main() -> ExitCode {
    report(run().await)
}

async fn run() -> Outcome<()> {
    let arguments = Arguments::parse()?;
    let log = connect(&arguments.url).await?;
    let outside = Outside::open(&log, arguments.verbose).await?;
    let orders = Workflows::new(&log, Orders::with(outside.clone(), arguments.deadline));
    match arguments.role {
        Role::Show => show(&orders, &outside, &arguments).await,
        Role::Work { attached } => work(&orders, &arguments, attached).await,
        Role::Place(count) => {
            let mut customers = Customers::start(&orders, arguments.rate, Some(count)).await?;
            println!("placed {} orders", customers.all_placed().await?);
            prove(&log, &outside).await
        }
        Role::Prove => prove(&log, &outside).await,
    }
}

/// All that a worker does.
async fn work(orders: &Workflows<Orders>, arguments: &Arguments, attached: bool) -> Outcome<()> {
    let log = orders.log();
    let shop = Workflows::new(log, Shop);
    let set = ReplicaSet::new(SET).workflow(orders).workflow(&shop).lanes(arguments.lanes);
    let set = as_partition(set, arguments.partition);
    if attached {
        set.run_until(log, told_to_leave()).await?;
        return Ok(());
    }
    let said = Mutex::new(0);
    let say = move |progress: &Progress| {
        let (Some(now), Ok(mut said)) = (progress.consumers.first(), said.lock()) else { return };
        if *said != now.slots {
            *said = now.slots;
            println!("holds {} of {SLOTS} slots", now.slots);
        }
    };
    let done = set.on_progress(say).run(log).await?; // until SIGTERM or Ctrl-C
    let actions = done.consumers.iter().find(|consumer| consumer.name == "orders.actions");
    println!("left; ran {} actions", actions.map_or(0, |consumer| consumer.handled));
    Ok(())
}

async fn show(orders: &Workflows<Orders>, outside: &Outside, arguments: &Arguments) -> Outcome<()> {
    let (log, Arguments { rate, lanes, .. }) = (orders.log(), arguments);
    println!("1 → {WORKERS} → 1 workers of {lanes} lanes, {rate} orders/s");
    let mut crew = Crew::new(&arguments.url);
    crew.start(&["work", "--lanes", &lanes.to_string()])?;
    settled(log, SET, REACTIONS, &crew.pids()).await?;
    let mut customers = Customers::start(orders, *rate, None).await?;
    for workers in [1, WORKERS, 1] {
        let began_us = now_us();
        while crew.pids().len() < workers {
            crew.start(&["work", "--lanes", &lanes.to_string()])?;
        }
        while crew.pids().len() > workers {
            match arguments.kill {
                true => crew.kill_last()?,
                false => crew.dismiss_last(),
            }
        }
        settled(log, SET, REACTIONS, &crew.pids()).await?;
        tokio::time::sleep(arguments.step).await;
        crew.check()?;
        shares(log, outside, &crew.pids(), began_us).await?;
    }
    let placed = customers.stop_placing().await?;
    println!("\n{placed} orders placed; waiting for the last of them");
    prove(log, outside).await?;
    crew.dismiss()
}

/// Who owns what, and how often each process called somebody outside since a time.
async fn shares(log: &Log, outside: &Outside, pids: &[u32], since_us: i64) -> Outcome<()> {
    let owners = settled(log, SET, REACTIONS, pids).await?;
    let mut calls: HashMap<u32, usize> = HashMap::new();
    for call in outside.records().await?.calls.iter().filter(|call| call.at_us >= since_us) {
        *calls.entry(call.process).or_default() += 1;
    }
    println!("\n{} in generation {}", text(pids.len(), "worker"), owners.generation);
    for share in owners.shares {
        let calls = text(calls.get(&share.pid).copied().unwrap_or(0), "call");
        let bar = bar(share.slots, SLOTS.into());
        println!("  {:<20} {:>5} slots {calls:>10}  {bar}", share.place, share.slots);
    }
    Ok(())
}

fn text(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Waits until all is done, and counts.
async fn prove(log: &Log, outside: &Outside) -> Outcome<()> {
    let proof = Proof::when_all_is_done(log, outside).await?;
    println!("\nverified from the tables:\n{}", proof.check()?);
    for schedule in Shop.schedules() {
        let waiting = Tasks::new(log, "shop.commands").list(TaskState::Scheduled, 10).await?;
        let next = waiting.first().and_then(|task| task.run_at);
        let next = next.map_or_else(|| "no worker has seen it yet".to_owned(), |it| it.to_string());
        println!("schedule {} ({}): next at {next}", schedule.name(), schedule.cron());
    }
    Ok(())
}

/// `[URL] [work | place COUNT | prove] [--partition I/N | --partition-key I --total-partitions N] [--lanes N] [--rate ORDERS] [--seconds S] [--kill]
/// [--deadline S] [--verbose]`
struct Arguments {
    url: String,
    role: Role,
    partition: Option<FixedPartition>,
    lanes: usize,
    rate: u64,
    /// How long each step lasts.
    step: Duration,
    deadline: Duration,
    kill: bool,
    verbose: bool,
}

enum Role {
    Show,
    Work { attached: bool },
    Place(u64),
    Prove,
}

impl Arguments {
    fn parse() -> Outcome<Self> {
        let (arguments, partition) = arguments()?;
        let mut parsed = Self {
            url: url_or("sqlite:order_processing.db"),
            role: Role::Show,
            partition,
            lanes: 2,
            rate: 50,
            step: Duration::from_secs(2),
            deadline: order::DEADLINE,
            kill: false,
            verbose: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().unwrap_or_default();
            match argument.as_str() {
                "work" => parsed.role = Role::Work { attached: false },
                ATTACHED => parsed.role = Role::Work { attached: true },
                "place" => parsed.role = Role::Place(number().parse()?),
                "prove" => parsed.role = Role::Prove,
                "--partition" => parsed.partition = Some(number().parse()?),
                "--lanes" => parsed.lanes = number().parse()?,
                "--rate" => parsed.rate = number().parse()?,
                "--seconds" => parsed.step = Duration::try_from_secs_f64(number().parse()?)?,
                "--deadline" => parsed.deadline = Duration::try_from_secs_f64(number().parse()?)?,
                "--kill" => parsed.kill = true,
                "--verbose" => parsed.verbose = true,
                url if url.contains(':') => parsed.url = url.to_owned(),
                _ => {
                    return Err(format!(
                        "`{argument}` is none of URL, work, place COUNT, prove, --partition I/N, \
                         --partition-key I --total-partitions N, --lanes N, --rate ORDERS, --seconds S, --deadline S, --kill, --verbose"
                    )
                    .into());
                }
            }
        }
        Ok(parsed)
    }
}

//! Ten thousand documents of XML become rows of tables, by a contract in TOML; see the README.
//!
//!     cargo run --release -p anabranch --example xml_conversion
//!     cargo run --release -p anabranch --example xml_conversion -- postgres://…

#![allow(
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "an example shows what it does"
)]

mod application;
mod contract;
mod document;
mod flaw;
mod intake;
mod kind;
mod mapper;
mod path;
mod pen;
mod proof;
#[path = "../start.rs"]
mod start;
mod target;
#[path = "../measured/text.rs"]
mod text;

use anabranch::Log;
use anabranch::batch::{Part, Summary};
use contract::Contract;
use intake::Intake;
use start::{Outcome, connect, report, url_or};
use std::process::{Child, Command, ExitCode};
use std::time::Instant;
use target::{Convert, batch};
use text::grouped;
use tokio::task::JoinSet;

/// The contract, unless another one is named.
const MAPPING: &str = include_str!("mapping.toml");

#[tokio::main]
async fn main() -> ExitCode {
    report(run().await)
}

async fn run() -> Outcome<()> {
    let arguments = Arguments::parse()?;
    let contract = match &arguments.mapping {
        None => Contract::parse(MAPPING)?,
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            Contract::parse(&text).map_err(|error| format!("{file}, {error}"))?
        }
    };
    let log = connect(&arguments.url).await?;
    match arguments.role {
        Role::Show => show(&log, &contract, &arguments).await,
        Role::Fill => fill(&log, &contract, &arguments).await,
        Role::Work => work(&log, &contract, arguments.part, arguments.workers).await,
        Role::Check => proof::prove(&log, &contract).await,
    }
}

/// Fills the table, converts, and proves it.
async fn show(log: &Log, contract: &Contract, arguments: &Arguments) -> Outcome<()> {
    fill(log, contract, arguments).await?;
    let Arguments { instances, workers, .. } = arguments;
    let how = if arguments.is_fixed { "fixed parts" } else { "elastic" };
    let what = match (arguments.in_processes, *instances) {
        (true, 1) => "process",
        (true, _) => "processes",
        (false, 1) => "instance",
        (false, _) => "instances",
    };
    println!("{instances} {what} of {workers} workers, {how}");
    let part = |id| match arguments.is_fixed {
        true => Part::Fixed { id, count: *instances, hashed: false },
        false => arguments.part,
    };
    let started = Instant::now();
    if arguments.in_processes {
        let all = (0..*instances).map(|id| Process::start(arguments, part(id)));
        let all = all.collect::<Outcome<Vec<_>>>()?;
        all.into_iter().try_for_each(Process::wait)?;
    } else {
        let mut all = JoinSet::new();
        for id in 0..*instances {
            let (log, contract, part, workers) =
                (log.clone(), contract.clone(), part(id), *workers);
            all.spawn(async move { work(&log, &contract, part, workers).await });
        }
        while let Some(ended) = all.join_next().await {
            ended??;
        }
    }
    println!("all together in {:.2} s", started.elapsed().as_secs_f64());
    proof::prove(log, contract).await
}

async fn fill(log: &Log, contract: &Contract, arguments: &Arguments) -> Outcome<()> {
    if arguments.is_fresh {
        target::drop_all(log, contract).await?;
    }
    target::create(log, contract).await?;
    arguments.intake.fill(log).await?;
    let Intake { rows, seed } = arguments.intake;
    println!("{} applications of seed {seed}", grouped(rows as usize));
    Ok(())
}

/// All that an instance does, until every document is done or it is told to stop.
async fn work(log: &Log, contract: &Contract, part: Part, workers: usize) -> Outcome<()> {
    target::create(log, contract).await?;
    let batch = batch(contract).part(part).workers(workers);
    let summary =
        batch.run_until(log, Convert::new(contract), anabranch::shutdown_signal()).await?;
    let Summary { succeeded, failed, took_ms, .. } = summary;
    let seconds = took_ms as f64 / 1000.0;
    println!(
        "  {part}: {} converted, {failed} failed in {seconds:.2} s",
        grouped(succeeded as usize)
    );
    Ok(())
}

/// An instance in a process of its own, which does not outlive this one.
struct Process(Child);

impl Process {
    /// The URL goes by the environment: arguments are seen by everybody.
    fn start(arguments: &Arguments, part: Part) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("work").args(["--workers", &arguments.workers.to_string()]);
        if let Part::Fixed { id, count, .. } = part {
            command.args(["--instance-id", &id.to_string()]);
            command.args(["--instance-count", &count.to_string()]);
        }
        if let Some(file) = &arguments.mapping {
            command.args(["--mapping", file]);
        }
        Ok(Self(command.env("ANABRANCH_URL", &arguments.url).spawn()?))
    }

    fn wait(mut self) -> Outcome<()> {
        match self.0.wait()? {
            status if status.success() => Ok(()),
            status => Err(format!("an instance ended with {status}").into()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Clone, Copy)]
enum Role {
    Show,
    Fill,
    Work,
    Check,
}

struct Arguments {
    url: String,
    role: Role,
    mapping: Option<String>,
    intake: Intake,
    instances: u32,
    workers: usize,
    part: Part,
    is_fixed: bool,
    in_processes: bool,
    is_fresh: bool,
}

const USAGE: &str = "usage: xml_conversion [URL] [fill | work | check] [--rows N] [--seed N] [--fresh] \
                     [--instances N] [--processes] [--fixed] [--workers N] \
                     [--instance-id I --instance-count N] [--mapping FILE]";

impl Arguments {
    fn parse() -> Outcome<Self> {
        let mut parsed = Self {
            url: url_or("sqlite:xml_conversion.db"),
            role: Role::Show,
            mapping: None,
            intake: Intake { rows: 10_000, seed: 1 },
            instances: 3,
            workers: 4,
            part: Part::Elastic,
            is_fixed: false,
            in_processes: false,
            is_fresh: false,
        };
        let (mut id, mut count) = (None, None);
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value; {USAGE}"));
            match argument.as_str() {
                "fill" => parsed.role = Role::Fill,
                "work" => parsed.role = Role::Work,
                "check" => parsed.role = Role::Check,
                "--rows" => parsed.intake.rows = value()?.parse()?,
                "--seed" => parsed.intake.seed = u64::from(value()?.parse::<u32>()?),
                "--instances" => parsed.instances = value()?.parse()?,
                "--workers" => parsed.workers = value()?.parse()?,
                "--instance-id" => id = Some(value()?.parse()?),
                "--instance-count" => count = Some(value()?.parse()?),
                "--mapping" => parsed.mapping = Some(value()?),
                "--fixed" => parsed.is_fixed = true,
                "--processes" => parsed.in_processes = true,
                "--fresh" => parsed.is_fresh = true,
                url if url.contains(':') => parsed.url = argument,
                _ => return Err(format!("what is {argument}? {USAGE}").into()),
            }
        }
        parsed.part = Part::new(id, count, false)?;
        if parsed.part != Part::Elastic && !matches!(parsed.role, Role::Work) {
            return Err(
                "an instance id is for `work`; without it use --instances and --fixed".into()
            );
        }
        Ok(parsed)
    }
}

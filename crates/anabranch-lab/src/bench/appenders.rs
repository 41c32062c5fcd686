//! Processes that append one event at a time, each with a handle of its own: as web servers do.

use super::Side;
use super::bare::Bare;
use super::events::{event, stream};
use super::log::bare_row;
use super::own_log::OwnLog;
use crate::throwaway;
use crate::worker_process::{self, WorkerProcess};
use anabranch::{Expected, Log, Namespace, StreamId};
use anabranch_terminal::output;
use anyhow::Context;
use clap::Args;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

/// How many streams the events are spread over.
pub(super) const STREAMS: u64 = 10_000;
/// How many events a process appends before it is measured: it has its statements at hand then.
const WARM_UP: u64 = 20;

/// Appends one event at a time, for a while that begins when its standard input ends
#[derive(Args)]
pub(crate) struct Appender {
    /// The database; from the environment, since others can see arguments
    #[arg(long, env = "ANABRANCH_URL", hide_env_values = true)]
    url: String,

    #[arg(long)]
    namespace: String,

    /// The number of its first event
    #[arg(long)]
    first: u64,

    /// By how much the numbers of its events grow
    #[arg(long)]
    step: u64,

    /// Insert rows with the bare driver
    #[arg(long)]
    bare: bool,

    #[arg(long)]
    seconds: f64,
}

/// What is measured, in a process of its own.
enum Target {
    Log(Log),
    Bare(Bare),
}

impl Appender {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let namespace = Namespace::new(&self.namespace)?;
        let mut target = match self.bare {
            true => Target::Bare(Bare::connect(&self.url, &namespace).await?),
            false => Target::Log(throwaway::connect(&self.url, &namespace, false).await?),
        };
        let mut numbers = (self.first..).step_by(self.step as usize);
        for number in numbers.by_ref().take(WARM_UP as usize) {
            target.append(number).await?;
        }
        output::line("ready")?;
        // It begins with all the others.
        worker_process::shutdown_signal().await;
        let (time, started) = (Duration::from_secs_f64(self.seconds), Instant::now());
        // A task, as what serves a request is.
        let appending = tokio::spawn(async move {
            let mut appended = 0u64;
            while started.elapsed() < time {
                target.append(numbers.next().context("there is always a next number")?).await?;
                appended += 1;
            }
            anyhow::Ok(appended)
        });
        output::line(appending.await??)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Target {
    async fn append(&mut self, number: u64) -> anyhow::Result<()> {
        match self {
            Self::Log(log) => {
                let stream = StreamId::new("Order", stream(number, STREAMS))?;
                log.append(&stream, Expected::Any, [event(number)]).await?;
            }
            Self::Bare(bare) => bare.insert(&[bare_row(number, number)]).await?,
        }
        Ok(())
    }
}

/// How many events a second so many processes append together.
pub(super) async fn rate(
    own: &OwnLog,
    side: Side,
    first: u64,
    processes: usize,
    time: Duration,
) -> anyhow::Result<f64> {
    let mut running = Vec::new();
    for number in 0..processes {
        let mut command = Command::from(WorkerProcess::command()?);
        command
            .args(["bench", "appender", "--namespace", own.namespace.as_str()])
            .args(["--first", &(first + number as u64).to_string()])
            .args(["--step", &processes.to_string()])
            .args(["--seconds", &time.as_secs_f64().to_string()])
            .args((side == Side::Limit).then_some("--bare"))
            .env("ANABRANCH_URL", &own.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        running.push(command.spawn().context("cannot start a process that appends")?);
    }
    let mut said = Vec::new();
    for process in &mut running {
        let stdout = process.stdout.take().context("it has a pipe")?;
        said.push(BufReader::new(stdout).lines());
    }
    for said in &mut said {
        let ready = line(said).await?;
        anyhow::ensure!(ready == "ready", "a process that appends says {ready:?}");
    }
    let started = Instant::now();
    running.iter_mut().for_each(|process| drop(process.stdin.take()));
    let mut appended = 0;
    for said in &mut said {
        appended += line(said).await?.parse::<u64>()?;
    }
    let elapsed = started.elapsed();
    for process in &mut running {
        let status = process.wait().await?;
        anyhow::ensure!(status.success(), "a process that appends has failed: {status}");
    }
    Ok(appended as f64 / elapsed.as_secs_f64())
}

/// The next line that a process says.
async fn line(said: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<String> {
    said.next_line().await?.context("a process that appends has ended without a word")
}

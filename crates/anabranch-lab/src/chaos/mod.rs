//! The worst that can happen to workers, at random, under load; and a proof from the tables that
//! every event was handled once and in order all the same.
//!
//! | module | subject |
//! |---|---|
//! | `faults` | which fault comes when |
//! | `play` | does it, and writes down when |
//! | `crew` | the worker processes |
//! | `worker` | what one of them runs |
//! | `ledger` | what they write: a row for each event |
//! | `load` | the events |
//! | `proof` | what the rows say |
//! | `audits` | what the engine proves of itself meanwhile |
//! | `pauses` | how long events waited because of a fault |
//! | `deaths` | who was taken for dead, and whether that was so |
//! | `report` | what is printed |

mod audits;
pub(crate) mod crew;
mod deaths;
mod faults;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod pauses;
mod play;
pub(crate) mod proof;
mod report;
pub(crate) mod worker;

use crate::throwaway::Throwaway;
use anabranch::operate::Consumers;
use anabranch::{Log, Namespace, Query};
use anabranch_terminal::cut_short::unless_signalled;
use anabranch_terminal::output;
use anabranch_terminal::say;
use anyhow::Context;
use audits::Audits;
use clap::Args;
use crew::Crew;
use deaths::Deaths;
use faults::{Deck, Possible, Random};
use futures_util::future::LocalBoxFuture;
use ledger::{Entry, Ledger};
use load::Load;
use play::{Play, Script};
use proof::Logged;
use report::Outcome;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uuid::Uuid;
use worker::{MADE, MADE_EVERY, Made, Sabotage, Work};

/// A replica set's own lease, unless another is asked for.
const LEASE: Duration = Duration::from_secs(5);
/// How many tasks append.
const APPENDERS: u64 = 4;
/// How long, beside a lease, the rest may take once the faults are over.
const DRAIN: Duration = Duration::from_secs(60);
/// More than are remembered.
const GENERATIONS: usize = 1000;

/// Hit workers at random while events stream in, and prove that each was handled once and in order
///
/// Worker processes keep a ledger of every event that they handle. They are killed (kill -9), stopped
/// past their lease (SIGSTOP, some in the middle of a transaction), joined and left by others, cut off
/// by the server (PostgreSQL), and the server is restarted if you say how. Then the ledger is held
/// against the log, and the workers are audited (`anabranch audit`) meanwhile and at the end. Of every fourth event of a key they make another, appended in the same transaction;
/// these are counted too. The exit code is 1 if an event was lost, doubled or out of order, if not all
/// was handled in the end, or if a worker ended by itself.
///
/// It works in tables of its own, which are removed at the end, and ends no sessions but its own.
///
/// Times are the database's, in ms, and of faults that came alone. takeover_ms: from a kill to the
/// first event, by another worker, of each key that the victim had. takeover_hang_ms: the same for a
/// stopped one, the lease included. handover_pause_ms: how long the first event of a key that a join
/// or a leave has moved was kept waiting. unmoved_gap_ms: the longest that an event of a key waited
/// that was not moved; unmoved_gap_quiet_ms: the same while nothing was done. resume_ms: from
/// the end of the restart command to the first event of each key.
///
/// died: how many workers were taken for dead. unharmed: those of them to whom nothing was done; on a
/// machine that stalls for a lease there are some.
#[derive(Args)]
pub struct Chaos {
    /// The database: sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE; without it a SQLite file
    /// of its own
    #[arg(long, env = "ANABRANCH_URL", hide_env_values = true)]
    url: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// For how long faults come
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    seconds: f64,

    /// Which faults come in which order; without it any
    #[arg(long)]
    seed: Option<u64>,

    /// How many worker processes; there may be 1 to 2 more than that
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,

    /// How many lanes each has
    #[arg(long, default_value_t = 2)]
    lanes: usize,

    /// How many events come in a second
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,

    /// How many keys they have
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=10_000))]
    keys: u64,

    /// The lease of the workers in seconds; without it the default of replica sets
    #[arg(long, value_parser = positive)]
    lease: Option<f64>,

    /// How the server is restarted: run by `sh -c`, with {mode} as `fast` and `immediate` in turn
    #[arg(long, value_name = "COMMAND")]
    restart_command: Option<String>,

    /// Makes workers do it wrong once, to see that the proof can fail
    #[arg(long = "break", hide = true)]
    sabotage: Option<Sabotage>,
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.1..=1e6).contains(number));
    number.ok_or_else(|| "use a number of seconds from 0.1".to_owned())
}

impl Chaos {
    /// Runs the command. Boxed, so that it is compiled with this crate, and not with the one that calls it.
    pub fn run(self) -> LocalBoxFuture<'static, anyhow::Result<ExitCode>> {
        Box::pin(self.run_here())
    }

    async fn run_here(self) -> anyhow::Result<ExitCode> {
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let file = || format!("sqlite:{}", directory.path().join("chaos.db").display());
        let url = self.url.clone().unwrap_or_else(file);
        let made = Throwaway::new(&url)?;
        let unique = Uuid::now_v7().as_u64_pair().1 & 0xffff_ffff;
        let namespace = Namespace::new(format!("chaos_{unique:08x}"))?;
        let play = async { self.play(&url, &namespace, &made.log(&namespace).await?).await };
        let played = Box::pin(unless_signalled(play)).await;
        let outcome = made.remove(played).await?;
        match self.json {
            true => output::json(&outcome)?,
            false => output::line(&outcome)?,
        }
        Ok(if outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn play(&self, url: &str, namespace: &Namespace, log: &Log) -> anyhow::Result<Outcome> {
        let by_time = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = self.seed.unwrap_or_else(|| by_time().as_millis() as u64 % 1_000_000);
        say!("{}: {} workers, {} lanes each, seed {seed}", log.at(), self.workers, self.lanes);
        let ledger = Ledger::of(log);
        let workers_max = usize::from(self.workers) + 2;
        let restart = self.restart_command.is_some() && ledger.is_postgres();
        let possible = Possible { cut: ledger.is_postgres(), restart, workers_max };
        let mut crew = Crew::new(url, namespace, self.work())?;
        for _ in 0..self.workers {
            let number = crew.start()?;
            let runs = crew.wait_until_said(number, worker::RUNNING, DRAIN).await?;
            anyhow::ensure!(runs, "a worker does not start: {:?}", crew.take_problems());
        }
        let mut play = Play {
            ledger,
            load: Load::start(log, self.keys, self.rate, APPENDERS),
            crew,
            deck: Deck::new(possible),
            random: Random::new(seed),
            lease: self.lease.map_or(LEASE, Duration::from_secs_f64),
            workers_max,
            restart_command: self.restart_command.clone(),
            script: Script::default(),
        };
        let audits = Audits::start(log);
        play.run(Duration::from_secs_f64(self.seconds)).await?;
        self.conclude(seed, play, audits, log).await
    }

    fn work(&self) -> Work {
        Work {
            lanes: self.lanes,
            lease: self.lease,
            wait_ms: 0,
            batch_size: None,
            entries_only: false,
            sabotage: self.sabotage,
        }
    }

    /// Lets the rest be handled, and looks at what there is then.
    async fn conclude(
        &self,
        seed: u64,
        mut play: Play,
        audits: Audits,
        log: &Log,
    ) -> anyhow::Result<Outcome> {
        let appended = play.load.finish().await?;
        let limit = play.lease + DRAIN;
        let is_drained = play.wait_until_counted(appended, limit).await?;
        play.dismiss().await?;
        let audits = audits.finish().await;
        let logged = logged(log).await?;
        let entries = play.ledger.entries().await?;
        let proof = proof::prove(&logged, &entries);
        let made = proof::prove(&to_be_made(&logged), &made(log).await?);
        let (counted, handled) = (play.ledger.counted().await?, proof.handled);
        let Script { incidents, quiet, counts, mut problems, .. } = play.script;
        if !is_drained {
            problems.push(format!("not all was handled within {limit:?} of the last fault"));
        }
        if proof.events != appended {
            let events = proof.events;
            problems.push(format!("the log has {events} events, where {appended} were appended"));
        }
        if proof.is_good() && counted != handled {
            problems.push(format!("the counts add up to {counted}, the entries to {handled}"));
        }
        problems
            .extend(made.examples.into_iter().map(|what| format!("events made of others: {what}")));
        problems.extend(audits.violations);
        let is_sound = proof.is_good() && problems.is_empty();
        if is_sound && audits.is_whole && audits.events != handled {
            let events = audits.events;
            problems
                .push(format!("audits have proven {events} events, where {handled} were handled"));
        }
        let generations = Consumers::new(log).generations(None, GENERATIONS).await?;
        let deaths = Deaths::count(&generations, &incidents, |number| play.crew.process(number));
        let pauses = pauses::measure(&entries, &incidents, &quiet);
        let proofs = (proof, made.events, audits.proofs);
        Ok(Outcome::new((seed, self.seconds), proofs, (pauses, deaths), counts, problems))
    }
}

/// The events of the log that were appended for workers to handle.
pub(crate) async fn logged(log: &Log) -> anyhow::Result<Vec<Logged>> {
    let (mut events, mut logged) = (log.read(Query::all()).events(), Vec::new());
    while let Some(event) = events.next().await {
        let event = event?;
        if event.category() == MADE {
            continue;
        }
        logged.push(Logged {
            position: event.position().as_i64(),
            key: event.stream_id().parse()?,
            version: i64::try_from(event.version())?,
        });
    }
    Ok(logged)
}

/// Those of which another is made.
fn to_be_made(logged: &[Logged]) -> Vec<Logged> {
    let is_one = |event: &&Logged| event.version.unsigned_abs().is_multiple_of(MADE_EVERY);
    logged.iter().filter(is_one).copied().collect()
}

/// What was made of events, in the order of the log: as if each had been entered in a ledger.
async fn made(log: &Log) -> anyhow::Result<Vec<Entry>> {
    let (mut events, mut entries) = (log.read(Query::types([MADE])).events(), Vec::new());
    while let Some(event) = events.next().await {
        let event = event?;
        let Made { position, version } = event.data()?;
        entries.push(Entry {
            position,
            key: event.stream_id().parse()?,
            version: i64::try_from(version)?,
            worker: 0,
            recorded_us: event.recorded_us(),
            handled_us: event.recorded_us(),
        });
    }
    Ok(entries)
}

//! What one worker process runs: a projection that keeps the ledger.

use super::audits::CONSUMER;
use super::ledger::Statements;
use crate::throwaway;
use crate::worker_process;
use anabranch::prelude::*;
use anabranch::{HandlerError, HashRule, Namespace, Value};
use anabranch_terminal::output;
use anabranch_terminal::say;
use clap::{Args, ValueEnum};
use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::Once;
use std::time::Duration;

/// The category of the streams, and the type of an event that makes one worker hold its transaction.
pub(crate) const CATEGORY: &str = "Key";
pub(crate) const HELD: &str = "Held";
/// What a worker says on its standard output: that it runs, and that its transaction is open.
pub(crate) const RUNNING: &str = "running";
pub(crate) const HOLDING: &str = "holding";

/// What the handler makes of one in so many events of a key, and appends in its transaction: the type,
/// and the category of the streams.
pub(crate) const MADE: &str = "Made";
pub(crate) const MADE_EVERY: u64 = 4;

/// Once in so many events the handler reads, so that its transaction is open for a moment.
const READ_EVERY: u64 = 100;
const MOMENT: Duration = Duration::from_millis(5);

/// A worker that keeps the ledger; it stops when its standard input ends, or on SIGTERM
#[derive(Args)]
pub struct ChaosWorker {
    /// The database; from the environment, since others can see arguments
    #[arg(long, env = "ANABRANCH_URL", hide_env_values = true)]
    url: String,

    #[arg(long)]
    namespace: String,

    /// Its number, which it signs with
    #[arg(long)]
    number: u32,

    #[command(flatten)]
    work: Work,
}

/// How a worker works.
#[derive(Args, Clone, Debug)]
pub(crate) struct Work {
    #[arg(long, default_value_t = 1)]
    pub(crate) lanes: usize,

    /// In seconds; without it the default
    #[arg(long)]
    pub(crate) lease: Option<f64>,

    /// How long each event waits for something else
    #[arg(long, default_value_t = 0)]
    pub(crate) wait_ms: u64,

    /// The most events of a transaction; without it the default
    #[arg(long)]
    pub(crate) batch_size: Option<usize>,

    /// Keeps no counts, and reads nothing
    #[arg(long)]
    pub(crate) entries_only: bool,

    /// Does it wrong once, to see that the proof can fail
    #[arg(long = "break")]
    pub(crate) sabotage: Option<Sabotage>,
}

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sabotage {
    /// An event is entered twice.
    Double,
    /// An event is not entered.
    Lose,
    /// An event is entered before those that come before it.
    Swap,
    /// An event is made twice of another.
    Make,
    /// The first worker ends by itself.
    End,
}

impl Work {
    /// The arguments that say so.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self { lanes, lease, wait_ms, batch_size, entries_only, sabotage } = self;
        let mut arguments = vec![format!("--lanes={lanes}"), format!("--wait-ms={wait_ms}")];
        arguments.extend(lease.map(|seconds| format!("--lease={seconds}")));
        arguments.extend(batch_size.map(|events| format!("--batch-size={events}")));
        arguments.extend(entries_only.then(|| "--entries-only".to_owned()));
        let sabotage = sabotage.and_then(|kind| kind.to_possible_value());
        arguments.extend(sabotage.map(|kind| format!("--break={}", kind.get_name())));
        arguments
    }
}

impl ChaosWorker {
    /// Runs the command. Boxed, so that it is compiled with this crate, and not with the one that calls it.
    pub fn run(self) -> LocalBoxFuture<'static, anyhow::Result<ExitCode>> {
        Box::pin(self.run_here())
    }

    async fn run_here(self) -> anyhow::Result<ExitCode> {
        let namespace = Namespace::new(self.namespace)?;
        let log = throwaway::connect(&self.url, &namespace, false).await?;
        let mut set = ReplicaSet::new("chaos").lanes(self.work.lanes);
        if let Some(seconds) = self.work.lease {
            set = set.lease(Duration::try_from_secs_f64(seconds)?);
        }
        let keeper = Keeper {
            statements: Statements::of(&log),
            rule: log.hash_rule(),
            worker: self.number,
            work: self.work,
        };
        let says = Once::new();
        let set = set.projection(keeper).on_progress(move |_| {
            says.call_once(|| drop(output::line(RUNNING)));
        });
        set.run_until(&log, shutdown_signal()).await?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn shutdown_signal() {
    let standard_input = worker_process::shutdown_signal();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                () = standard_input => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    standard_input.await;
}

/// Keeps the ledger.
struct Keeper {
    statements: Statements,
    rule: HashRule,
    worker: u32,
    work: Work,
}

/// What is in an event that was made of another: which one.
#[derive(Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) position: i64,
    pub(crate) version: u64,
}

/// What is in an event that makes one worker hold its transaction.
#[derive(Deserialize)]
struct Held {
    worker: u32,
    millis: u64,
}

impl Projection for Keeper {
    fn name(&self) -> &str {
        CONSUMER
    }

    fn partition(&self) -> Partition {
        Partition::entity(CATEGORY)
    }

    fn settings(&self) -> Settings {
        // Where it is about times alone, nothing else is done.
        let settings = Settings::default().audit(!self.work.entries_only);
        self.work.batch_size.into_iter().fold(settings, Settings::batch_size)
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        if self.work.wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.work.wait_ms)).await;
        }
        let key: i64 = event.stream_id().parse()?;
        if !self.work.entries_only {
            tx.execute(self.statements.count, params![key]).await?;
            self.make(event, tx)?;
            self.stay_open(event, key, tx).await?;
        }
        self.enter(event, key, tx).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        self.statements.set_up(tx).await
    }
}

impl Keeper {
    /// Now and then, reads: from there on the transaction is open on the database and holds the locks
    /// of what it has written.
    async fn stay_open(&self, event: &Event, key: i64, tx: &mut Tx) -> HandlerResult {
        let held: Option<Held> =
            if event.event_type() == HELD { Some(event.data()?) } else { None };
        let held = held.filter(|held| held.worker == self.worker);
        if held.is_none() && !event.position().get().is_multiple_of(READ_EVERY) {
            return Ok(());
        }
        tx.query(self.statements.look, params![key]).await?;
        match held {
            Some(held) => {
                output::line(HOLDING).map_err(|error| HandlerError::new(error.to_string()))?;
                tokio::time::sleep(Duration::from_millis(held.millis)).await;
            }
            None => tokio::time::sleep(MOMENT).await,
        }
        Ok(())
    }

    /// Of every fourth event of a key, makes another one.
    fn make(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        if !event.version().is_multiple_of(MADE_EVERY) {
            return Ok(());
        }
        let (position, version) = (event.position().as_i64(), event.version());
        // Not which worker made it: whoever handles it again must make the same.
        let made = NewEvent::new(MADE, Made { position, version });
        let is_chosen = self.work.sabotage == Some(Sabotage::Make) && version == MADE_EVERY;
        let times = if is_chosen { 2 } else { 1 };
        let stream = StreamId::new(MADE, event.stream_id())?;
        tx.append(&stream, Expected::Any, vec![made; times])
    }

    async fn enter(&self, event: &Event, key: i64, tx: &mut Tx) -> HandlerResult {
        let entry = params![
            event.position(),
            key,
            event.version(),
            self.worker,
            self.rule.slot(event.stream_id()).get(),
            event.recorded_us(),
        ];
        let is_chosen = match self.work.sabotage {
            Some(Sabotage::End) => self.worker == 1 && event.version() > 1,
            _ => key == 7 && event.version() == 3,
        };
        match self.work.sabotage.filter(|_| is_chosen) {
            Some(Sabotage::Lose) => return Ok(()),
            Some(Sabotage::Swap) => {
                let first = entry.into_iter().chain([Value::from(0i64)]).collect();
                return tx.execute(self.statements.enter_as, first).await;
            }
            Some(Sabotage::Double) => {
                tx.execute(self.statements.enter, entry.clone()).await?;
            }
            Some(Sabotage::End) => {
                say!("told to end");
                std::process::exit(1);
            }
            Some(Sabotage::Make) | None => {}
        }
        tx.execute(self.statements.enter, entry).await
    }
}

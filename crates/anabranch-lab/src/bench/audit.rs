//! What an audit costs: CPU seconds per million events, audited and not.
//!
//! Time by the clock is noisier here than the cost. CPU time is of this process and, with PostgreSQL, of the server.

use super::cpu::{ServerCpu, cpu_seconds};
use super::handlers::{Nothing, Upsert, With};
use super::own_log::OwnLog;
use super::report;
use super::{Measured, Side};
use crate::throwaway::Throwaway;
use anabranch::operate::Consumers;
use anabranch::{ReplicaSet, Settings};
use anabranch_terminal::output;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Instant;

/// What an audit costs, in CPU time
///
/// Each pair handles the whole log twice from scratch: by a consumer that is audited, and by one that is not. Prints the
/// CPU seconds (user and system, of this process and of a PostgreSQL server on this machine) per million events of each,
/// the median of the ratios, and how fast the record is proven. Linux only.
#[derive(Args)]
pub(crate) struct BenchAudit {
    #[command(flatten)]
    database: Measured,

    /// What the consumer does
    #[arg(long, value_enum, default_value_t = Handler::Upsert)]
    handler: Handler,

    /// How many events the log has
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,

    /// How many streams they are spread over
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    streams: u64,

    /// How many events a transaction has
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch_size: u64,

    /// How many lanes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    lanes: u64,

    /// How often the log is handled for one measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// How many pairs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pairs: u64,
}

/// What is done with each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Handler {
    /// Nothing: all that is measured is the engine.
    Nothing,
    /// One upsert.
    Upsert,
}

/// CPU seconds per million events.
#[derive(Serialize)]
struct Pair {
    bench: &'static str,
    pair: u64,
    audited: f64,
    unaudited: f64,
    ratio: f64,
    /// Events a second.
    proven: f64,
}

#[derive(Serialize)]
struct Outcome {
    bench: &'static str,
    median_ratio: f64,
    median_proven: f64,
}

impl BenchAudit {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        self.database.run(async |made| Box::pin(self.measure(made)).await).await
    }

    async fn measure(&self, made: &Throwaway) -> anyhow::Result<()> {
        let own = OwnLog::create(made, "audit").await?;
        let at = own.log.at().to_owned();
        self.database.say(|| format!("{at}: filling with {} events", self.events));
        own.fill(self.events, self.streams).await?;
        let server = ServerCpu::of(&own).await?;
        self.cpu(&own, &server, "warm_up", false).await?;
        let mut pairs = Vec::new();
        for number in 1..=self.pairs {
            let ((mut audited, mut proven), mut unaudited) = ((0.0, 0.0), 0.0);
            for side in self.database.turns(number) {
                match side {
                    Side::Ours => {
                        let name = format!("audited_{number}");
                        (audited, proven) = self.cpu(&own, &server, &name, true).await?;
                    }
                    Side::Limit => {
                        let name = format!("bare_{number}");
                        (unaudited, _) = self.cpu(&own, &server, &name, false).await?;
                    }
                }
            }
            let ratio = audited / unaudited;
            self.database.say(|| {
                format!(
                    "pair {number}: {audited:.3} s audited, {unaudited:.3} s not, per million events: \
                     {ratio:.3}; proven at {proven:.0} events/s"
                )
            });
            let pair = Pair { bench: "audit", pair: number, audited, unaudited, ratio, proven };
            if self.database.json {
                output::json(&pair)?;
            }
            pairs.push(pair);
        }
        let median = |of: fn(&Pair) -> f64| {
            report::median(pairs.iter().map(of).collect()).unwrap_or_default()
        };
        let outcome = Outcome {
            bench: "audit",
            median_ratio: median(|pair| pair.ratio),
            median_proven: median(|pair| pair.proven),
        };
        match self.database.json {
            true => output::json(&outcome)?,
            false => output::line(format_args!(
                "audited: {:.3} times the CPU time (median of {} pairs); proven at {:.0} events/s",
                outcome.median_ratio, self.pairs, outcome.median_proven
            ))?,
        }
        Ok(())
    }

    /// Handles the log from scratch, some rounds; CPU seconds per million events, and how many events a second are
    /// proven.
    async fn cpu(
        &self,
        own: &OwnLog,
        server: &ServerCpu,
        name: &str,
        is_audited: bool,
    ) -> anyhow::Result<(f64, f64)> {
        let (mut used, mut proving) = (0.0, 0.0);
        let consumers = Consumers::new(&own.log);
        for round in 1..=self.rounds {
            let name = format!("{name}_{round}");
            let set = self.set(own, &name, is_audited);
            let before = cpu_seconds()? + server.seconds()?;
            let progress = set.catch_up(&own.log).await?;
            used += cpu_seconds()? + server.seconds()? - before;
            let handled = progress.consumers[0].handled;
            anyhow::ensure!(handled == self.events, "{handled} events of {}", self.events);
            if is_audited {
                let began = Instant::now();
                let proof = consumers.audit(&name, |_| {}).await?;
                proving += began.elapsed().as_secs_f64();
                anyhow::ensure!(proof.proven.handed == self.events, "{proof:?}");
            }
            consumers.forget(&name).await?;
        }
        let events = (self.events * self.rounds) as f64;
        let rate = if is_audited { events / proving } else { 0.0 };
        Ok((used / events * 1e6, rate))
    }

    fn set(&self, own: &OwnLog, name: &str, is_audited: bool) -> ReplicaSet {
        let set = ReplicaSet::new("bench").lanes(self.lanes as usize);
        let batch_size = self.batch_size as usize;
        let settings = Settings::default().batch_size(batch_size).audit(is_audited);
        match self.handler {
            Handler::Nothing => {
                let projection = Nothing { name: name.to_owned(), batch_size };
                set.projection(With { projection, settings })
            }
            Handler::Upsert => {
                let projection = Upsert::new(name, own.table(name));
                set.projection(With { projection, settings })
            }
        }
    }
}

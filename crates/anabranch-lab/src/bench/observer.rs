//! What it costs to watch: CPU seconds per million events, with an observer and without.
//!
//! Time by the clock is noisier here than the cost. CPU time of the process is not: what others do is not in it.

use super::cpu::cpu_seconds;
use super::handlers::Nothing;
use super::own_log::OwnLog;
use super::report;
use super::{Measured, Side};
use crate::throwaway::Throwaway;
use anabranch::events::{EngineEvent, Happening};
use anabranch::{Log, Options, ReplicaSet};
use anabranch_terminal::output;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an observer costs, in CPU time
///
/// Each pair handles the whole log twice from scratch by a projection that does nothing: with an observer that
/// counts events, and without one; and once more without a log of the program (tracing off). Prints the CPU seconds
/// (user and system, of this process) per million events of each, and the median of the ratios. Linux only.
#[derive(Args)]
pub(crate) struct BenchObserver {
    #[command(flatten)]
    database: Measured,

    /// How many events the log has
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,

    /// How many streams they are spread over
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    streams: u64,

    /// How many events a transaction has
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch_size: u64,

    /// How often the log is handled for one measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// How many pairs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pairs: u64,
}

/// CPU seconds per million events.
#[derive(Serialize)]
struct Pair {
    bench: &'static str,
    pair: u64,
    observed: f64,
    unobserved: f64,
    tracing_off: f64,
    ratio: f64,
    ratio_to_tracing_off: f64,
}

#[derive(Serialize)]
struct Outcome {
    bench: &'static str,
    median_ratio: f64,
    median_ratio_to_tracing_off: f64,
}

impl BenchObserver {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        self.database.run(async |made| self.measure(made).await).await
    }

    async fn measure(&self, made: &Throwaway) -> anyhow::Result<()> {
        let own = OwnLog::create(made, "observer").await?;
        let at = own.log.at().to_owned();
        self.database.say(|| format!("{at}: filling with {} events", self.events));
        own.fill(self.events, self.streams).await?;
        let (namespace, migrate, tracing) = (own.namespace.clone(), false, false);
        let options = Options { namespace, migrate, tracing, ..Options::default() };
        let silent = anabranch::connect_with(&own.url, &options).await?;
        self.cpu(&own.log, "warm_up", false).await?;
        let mut pairs = Vec::new();
        for number in 1..=self.pairs {
            let (mut observed, mut unobserved) = (0.0, 0.0);
            for side in self.database.turns(number) {
                match side {
                    Side::Ours => {
                        observed = self.cpu(&own.log, &format!("seen_{number}"), true).await?;
                    }
                    Side::Limit => {
                        unobserved = self.cpu(&own.log, &format!("bare_{number}"), false).await?;
                    }
                }
            }
            let tracing_off = self.cpu(&silent, &format!("off_{number}"), false).await?;
            let (ratio, to_off) = (observed / unobserved, observed / tracing_off);
            self.database.say(|| {
                format!(
                    "pair {number}: {observed:.3} s observed, {unobserved:.3} s not, {tracing_off:.3} s \
                     with tracing off, per million events: {ratio:.3}, {to_off:.3}"
                )
            });
            let pair = Pair {
                bench: "observer",
                pair: number,
                observed,
                unobserved,
                tracing_off,
                ratio,
                ratio_to_tracing_off: to_off,
            };
            if self.database.json {
                output::json(&pair)?;
            }
            pairs.push(pair);
        }
        let median = |of: fn(&Pair) -> f64| {
            report::median(pairs.iter().map(of).collect()).unwrap_or_default()
        };
        let outcome = Outcome {
            bench: "observer",
            median_ratio: median(|pair| pair.ratio),
            median_ratio_to_tracing_off: median(|pair| pair.ratio_to_tracing_off),
        };
        match self.database.json {
            true => output::json(&outcome)?,
            false => output::line(format_args!(
                "an observer that counts: {:.3} times the CPU time (median of {} pairs; {:.3} times that with \
                 tracing off)",
                outcome.median_ratio, self.pairs, outcome.median_ratio_to_tracing_off
            ))?,
        }
        Ok(())
    }

    /// Handles the log from scratch, some rounds; CPU seconds per million events.
    async fn cpu(&self, log: &Log, name: &str, is_observed: bool) -> anyhow::Result<f64> {
        let before = cpu_seconds()?;
        for round in 1..=self.rounds {
            let (name, batch_size) = (format!("{name}_{round}"), self.batch_size as usize);
            let set = ReplicaSet::new("bench").projection(Nothing { name, batch_size });
            let counted = Arc::new(AtomicU64::new(0));
            let set = match is_observed {
                true => set.observer(count_to(&counted)),
                false => set,
            };
            let progress = set.catch_up(log).await?;
            let handled = progress.consumers[0].handled;
            anyhow::ensure!(handled == self.events, "{handled} events of {}", self.events);
            let counted = counted.load(Ordering::Relaxed);
            anyhow::ensure!(!is_observed || counted == handled, "it has seen {counted} events");
        }
        let events = (self.events * self.rounds) as f64;
        Ok((cpu_seconds()? - before) / events * 1e6)
    }
}

fn count_to(counted: &Arc<AtomicU64>) -> impl Fn(&EngineEvent) + use<> {
    let counted = Arc::clone(counted);
    move |event| {
        if let Happening::BatchHandled { events, .. } = event.what {
            counted.fetch_add(events as u64, Ordering::Relaxed);
        }
    }
}

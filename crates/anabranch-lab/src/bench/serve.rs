//! The HTTP API: appends over it beside the same through the library, and tails.

use super::Measured;
use super::appenders::STREAMS;
use super::events::{data, event, stream};
use super::own_log::OwnLog;
use super::report::{median, rounded};
use super::serve_client::Connection;
use super::serve_process::ServerProcess;
use super::serve_tails::tails;
use super::{Side, check_times};
use crate::percentiles::Percentiles;
use crate::throwaway::Throwaway;
use anabranch::{Expected, Log, StreamId};
use anabranch_terminal::{output, say};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Appends over HTTP, and tails
///
/// append: connections that each append one event, wait for the answer, and append the next one; its limit is as many
/// tasks that do so through the library. tail: tails of the whole log, each of which is sent every event, while events are
/// appended at a steady rate. The server is a process of its own, and so are the clients. Works in tables of its own and
/// removes them at the end.
#[derive(Args)]
pub(crate) struct BenchServe {
    #[command(flatten)]
    pub(super) database: Measured,

    /// How many connections append at the same time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,

    /// How many tails are open
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) tails: u16,

    /// How many events a second are sent to each tail
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rate: u32,

    /// How long each measurement takes
    #[arg(long, default_value_t = 5.0)]
    pub(super) seconds: f64,

    /// How often appends are measured; the median counts
    #[arg(long, default_value_t = 3)]
    repeats: usize,

    /// Which cases; all if not given
    #[arg(long, value_delimiter = ',')]
    cases: Vec<What>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Single appends over HTTP
    Append,
    /// Tails
    Tail,
}

/// What is printed of appends.
#[derive(Debug, Serialize)]
struct Appends {
    bench: &'static str,
    case: &'static str,
    connections: u16,
    /// Events a second; the median of the repeats.
    rate: Option<f64>,
    /// The same through the library.
    limit: Option<f64>,
    ratio: Option<f64>,
    /// From the request to its answer, of all repeats.
    answer_ms: Percentiles,
    /// The same through the library.
    library_ms: Percentiles,
}

/// Rates of the repeats, and how long each append took.
#[derive(Default)]
struct Times {
    rates: Vec<f64>,
    milliseconds: Vec<f64>,
}

impl BenchServe {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        check_times(self.seconds, self.repeats)?;
        self.database.run(async |made| Box::pin(self.measure(made)).await).await
    }

    async fn measure(&self, made: &Throwaway) -> anyhow::Result<()> {
        let wants = |what| self.cases.is_empty() || self.cases.contains(&what);
        let own = OwnLog::create(made, "serve").await?;
        let server = ServerProcess::start(&own, self.tails).await?;
        self.database.say(|| format!("{}: a server at {}", own.log.at(), server.address));
        if wants(What::Append) {
            self.appends(&own, server.address).await?;
        }
        if wants(What::Tail) {
            tails(self, &own, server).await?;
        }
        Ok(())
    }

    async fn appends(&self, own: &OwnLog, at: SocketAddr) -> anyhow::Result<()> {
        let next = Arc::<AtomicU64>::default();
        let (mut ours, mut library) = (Times::default(), Times::default());
        for repeat in 1..=self.repeats as u64 {
            for side in self.database.turns(repeat) {
                let (times, what) = match side {
                    Side::Ours => (&mut ours, "over HTTP"),
                    Side::Limit => (&mut library, "through the library"),
                };
                let log = (side == Side::Limit).then(|| own.log.clone());
                let rate = self.append(at, log, &next, times).await?;
                self.database.say(|| format!("append: repeat {repeat}, {what} {rate:.0} events/s"));
            }
        }
        let (rate, limit) = (median(ours.rates), median(library.rates));
        let case = Appends {
            bench: "serve",
            case: "append",
            connections: self.connections,
            rate: rate.map(f64::round),
            limit: limit.map(f64::round),
            ratio: rate.zip(limit).map(|(rate, limit)| rounded(rate / limit, 3)),
            answer_ms: Percentiles::of(ours.milliseconds),
            library_ms: Percentiles::of(library.milliseconds),
        };
        if self.database.json {
            return output::json(&case);
        }
        let number = |value: Option<f64>| value.unwrap_or_default();
        output::line(format_args!(
            "append: {} connections, {:.0} events/s; {}; the library {:.0} events/s, {}; ratio {:.2}",
            case.connections,
            number(case.rate),
            show(case.answer_ms),
            number(case.limit),
            show(case.library_ms),
            number(case.ratio),
        ))
    }

    /// Appends for a while: over HTTP, or through the library.
    async fn append(
        &self,
        at: SocketAddr,
        log: Option<Log>,
        next: &Arc<AtomicU64>,
        times: &mut Times,
    ) -> anyhow::Result<f64> {
        let mut appenders = Vec::new();
        for _ in 0..self.connections {
            appenders.push(match &log {
                Some(log) => Appender::Library(log.clone()),
                None => Appender::Http(Connection::open(at).await?),
            });
        }
        let (time, started) = (Duration::from_secs_f64(self.seconds), Instant::now());
        let mut running = JoinSet::new();
        for mut appender in appenders {
            let next = Arc::clone(next);
            running.spawn(async move {
                let mut milliseconds = Vec::new();
                while started.elapsed() < time {
                    let began = Instant::now();
                    appender.append(next.fetch_add(1, Ordering::Relaxed)).await?;
                    milliseconds.push(began.elapsed().as_secs_f64() * 1000.0);
                }
                anyhow::Ok(milliseconds)
            });
        }
        let mut appended = 0;
        while let Some(ended) = running.join_next().await {
            let milliseconds = ended??;
            appended += milliseconds.len();
            times.milliseconds.extend(milliseconds);
        }
        let rate = appended as f64 / started.elapsed().as_secs_f64();
        times.rates.push(rate);
        Ok(rate)
    }
}

/// Who appends.
enum Appender {
    Http(Connection),
    Library(Log),
}

impl Appender {
    async fn append(&mut self, number: u64) -> anyhow::Result<()> {
        match self {
            Self::Library(log) => {
                let stream = StreamId::new("Order", stream(number, STREAMS))?;
                log.append(&stream, Expected::Any, [event(number)]).await?;
            }
            Self::Http(connection) => {
                let path = format!("/v1/streams/Order/{}", stream(number, STREAMS));
                let customer = super::events::customer(number);
                let body = format!(
                    r#"{{"events":[{{"type":"OrderPlaced","customer":"{customer}","data":{}}}]}}"#,
                    data(number)
                );
                connection.post(&path, body).await?;
            }
        }
        Ok(())
    }
}

/// With parts of a millisecond.
fn show(of: Percentiles) -> String {
    let one = |value: Option<f64>| value.unwrap_or_default();
    format!("p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", one(of.p50), one(of.p99), one(of.max))
}

/// Says what a measurement begins with, where somebody reads it.
pub(super) fn tell(bench: &BenchServe, text: &str) {
    if !bench.database.json {
        say!("{text}");
    }
}

//! From an append to its handler, on a log where nothing else happens.

use super::Measured;
use super::bare::Bare;
use super::own_log::OwnLog;
use super::report::{self, Case, Latency, rounded};
use crate::percentiles::Percentiles;
use crate::throwaway;
use anabranch::{
    Event, Expected, HandlerResult, Log, NewEvent, Partition, Position, Projection, ReplicaSet,
    StreamId, Tx,
};
use anabranch_terminal::say;
use anyhow::Context;
use clap::Args;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// How long an event may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long transactions are counted, and how often. The least counts: others only add to it.
const COUNTING: Duration = Duration::from_secs(6);
const COUNTS: usize = 3;
/// Sessions report what they did about once a second.
const REPORT: Duration = Duration::from_secs(2);
/// Of a lease of 5 s.
const HEARTBEATS_PER_SECOND: f64 = 1.0;
const WARM_UP: usize = 5;
/// More than are ever under way: each event is appended when the one before was handled.
const CALLS: usize = 100;

/// From an append to its handler, on a log where nothing else happens
///
/// idle: the append and the consumer share a connection to the log. idle-remote: they do not, as if
/// they were two processes. Measured from the moment that the append returned, 0 if the handler was
/// called before that; and from the moment that it was called. The queries of an idle worker are the
/// transactions of the whole database with it, less those without it and one heartbeat a second.
#[derive(Args)]
pub(crate) struct BenchLatency {
    #[command(flatten)]
    database: Measured,

    /// How many events are appended, one after the other
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

/// Says when it was called.
struct Clock {
    called: mpsc::Sender<(Position, Instant)>,
}

impl Projection for Clock {
    fn name(&self) -> &str {
        "clock"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, _: &mut Tx) -> HandlerResult {
        // Whoever asked may have given up.
        let _ = self.called.send((event.position(), Instant::now())).await;
        Ok(())
    }
}

impl BenchLatency {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let measure = async |made: &_| self.measure(&OwnLog::create(made, "latency").await?).await;
        self.database.run(measure).await
    }

    async fn measure(&self, own: &OwnLog) -> anyhow::Result<()> {
        if !self.database.json {
            say!("{}: {} appends, one after the other", own.log.at(), self.count);
            report::print_header("latency")?;
        }
        let without = count_transactions(own).await?;
        let (sender, mut called) = mpsc::channel(CALLS);
        let (stop, stopped) = oneshot::channel::<()>();
        let log = own.log.clone();
        let mut worker = JoinSet::new();
        worker.spawn(async move {
            let set = ReplicaSet::new("bench").projection(Clock { called: sender });
            let stopped = async move { drop(stopped.await) };
            set.run_until(&log, stopped).await
        });
        let here = self.latency(&own.log, &mut called).await?;
        let with = count_transactions(own).await?;
        let remote = throwaway::connect(&own.url, &own.namespace, false).await?;
        let remote = self.latency(&remote, &mut called).await?;
        drop(stop);
        while let Some(ended) = worker.join_next().await {
            ended??;
        }
        let what = "from the append's return to the handler's call, one log handle";
        let queries = with.zip(without).map(|(with, without)| with - without);
        let queries = queries.map(|queries| rounded(queries - HEARTBEATS_PER_SECOND, 2));
        let here = case("idle", here, what);
        Case { queries_per_second: queries, ..here }.print(self.database.json)?;
        let what = "the same with connections of their own, as in two processes";
        case("idle-remote", remote, what).print(self.database.json)
    }

    /// Appends event after event, each when the one before was handled.
    async fn latency(
        &self,
        log: &Log,
        called: &mut mpsc::Receiver<(Position, Instant)>,
    ) -> anyhow::Result<Latency> {
        let (mut from_return, mut from_call) = (Vec::new(), Vec::new());
        for number in 0..self.count as usize + WARM_UP {
            let stream = StreamId::new("Order", format!("ord-{}", number % 50))?;
            let event = NewEvent::new("OrderPlaced", ());
            let started = Instant::now();
            let appended = log.append(&stream, Expected::Any, [event]).await?;
            let returned = Instant::now();
            let handled = loop {
                let next = tokio::time::timeout(PATIENCE, called.recv()).await;
                let next = next.context("an event was not handled within 30 s")?;
                let (position, at) = next.context("the consumer has ended")?;
                if position == appended.position() {
                    break at;
                }
            };
            if number >= WARM_UP {
                from_return.push(handled.saturating_duration_since(returned));
                from_call.push(handled.saturating_duration_since(started));
            }
            // Not in step with anything that happens at regular times.
            tokio::time::sleep(Duration::from_micros(15_000 + number as u64 * 7919 % 10_000)).await;
        }
        let [p50_ms, p99_ms, max_ms] = percentiles(from_return);
        let [from_call_p50_ms, from_call_p99_ms, from_call_max_ms] = percentiles(from_call);
        Ok(Latency { p50_ms, p99_ms, max_ms, from_call_p50_ms, from_call_p99_ms, from_call_max_ms })
    }
}

fn case(name: &'static str, latency: Latency, what: &'static str) -> Case {
    let latency = Some(latency);
    Case { bench: "latency", case: name, lanes: 1, latency, what, ..Case::default() }
}

/// The median, the 99th percentile and the maximum, in ms.
fn percentiles(values: Vec<Duration>) -> [f64; 3] {
    let values = values.into_iter().map(|value| value.as_secs_f64() * 1000.0).collect();
    let Percentiles { p50, p99, max, .. } = Percentiles::of(values);
    [p50, p99, max].map(Option::unwrap_or_default)
}

/// How many transactions a second the server sees, of anybody; none for SQLite, which has no server.
async fn count_transactions(own: &OwnLog) -> anyhow::Result<Option<f64>> {
    let Bare::Postgres(bare) = &own.bare else { return Ok(None) };
    tokio::time::sleep(REPORT).await;
    let mut least = f64::INFINITY;
    for _ in 0..COUNTS {
        let (started, before) = (Instant::now(), bare.transactions().await?);
        tokio::time::sleep(COUNTING).await;
        let counted = bare.transactions().await? - before;
        least = least.min(counted as f64 / started.elapsed().as_secs_f64());
    }
    Ok(Some(least))
}

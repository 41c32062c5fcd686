//! Many tails at once: what comes to them, and what that costs.

use super::appenders::STREAMS;
use super::events::{event, stream};
use super::own_log::OwnLog;
use super::report::rounded;
use super::serve::{BenchServe, tell};
use super::serve_client::Connection;
use super::serve_process::{Cost, ServerProcess};
use crate::percentiles::Percentiles;
use anabranch::{Expected, StreamId};
use anabranch_terminal::output;
use anyhow::Context;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How long the last events may take to come everywhere.
const PATIENCE: Duration = Duration::from_secs(60);
/// Events are appended so often, as many as are due.
const STEP: Duration = Duration::from_millis(10);
/// Of which tails it is measured how late events come: of each of so many one.
const SAMPLED: usize = 50;
/// What stands before the time in the data of an event.
const AT: &[u8] = b"\"at_us\":";

/// What is printed of tails.
#[derive(Debug, Serialize)]
struct Delivered {
    bench: &'static str,
    case: &'static str,
    tails: u16,
    /// Events that were appended while it was measured.
    events: u64,
    /// Events that came, to all tails together.
    delivered: u64,
    delivered_per_second: f64,
    /// From the append to the client, of some of the tails.
    late_ms: Percentiles,
    #[serde(flatten)]
    server: Cost,
}

/// Opens tails, appends at a steady rate, and counts what comes.
pub(crate) async fn tails(
    bench: &BenchServe,
    own: &OwnLog,
    mut server: ServerProcess,
) -> anyhow::Result<()> {
    tell(bench, &format!("tail: opening {} tails", bench.tails));
    let (delivered, begun) = (Arc::<AtomicU64>::default(), Instant::now());
    let mut reading = JoinSet::new();
    for number in 0..usize::from(bench.tails) {
        let body = Connection::open(server.address).await?.get("/v1/tail").await?;
        let (delivered, is_sampled) = (Arc::clone(&delivered), number % SAMPLED == 0);
        reading.spawn(async move {
            Reader { body, delivered, begun: is_sampled.then_some(begun) }.read().await
        });
    }
    let before = server.cost().await?;
    let (time, started) = (Duration::from_secs_f64(bench.seconds), Instant::now());
    let (mut events, mut tick) = (0_u64, tokio::time::interval(STEP));
    while started.elapsed() < time {
        tick.tick().await;
        let due = (started.elapsed().as_secs_f64() * f64::from(bench.rate)) as u64;
        if due > events {
            let stream = StreamId::new("Order", stream(events, STREAMS))?;
            let at_us = begun.elapsed().as_micros();
            let due: Vec<_> = (events..due).map(|number| timed(number, at_us)).collect();
            events += due.len() as u64;
            own.log.append(&stream, Expected::Any, due).await?;
        }
    }
    let wanted = events * u64::from(bench.tails);
    let until = Instant::now() + PATIENCE;
    while delivered.load(Ordering::Relaxed) < wanted && Instant::now() < until {
        tokio::time::sleep(STEP).await;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let cost = server.cost().await?;
    let delivered = delivered.load(Ordering::Relaxed);
    server.stop().await?;
    let mut late = Vec::new();
    while let Some(ended) = reading.join_next().await {
        late.extend(ended?);
    }
    anyhow::ensure!(
        delivered == wanted,
        "{delivered} events came where {} tails were to get {events} each",
        bench.tails
    );
    let case = Delivered {
        bench: "serve",
        case: "tail",
        tails: bench.tails,
        events,
        delivered,
        delivered_per_second: rounded(delivered as f64 / elapsed, 0),
        late_ms: Percentiles::of(late),
        server: since(&before, cost),
    };
    print(bench, &case)
}

fn since(before: &Cost, now: Cost) -> Cost {
    Cost {
        peak_rss_mb: now.peak_rss_mb,
        cpu_seconds: rounded(now.cpu_seconds - before.cpu_seconds, 2),
        events_read: now.events_read - before.events_read,
        events_written: now.events_written - before.events_written,
        events_sent: now.events_sent - before.events_sent,
        pages_read: now.pages_read - before.pages_read,
        subscriptions: now.subscriptions,
        dropped: now.dropped - before.dropped,
    }
}

fn print(bench: &BenchServe, case: &Delivered) -> anyhow::Result<()> {
    if bench.database.json {
        return output::json(case);
    }
    output::line(format_args!(
        "tail: {} tails, {:.0} events/s came, {} events read of the log and {} written once for all, {} pages read; \
         from the append {}; the server used {:.1} s of CPU time, peak RSS {:.0} MB",
        case.tails,
        case.delivered_per_second,
        case.server.events_read,
        case.server.events_written,
        case.server.pages_read,
        case.late_ms,
        case.server.cpu_seconds,
        case.server.peak_rss_mb.unwrap_or_default(),
    ))
}

/// An event that says when it was appended.
fn timed(number: u64, at_us: u128) -> anabranch::NewEvent {
    let data = format!(r#"{{"at_us":{at_us},"order":{}}}"#, super::events::data(number));
    anabranch::NewEvent::from_json(event(number).event_type(), data)
}

/// A client that counts the events of its tail.
struct Reader {
    body: Incoming,
    delivered: Arc<AtomicU64>,
    /// When times begin, if it is measured how late events come.
    begun: Option<Instant>,
}

impl Reader {
    /// Reads to the end, and returns how many milliseconds after their append events came.
    async fn read(mut self) -> Vec<f64> {
        let (mut late, mut rest) = (Vec::new(), Vec::new());
        while let Some(Ok(piece)) = self.body.frame().await {
            let Ok(data) = piece.into_data() else { continue };
            rest.extend_from_slice(&data);
            let mut at = 0;
            while let Some(end) = rest[at..].windows(2).position(|pair| pair == b"\n\n") {
                let frame = &rest[at..at + end];
                at += end + 2;
                if !is_event(frame) {
                    continue;
                }
                self.delivered.fetch_add(1, Ordering::Relaxed);
                if let Some(begun) = self.begun
                    && let Some(at_us) = appended_at(frame)
                {
                    late.push(begun.elapsed().as_secs_f64() * 1000.0 - at_us / 1000.0);
                }
            }
            rest.drain(..at);
        }
        late
    }
}

/// Whether a frame is an event, and no word of the tail itself.
fn is_event(frame: &[u8]) -> bool {
    let mut lines = frame.split(|byte| *byte == b'\n');
    lines.any(|line| line == b"event: event")
}

fn appended_at(frame: &[u8]) -> Option<f64> {
    let at = frame.windows(AT.len()).position(|text| text == AT)? + AT.len();
    let digits = frame[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let digits: String = digits.map(|byte| char::from(*byte)).collect();
    digits.parse().context("a time").ok()
}

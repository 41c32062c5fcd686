//! The queue of spans, and the thread that sends them.

use crate::collector::{Collector, Complaint};
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How many spans wait to be sent, and how many go together.
const QUEUE: usize = 2_048;
const TOGETHER: usize = 512;
/// How long a span waits for others.
const GATHERS: Duration = Duration::from_secs(1);
/// How long somebody waits until all are sent, and how many may do so.
const FLUSH: Duration = Duration::from_secs(5);
const FLUSHES: usize = 16;

/// Takes spans that have ended, and never waits.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    spans: mpsc::Sender<SpanData>,
    flushes: mpsc::Sender<Flush>,
    /// How many there was no room for.
    dropped: Arc<AtomicU64>,
    /// How many have neither arrived nor been said to be lost.
    unsent: Arc<AtomicU64>,
    /// Whether it has been told to end.
    has_ended: Arc<AtomicBool>,
}

/// Somebody waits until all that has ended is sent.
#[derive(Debug)]
struct Flush {
    /// Whether it was the last.
    ends: bool,
    sent: SyncSender<bool>,
}

impl Queue {
    pub(crate) fn start(
        mut exporter: SpanExporter,
        collector: Collector,
        resource: &Resource,
    ) -> std::io::Result<Self> {
        exporter.set_resource(resource);
        let ((spans, ended), (flushes, asked)) = (mpsc::channel(QUEUE), mpsc::channel(FLUSHES));
        let (dropped, unsent) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let counts = (Arc::clone(&dropped), Arc::clone(&unsent));
        let sender =
            Sender { exporter, collector, dropped: counts.0, unsent: counts.1, lost: None };
        std::thread::Builder::new().name("spans".to_owned()).spawn(move || {
            // Whatever makes spans here is not recorded: each would make another.
            let _quiet = Context::enter_telemetry_suppressed_scope();
            runtime.block_on(sender.run(ended, asked));
        })?;
        Ok(Self { spans, flushes, dropped, unsent, has_ended: Arc::default() })
    }

    /// Waits until what has ended is sent, though not for ever. Says whether it has arrived.
    pub(crate) fn flush(&self, ends: bool) -> bool {
        let has_ended = self.has_ended.fetch_or(ends, Ordering::Relaxed);
        if has_ended {
            return false;
        }
        let (sent, is_sent) = sync_channel(1);
        let asked = self.flushes.try_send(Flush { ends, sent });
        asked.is_ok() && is_sent.recv_timeout(FLUSH).unwrap_or(false)
    }

    /// Waits for the last time, and says what is lost.
    pub(crate) fn end(&self) {
        self.flush(true);
        let lost = self.unsent.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(
                target: "anabranch::otlp", lost, waited = ?FLUSH,
                "the program ends, and the collector has not taken all spans: the rest is lost"
            );
        }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        self.unsent.fetch_add(1, Ordering::Relaxed);
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        match self.flush(false) {
            true => Ok(()),
            false => Err(OTelSdkError::Timeout(FLUSH)),
        }
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        self.force_flush()
    }
}

/// What the thread has.
struct Sender {
    exporter: SpanExporter,
    collector: Collector,
    dropped: Arc<AtomicU64>,
    unsent: Arc<AtomicU64>,
    /// While the collector takes none: how many are lost.
    lost: Option<u64>,
}

impl Sender {
    async fn run(mut self, mut spans: mpsc::Receiver<SpanData>, mut asked: mpsc::Receiver<Flush>) {
        let (mut batch, mut until) = (Vec::with_capacity(TOGETHER), None);
        loop {
            let gathered = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let flush = tokio::select! {
                biased;
                Some(flush) = asked.recv() => Some(flush),
                count = spans.recv_many(&mut batch, TOGETHER) => {
                    if count == 0 {
                        return; // Nobody makes spans any more.
                    }
                    until.get_or_insert(Instant::now() + GATHERS);
                    None
                }
                () = gathered => {
                    self.send(&mut batch).await;
                    until = None;
                    continue;
                }
            };
            let Some(flush) = flush else {
                if batch.len() >= TOGETHER {
                    self.send(&mut batch).await;
                    until = None;
                }
                continue;
            };
            let mut has_arrived = true;
            loop {
                while batch.len() < TOGETHER
                    && let Ok(span) = spans.try_recv()
                {
                    batch.push(span);
                }
                if batch.is_empty() {
                    break;
                }
                has_arrived &= self.send(&mut batch).await;
            }
            until = None;
            let _ = flush.sent.send(has_arrived);
            if flush.ends {
                return;
            }
        }
    }

    /// Sends a batch. Says whether it has arrived.
    async fn send(&mut self, batch: &mut Vec<SpanData>) -> bool {
        let spans = batch.len() as u64;
        let sent = self.exporter.export(std::mem::take(batch)).await;
        let complaint = self.collector.complaint();
        let complaint = match sent {
            Ok(()) => complaint,
            Err(error) => {
                let said = error.to_string();
                Some(complaint.unwrap_or(Complaint { said, refused: None }))
            }
        };
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        let Some(Complaint { said, refused }) = complaint else {
            let said = dropped + self.lost.unwrap_or(0);
            self.unsent.fetch_sub(spans + said, Ordering::Relaxed);
            self.say(0, dropped, None);
            return true;
        };
        let refused = refused.map_or(spans, |refused| refused.min(spans));
        self.unsent.fetch_sub(spans - refused, Ordering::Relaxed);
        self.say(refused, dropped, Some(&said));
        false
    }

    /// Says once that spans are lost, and how many when they all arrive again.
    fn say(&mut self, refused: u64, dropped: u64, error: Option<&str>) {
        match (error, &mut self.lost) {
            (Some(error), lost @ None) => {
                *lost = Some(refused + dropped);
                tracing::warn!(
                    target: "anabranch::otlp", error,
                    "the collector does not take spans: what it refuses is lost until it does, and nothing else waits for it"
                );
            }
            (Some(_), Some(lost)) => *lost += refused + dropped,
            (None, Some(lost)) => {
                let lost = *lost + dropped;
                self.lost = None;
                tracing::warn!(target: "anabranch::otlp", lost, "the collector takes spans again");
            }
            (None, None) if dropped > 0 => {
                tracing::warn!(
                    target: "anabranch::otlp", lost = dropped,
                    "there are more spans than can be sent: some are lost; a sampler makes them fewer (OTEL_TRACES_SAMPLER)"
                );
            }
            (None, None) => {}
        }
    }
}

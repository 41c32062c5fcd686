//! A case whose spans go to a receiver of its own.

use crate::receiver::Receiver;
use crate::support::PATIENCE;
use anabranch::prelude::*;
use anabranch::trace::Export;
use std::future::Future;
use std::time::{Duration, Instant};
use tracing::Instrument;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::prelude::*;

/// Spans of this thread go to a receiver. Cases run on one thread each, with all that they start.
pub struct Traced {
    pub receiver: Receiver,
    export: Export,
    _guard: DefaultGuard,
}

impl Traced {
    pub fn begin() -> Self {
        let receiver = Receiver::start();
        let address = format!("{}/v1/traces", receiver.address());
        let export = Export::to(&address, "the test").unwrap();
        let layer = export.layer();
        let _guard = tracing_subscriber::registry().with(layer).set_default();
        Self { receiver, export, _guard }
    }

    /// Sends what has ended.
    pub fn sent(&self) -> &Receiver {
        arrived(&self.export);
        &self.receiver
    }
}

/// Waits until what has ended has arrived: a flush by itself waits for five seconds.
pub fn arrived(export: &Export) {
    let began = Instant::now();
    while !export.flush() {
        assert!(began.elapsed() < PATIENCE, "the spans do not arrive");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs code as that of a request, which has a span of its own.
pub async fn request<F: Future>(name: &str, future: F) -> F::Output {
    future.instrument(tracing::info_span!("request", otel.name = name)).await
}

/// Appends an event in a span of its own, which has the name of the stream.
pub async fn placed(log: &Log, order: &str) -> Event {
    let stream = StreamId::new("Order", order).unwrap();
    let append = log.append(&stream, Expected::Any, [NewEvent::new("OrderPlaced", ())]);
    let appended = request(order, append).await.unwrap();
    log.find(appended.events()[0].id).await.unwrap().unwrap()
}

/// Runs each case on both databases, on one thread.
#[macro_export]
macro_rules! traced_on_both {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() { Box::pin(super::$case($crate::support::Db::sqlite())).await; })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $case() { Box::pin(super::$case($crate::support::Db::postgres())).await; })*
        }
    };
}

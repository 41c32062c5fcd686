//! What one worker process of the demo runs.

use super::proof::CONSUMER;
use super::shipments::Shipments;
use crate::worker_process::shutdown_signal;
use anabranch::HashRule;
use anabranch::prelude::*;
use clap::Args;
use futures_util::future::LocalBoxFuture;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// A worker of the demo: it stops when its standard input ends.
#[derive(Args)]
pub struct DemoWorker {
    #[arg(long)]
    url: String,
    #[arg(long)]
    name: String,
    /// With the consumer whose keys are parked.
    #[arg(long)]
    ships: bool,
}

impl DemoWorker {
    /// Runs the command. Boxed, so that it is compiled with this crate, and not with the one that calls it.
    pub fn run(self) -> LocalBoxFuture<'static, anyhow::Result<ExitCode>> {
        Box::pin(self.run_here())
    }

    async fn run_here(self) -> anyhow::Result<ExitCode> {
        let log = anabranch::connect(&self.url).await?;
        let mut set =
            ReplicaSet::new("demo").projection(OrderTotals { worker: self.name }).lanes(2);
        if self.ships {
            set = set.projection(Shipments);
        }
        set.run_until(&log, shutdown_signal()).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The totals of each order, and a row for each event that was handled: the proof reads these.
struct OrderTotals {
    worker: String,
}

impl Projection for OrderTotals {
    fn name(&self) -> &str {
        CONSUMER
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn settings(&self) -> Settings {
        // Small batches show more of the hand-overs.
        Settings::default().batch_size(200)
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        #[derive(serde::Deserialize)]
        struct Line {
            cents: i64,
        }
        let line: Line = event.data()?;
        tx.execute(
            "INSERT INTO order_totals (id, events, cents) VALUES ($1, 1, $2) \
             ON CONFLICT (id) DO UPDATE SET events = order_totals.events + 1, \
             cents = order_totals.cents + excluded.cents",
            params![event.stream_id(), line.cents],
        )
        .await?;
        let slot = HashRule::Fnv1a.slot(event.stream_id()).get();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        tx.execute(
            "INSERT INTO handled (position, id, version, slot, worker, recorded_us, handled_us) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            params![
                event.position(),
                event.stream_id(),
                event.version(),
                slot,
                &self.worker,
                event.recorded_us(),
                now.as_micros() as u64,
            ],
        )
        .await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        tx.execute(
            "CREATE TABLE order_totals \
             (id TEXT PRIMARY KEY, events INTEGER NOT NULL, cents INTEGER NOT NULL) STRICT",
            vec![],
        )
        .await?;
        // No unique key: what is handled twice must show.
        tx.execute(
            "CREATE TABLE handled (number INTEGER PRIMARY KEY, position INTEGER NOT NULL, \
             id TEXT NOT NULL, version INTEGER NOT NULL, slot INTEGER NOT NULL, worker TEXT NOT NULL, \
             recorded_us INTEGER NOT NULL, handled_us INTEGER NOT NULL) STRICT",
            vec![],
        )
        .await
    }
}

//! A second consumer, which some orders are too much for: their keys are parked until somebody tries them again.

use super::orders::NEW_POSTCODE;
use anabranch::prelude::*;
use anabranch::{HandlerError, Retry};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// So long after an order the carriers know its postcode, so that a retry by hand goes well.
const KNOWN_AFTER: Duration = Duration::from_secs(15);

/// How many parts each shipment has.
pub(super) struct Shipments;

impl Projection for Shipments {
    fn name(&self) -> &str {
        "shipments"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn settings(&self) -> Settings {
        // Parked at once: nobody wants to wait for that.
        Settings::default().batch_size(200).retry(Retry::never())
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        #[derive(serde::Deserialize)]
        struct Line {
            postcode: Option<String>,
        }
        let line: Line = event.data()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let known_us = event.recorded_us() + KNOWN_AFTER.as_micros() as i64;
        if line.postcode.as_deref() == Some(NEW_POSTCODE) && (now.as_micros() as i64) < known_us {
            return Err(HandlerError::new(format!(
                "no carrier knows the postcode {NEW_POSTCODE} yet: try again in a few seconds"
            )));
        }
        tx.execute(
            "INSERT INTO shipments (id, parts) VALUES ($1, 1) \
             ON CONFLICT (id) DO UPDATE SET parts = shipments.parts + 1",
            params![event.stream_id()],
        )
        .await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let table = "CREATE TABLE shipments (id TEXT PRIMARY KEY, parts INTEGER NOT NULL) STRICT";
        tx.execute(table, vec![]).await
    }

    /// So that it can be replayed from the console.
    async fn reset(&self, to: Position, tx: &mut Tx) -> HandlerResult {
        if to != Position::START {
            return Err(HandlerError::new("it counts, so it can only begin again from the start"));
        }
        tx.execute("DELETE FROM shipments", vec![]).await
    }
}

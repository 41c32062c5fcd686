//! The projection: a row for each event that says who handled it and when, and a count for each order.

use anabranch::prelude::*;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes `NAME_rows` and `NAME_counts`.
pub struct Ledger(pub &'static str);

impl Projection for Ledger {
    fn name(&self) -> &str {
        self.0
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let name = self.0;
        let count = format!(
            "INSERT INTO {name}_counts (id, events) VALUES ($1, 1) \
             ON CONFLICT (id) DO UPDATE SET events = {name}_counts.events + 1"
        );
        tx.execute(count, params![event.stream_id()]).await?;
        // `nth` is how many events of this order the tables know of by now. If every event comes once
        // and in order, it is the event's version.
        let row = format!(
            "INSERT INTO {name}_rows (position, version, slot, process, recorded_us, handled_us, nth) \
             VALUES ($1, $2, $3, $4, $5, $6, (SELECT events FROM {name}_counts WHERE id = $7))"
        );
        let values = params![
            event.position(),
            event.version(),
            event.slots().entity.get(),
            std::process::id(),
            event.recorded_us(),
            now_us(),
            event.stream_id(),
        ];
        tx.execute(row, values).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let name = self.0;
        let counts = format!(
            "CREATE TABLE IF NOT EXISTS {name}_counts (id TEXT PRIMARY KEY, events BIGINT NOT NULL)"
        );
        tx.execute(counts, vec![]).await?;
        // No unique key: what is handled twice must show.
        let rows = format!(
            "CREATE TABLE IF NOT EXISTS {name}_rows (position BIGINT NOT NULL, \
             version BIGINT NOT NULL, slot BIGINT NOT NULL, process BIGINT NOT NULL, \
             recorded_us BIGINT NOT NULL, handled_us BIGINT NOT NULL, nth BIGINT NOT NULL)"
        );
        tx.execute(rows, vec![]).await
    }
}

/// The time, in microseconds since 1970.
pub fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as i64
}

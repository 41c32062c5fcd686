//! The consumers that are measured: the same totals of orders, kept in different ways.

use super::events::Order;
use anabranch::{
    Event, FixedPartition, HandlerResult, Partition, Projection, Settings, Tx, View, params,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;

/// The columns of a table of totals, the same on both databases.
pub(crate) const COLUMNS: &str =
    "(id TEXT PRIMARY KEY, events BIGINT NOT NULL, total DOUBLE PRECISION NOT NULL)";

/// How many events a transaction of a projection has.
pub(crate) const BATCH: usize = 1000;

/// One event more.
pub(crate) fn upsert(table: &str) -> String {
    format!(
        "INSERT INTO {table} (id, events, total) VALUES ($1, 1, $2) \
         ON CONFLICT (id) DO UPDATE \
         SET events = {table}.events + 1, total = {table}.total + excluded.total"
    )
}

/// What follows rows that sum up several events.
pub(crate) fn on_conflict(table: &str) -> String {
    format!(
        "ON CONFLICT (id) DO UPDATE SET events = {table}.events + excluded.events, \
         total = {table}.total + excluded.total"
    )
}

/// Does nothing; every `batch_size` events it commits its cursor.
pub(crate) struct Nothing {
    pub(crate) name: String,
    pub(crate) batch_size: usize,
}

impl Projection for Nothing {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn settings(&self) -> Settings {
        Settings::default().batch_size(self.batch_size)
    }

    async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
        Ok(())
    }
}

/// A projection with other settings.
pub(crate) struct With<P> {
    pub(crate) projection: P,
    pub(crate) settings: Settings,
}

impl<P: Projection> Projection for With<P> {
    fn name(&self) -> &str {
        self.projection.name()
    }

    fn partition(&self) -> Partition {
        self.projection.partition()
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.projection.handle(event, tx).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        self.projection.set_up(tx).await
    }
}

/// One upsert for each event.
pub(crate) struct Upsert {
    name: String,
    table: &'static str,
    sql: &'static str,
}

impl Upsert {
    pub(crate) fn new(name: impl Into<String>, table: &'static str) -> Self {
        Self { name: name.into(), table, sql: upsert(table).leak() }
    }
}

impl Projection for Upsert {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let order: Order = event.data()?;
        tx.execute(self.sql, params![event.stream_id(), order.total]).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        set_up(self.table, tx).await
    }
}

/// One statement for each batch.
pub(crate) struct Batch {
    name: String,
    table: &'static str,
    conflict: &'static str,
}

impl Batch {
    pub(crate) fn new(name: impl Into<String>, table: &'static str) -> Self {
        Self { name: name.into(), table, conflict: on_conflict(table).leak() }
    }
}

impl Projection for Batch {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.handle_batch(std::slice::from_ref(event), tx).await
    }

    async fn handle_batch(&self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        let mut sums: HashMap<&str, (i64, f64)> = HashMap::with_capacity(events.len());
        for event in events {
            let order: Order = event.data()?;
            let sum = sums.entry(event.stream_id()).or_default();
            *sum = (sum.0 + 1, sum.1 + order.total);
        }
        let rows = sums.into_iter().map(|(id, (events, total))| params![id, events, total]);
        tx.insert_rows(self.table, &["id", "events", "total"], rows.collect(), self.conflict).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        set_up(self.table, tx).await
    }
}

async fn set_up(table: &str, tx: &mut Tx) -> HandlerResult {
    tx.execute(format!("CREATE TABLE IF NOT EXISTS {table} {COLUMNS}"), vec![]).await
}

/// The same as a fold, without SQL.
#[derive(Clone)]
pub(crate) struct Totals {
    pub(crate) name: String,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Total {
    pub(crate) events: u64,
    pub(crate) total: f64,
}

impl View for Totals {
    type State = Total;

    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn apply(&self, state: &mut Total, event: &Event) -> HandlerResult {
        let order: Order = event.data()?;
        state.events += 1;
        state.total += order.total;
        Ok(())
    }
}

/// Waits for something else, for each event.
pub(crate) struct Waiting {
    pub(crate) name: String,
    pub(crate) wait: Duration,
}

impl Projection for Waiting {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
        tokio::time::sleep(self.wait).await;
        Ok(())
    }
}

/// An id whose slot is in a partition.
pub(crate) fn id_in(rule: anabranch::HashRule, partition: FixedPartition) -> String {
    let slots = partition.slots();
    let mut ids = (0u64..).map(|number| format!("ord-{number}"));
    ids.find(|id| slots.contains(rule.slot(id))).unwrap_or_default()
}

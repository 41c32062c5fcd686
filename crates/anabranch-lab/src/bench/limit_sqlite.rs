//! The limit of a projection on SQLite: a thread that reads and one that writes, with prepared
//! statements.

use super::bare_sqlite::{columns, open};
use super::events::Order;
use super::handlers::{BATCH, on_conflict, upsert};
use super::limit::{Effect, PAGE};
use anabranch::Namespace;
use anabranch::sqlite::rusqlite::{Connection, Row, TransactionBehavior, params};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::mpsc::{SyncSender, sync_channel};

/// The columns that the log's own reads ask for, in the order of the table.
const SELECT: &str = "SELECT position, id, category, stream_id, version, type, schema_version, \
    data, metadata, correlation, causation, tenant, customer, tags, recorded_us, entity_slot, \
    customer_slot, saga_slot FROM";

pub(crate) struct LimitSqlite {
    reader: Connection,
    writer: Connection,
    namespace: Namespace,
}

/// What goes from the thread that reads to the one that writes.
#[derive(Default)]
struct Events {
    position: i64,
    count: usize,
    orders: Vec<(String, f64)>,
}

impl LimitSqlite {
    pub(crate) fn open(url: &str, namespace: &Namespace) -> anyhow::Result<Self> {
        let path = url.strip_prefix("sqlite:").unwrap_or(url);
        Ok(Self { reader: open(path)?, writer: open(path)?, namespace: namespace.clone() })
    }

    pub(crate) fn prepare(&self, create: &str) -> anyhow::Result<()> {
        Ok(self.writer.execute_batch(create)?)
    }

    /// Handles the whole log; returns how many events.
    pub(crate) fn run(&mut self, effect: Effect, table: &str, cursor: &str) -> anyhow::Result<u64> {
        let Self { reader, writer, namespace } = self;
        let (sender, batches) = sync_channel(4);
        let sql = match effect {
            Effect::Batch => format!(
                "INSERT INTO {table} (id, events, total) VALUES (?1, ?2, ?3) {}",
                on_conflict(table)
            ),
            _ => upsert(table),
        };
        let advance = format!("UPDATE {cursor} SET position = ?1");
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || read(reader, namespace, effect, sender));
            let mut handled = 0;
            for Events { position, count, orders } in batches {
                let tx = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
                let mut write = tx.prepare_cached(&sql)?;
                if effect == Effect::Batch {
                    let mut sums: HashMap<&str, (i64, f64)> = HashMap::with_capacity(orders.len());
                    for (id, total) in &orders {
                        let sum = sums.entry(id).or_default();
                        *sum = (sum.0 + 1, sum.1 + total);
                    }
                    for (id, (events, total)) in sums {
                        write.execute(params![id, events, total])?;
                    }
                } else {
                    for (id, total) in &orders {
                        write.execute(params![id, total])?;
                    }
                }
                drop(write);
                tx.prepare_cached(&advance)?.execute([position])?;
                tx.commit()?;
                handled += count as u64;
            }
            reading.join().map_err(|_| anyhow::anyhow!("the thread that reads has panicked"))??;
            Ok(handled)
        })
    }
}

fn read(
    reader: &mut Connection,
    namespace: &Namespace,
    effect: Effect,
    batches: SyncSender<Events>,
) -> anyhow::Result<()> {
    let sql =
        format!("{SELECT} {namespace}_events WHERE position > ?1 ORDER BY position LIMIT {PAGE}");
    let mut statement = reader.prepare(&sql)?;
    let mut after = 0;
    loop {
        let before = after;
        let mut rows = statement.query([after])?;
        let mut batch = Events::default();
        while let Some(row) = rows.next()? {
            batch.position = row.get(0)?;
            batch.count += 1;
            after = batch.position;
            match effect {
                Effect::Nothing => drop(black_box(columns(row)?)),
                _ => batch.orders.push(order(row)?),
            }
            if batch.count == BATCH && batches.send(std::mem::take(&mut batch)).is_err() {
                return Ok(());
            }
        }
        drop(rows);
        if batch.count > 0 && batches.send(batch).is_err() || after == before {
            return Ok(());
        }
    }
}

fn order(row: &Row<'_>) -> anyhow::Result<(String, f64)> {
    let order: Order = serde_json::from_str(row.get_ref(7)?.as_str()?)?;
    Ok((row.get(3)?, order.total))
}

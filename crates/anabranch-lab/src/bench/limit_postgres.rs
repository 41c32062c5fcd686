//! The limit of a projection on PostgreSQL: prepared statements, and each transaction is one
//! pipeline.

use super::bare_postgres::{Text, columns, open};
use super::events::Order;
use super::handlers::{BATCH, on_conflict, upsert};
use super::limit::{Effect, PAGE};
use anabranch::Namespace;
use anabranch::postgres::tokio_postgres::types::ToSql;
use anabranch::postgres::tokio_postgres::{Client, Error, Row, Statement};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::poll;
use std::collections::HashMap;
use std::hint::black_box;
use std::task::Poll;
use tokio::sync::mpsc;

/// The columns that the log's own reads ask for.
const SELECT: &str = "SELECT position, version, recorded_at, id, schema_version, entity_slot, \
    customer_slot, saga_slot, category, stream_id, type, data, metadata, correlation, causation, \
    tenant, customer, tags FROM";

pub(crate) struct LimitPostgres {
    reader: Client,
    writer: Client,
    namespace: Namespace,
}

struct Statements {
    effect: Option<Statement>,
    cursor: Statement,
}

impl LimitPostgres {
    pub(crate) async fn connect(url: &str, namespace: &Namespace) -> anyhow::Result<Self> {
        let (reader, writer) = (open(url).await?, open(url).await?);
        Ok(Self { reader, writer, namespace: namespace.clone() })
    }

    pub(crate) async fn prepare(&self, create: &str) -> anyhow::Result<()> {
        Ok(self.writer.batch_execute(create).await?)
    }

    /// Handles the whole log; returns how many events.
    pub(crate) async fn run(
        self,
        effect: Effect,
        table: &str,
        cursor: &str,
    ) -> anyhow::Result<u64> {
        let Self { reader, writer, namespace } = self;
        let sql = match effect {
            Effect::Nothing => None,
            Effect::Upsert => Some(upsert(table)),
            Effect::Batch => Some(format!(
                "INSERT INTO {table} (id, events, total) \
                 SELECT * FROM unnest($1::text[], $2::int8[], $3::float8[]) {}",
                on_conflict(table)
            )),
        };
        let statements = Statements {
            effect: match sql {
                Some(sql) => Some(writer.prepare(&sql).await?),
                None => None,
            },
            cursor: writer.prepare(&format!("UPDATE {cursor} SET position = $1")).await?,
        };
        let (sender, mut pages) = mpsc::channel(2);
        let reading = tokio::spawn(read(reader, namespace, sender));
        let mut handled = 0;
        while let Some(page) = pages.recv().await {
            for rows in page.chunks(BATCH) {
                transaction(&writer, &statements, effect, rows).await?;
                handled += rows.len() as u64;
            }
        }
        reading.await??;
        Ok(handled)
    }
}

async fn read(
    reader: Client,
    namespace: Namespace,
    pages: mpsc::Sender<Vec<Row>>,
) -> anyhow::Result<()> {
    let sql =
        format!("{SELECT} {namespace}.events WHERE position > $1 ORDER BY position LIMIT {PAGE}");
    let statement = reader.prepare(&sql).await?;
    let mut after = 0i64;
    loop {
        let rows = reader.query(&statement, &[&after]).await?;
        match rows.last() {
            Some(last) => after = last.try_get(0)?,
            None => return Ok(()),
        }
        if pages.send(rows).await.is_err() {
            return Ok(());
        }
    }
}

type Sent<'a> = BoxFuture<'a, Result<(), Error>>;

/// One transaction, in one round trip.
async fn transaction(
    writer: &Client,
    statements: &Statements,
    effect: Effect,
    rows: &[Row],
) -> anyhow::Result<()> {
    let Some(last) = rows.last() else { return Ok(()) };
    let position: i64 = last.try_get(0)?;
    let mut parameters: Vec<(&str, f64)> = Vec::new();
    let mut sent: Vec<Sent<'_>> = Vec::with_capacity(rows.len() + 3);
    if effect != Effect::Nothing {
        for row in rows {
            let Text(data) = row.try_get(11)?;
            parameters.push((row.try_get(9)?, serde_json::from_str::<Order>(data)?.total));
        }
        sent.push(writer.batch_execute("BEGIN").boxed());
    }
    match (effect, &statements.effect) {
        (Effect::Upsert, Some(upsert)) => {
            for (id, total) in &parameters {
                let values: [&(dyn ToSql + Sync); 2] = [id, total];
                sent.push(execute(writer, upsert, values));
            }
        }
        (Effect::Batch, Some(insert)) => {
            let mut sums: HashMap<&str, (i64, f64)> = HashMap::with_capacity(parameters.len());
            for (id, total) in &parameters {
                let sum = sums.entry(*id).or_default();
                *sum = (sum.0 + 1, sum.1 + total);
            }
            let ids: Vec<&str> = sums.keys().copied().collect();
            let events: Vec<i64> = sums.values().map(|sum| sum.0).collect();
            let totals: Vec<f64> = sums.values().map(|sum| sum.1).collect();
            let insert = insert.clone();
            sent.push(
                async move { writer.execute(&insert, &[&ids, &events, &totals]).await.map(drop) }
                    .boxed(),
            );
        }
        _ => rows.iter().try_for_each(|row| columns(row).map(|row| drop(black_box(row))))?,
    }
    let values: [&(dyn ToSql + Sync); 1] = [&position];
    sent.push(execute(writer, &statements.cursor, values));
    if effect != Effect::Nothing {
        sent.push(writer.batch_execute("COMMIT").boxed());
    }
    all(sent).await.map_err(Into::into)
}

fn execute<'a, const N: usize>(
    writer: &'a Client,
    statement: &'a Statement,
    values: [&'a (dyn ToSql + Sync); N],
) -> Sent<'a> {
    async move { writer.execute(statement, &values).await.map(drop) }.boxed()
}

/// The first poll of each sends it, so they go out in order before the first answer is waited for.
async fn all(mut sent: Vec<Sent<'_>>) -> Result<(), Error> {
    let mut first = Vec::with_capacity(sent.len());
    for one in &mut sent {
        first.push(poll!(one));
    }
    for (one, first) in sent.into_iter().zip(first) {
        match first {
            Poll::Ready(done) => done?,
            Poll::Pending => one.await?,
        }
    }
    Ok(())
}

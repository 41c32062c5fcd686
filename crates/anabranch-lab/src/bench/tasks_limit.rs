//! The limit of a work pool: the rows of the same tasks inserted, read and updated by hand, sets of
//! them at a time. It guards against nothing, keeps no order but that of the table, and nobody can
//! share its work.

use super::bare_postgres::{Text, open};
use super::own_log::OwnLog;
use super::workpool::BATCH;
use anabranch::postgres::tokio_postgres::Client;
use anabranch::postgres::tokio_postgres::types::ToSql;
use anabranch::sqlite::rusqlite::{TransactionBehavior, params};
use anabranch::workpool::{NewTask, TaskState};
use std::hint::black_box;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::try_join;
use uuid::Uuid;

/// What stands in the table for a task that is ready, and for one that is done.
const READY: i64 = TaskState::Ready.code();
const DONE: i64 = TaskState::Done.code();

/// A task, as the limit writes it.
struct BareTask {
    id: Uuid,
    key: String,
    slot: i64,
    payload: String,
}

/// Inserts tasks and ends them; returns how many a second.
pub(crate) async fn rate(own: &OwnLog, pool: &str, tasks: Vec<NewTask>) -> anyhow::Result<f64> {
    let rule = own.log.hash_rule();
    let bare = |task: NewTask| BareTask {
        id: task.id(),
        slot: rule.slot(task.key()).get().into(),
        key: task.key().to_owned(),
        payload: "12345".to_owned(),
    };
    let tasks: Vec<BareTask> = tasks.into_iter().map(bare).collect();
    let elapsed = match own.is_postgres() {
        true => postgres(own, pool, &tasks).await?,
        false => sqlite(own, pool, &tasks)?,
    };
    Ok(tasks.len() as f64 / elapsed)
}

/// One connection inserts, one reads, one updates, at the same time.
async fn postgres(own: &OwnLog, pool: &str, tasks: &[BareTask]) -> anyhow::Result<f64> {
    let table = own.table("tasks");
    let cursor = own.table(format_args!("{pool}_cursor"));
    let (enqueuer, reader, writer) =
        (open(&own.url).await?, open(&own.url).await?, open(&own.url).await?);
    let create = format!(
        "CREATE TABLE {cursor} (position BIGINT NOT NULL); INSERT INTO {cursor} VALUES (0);"
    );
    writer.batch_execute(&create).await?;
    let (pages, mut read) = mpsc::channel(2);
    let started = Instant::now();
    let enqueued = insert(&enqueuer, table, pool, tasks);
    let reading = page_by_page(&reader, table, pool, tasks.len(), pages);
    let updated = async {
        let update = format!(
            "UPDATE {table} AS t SET state = {DONE}, finished_us = 1, error = NULL, result = d.result \
             FROM unnest($1::uuid[], $2::text[]::json[]) AS d (id, result) WHERE t.id = d.id"
        );
        let update = writer.prepare(&update).await?;
        let advance = writer.prepare(&format!("UPDATE {cursor} SET position = $1")).await?;
        while let Some((ids, last)) = read.recv().await {
            let results = vec!["null"; ids.len()];
            let values: [&(dyn ToSql + Sync); 2] = [&ids, &results];
            let last: [&(dyn ToSql + Sync); 1] = [&last];
            // Sent in this order, in one round trip.
            try_join!(
                writer.batch_execute("BEGIN"),
                writer.execute(&update, &values),
                writer.execute(&advance, &last),
                writer.batch_execute("COMMIT"),
            )?;
        }
        anyhow::Ok(())
    };
    try_join!(enqueued, reading, updated)?;
    Ok(started.elapsed().as_secs_f64())
}

async fn insert(
    client: &Client,
    table: &str,
    pool: &str,
    tasks: &[BareTask],
) -> anyhow::Result<()> {
    let insert = format!(
        "INSERT INTO {table} (id, pool, key, slot, state, due_us, payload, enqueued_us) \
         SELECT id, $5, key, slot, {READY}, 0, payload, 1 \
         FROM unnest($1::uuid[], $2::text[], $3::int8[], $4::text[]::json[]) \
         AS new (id, key, slot, payload)"
    );
    let insert = client.prepare(&insert).await?;
    for batch in tasks.chunks(BATCH as usize) {
        let ids: Vec<Uuid> = batch.iter().map(|task| task.id).collect();
        let keys: Vec<&str> = batch.iter().map(|task| task.key.as_str()).collect();
        let slots: Vec<i64> = batch.iter().map(|task| task.slot).collect();
        let payloads: Vec<&str> = batch.iter().map(|task| task.payload.as_str()).collect();
        client.execute(&insert, &[&ids, &keys, &slots, &payloads, &pool]).await?;
    }
    Ok(())
}

/// What there is to do, in order; each page once the one before is on its way.
async fn page_by_page(
    client: &Client,
    table: &str,
    pool: &str,
    count: usize,
    pages: mpsc::Sender<(Vec<Uuid>, i64)>,
) -> anyhow::Result<()> {
    let select = format!(
        "SELECT id, seq, key, slot, attempts, due_us, payload, checkpoint, then_run FROM {table} \
         WHERE pool = $1 AND state = {READY} AND seq > $2 ORDER BY seq LIMIT {BATCH}"
    );
    // As a pool does, by the one plan that reads the beginning of a queue in order.
    client.batch_execute("SET enable_seqscan = off; SET enable_sort = off;").await?;
    client.batch_execute("SET enable_bitmapscan = off").await?;
    let select = client.prepare(&select).await?;
    let (mut read, mut after) = (0, 0i64);
    while read < count {
        let rows = client.query(&select, &[&pool, &after]).await?;
        let mut ids = Vec::with_capacity(rows.len());
        for row in &rows {
            let Text(payload) = row.try_get(6)?;
            black_box((
                row.try_get::<_, String>(2)?,
                row.try_get::<_, i64>(3)?,
                payload.to_owned(),
            ));
            ids.push(row.try_get(0)?);
            after = row.try_get(1)?;
        }
        read += ids.len();
        if !ids.is_empty() && pages.send((ids, after)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// SQLite has one writer: the tasks are inserted, then ended, batch by batch.
fn sqlite(own: &OwnLog, pool: &str, tasks: &[BareTask]) -> anyhow::Result<f64> {
    let path = own.url.strip_prefix("sqlite:").unwrap_or(&own.url);
    let mut connection = super::bare_sqlite::open(path)?;
    let table = own.table("tasks");
    let insert = format!(
        "INSERT INTO {table} (id, pool, key, slot, state, due_us, payload, enqueued_us) \
         VALUES (?1, ?2, ?3, ?4, {READY}, 0, ?5, 1)"
    );
    let select = format!(
        "SELECT id, seq, key, slot, attempts, due_us, payload, checkpoint, then_run FROM {table} \
         WHERE pool = ?1 AND state = {READY} ORDER BY seq LIMIT {BATCH}"
    );
    let update = format!(
        "UPDATE {table} SET state = {DONE}, finished_us = 1, result = 'null' WHERE id = ?1"
    );
    let started = Instant::now();
    for batch in tasks.chunks(BATCH as usize) {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for BareTask { id, key, slot, payload } in batch {
            let values = params![id.to_string(), pool, key, slot, payload];
            tx.prepare_cached(&insert)?.execute(values)?;
        }
        tx.commit()?;
        let ids: Vec<String> = {
            let mut select = connection.prepare_cached(&select)?;
            let ids = select.query_map([pool], |row| {
                black_box((row.get::<_, String>(2)?, row.get::<_, String>(6)?));
                row.get(0)
            })?;
            ids.collect::<Result<_, _>>()?
        };
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for id in &ids {
            tx.prepare_cached(&update)?.execute([id])?;
        }
        tx.commit()?;
    }
    Ok(started.elapsed().as_secs_f64())
}

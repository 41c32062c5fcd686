//! The limit on PostgreSQL: one connection, one prepared multi-row insert, one row stream.

use super::bare::BareRow;
use anabranch::Namespace;
use anabranch::postgres::driver_session;
use anabranch::postgres::tokio_postgres::error::SqlState;
use anabranch::postgres::tokio_postgres::types::{FromSql, ToSql, Type};
use anabranch::postgres::tokio_postgres::{Client, Row, Statement};
use futures_util::{StreamExt, pin_mut};
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// How often tables are dropped again that others have locked.
const DROP_ATTEMPTS: usize = 5;

pub(crate) struct BarePostgres {
    client: Client,
    namespace: Namespace,
    insert: OnceCell<Statement>,
    insert_tagged: OnceCell<Statement>,
}

impl BarePostgres {
    pub(crate) async fn connect(url: &str, namespace: &Namespace) -> anyhow::Result<Self> {
        let (insert, insert_tagged) = Default::default();
        let client = open(url).await?;
        Ok(Self { client, namespace: namespace.clone(), insert, insert_tagged })
    }

    pub(crate) async fn write(
        &self,
        mut batch: impl FnMut() -> Vec<BareRow>,
        time: Duration,
    ) -> anyhow::Result<u64> {
        let (started, mut written) = (Instant::now(), 0);
        while started.elapsed() < time {
            let rows = batch();
            self.insert(&rows).await?;
            written += rows.len() as u64;
        }
        Ok(written)
    }

    pub(crate) async fn read_and_write(
        &self,
        mut batch: impl FnMut() -> Vec<BareRow>,
        time: Duration,
    ) -> anyhow::Result<u64> {
        let scopes = format!(
            "SELECT e.* FROM unnest($1::text[]) AS wanted (tag) \
             JOIN {namespace}.event_tags AS t ON t.tag = wanted.tag \
             JOIN {namespace}.events AS e ON e.position = t.position",
            namespace = self.namespace
        );
        let scopes = self.client.prepare(&scopes).await?;
        let (started, mut written) = (Instant::now(), 0);
        while started.elapsed() < time {
            let rows = batch();
            let tags: Vec<&str> = rows.iter().filter_map(|row| row.tag.as_deref()).collect();
            for event in self.client.query(&scopes, &[&tags]).await? {
                black_box(columns(&event)?);
            }
            self.insert(&rows).await?;
            written += rows.len() as u64;
        }
        Ok(written)
    }

    /// Writes rows in one statement. All of them have a tag, or none has.
    pub(crate) async fn insert(&self, rows: &[BareRow]) -> anyhow::Result<()> {
        let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
        let ids: Vec<Uuid> = rows.iter().map(|_| Uuid::now_v7()).collect();
        let streams: Vec<&str> = rows.iter().map(|row| row.stream.as_str()).collect();
        let data: Vec<&str> = rows.iter().map(|row| row.data.as_str()).collect();
        let customers: Vec<&str> = rows.iter().map(|row| row.customer.as_str()).collect();
        let tags: Vec<&str> = rows.iter().filter_map(|row| row.tag.as_deref()).collect();
        let mut values: Vec<&(dyn ToSql + Sync)> =
            vec![&versions, &ids, &streams, &data, &customers];
        let prepared = match tags.is_empty() {
            true => &self.insert,
            false => {
                values.push(&tags);
                &self.insert_tagged
            }
        };
        let sql = || self.insert_statement(!tags.is_empty());
        let prepare = async || self.client.prepare(&sql()).await;
        let insert = prepared.get_or_try_init(prepare).await?;
        self.client.execute(insert, &values).await?;
        Ok(())
    }

    fn insert_statement(&self, with_tags: bool) -> String {
        let namespace = &self.namespace;
        let (tag, array, column) = match with_tags {
            true => ("ARRAY[tag]", ", $6::text[]", ", tag"),
            false => ("'{}'", "", ""),
        };
        let insert = format!(
            "INSERT INTO {namespace}.events (version, recorded_at, id, schema_version, entity_slot, \
             customer_slot, category, stream_id, type, data, customer, tags) \
             SELECT version, now(), id, 1, 17, 18, 'Order', stream, 'OrderPlaced', data::json, \
             customer, {tag} \
             FROM unnest($1::int8[], $2::uuid[], $3::text[], $4::text[], $5::text[]{array}) \
             AS new (version, id, stream, data, customer{column})"
        );
        match with_tags {
            true => format!(
                "WITH stored AS ({insert} RETURNING position, tags) \
                 INSERT INTO {namespace}.event_tags (tag, position) \
                 SELECT tags[1], position FROM stored"
            ),
            false => insert,
        }
    }

    pub(crate) async fn counts(&self) -> anyhow::Result<(u64, u64)> {
        let namespace = &self.namespace;
        let sql = format!(
            "SELECT (SELECT count(*) FROM {namespace}.events), \
             (SELECT count(*) FROM {namespace}.event_tags)"
        );
        let row = self.client.query_one(&sql, &[]).await?;
        let count = |column| row.try_get::<_, i64>(column).map(i64::unsigned_abs);
        Ok((count(0)?, count(1)?))
    }

    pub(crate) async fn read(&self) -> anyhow::Result<u64> {
        let sql = format!("SELECT * FROM {}.events ORDER BY position", self.namespace);
        let none: [&(dyn ToSql + Sync); 0] = [];
        let rows = self.client.query_raw(&sql, none).await?;
        pin_mut!(rows);
        let mut read = 0;
        while let Some(row) = rows.next().await {
            black_box(columns(&row?)?);
            read += 1;
        }
        Ok(read)
    }

    /// The sums of a table of totals.
    pub(crate) async fn sums(&self, table: &str) -> anyhow::Result<(u64, f64)> {
        let sql = format!(
            "SELECT coalesce(sum(events), 0)::int8, coalesce(sum(total), 0)::float8 FROM {table}"
        );
        let row = self.client.query_one(&sql, &[]).await?;
        Ok((row.try_get::<_, i64>(0)?.unsigned_abs(), row.try_get(1)?))
    }

    /// How many rows of the log the server has looked at so far. It counts what sessions have
    /// reported, which those that have ended did.
    pub(crate) async fn rows_scanned(&self) -> anyhow::Result<i64> {
        let sql = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::int8 \
                   FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'events'";
        Ok(self.client.query_one(sql, &[&self.namespace.as_str()]).await?.try_get(0)?)
    }

    /// How many transactions this database has seen so far, of anybody.
    pub(crate) async fn transactions(&self) -> anyhow::Result<i64> {
        let sql = "SELECT (xact_commit + xact_rollback)::int8 FROM pg_stat_database \
                   WHERE datname = current_database()";
        Ok(self.client.query_one(sql, &[]).await?.try_get(0)?)
    }

    /// The process of the server that serves this connection.
    pub(crate) async fn process(&self) -> anyhow::Result<i32> {
        Ok(self.client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0))
    }

    pub(crate) async fn drop_log(&self) -> anyhow::Result<()> {
        let sql = format!("DROP SCHEMA {} CASCADE", self.namespace);
        let mut dropped = self.client.batch_execute(&sql).await;
        // The last statements of what was cut short may lock tables in another order.
        for _ in 0..DROP_ATTEMPTS {
            match &dropped {
                Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
                    dropped = self.client.batch_execute(&sql).await;
                }
                _ => break,
            }
        }
        Ok(dropped?)
    }
}

/// A connection whose commits are on disk. It is encrypted as that of the log is, or they could not be compared.
pub(crate) async fn open(url: &str) -> anyhow::Result<Client> {
    let client = driver_session(url).await?;
    client.batch_execute("SET synchronous_commit = on").await?;
    Ok(client)
}

/// Every column, as values that a program can keep.
pub(crate) fn columns(row: &Row) -> anyhow::Result<impl Sized> {
    let mut texts = Vec::with_capacity(9);
    for column in [8, 9, 10, 13, 14, 15, 16] {
        texts.push(row.try_get::<_, Option<String>>(column)?);
    }
    for column in [11, 12] {
        texts.push(row.try_get::<_, Option<Text<'_>>>(column)?.map(|text| text.0.to_owned()));
    }
    let numbers = row.try_get::<_, i64>(1)? + i64::from(row.try_get::<_, i32>(4)?);
    let slots = [5, 6, 7].map(|column| row.try_get::<_, Option<i16>>(column));
    let slots: i64 = slots.into_iter().flatten().flatten().map(i64::from).sum();
    let (position, id): (i64, Uuid) = (row.try_get(0)?, row.try_get(3)?);
    let tags: Vec<String> = row.try_get(17)?;
    Ok((position, id, texts, tags, numbers + slots))
}

/// The text of a `json` column.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl<'a> FromSql<'a> for Text<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSON
    }
}

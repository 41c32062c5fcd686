//! The limit on SQLite: one connection, prepared statements.

use super::bare::BareRow;
use anabranch::Namespace;
use anabranch::sqlite::rusqlite::{Connection, Row, TransactionBehavior, params};
use std::hint::black_box;
use std::time::{Duration, Instant};

pub(crate) struct BareSqlite {
    connection: Connection,
    namespace: Namespace,
}

impl BareSqlite {
    pub(crate) fn open(path: &str, namespace: &Namespace) -> anyhow::Result<Self> {
        Ok(Self { connection: open(path)?, namespace: namespace.clone() })
    }

    pub(crate) fn write(
        &mut self,
        mut batch: impl FnMut() -> Vec<BareRow>,
        time: Duration,
    ) -> anyhow::Result<u64> {
        let (started, mut written) = (Instant::now(), 0);
        while started.elapsed() < time {
            let rows = batch();
            self.insert(&rows)?;
            written += rows.len() as u64;
        }
        Ok(written)
    }

    pub(crate) fn read_and_write(
        &mut self,
        mut batch: impl FnMut() -> Vec<BareRow>,
        time: Duration,
    ) -> anyhow::Result<u64> {
        let namespace = &self.namespace;
        let scope = format!(
            "SELECT e.* FROM {namespace}_event_tags AS t \
             JOIN {namespace}_events AS e ON e.position = t.position \
             WHERE t.tag = ?1 ORDER BY t.position"
        );
        let (started, mut written) = (Instant::now(), 0);
        while started.elapsed() < time {
            let rows = batch();
            let mut statement = self.connection.prepare_cached(&scope)?;
            for row in &rows {
                let mut events = statement.query([&row.tag])?;
                while let Some(event) = events.next()? {
                    black_box(columns(event)?);
                }
            }
            drop(statement);
            self.insert(&rows)?;
            written += rows.len() as u64;
        }
        Ok(written)
    }

    pub(crate) fn insert(&mut self, rows: &[BareRow]) -> anyhow::Result<()> {
        let namespace = &self.namespace;
        // The columns are named: a migration may add some.
        let sql = format!(
            "INSERT INTO {namespace}_events (id, category, stream_id, version, type, \
             schema_version, data, customer, tags, recorded_us, entity_slot, customer_slot) \
             VALUES (?1, 'Order', ?2, ?3, 'OrderPlaced', 1, ?4, ?5, ?6, 0, 17, 18)"
        );
        let tag = format!("INSERT INTO {namespace}_event_tags (tag, position) VALUES (?1, ?2)");
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (mut insert, mut insert_tag) = (tx.prepare_cached(&sql)?, tx.prepare_cached(&tag)?);
        for row in rows {
            let id = uuid::Uuid::now_v7();
            let BareRow { stream, version, data, customer, tag } = row;
            let tags = tag.as_deref().unwrap_or_default();
            insert.execute(params![id.as_bytes(), stream, version, data, customer, tags])?;
            if let Some(tag) = tag {
                insert_tag.execute(params![tag, tx.last_insert_rowid()])?;
            }
        }
        drop((insert, insert_tag));
        Ok(tx.commit()?)
    }

    pub(crate) fn counts(&self) -> anyhow::Result<(u64, u64)> {
        let namespace = &self.namespace;
        let sql = format!(
            "SELECT (SELECT count(*) FROM {namespace}_events), \
             (SELECT count(*) FROM {namespace}_event_tags)"
        );
        let count = |row: &Row<'_>, column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let counts = |row: &Row<'_>| Ok((count(row, 0)?, count(row, 1)?));
        Ok(self.connection.query_row(&sql, (), counts)?)
    }

    pub(crate) fn read(&self) -> anyhow::Result<u64> {
        let sql = format!("SELECT * FROM {}_events ORDER BY position", self.namespace);
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        let mut read = 0;
        while let Some(row) = rows.next()? {
            black_box(columns(row)?);
            read += 1;
        }
        Ok(read)
    }

    /// The sums of a table of totals.
    pub(crate) fn sums(&self, table: &str) -> anyhow::Result<(u64, f64)> {
        let sql = format!("SELECT coalesce(sum(events), 0), total(total) FROM {table}");
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?));
        Ok(self.connection.query_row(&sql, (), row)?)
    }

    pub(crate) fn drop_log(&self) -> anyhow::Result<()> {
        // Views first: they read the tables.
        let ours = "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view') \
                    AND substr(name, 1, length(?1)) = ?1 ORDER BY type DESC";
        let mut ours = self.connection.prepare(ours)?;
        let prefix = format!("{}_", self.namespace);
        let named = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        let found = ours.query_map([prefix], named)?;
        for (kind, name) in found.collect::<Result<Vec<_>, _>>()? {
            self.connection.execute(&format!("DROP {kind} {name}"), ())?;
        }
        Ok(())
    }
}

/// A connection whose commits are on disk.
pub(crate) fn open(path: &str) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Every column, as values that a program can keep.
pub(crate) fn columns(row: &Row<'_>) -> anyhow::Result<impl Sized> {
    let mut texts = Vec::with_capacity(10);
    for column in [2, 3, 5, 7, 8, 9, 10, 11, 12, 13] {
        texts.push(row.get::<_, Option<String>>(column)?);
    }
    let mut numbers = 0;
    for column in [4, 6, 14, 15] {
        numbers += row.get::<_, i64>(column)?;
    }
    for column in [16, 17] {
        numbers += row.get::<_, Option<i64>>(column)?.unwrap_or(0);
    }
    Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 16]>(1)?, texts, numbers))
}

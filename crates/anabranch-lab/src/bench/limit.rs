//! The limit of a projection: the same effect written by hand with the bare driver. Events are read
//! on one connection while another writes; a transaction has a thousand of them and moves a cursor.
//! It guards against nothing, and nobody can share its work.

use super::handlers::COLUMNS;
use super::limit_postgres::LimitPostgres;
use super::limit_sqlite::LimitSqlite;
use super::own_log::OwnLog;
use std::time::Instant;

/// What is done with the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Every column is fetched and forgotten.
    Nothing,
    /// One upsert for each event.
    Upsert,
    /// One statement for each transaction; on SQLite one for each key of it.
    Batch,
}

/// How many events are read at a time: whole transactions, and about as many as the feed reads.
pub(crate) const PAGE: usize = 4000;

/// Writes the table of totals from scratch; returns how many events a second.
pub(crate) async fn rate(own: &OwnLog, effect: Effect, table: &str) -> anyhow::Result<f64> {
    let cursor = format!("{table}_cursor");
    let create = format!(
        "CREATE TABLE {table} {COLUMNS}; CREATE TABLE {cursor} (position BIGINT NOT NULL); \
         INSERT INTO {cursor} VALUES (0);"
    );
    let (handled, elapsed) = if own.is_postgres() {
        let limit = LimitPostgres::connect(&own.url, &own.namespace).await?;
        limit.prepare(&create).await?;
        let started = Instant::now();
        (limit.run(effect, table, &cursor).await?, started.elapsed())
    } else {
        let mut limit = LimitSqlite::open(&own.url, &own.namespace)?;
        limit.prepare(&create)?;
        let started = Instant::now();
        (limit.run(effect, table, &cursor)?, started.elapsed())
    };
    Ok(handled as f64 / elapsed.as_secs_f64())
}

//! What the server's sessions do: transactions that a dead worker left behind, and lanes that wait for
//! somebody's lock.

use crate::connection::Server;
use crate::error::Failure;
use crate::pool::Pool;
use anabranch_core::{Happening, Notice, StoreError};
use anabranch_store::database::{Blocked, Who};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Ends the sessions in which a worker has a transaction open. The server's processes end by
/// themselves, so this does not wait for them.
pub(crate) async fn end_sessions(
    pool: &Pool,
    server: &Server,
    worker: &str,
) -> Result<(), StoreError> {
    let prefix = Who::prefix(worker);
    let ended =
        query(pool, server, include_str!("../queries/end_sessions.sql"), &[&prefix]).await?;
    if !ended.is_empty() {
        let sessions = ended.len();
        let detail = format!("worker={worker} sessions={sessions}");
        server.events.emit(Happening::noticed(Notice::DeadSessionsEnded, detail));
    }
    Ok(())
}

/// Transactions of ours that wait for a lock.
pub(crate) async fn blocked(pool: &Pool, server: &Server) -> Result<Vec<Blocked>, StoreError> {
    let rows = query(pool, server, include_str!("../queries/blocked.sql"), &[]).await?;
    let blocked = |row: &Row| Blocked {
        name: row.get(0),
        by: row.get(1),
        doing: row.get(2),
        wait: Duration::from_micros(row.get::<_, i64>(3).max(0) as u64),
    };
    Ok(rows.iter().map(blocked).collect())
}

async fn query(
    pool: &Pool,
    server: &Server,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    let at = |error: Failure| error.at(&server.at);
    let lease = pool.get("a look at sessions").await.map_err(at)?;
    let rows = server.in_time(lease.session().query(sql, values)).await.map_err(at)?;
    lease.give_back();
    Ok(rows)
}

//! A row that was handled well more than once, and by whom.

use crate::tables::Tables;
use anabranch_core::{StoreError, time};
use anabranch_store::Database;
use anabranch_store::database::column;
use jiff::Timestamp;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// A row that was handled well more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Collision {
    /// Its key.
    pub key: String,
    /// By whom, the first one first. A session that did so twice is there twice.
    pub handled_by: Vec<HandledBy>,
}

/// A session that has handled a row well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandledBy {
    /// Its id.
    pub session: String,
    /// Its part, as it was told: `elastic`, or `2 of 3`.
    pub part: String,
    /// The machine it ran on, if the session is still known.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<i64>,
    /// When, by the database's clock.
    pub at: Timestamp,
}

impl fmt::Display for HandledBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, part, host, pid, .. } = self;
        // `elastic` and `imported` are no part of anything.
        let of = if part.contains(" of ") { "part " } else { "" };
        write!(f, "session {session}, {of}{part}")?;
        match (host, pid) {
            (Some(host), Some(pid)) => write!(f, ", process {pid} on {host}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by: Vec<String> = self.handled_by.iter().map(ToString::to_string).collect();
        write!(f, "{} ({})", self.key, by.join("; "))
    }
}

/// The first few, by their keys.
pub(crate) async fn all(
    tables: &Tables,
    database: &Arc<dyn Database>,
    limit: usize,
) -> Result<Vec<Collision>, StoreError> {
    let (at, mut found) = (database.at(), Vec::<Collision>::new());
    for row in database.rows(tables.collisions(limit)).await? {
        let key: String = column(at, &row, "key")?;
        let by = HandledBy {
            session: column(at, &row, "session")?,
            part: column(at, &row, "part")?,
            host: column(at, &row, "host")?,
            pid: column(at, &row, "pid")?,
            at: time::from_micros(column(at, &row, "at_us")?),
        };
        match found.last_mut() {
            Some(last) if last.key == key => last.handled_by.push(by),
            _ => found.push(Collision { key, handled_by: vec![by] }),
        }
    }
    Ok(found)
}

//! The proof: who handled what, in its own part or not, and whether something is doubled or missing.

use crate::batch::rows_of;
use crate::part::Part;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::value::FromValue;
use anabranch_store::{Database, Row};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many examples are named of what is wrong.
const EXAMPLES: usize = 10;

/// What a session has handled well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionRows {
    /// Its id.
    pub session: String,
    /// Its part, as it was told: `elastic`, or `2 of 3`.
    pub part: String,
    /// How many rows.
    pub rows: u64,
    /// The lowest key.
    pub first: String,
    /// The highest key.
    pub last: String,
    /// Of how many parts they are: 1, for a fixed part.
    pub partitions: usize,
}

/// What the tables prove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The sessions, in the order in which they began.
    pub sessions: Vec<SessionRows>,
    /// Rows of the source.
    pub rows: u64,
    /// Rows that were handled well.
    pub succeeded: u64,
    /// Rows that failed.
    pub failed: u64,
    /// Rows that somebody is at work on.
    pub claimed: u64,
    /// Rows that nobody has begun with.
    pub missing: u64,
    /// Keys that were handled well more than once, the first few. There must be none.
    pub collisions: Vec<String>,
    /// Entries that say `success` though nothing of it is in the history, the first few. There must be none.
    pub unproven: Vec<String>,
}

impl Verified {
    /// What must not be, in words; nothing if all is well. Rows that are still to be done are no violation,
    /// unless they are asked for.
    #[must_use]
    pub fn violations(&self, must_be_done: bool) -> Vec<String> {
        let mut said = Vec::new();
        if !self.collisions.is_empty() {
            said.push(format!("rows handled more than once: {}", self.collisions.join(", ")));
        }
        if !self.unproven.is_empty() {
            said.push(format!("rows without proof of success: {}", self.unproven.join(", ")));
        }
        for session in self.sessions.iter().filter(|session| session.partitions > 1) {
            said.push(format!(
                "session {} was part {} and has handled rows of {} parts",
                session.session, session.part, session.partitions
            ));
        }
        if must_be_done && self.missing + self.claimed > 0 {
            said.push(format!("{} rows are not processed yet", self.missing + self.claimed));
        }
        said
    }

    /// Whether nothing is doubled, unproven or out of its part.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.violations(false).is_empty()
    }
}

pub(crate) async fn verify(
    tables: &Tables,
    database: &Arc<dyn Database>,
) -> Result<Verified, StoreError> {
    let at = database.at();
    let mut verified = Verified::default();
    for row in rows_of(database, tables.states()).await? {
        let rows: u64 = column(at, &row, "n")?;
        match column::<String>(at, &row, "state")?.as_str() {
            "success" => verified.succeeded = rows,
            "failed" => verified.failed = rows,
            _ => verified.claimed = rows,
        }
    }
    let [all, missing] = tables.missing();
    let count = async |statement| -> Result<u64, StoreError> {
        rows_of(database, statement).await?.first().map_or(Ok(0), |row| column(at, row, "n"))
    };
    (verified.rows, verified.missing) = (count(all).await?, count(missing).await?);
    for row in rows_of(database, tables.collisions(EXAMPLES)).await? {
        verified.collisions.push(column(at, &row, "key")?);
    }
    for row in rows_of(database, tables.unproven(EXAMPLES)).await? {
        verified.unproven.push(column(at, &row, "key")?);
    }
    for row in rows_of(database, tables.sessions_with_rows()).await? {
        let session: String = column(at, &row, "session")?;
        let part: String = column(at, &row, "part")?;
        let keys = rows_of(database, tables.keys_of(&session)).await?;
        let keys: Vec<String> =
            keys.iter().map(|row| column(at, row, "key")).collect::<Result<_, _>>()?;
        verified.sessions.push(of_session(session, part, &keys));
    }
    Ok(verified)
}

fn of_session(session: String, part: String, keys: &[String]) -> SessionRows {
    let numbers: Option<Vec<i64>> = keys.iter().map(|key| key.parse().ok()).collect();
    let (first, last) = match &numbers {
        Some(numbers) => (
            numbers.iter().min().map(ToString::to_string),
            numbers.iter().max().map(ToString::to_string),
        ),
        None => (keys.iter().min().cloned(), keys.iter().max().cloned()),
    };
    let partitions: BTreeSet<u32> = match part.parse() {
        Ok(Part::Fixed { count, hashed, .. }) => {
            keys.iter().map(|key| Part::index(key, count, hashed)).collect()
        }
        _ => BTreeSet::from([0]),
    };
    SessionRows {
        session,
        part,
        rows: keys.len() as u64,
        first: first.unwrap_or_default(),
        last: last.unwrap_or_default(),
        partitions: partitions.len(),
    }
}

fn column<T: FromValue>(at: &str, row: &Row, name: &str) -> Result<T, StoreError> {
    row.get(name)
        .map_err(|error| StoreError::Corrupt { at: at.to_owned(), what: error.to_string() })
}

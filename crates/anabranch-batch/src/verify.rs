//! The proof: who handled what, in its own part or not, and whether something is doubled or missing.
//!
//! It counts, and fails if the sums do not add up. It rests neither on the primary key that keeps instances
//! apart nor on the pages that they go through.

use crate::batch::keys_of;
use crate::collision::{self, Collision};
use crate::part::Part;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::Database;
use anabranch_store::database::column;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many examples are named of what is wrong.
const EXAMPLES: usize = 10;
/// How many keys are in memory at a time.
const PAGE: usize = 100_000;

/// What a session has handled well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct Verified {
    /// The sessions, in the order in which they began.
    pub sessions: Vec<SessionRows>,
    /// Rows of the source.
    pub rows: u64,
    /// Keys of the source. There must be one for each row.
    pub keys: u64,
    /// Rows of the source whose key is NULL. There must be none.
    pub null_keys: u64,
    /// Keys that more than one row has, the first few. There must be none.
    pub doubled: Vec<String>,
    /// Entries of the processing log.
    pub entries: u64,
    /// Keys that have an entry. There must be one entry for each.
    pub entry_keys: u64,
    /// Rows that were handled well.
    pub succeeded: u64,
    /// Rows that failed.
    pub failed: u64,
    /// Of these, those whose row is not in the source any more.
    pub failed_gone: u64,
    /// Rows that somebody is at work on.
    pub claimed: u64,
    /// Rows that nobody has begun with.
    pub missing: u64,
    /// Entries whose row is not in the source any more.
    pub gone: u64,
    /// Successes in the history. There must be one for each row that was handled well.
    pub history: u64,
    /// Rows that were handled well more than once, the first few, and by whom. There must be none.
    pub collisions: Vec<Collision>,
    /// Entries that say `success` though nothing of it is in the history, the first few. There must be none.
    pub unproven: Vec<String>,
    /// Keys of the history whose entry does not say `success`, the first few. There must be none.
    pub unrecorded: Vec<String>,
}

impl Verified {
    /// What must not be, in words; nothing if all is well. Rows that are still to be done are no violation,
    /// unless they are asked for; rows that have failed are for [`failures`](Self::failures) to say.
    #[must_use]
    pub fn violations(&self, must_be_done: bool) -> Vec<String> {
        let mut said = self.wrong_keys();
        said.extend(self.wrong_sums());
        if !self.collisions.is_empty() {
            let named: Vec<String> = self.collisions.iter().map(ToString::to_string).collect();
            said.push(format!("rows handled more than once: {}", named.join(", ")));
        }
        let examples = [
            ("rows without proof of success", &self.unproven),
            ("rows handled well that the log does not say so of", &self.unrecorded),
        ];
        for (what, keys) in examples.into_iter().filter(|(_, keys)| !keys.is_empty()) {
            said.push(format!("{what}: {}", keys.join(", ")));
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

    /// That rows of the source have failed, in words, if any have. That is no violation: they are kept as failed,
    /// with the reason, until they are tried again. Who wants all rows handled well asks for both.
    ///
    /// ```
    /// use anabranch_batch::Verified;
    /// let mut verified = Verified::default();
    /// verified.failed = 2;
    /// assert_eq!(verified.failures().as_deref(), Some("2 rows have failed"));
    /// ```
    #[must_use]
    pub fn failures(&self) -> Option<String> {
        match self.failed.saturating_sub(self.failed_gone) {
            0 => None,
            1 => Some("1 row has failed".to_owned()),
            failed => Some(format!("{failed} rows have failed")),
        }
    }

    /// What is wrong with the keys of the source.
    fn wrong_keys(&self) -> Vec<String> {
        let Self { rows, keys, null_keys, doubled, .. } = self;
        let mut said = Vec::new();
        if *null_keys > 0 {
            said.push(format!("{null_keys} rows have no key (NULL) and can never be handled"));
        }
        let with_key = rows.saturating_sub(*null_keys);
        if with_key != *keys {
            said.push(format!(
                "{with_key} rows have {keys} keys; of rows that share one, one at most was handled: {}",
                doubled.join(", ")
            ));
        }
        said
    }

    /// Which sums do not add up.
    fn wrong_sums(&self) -> Vec<String> {
        let Self { rows, null_keys, entries, entry_keys, missing, gone, history, .. } = self;
        let Self { succeeded, failed, claimed, .. } = self;
        let mut said = Vec::new();
        if succeeded + failed + claimed != *entries {
            said.push(format!(
                "{entries} entries are {succeeded} of success, {failed} failed and {claimed} claimed"
            ));
        }
        if entries != entry_keys {
            said.push(format!("the processing log has {entries} entries for {entry_keys} keys"));
        }
        if rows + gone != null_keys + missing + entry_keys {
            let there = i128::from(*entry_keys) - i128::from(*gone);
            said.push(format!(
                "{rows} rows are {missing} without an entry, {null_keys} without a key, and {there} entries"
            ));
        }
        if history != succeeded {
            said.push(format!(
                "{succeeded} rows were handled well, and {history} are in the history"
            ));
        }
        said
    }

    /// What need not be wrong, in words, and should be known.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let gone = self.gone;
        let gone = (gone > 0).then(|| {
            format!(
                "{gone} entries have no row in the source any more: it was deleted, has another key, or is \
                 hidden by the query"
            )
        });
        gone.into_iter().collect()
    }

    /// Whether the sums add up, and nothing is doubled, unproven or out of its part.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.violations(false).is_empty()
    }
}

pub(crate) async fn verify(
    tables: &Tables,
    database: &Arc<dyn Database>,
) -> Result<Verified, StoreError> {
    let mut verified = sums(tables, database).await?;
    if verified.keys + verified.null_keys != verified.rows {
        verified.doubled = keys_of(database, tables.doubled(EXAMPLES)).await?;
    }
    verified.collisions = collision::all(tables, database, EXAMPLES).await?;
    verified.unproven = keys_of(database, tables.unproven(EXAMPLES)).await?;
    verified.unrecorded = keys_of(database, tables.unrecorded(EXAMPLES)).await?;
    let at = database.at();
    for row in database.rows(tables.sessions_with_rows()).await? {
        let (session, part) = (column(at, &row, "session")?, column(at, &row, "part")?);
        let rows = column(at, &row, "n")?;
        verified.sessions.push(of_session(tables, database, (session, part), rows).await?);
    }
    Ok(verified)
}

async fn sums(tables: &Tables, database: &Arc<dyn Database>) -> Result<Verified, StoreError> {
    let rows = database.rows(tables.sums()).await?;
    let get = |name: &str| rows.first().map_or(Ok(0), |row| column(database.at(), row, name));
    let (rows, with_key): (u64, u64) = (get("source_rows")?, get("rows_with_key")?);
    Ok(Verified {
        rows,
        keys: get("source_keys")?,
        null_keys: rows.saturating_sub(with_key),
        entries: get("entries")?,
        entry_keys: get("entry_keys")?,
        succeeded: get("of_success")?,
        failed: get("of_failed")?,
        failed_gone: get("failed_gone")?,
        claimed: get("of_claimed")?,
        missing: get("missing")?,
        gone: get("gone")?,
        history: get("history")?,
        ..Verified::default()
    })
}

/// Which keys a session has handled, a page of them at a time.
async fn of_session(
    tables: &Tables,
    database: &Arc<dyn Database>,
    (session, part): (String, String),
    rows: u64,
) -> Result<SessionRows, StoreError> {
    let fixed = part.parse::<Part>();
    let mut partitions = BTreeSet::new();
    let (mut numbers, mut texts) = (Some(Span::default()), Span::default());
    let mut after: Option<String> = None;
    loop {
        let page = tables.keys_of((&session, &part), after.as_deref(), PAGE);
        let page = keys_of(database, page).await?;
        for key in &page {
            partitions.insert(match fixed {
                Ok(Part::Fixed { count, hashed, .. }) => Part::index(key, count, hashed),
                _ => 0,
            });
            let number = key.parse::<i64>().ok();
            numbers = numbers.zip(number).map(|(span, number)| span.with(number));
            texts = texts.with(key.clone());
        }
        after = page.last().cloned();
        if page.len() < PAGE {
            break;
        }
    }
    let (first, last) = match numbers {
        Some(Span(Some((first, last)))) => (first.to_string(), last.to_string()),
        _ => texts.0.unwrap_or_default(),
    };
    Ok(SessionRows { session, part, rows, first, last, partitions: partitions.len() })
}

/// The least and the greatest.
struct Span<T>(Option<(T, T)>);

impl<T> Default for Span<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Ord + Clone> Span<T> {
    fn with(self, value: T) -> Self {
        Self(Some(match self.0 {
            None => (value.clone(), value),
            Some((first, last)) => (first.min(value.clone()), last.max(value)),
        }))
    }
}

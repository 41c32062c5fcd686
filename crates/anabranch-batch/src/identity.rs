//! What a job is of: its source and its key, stored once and compared by everybody who comes under its name.
//!
//! Entries of the processing log are found by job and key alone. Under the same name, a row of another
//! source whose key is done would never be handled, and the proof would find nothing missing.

use crate::batch::{Batch, run};
use crate::error::BatchError;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_core::{Happening, Notice};
use anabranch_store::Database;
use anabranch_store::database::column;
use std::fmt;
use std::sync::Arc;

/// What the keys of a job name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) is_query: bool,
    /// The table as the catalogue resolves it, or the text of the query.
    pub(crate) source: String,
    pub(crate) key: String,
}

impl Identity {
    /// That of a batch as it is asked for. A table that the catalogue does not know goes by the name it was given.
    async fn of(batch: &Batch, database: &Arc<dyn Database>) -> Result<Self, StoreError> {
        let source = &batch.source;
        let resolved = match source.is_table {
            true => database.catalogue().resolved(&source.name).await?,
            false => None,
        };
        let key = database.catalogue().same_column(&source.key_name);
        let text = resolved.unwrap_or_else(|| source.text().to_owned());
        Ok(Self { is_query: !source.is_table, source: text, key })
    }

    async fn stored(
        database: &Arc<dyn Database>,
        tables: &Tables,
    ) -> Result<Option<Self>, StoreError> {
        let (at, rows) = (database.at(), database.rows(tables.stored_job()).await?);
        let Some(row) = rows.first() else { return Ok(None) };
        let is_query = column::<String>(at, row, "kind")? == QUERY;
        let (source, key) = (column(at, row, "source")?, column(at, row, "key_column")?);
        Ok(Some(Self { is_query, source, key }))
    }

    /// As it is stored.
    pub(crate) fn kind(&self) -> &'static str {
        if self.is_query { QUERY } else { "table" }
    }
}

const QUERY: &str = "query";

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key `{}` of {} `{}`", self.key, self.kind(), self.source)
    }
}

/// Before a run: stores what the job is of, if nobody has, and refuses what is not the same.
pub(crate) async fn store(
    batch: &Batch,
    database: &Arc<dyn Database>,
    tables: &Tables,
) -> Result<(), BatchError> {
    let asked = Identity::of(batch, database).await?;
    let mut stored = Identity::stored(database, tables).await?;
    if stored.is_none() {
        // Asked before: others that start now claim rows only once it is stored.
        let was_there = has_entries(database, tables).await?;
        let is_ours = !database.rows(tables.store_job(&asked)).await?.is_empty();
        if was_there && is_ours {
            tables.events.emit(Happening::noticed(Notice::BatchSourceStored, asked.to_string()));
        }
        stored = Identity::stored(database, tables).await?;
    }
    match stored {
        Some(stored) if stored == asked => Ok(()),
        Some(stored) if batch.accepts_source && stored.key == asked.key => {
            let detail = format!("{stored}; from now on it is of {asked}");
            tables.events.emit(Happening::noticed(Notice::BatchSourceChanged, detail));
            Ok(run(database, vec![tables.accept_job(&asked)]).await?)
        }
        Some(stored) => Err(other(batch, &stored, &asked)),
        None => Err(BatchError::refused(
            &batch.job,
            "what is stored of it was deleted when it began; run it again",
        )),
    }
}

/// Before a look: refuses what is not the same, and stores nothing.
pub(crate) async fn check(
    batch: &Batch,
    database: &Arc<dyn Database>,
    tables: &Tables,
) -> Result<(), BatchError> {
    let asked = Identity::of(batch, database).await?;
    match Identity::stored(database, tables).await? {
        Some(stored) if stored == asked => Ok(()),
        Some(stored) => Err(other(batch, &stored, &asked)),
        None => {
            if has_entries(database, tables).await? {
                tables
                    .events
                    .emit(Happening::noticed(Notice::BatchSourceUnknown, asked.to_string()));
            }
            Ok(())
        }
    }
}

async fn has_entries(database: &Arc<dyn Database>, tables: &Tables) -> Result<bool, StoreError> {
    let rows = database.rows(tables.has_entries()).await?;
    rows.first().map_or(Ok(false), |row| column(database.at(), row, "has_entries"))
}

fn other(batch: &Batch, stored: &Identity, asked: &Identity) -> BatchError {
    let accept = match stored.key == asked.key {
        true => {
            "; or, if each key still names the row that it named before, run it once with --accept-source \
             (`Batch::accept_source`)"
        }
        false => "",
    };
    BatchError::refused(
        &batch.job,
        format!(
            "it is stored as a job of {stored}, and was asked for {asked}. Rows whose keys are done in the one \
             would never be handled in the other. Use another --job, or the stored source and key{accept}"
        ),
    )
}

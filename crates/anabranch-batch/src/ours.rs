//! Whether the tables of the processing log are ours: a table of somebody else may have the name.

use crate::error::BatchError;
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::Database;
use anabranch_store::database::column;
use std::sync::Arc;

/// Refuses tables that are there and lack columns of ours.
pub(crate) async fn check(database: &Arc<dyn Database>, tables: &Tables) -> Result<(), BatchError> {
    for (name, wanted) in tables.columns() {
        let has = columns(database, &name).await?;
        let lacks = lacking(&has, wanted);
        if has.is_empty() || lacks.is_empty() {
            continue;
        }
        return Err(BatchError::refused(
            &tables.job,
            format!(
                "table {name} is there already and is no table of a batch: it has {}, and lacks {}. Name \
                 another processing log with --log-table (`Batch::log_table`). If it is a log of your own, \
                 `anabranch batch import` takes over what is finished in it",
                has.join(", "),
                lacks.join(", ")
            ),
        ));
    }
    Ok(())
}

/// Whether all of them are there, and ours.
pub(crate) async fn are_there(
    database: &Arc<dyn Database>,
    tables: &Tables,
) -> Result<bool, StoreError> {
    for (name, wanted) in tables.columns() {
        // Asked first: SQLite has columns of no table in a schema that is not there, and says so by an error.
        let is_known = database.catalogue().resolved(&name).await?.is_some();
        if !is_known || !lacking(&columns(database, &name).await?, wanted).is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn columns(database: &Arc<dyn Database>, table: &str) -> Result<Vec<String>, StoreError> {
    let catalogue = database.catalogue();
    let rows = database.rows(catalogue.columns_of(&catalogue.named(table))).await?;
    rows.iter().map(|row| column(database.at(), row, "name")).collect()
}

fn lacking<'a>(has: &[String], wanted: &[&'a str]) -> Vec<&'a str> {
    wanted.iter().filter(|name| !has.iter().any(|has| has == *name)).copied().collect()
}

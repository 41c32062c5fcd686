//! The columns of a source, before a row of it is claimed: what a handler names and the source has not would
//! fail every row.

use crate::error::BatchError;
use crate::source::Source;
use crate::tables::columns_of;
use anabranch_core::StoreError;
use anabranch_store::Database;
use std::sync::Arc;

/// The columns of what stands behind FROM, whether it has rows or not.
pub(crate) async fn of(
    database: &Arc<dyn Database>,
    from: &str,
) -> Result<Vec<String>, StoreError> {
    let rows = database.rows(columns_of(from)).await?;
    Ok(rows.iter().flat_map(|row| row.iter()).map(|(name, _)| name.to_owned()).collect())
}

/// Says that a column is not among those that are there.
pub(crate) fn lacks(name: &str, column: &str, has: &[String]) -> String {
    format!("{name} has no column `{column}`; it has {}", has.join(", "))
}

/// Refuses a handler that names columns which the source has not.
pub(crate) async fn check(
    job: &str,
    database: &Arc<dyn Database>,
    source: &Source,
    named: &[String],
) -> Result<(), BatchError> {
    if named.is_empty() {
        return Ok(());
    }
    let has = of(database, &source.from).await?;
    // As `Record::get` finds them.
    match named.iter().find(|column| !has.contains(column)) {
        Some(column) => Err(BatchError::refused(
            job,
            format!(
                "{}. Correct the handler (--sql) or the source",
                lacks(&source.name, column, &has)
            ),
        )),
        None => Ok(()),
    }
}

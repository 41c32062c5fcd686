//! Whether the tables of the processing log are ours: a table of somebody else may have the name.

use crate::error::BatchError;
use crate::tables::Tables;
use anabranch_store::Database;
use anabranch_store::database::column;
use std::sync::Arc;

/// Refuses tables that are there and lack columns of ours.
pub(crate) async fn check(database: &Arc<dyn Database>, tables: &Tables) -> Result<(), BatchError> {
    let catalogue = database.catalogue();
    for (name, wanted) in tables.columns() {
        let mut has = Vec::new();
        for row in database.rows(catalogue.columns_of(&catalogue.named(&name))).await? {
            has.push(column::<String>(database.at(), &row, "name")?);
        }
        let lacks: Vec<&str> =
            wanted.iter().filter(|name| !has.iter().any(|has| has == *name)).copied().collect();
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

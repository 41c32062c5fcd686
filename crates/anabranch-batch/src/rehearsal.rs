//! A statement for each row, before a row is claimed: one that can never work would fail every row.
//!
//! The database is asked how it would run it (`EXPLAIN`), which it is not. Some of what it may say is about values: a
//! NULL that a type does not admit, a division by zero that it does beforehand. So it is asked without values and
//! with those of a row, and only what it says of both is about the statement.

use crate::error::BatchError;
use crate::handler::{RowHandler, RowStatement};
use crate::tables::Tables;
use anabranch_core::StoreError;
use anabranch_store::database::{End, Reason, Statement};
use anabranch_store::{Database, Value, control};
use std::sync::Arc;
use std::time::Duration;

/// What statements begin with that can be explained.
const EXPLAINED: [&str; 8] =
    ["INSERT", "UPDATE", "DELETE", "SELECT", "WITH", "MERGE", "REPLACE", "VALUES"];
/// Nothing follows.
const IDLE: Duration = Duration::from_secs(1);

/// Refuses a statement that can never work. Where there is no row, nothing can go wrong yet.
pub(crate) async fn check(
    job: &str,
    database: &Arc<dyn Database>,
    tables: &Tables,
    handler: &impl RowHandler,
) -> Result<(), BatchError> {
    let statement = handler.statement().filter(|statement| is_explained(statement.sql));
    let Some(RowStatement { sql, values: columns }) = statement else { return Ok(()) };
    let nothing = vec![Value::Null; columns.len()];
    let Some(said) = refusal(database, sql, nothing).await? else { return Ok(()) };
    let Some(row) = database.rows(tables.any_row()).await?.into_iter().next() else {
        return Ok(());
    };
    let values: Result<Vec<Value>, _> = columns.iter().map(|name| row.get(name.as_str())).collect();
    let Ok(values) = values else { return Ok(()) };
    match refusal(database, sql, values).await? {
        Some(again) if again == said => Err(BatchError::refused(
            job,
            format!(
                "the database refuses the statement `{sql}` for any row: {said}. Correct the handler (--sql)"
            ),
        )),
        _ => Ok(()),
    }
}

fn is_explained(sql: &str) -> bool {
    control::begins_with(sql, &EXPLAINED)
}

/// What the database says against a statement with these values. Nothing of it stays.
async fn refusal(
    database: &Arc<dyn Database>,
    sql: &str,
    values: Vec<Value>,
) -> Result<Option<String>, StoreError> {
    let explain = Statement::new(format!("EXPLAIN {sql}"), values);
    match database.begin().run(vec![explain], End::Open { idle: IDLE }).await {
        Ok(_) => Ok(None),
        Err(failed) => match failed.reason {
            Reason::Refused { said, .. } => Ok(Some(said)),
            Reason::Store(error) => Err(error),
            other => Ok(Some(other.to_string())),
        },
    }
}

//! The categories and types that the log has, by the indexes on them: what it costs depends on how many
//! names are looked at, not on how many events there are.

use super::Tables;
use anabranch_core::StoreError;
use anabranch_store::database::Statement;
use anabranch_store::{Row, params};

/// A column of the events that an index begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameColumn {
    Category,
    Type,
}

impl NameColumn {
    /// The column, and what it is called in words.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Category => "category",
            Self::Type => "type",
        }
    }
}

impl Tables {
    /// Whether an event has this name. The first name from it on is a step into the index on every
    /// database; what `=` becomes is up to a planner, which may choose to read the table.
    pub(crate) async fn log_has(&self, column: NameColumn, name: &str) -> Result<bool, StoreError> {
        let (events, column) = (self.database.dialect().table("events"), column.name());
        let first = format!("SELECT min({column}) AS name FROM {events} WHERE {column} >= $1");
        let rows = self.query(Statement::query(first, params![name])).await?;
        let found: Option<String> = match rows.first() {
            Some(row) => self.column(row, "name")?,
            None => None,
        };
        Ok(found.as_deref() == Some(name))
    }

    /// The first names of a column, each once: one step into the index for each.
    pub(crate) async fn log_names(
        &self,
        column: NameColumn,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let (events, column) = (self.database.dialect().table("events"), column.name());
        let names = format!(
            "WITH RECURSIVE names (name) AS (SELECT min({column}) FROM {events} UNION ALL \
             SELECT (SELECT min(e.{column}) FROM {events} AS e WHERE e.{column} > names.name) \
             FROM names WHERE names.name IS NOT NULL) \
             SELECT name FROM names WHERE name IS NOT NULL LIMIT {limit}"
        );
        let rows = self.query(Statement::query(names, params![])).await?;
        rows.iter().map(|row: &Row| self.column(row, "name")).collect()
    }
}

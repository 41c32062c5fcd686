//! Rows that the library has no reader for: replica sets, and snapshots of workflows.

use super::Tables;
use crate::resources::InstanceState;
use anabranch::backend::database::Statement;
use anabranch::{StoreError, params};
use serde_json::value::RawValue;

/// How many are read.
const READ: i64 = 1000;

impl Tables {
    /// The replica sets: name, generation, rollout.
    pub(crate) async fn replica_sets(&self) -> Result<Vec<(String, i64, String)>, StoreError> {
        let table = self.database.dialect().table("replica_sets");
        let select =
            format!("SELECT name, generation, rollout FROM {table} ORDER BY name LIMIT $1");
        let rows = self.rows(Statement::query(select, params![READ])).await?;
        let set = |row| {
            Ok((
                self.column(row, "name")?,
                self.column(row, "generation")?,
                self.column(row, "rollout")?,
            ))
        };
        rows.iter().map(set).collect()
    }

    /// The workflows that have snapshots. It goes from one name to the next in the index, past all their instances.
    pub(crate) async fn workflows(&self) -> Result<Vec<String>, StoreError> {
        let table = self.database.dialect().table("workflow_snapshots");
        let select = format!(
            "WITH RECURSIVE names (name) AS (SELECT min(workflow) FROM {table} UNION ALL \
             SELECT (SELECT min(workflow) FROM {table} WHERE workflow > names.name) FROM names \
             WHERE names.name IS NOT NULL) SELECT name FROM names WHERE name IS NOT NULL LIMIT $1"
        );
        let rows = self.rows(Statement::query(select, params![READ])).await?;
        rows.iter().map(|row| self.column(row, "name")).collect()
    }

    /// The last snapshot of an instance.
    pub(crate) async fn snapshot(
        &self,
        workflow: &str,
        id: &str,
    ) -> Result<Option<InstanceState>, StoreError> {
        let table = self.database.dialect().table("workflow_snapshots");
        let select = format!(
            "SELECT version, mode, state FROM {table} WHERE workflow = $1 AND id = $2 \
             ORDER BY version DESC LIMIT 1"
        );
        let rows = self.rows(Statement::query(select, params![workflow, id])).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let state: String = self.column(row, "state")?;
        let state = RawValue::from_string(state).map_err(|error| StoreError::Corrupt {
            at: self.database.at().to_owned(),
            what: format!("the state of `{workflow}` {id}: {error}"),
        })?;
        let (version, mode) = (self.column(row, "version")?, self.column(row, "mode")?);
        Ok(Some(InstanceState { version, mode, state: Some(state), masked: false }))
    }
}

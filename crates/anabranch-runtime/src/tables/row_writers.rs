//! For which slot each row of a watched table was written first.

use super::Tables;
use anabranch_core::StoreError;
use anabranch_store::database::Statement;
use anabranch_store::params;

impl Tables {
    /// The tables of which something is noted for a consumer.
    pub(crate) async fn watched_tables(&self, consumer: &str) -> Result<Vec<String>, StoreError> {
        let select = format!(
            "SELECT DISTINCT relation FROM {} WHERE consumer = $1 ORDER BY relation",
            self.row_writers
        );
        let rows = self.query(Statement::query(select, params![consumer])).await?;
        rows.iter().map(|row| self.column(row, "relation")).collect()
    }

    /// The statement that notes that a table is watched, even if nothing is written to it: a row
    /// without a key.
    pub(crate) fn note_watch(&self, consumer: &str, table: &str) -> Statement {
        let insert = format!(
            "INSERT INTO {} (consumer, relation, row_key, slot, event) \
             VALUES ($1, $2, '', 0, 'watched') ON CONFLICT DO NOTHING",
            self.row_writers
        );
        Statement::new(insert, params![consumer, table])
    }

    /// The statement that forgets all that is noted for a consumer.
    pub(crate) fn forget_writers(&self, consumer: &str) -> Statement {
        let delete = format!("DELETE FROM {} WHERE consumer = $1", self.row_writers);
        Statement::new(delete, params![consumer])
    }
}

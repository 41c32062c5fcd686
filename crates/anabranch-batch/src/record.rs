//! One row.

use anabranch_runtime::HandlerResult;
use anabranch_store::value::FromValue;
use anabranch_store::{Row, Value};

/// How many columns of ours stand at the end of a row: its key, and that as text.
pub(crate) const KEY_COLUMNS: usize = 2;

/// One row of the source.
#[derive(Clone, Debug)]
pub struct Record {
    pub(crate) key: String,
    pub(crate) row: Row,
    /// How often it has failed before this claim.
    pub(crate) attempts: u32,
    /// How often it has failed since.
    pub(crate) failed: u32,
    /// Whose claim it is.
    pub(crate) session: String,
}

impl Record {
    /// Its key, as text.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A column.
    ///
    /// ```
    /// # use anabranch_batch::Record;
    /// # use anabranch_runtime::HandlerResult;
    /// # fn f(record: &Record) -> HandlerResult {
    /// let xml: String = record.get("xml")?;
    /// # Ok(()) }
    /// ```
    pub fn get<T: FromValue>(&self, column: &str) -> HandlerResult<T> {
        Ok(self.row.get(column)?)
    }

    /// Its columns and their values.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Value)> {
        // Those at the end are ours.
        let count = self.row.iter().count() - KEY_COLUMNS;
        self.row.iter().take(count)
    }

    /// The row as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let columns = self.columns().map(|(name, value)| (name.to_owned(), value.to_json()));
        serde_json::Value::Object(columns.collect())
    }

    /// Which attempt this is: 1 for the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempts + self.failed + 1
    }
}

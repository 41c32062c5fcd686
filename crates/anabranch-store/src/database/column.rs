//! Columns that the engine itself has written, or asked a catalogue for.

use crate::value::{FromValue, Row};
use anabranch_core::StoreError;

/// A column that only the engine writes: if it is not there, or holds something else than it should, the
/// database is not as the engine left it.
///
/// ```
/// use anabranch_core::StoreError;
/// use anabranch_store::{Row, Value, database::column};
///
/// let row = Row::new(["seq".to_owned()].into(), vec![Value::Int(7)]);
/// assert_eq!(column::<u64>("sqlite:orders.db", &row, "seq").ok(), Some(7));
/// assert!(matches!(column::<u64>("sqlite:orders.db", &row, "slot"), Err(StoreError::Corrupt { .. })));
/// ```
pub fn column<T: FromValue>(at: &str, row: &Row, name: &str) -> Result<T, StoreError> {
    row.get(name)
        .map_err(|error| StoreError::Corrupt { at: at.to_owned(), what: error.to_string() })
}

//! Rows of a result.

use super::FromValue;
use super::{Value, ValueError};
use anabranch_core::ErrorCode;
use std::fmt;
use thiserror::Error;

/// A column that does not hold what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {problem}")]
pub struct ColumnError {
    column: String,
    problem: String,
}

impl ColumnError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::WrongColumn
    }
}

/// One row of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    columns: std::sync::Arc<[String]>,
    values: Vec<Value>,
}

impl Row {
    /// A row with the names of its columns. For backends.
    #[must_use]
    pub fn new(columns: std::sync::Arc<[String]>, values: Vec<Value>) -> Self {
        Self { columns, values }
    }

    /// The value of a column, by number (from 0) or by name.
    ///
    /// ```
    /// # use anabranch_store::value::{ColumnError, Row};
    /// # fn f(row: &Row) -> Result<(), ColumnError> {
    /// let total: i64 = row.get("total")?;
    /// let customer: Option<String> = row.get(1)?;
    /// # Ok(()) }
    /// ```
    pub fn get<T: FromValue>(&self, column: impl Column) -> Result<T, ColumnError> {
        let Some(value) = column.number(&self.columns).and_then(|number| self.values.get(number))
        else {
            let problem = format!("there is none; the row has {}", self.columns.join(", "));
            return Err(ColumnError { column: column.to_string(), problem });
        };
        let wrong = |error: ValueError| ColumnError {
            column: column.to_string(),
            problem: error.to_string(),
        };
        T::from_value(value).map_err(wrong)
    }

    /// The names of the columns and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.columns.iter().map(String::as_str).zip(&self.values)
    }
}

/// What names a column: its number, from 0, or its name.
pub trait Column: fmt::Display {
    /// The number of the column, if there is one.
    fn number(&self, columns: &[String]) -> Option<usize>;
}

impl Column for usize {
    fn number(&self, columns: &[String]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl Column for &str {
    fn number(&self, columns: &[String]) -> Option<usize> {
        columns.iter().position(|column| column == self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_is_wrong_with_a_column() {
        let columns = ["a", "b", "c"].map(str::to_owned).into();
        let text = Value::Text("three".to_owned());
        let row = Row::new(columns, vec![Value::Int(300), Value::Null, text]);
        assert_eq!(row.get::<i64>("a"), Ok(300));
        assert_eq!(row.get::<Option<String>>(1), Ok(None));
        let message = |error: ColumnError| error.to_string();
        assert_eq!(
            row.get::<u8>("a").map_err(message),
            Err("column a: is 300, which does not fit u8".into())
        );
        assert_eq!(
            row.get::<bool>("d").map_err(message),
            Err("column d: there is none; the row has a, b, c".into())
        );
        assert_eq!(
            row.get::<String>("b").map_err(message),
            Err("column b: is null, not text".into())
        );
        assert_eq!(
            row.get::<i64>("c").map_err(message),
            Err("column c: is the text \"three\", not a whole number".into())
        );
        assert_eq!(
            row.get::<Vec<i64>>("c").map_err(message),
            Err("column c: is the text \"three\", not an array".into())
        );
    }
}

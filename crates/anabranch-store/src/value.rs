//! Values of statements and rows, the same on every database.

use anabranch_core::{Event, Position, StreamId};
use std::fmt;
use thiserror::Error;
use uuid::Uuid;

/// A value that goes to a statement or comes from a row.
///
/// A value takes the type that the statement asks for where that loses nothing: a [`Value::Text`]
/// goes into a `numeric`, `uuid`, `jsonb`, `date` or `timestamptz` column of PostgreSQL as well. SQLite
/// keeps what it has no type for as text (UUIDs, JSON, times) or as numbers (`true` is 1).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// SQL's `NULL`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text. Amounts of money are best kept as text too: `"19.95"` is a `numeric`.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// JSON, as text.
    Json(String),
    /// A UUID.
    Uuid(Uuid),
    /// A time, in microseconds since 1970.
    Time(i64),
    /// Several values: an array on PostgreSQL, a JSON array (for `json_each`) on SQLite.
    Array(Vec<Value>),
}

impl Value {
    /// About how many bytes it holds; what is queued is bounded by it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Array(values) => values.iter().map(|value| value.bytes() + 8).sum(),
            _ => 8,
        }
    }

    /// The value as JSON, for databases that have no arrays.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Float(value) => (*value).into(),
            Self::Text(text) => text.clone().into(),
            Self::Json(text) => serde_json::from_str(text).unwrap_or_default(),
            Self::Uuid(id) => id.to_string().into(),
            Self::Time(micros) => time_text(*micros).into(),
            Self::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            Self::Array(values) => values.iter().map(Self::to_json).collect(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Json(_) => "JSON",
            Self::Uuid(_) => "a UUID",
            Self::Time(_) => "a time",
            Self::Array(_) => "an array",
        }
    }
}

/// A time as text that sorts as the times do: `2026-11-15T09:16:47.445123Z`.
#[must_use]
pub fn time_text(micros: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{time:.6}")
}

macro_rules! from {
    ($($from:ty => |$value:ident| $to:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $to
            }
        })*
    };
}

from! {
    bool => |value| Self::Bool(value);
    i16 => |value| Self::Int(value.into());
    i32 => |value| Self::Int(value.into());
    i64 => |value| Self::Int(value);
    u8 => |value| Self::Int(value.into());
    u16 => |value| Self::Int(value.into());
    u32 => |value| Self::Int(value.into());
    // Larger numbers than databases count with stay exact as text, which fits a `numeric`.
    u64 => |value| i64::try_from(value).map_or_else(|_| Self::Text(value.to_string()), Self::Int);
    usize => |value| Self::from(value as u64);
    f32 => |value| Self::Float(value.into());
    f64 => |value| Self::Float(value);
    &str => |value| Self::Text(value.to_owned());
    &&str => |value| Self::Text((*value).to_owned());
    String => |value| Self::Text(value);
    &String => |value| Self::Text(value.clone());
    Vec<u8> => |value| Self::Bytes(value);
    &[u8] => |value| Self::Bytes(value.to_owned());
    Uuid => |value| Self::Uuid(value);
    serde_json::Value => |value| Self::Json(value.to_string());
    &serde_json::Value => |value| Self::Json(value.to_string());
    jiff::Timestamp => |value| Self::Time(value.as_microsecond());
    Position => |value| Self::Int(value.as_i64());
    &StreamId => |value| Self::Text(value.to_string());
    &Event => |value| Self::Json(value.data_json().to_owned());
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        Self::Array(values.into_iter().collect())
    }
}

/// The values of a statement: `params![order, total, Some(7)]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        ::std::vec![$($crate::value::Value::from($value)),*]
    };
}

/// A column that does not hold what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {problem}")]
pub struct ColumnError {
    column: String,
    problem: String,
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
        T::from_value(value).map_err(|problem| ColumnError { column: column.to_string(), problem })
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

/// What a value can be read as.
pub trait FromValue: Sized {
    /// The value, or what is wrong with it.
    fn from_value(value: &Value) -> Result<Self, String>;
}

fn wrong<T>(value: &Value, wanted: &str) -> Result<T, String> {
    Err(format!("is {}, not {wanted}", value.kind()))
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Result<Self, String> {
        Ok(value.clone())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl FromValue for i64 {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Int(number) => Ok(*number),
            Value::Bool(truth) => Ok((*truth).into()),
            // A sum of `bigint` is a `numeric` on PostgreSQL.
            Value::Text(text) => text.parse().or_else(|_| wrong(value, "a whole number")),
            value => wrong(value, "a whole number"),
        }
    }
}

macro_rules! narrow {
    ($($kind:ty)*) => {
        $(impl FromValue for $kind {
            fn from_value(value: &Value) -> Result<Self, String> {
                let number = i64::from_value(value)?;
                let range = concat!("does not fit ", stringify!($kind));
                <$kind>::try_from(number).map_err(|_| format!("is {number}, which {range}"))
            }
        })*
    };
}

narrow!(i16 i32 u8 u16 u32 u64 usize);

impl FromValue for bool {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Bool(truth) => Ok(*truth),
            Value::Int(number @ (0 | 1)) => Ok(*number == 1),
            value => wrong(value, "a truth value"),
        }
    }
}

impl FromValue for f64 {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Float(number) => Ok(*number),
            Value::Int(number) => Ok(*number as Self),
            Value::Text(text) => text.parse().or_else(|_| wrong(value, "a number")),
            value => wrong(value, "a number"),
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) | Value::Json(text) => Ok(text.clone()),
            Value::Uuid(id) => Ok(id.to_string()),
            Value::Time(micros) => Ok(time_text(*micros)),
            value => wrong(value, "text"),
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Bytes(bytes) => Ok(bytes.clone()),
            value => wrong(value, "bytes"),
        }
    }
}

impl FromValue for Uuid {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Uuid(id) => Ok(*id),
            Value::Text(text) => Self::parse_str(text).or_else(|_| wrong(value, "a UUID")),
            value => wrong(value, "a UUID"),
        }
    }
}

impl FromValue for jiff::Timestamp {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Time(micros) => Self::from_microsecond(*micros).map_err(|e| e.to_string()),
            Value::Text(text) => text.parse().or_else(|_| wrong(value, "a time")),
            value => wrong(value, "a time"),
        }
    }
}

impl FromValue for serde_json::Value {
    fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Json(text) | Value::Text(text) => {
                serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))
            }
            other => Ok(other.to_json()),
        }
    }
}

impl FromValue for Position {
    fn from_value(value: &Value) -> Result<Self, String> {
        i64::from_value(value).map(Self::from_i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_made_of_what_handlers_have() {
        let order: StreamId = "Order:1".parse().unwrap();
        let values = params![7u64, "a", Some(1.5), None::<i64>, true, &order, Position::new(3)];
        let expected = [
            Value::Int(7),
            Value::Text("a".into()),
            Value::Float(1.5),
            Value::Null,
            Value::Bool(true),
            Value::Text("Order:1".into()),
            Value::Int(3),
        ];
        assert_eq!(values, expected);
        assert_eq!(Value::from(u64::MAX), Value::Text(u64::MAX.to_string()));
    }

    #[test]
    fn a_row_says_what_is_wrong_with_a_column() {
        let columns = ["a", "b"].map(str::to_owned).into();
        let row = Row::new(columns, vec![Value::Int(300), Value::Null]);
        assert_eq!(row.get::<i64>("a"), Ok(300));
        assert_eq!(row.get::<Option<String>>(1), Ok(None));
        let message = |error: ColumnError| error.to_string();
        assert_eq!(
            row.get::<u8>("a").map_err(message),
            Err("column a: is 300, which does not fit u8".into())
        );
        assert_eq!(
            row.get::<bool>("c").map_err(message),
            Err("column c: there is none; the row has a, b".into())
        );
        assert_eq!(
            row.get::<String>("b").map_err(message),
            Err("column b: is null, not text".into())
        );
    }
}

//! Values of statements and rows, the same on every database.

mod arrays;
#[cfg(feature = "chrono")]
mod chrono;
mod digits;
mod error;
mod from_value;
mod jiff;
mod row;
#[cfg(feature = "rust_decimal")]
mod rust_decimal;
#[cfg(feature = "time")]
mod time;
pub mod times;

pub use arrays::Element;
pub use digits::Digits;
pub use error::ValueError;
pub use from_value::FromValue;
pub use row::{Column, ColumnError, Row};
pub use times::time_text;

use anabranch_core::{Event, Position, StreamId};
use std::fmt;
use uuid::Uuid;

/// A value that goes to a statement or comes from a row.
///
/// A value takes the type that the statement asks for where that loses nothing: a [`Value::Text`]
/// goes into a `numeric`, `uuid`, `jsonb`, `date` or `timestamptz` column of PostgreSQL as well. SQLite
/// keeps what it has no type for as text (UUIDs, JSON, times, arrays) or as numbers (`true` is 1).
///
/// | in Rust, in `params!` and from [`Row::get`] | PostgreSQL | SQLite |
/// |---|---|---|
/// | whole numbers, `f64`, `bool`, text, `Vec<u8>`, `Uuid` | `smallint` … `bigint`, `double precision`, `boolean`, `text`, `bytea`, `uuid` | `INTEGER`, `REAL`, `INTEGER`, `TEXT`, `BLOB`, `TEXT` |
/// | `serde_json::Value` | `jsonb`, `json` | `TEXT` |
/// | `jiff::Timestamp`, `chrono::DateTime`, `time::OffsetDateTime` | `timestamptz` | `TEXT`: `2026-11-15T09:16:47.445123Z` |
/// | `jiff::civil::DateTime`, `chrono::NaiveDateTime`, `time::PrimitiveDateTime` | `timestamp` | `TEXT`: `2026-11-15T09:16:47.445123` |
/// | `jiff::civil::Date`, `chrono::NaiveDate`, `time::Date` | `date` | `TEXT`: `2026-11-15` |
/// | `jiff::civil::Time`, `chrono::NaiveTime`, `time::Time` | `time` | `TEXT`: `09:16:47.445123` |
/// | `rust_decimal::Decimal` | `numeric` | `TEXT`: `19.95` |
/// | `Vec` of all these but bytes | an array, or `jsonb` | `TEXT`: a JSON array, for `json_each` |
///
/// Types of other crates need the feature of that name: `chrono`, `time`, `rust_decimal`. Times are kept to
/// the microsecond; one without a zone is read as UTC where a moment is asked for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// SQL's `NULL`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is larger than those: a `numeric` of PostgreSQL. SQLite refuses it.
    Unsigned(u64),
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

    /// The value as JSON. What JSON has no form for is text: numbers beyond 64 bits with a sign, `NaN` and `Infinity`,
    /// bytes (`"00ff"`), times (`"2026-11-15T09:16:47.445123Z"`).
    ///
    /// ```
    /// # use anabranch_store::Value;
    /// assert_eq!(Value::from(vec![0u8, 255]).to_json(), "00ff");
    /// assert_eq!(Value::from(f64::NAN).to_json(), "NaN");
    /// ```
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Unsigned(value) => value.to_string().into(),
            Self::Float(value) if value.is_nan() => "NaN".into(),
            Self::Float(f64::INFINITY) => "Infinity".into(),
            Self::Float(f64::NEG_INFINITY) => "-Infinity".into(),
            Self::Float(value) => (*value).into(),
            Self::Text(text) => text.clone().into(),
            // As text what is none that can be read: a number beyond all floats, say.
            Self::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
            Self::Uuid(id) => id.to_string().into(),
            Self::Time(micros) => {
                time_text(*micros).unwrap_or_else(|| format!("{micros} µs after 1970")).into()
            }
            Self::Bytes(bytes) => {
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
            }
            Self::Array(values) => values.iter().map(Self::to_json).collect(),
        }
    }

    /// Whether a database that keeps it as JSON or text keeps all of it. If not, says why.
    pub fn fits_text(&self) -> Result<(), ValueError> {
        match self {
            Self::Float(number) if !number.is_finite() => Err("it has no JSON".into()),
            Self::Time(micros) if times::utc_of(*micros).is_none() => Err(times::YEARS.into()),
            Self::Json(text) => match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string().into()),
            },
            Self::Array(values) => values.iter().try_for_each(Self::fits_text),
            _ => Ok(()),
        }
    }
}

/// How much of a text is shown.
const MAX_SHOWN: usize = 40;

impl fmt::Display for Value {
    /// What it is, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| match text.char_indices().nth(MAX_SHOWN) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Unsigned(number) => write!(f, "{number}"),
            // `1e300`, without its zeros.
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Text(text) => write!(f, "the text {:?}", shown(text)),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Json(text) => write!(f, "the JSON {}", shown(text)),
            Self::Uuid(id) => write!(f, "the UUID {id}"),
            Self::Time(micros) => match time_text(*micros) {
                Some(text) => write!(f, "the time {text}"),
                None => write!(f, "the time {micros} µs after 1970"),
            },
            Self::Array(values) => write!(f, "an array of {}", values.len()),
        }
    }
}

/// Values from types.
macro_rules! from {
    ($($from:ty => |$value:ident| $to:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $to
            }
        })*
    };
}

use from;

from! {
    bool => |value| Self::Bool(value);
    i16 => |value| Self::Int(value.into());
    i32 => |value| Self::Int(value.into());
    i64 => |value| Self::Int(value);
    u8 => |value| Self::Int(value.into());
    u16 => |value| Self::Int(value.into());
    u32 => |value| Self::Int(value.into());
    u64 => |value| i64::try_from(value).map_or(Self::Unsigned(value), Self::Int);
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

/// What [`params!`](crate::params) takes: whatever a [`Value`] can be made of. Implement `From<YourType> for Value`.
///
/// ```
/// use anabranch_store::{Value, params, value::IntoValue};
/// struct OrderId(i64);
/// impl From<OrderId> for Value {
///     fn from(id: OrderId) -> Self {
///         Self::Int(id.0)
///     }
/// }
/// assert_eq!(OrderId(7).into_value(), Value::Int(7));
/// assert_eq!(params![OrderId(7), Some(OrderId(8))], [Value::Int(7), Value::Int(8)]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of a statement",
    label = "no `Value` can be made of it",
    note = "types of `chrono`, `time` and `rust_decimal` need the feature of that name: \
            anabranch = {{ …, features = [\"rust_decimal\"] }}",
    note = "for a type of your own, implement `From<YourType>` for `Value`"
)]
pub trait IntoValue {
    /// The value.
    fn into_value(self) -> Value;
}

// Else the compiler would speak of `From`, which has no such note.
#[diagnostic::do_not_recommend]
impl<T> IntoValue for T
where
    Value: From<T>,
{
    fn into_value(self) -> Value {
        Value::from(self)
    }
}

/// The values of a statement: `params![order, total, Some(7)]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        ::std::vec![$($crate::value::IntoValue::into_value($value)),*]
    };
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
        assert_eq!(Value::from(u64::MAX), Value::Unsigned(u64::MAX));
    }
}

//! What values can be read as.

use super::{Value, ValueError, time_text};
use anabranch_core::Position;
use uuid::Uuid;

/// What a value can be read as.
///
/// ```
/// use anabranch_store::value::{FromValue, Value, ValueError};
/// struct Cents(i64);
/// impl FromValue for Cents {
///     fn from_value(value: &Value) -> Result<Self, ValueError> {
///         i64::from_value(value).map(Self)
///     }
/// }
/// assert_eq!(Cents::from_value(&Value::Int(995)).unwrap().0, 995);
/// ```
#[diagnostic::on_unimplemented(
    message = "a value of a row cannot be read as `{Self}`",
    label = "not something that a row holds",
    note = "types of `chrono`, `time` and `rust_decimal` need the feature of that name: \
            anabranch = {{ …, features = [\"rust_decimal\"] }}",
    note = "for a type of your own, implement `FromValue`"
)]
pub trait FromValue: Sized {
    /// The value, or what is wrong with it.
    fn from_value(value: &Value) -> Result<Self, ValueError>;
}

/// The value is something else than what was wanted.
pub(super) fn wrong<T>(value: &Value, wanted: &str) -> Result<T, ValueError> {
    Err(format!("is {value}, not {wanted}").into())
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        Ok(value.clone())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl FromValue for i64 {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Int(number) => Ok(*number),
            Value::Bool(truth) => Ok((*truth).into()),
            Value::Unsigned(number) => Err(format!("is {number}, which does not fit i64").into()),
            // A sum of `bigint` is a `numeric` on PostgreSQL.
            Value::Text(text) => text.parse().or_else(|_| wrong(value, "a whole number")),
            value => wrong(value, "a whole number"),
        }
    }
}

macro_rules! narrow {
    ($($kind:ty)*) => {
        $(impl FromValue for $kind {
            fn from_value(value: &Value) -> Result<Self, ValueError> {
                // Larger numbers than databases count with are text when they are read.
                let larger = match value {
                    Value::Text(text) => text.parse().ok(),
                    Value::Unsigned(number) => number.to_string().parse().ok(),
                    _ => None,
                };
                if let Some(number) = larger {
                    return Ok(number);
                }
                let number = i64::from_value(value)?;
                let range = concat!("does not fit ", stringify!($kind));
                <$kind>::try_from(number).map_err(|_| ValueError::new(format!("is {number}, which {range}")))
            }
        })*
    };
}

narrow!(i16 i32 u8 u16 u32 u64 usize);

impl FromValue for bool {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Bool(truth) => Ok(*truth),
            Value::Int(number @ (0 | 1)) => Ok(*number == 1),
            value => wrong(value, "a truth value"),
        }
    }
}

impl FromValue for f64 {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Float(number) => Ok(*number),
            Value::Int(number) => Ok(*number as Self),
            Value::Unsigned(number) => Ok(*number as Self),
            Value::Text(text) => text.parse().or_else(|_| wrong(value, "a number")),
            value => wrong(value, "a number"),
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Text(text) | Value::Json(text) => Ok(text.clone()),
            Value::Uuid(id) => Ok(id.to_string()),
            Value::Unsigned(number) => Ok(number.to_string()),
            Value::Time(micros) => time_text(*micros).map_or_else(|| wrong(value, "text"), Ok),
            value => wrong(value, "text"),
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Bytes(bytes) => Ok(bytes.clone()),
            value => wrong(value, "bytes"),
        }
    }
}

impl FromValue for Uuid {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Uuid(id) => Ok(*id),
            Value::Text(text) => Self::parse_str(text).or_else(|_| wrong(value, "a UUID")),
            value => wrong(value, "a UUID"),
        }
    }
}

impl FromValue for serde_json::Value {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Json(text) | Value::Text(text) => serde_json::from_str(text)
                .map_err(|error| ValueError::new(format!("is not JSON: {error}"))),
            other => Ok(other.to_json()),
        }
    }
}

impl FromValue for Position {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        i64::from_value(value).map(Self::from_i64)
    }
}

//! Decimal numbers of `rust_decimal`.

use super::arrays::elements;
use super::from_value::wrong;
use super::{FromValue, Value, ValueError, from};
use rust_decimal::Decimal;

from! {
    Decimal => |value| Self::Text(value.to_string());
}

elements!(Decimal);

impl FromValue for Decimal {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Text(text) => Self::from_str_exact(text)
                .map_err(|error| ValueError::new(format!("is {value}, not a decimal number: {error}"))),
            Value::Int(number) => Ok((*number).into()),
            Value::Unsigned(number) => Ok((*number).into()),
            // Nobody knows what was rounded on the way.
            Value::Float(_) => Err(format!(
                "is {value}, a floating-point number and not a decimal one; keep amounts as `numeric` on \
                 PostgreSQL and in a TEXT column on SQLite, and add them up here"
            )
            .into()),
            value => wrong(value, "a decimal number"),
        }
    }
}

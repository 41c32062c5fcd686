//! Arrays.

use super::from_value::wrong;
use super::{FromValue, Value, ValueError};
use anabranch_core::{Position, StreamId};
use uuid::Uuid;

/// What may stand in a `Vec` that becomes an array. Bytes may not: a `Vec<u8>` is [`Value::Bytes`].
pub trait Element: Into<Value> {}

macro_rules! elements {
    ($($kind:ty)*) => {
        $(impl $crate::value::Element for $kind {})*
    };
}
pub(super) use elements;

elements! {
    bool i16 i32 i64 u16 u32 u64 usize f32 f64 &str String Uuid serde_json::Value Position &StreamId Value
}

impl<T: Element> Element for Option<T> {}

impl<T: Element> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        values.into_iter().map(Into::into).collect()
    }
}

impl<T: Element + Clone> From<&[T]> for Value {
    fn from(values: &[T]) -> Self {
        values.iter().cloned().map(Into::into).collect()
    }
}

impl<T: Element + Clone> From<&Vec<T>> for Value {
    fn from(values: &Vec<T>) -> Self {
        Self::from(values.as_slice())
    }
}

impl<T: Element + FromValue> FromValue for Vec<T> {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        let read = |values: &[Value]| {
            let one = |(number, value)| {
                let number = number + 1;
                T::from_value(value)
                    .map_err(|problem| ValueError::new(format!("its value {number} {problem}")))
            };
            values.iter().enumerate().map(one).collect()
        };
        match value {
            Value::Array(values) => read(values),
            Value::Text(text) | Value::Json(text) => match serde_json::from_str(text) {
                Ok(serde_json::Value::Array(values)) => {
                    read(&values.into_iter().map(of_json).collect::<Vec<_>>())
                }
                _ => wrong(value, "an array"),
            },
            value => wrong(value, "an array"),
        }
    }
}

/// A value of a JSON array, as it was before [`Value::to_json`].
fn of_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(truth),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => number.as_f64().map_or(Value::Null, Value::Float),
        },
        serde_json::Value::String(text) => Value::Text(text),
        other => Value::Json(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params;

    #[test]
    fn arrays_come_back_as_they_were_also_as_json() {
        fn same<T>(values: Vec<T>)
        where
            T: Element + FromValue + Clone + PartialEq + std::fmt::Debug,
        {
            let array = Value::from(&values);
            let text = Value::Text(array.to_json().to_string());
            assert_eq!(Vec::from_value(&array), Ok(values.clone()));
            assert_eq!(Vec::from_value(&text), Ok(values));
        }
        same(vec![1i64, -7, i64::MAX]);
        same(vec![u64::MAX, 0]);
        same(vec![Some(0.5), None]);
        same(vec!["a".to_owned(), "späti \"quoted\", {x}".to_owned()]);
        same(vec![true, false]);
        same(vec![Uuid::from_u128(7)]);
        same(vec![serde_json::json!({ "a": [1, null] }), serde_json::json!([1])]);
        same(Vec::<i64>::new());
        assert_eq!(params![vec![1u8], [1u8].as_slice()], [vec![1u8], vec![1]].map(Value::Bytes));
        let bad = Value::from(vec![Some("1"), None]);
        let problem = Vec::<i64>::from_value(&bad).unwrap_err();
        assert_eq!(problem.to_string(), "its value 2 is null, not a whole number");
    }
}

//! A value that does not fit.

use anabranch_core::ErrorCode;
use thiserror::Error;

/// What is wrong with a value, in words that go on after its name: `is 7, not a text`. Made of texts by `?`.
///
/// ```
/// use anabranch_store::value::{FromValue, Value, ValueError};
/// struct Percent(u8);
/// impl FromValue for Percent {
///     fn from_value(value: &Value) -> Result<Self, ValueError> {
///         match i64::from_value(value)? {
///             percent @ 0..=100 => Ok(Self(percent as u8)),
///             other => Err(format!("is {other}, not 0 to 100"))?,
///         }
///     }
/// }
/// let error = Percent::from_value(&Value::Int(101)).map(|percent| percent.0).unwrap_err();
/// assert_eq!((error.to_string().as_str(), error.code().name()), ("is 101, not 0 to 100", "invalid_value"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ValueError(String);

impl ValueError {
    /// That this is wrong with it.
    pub fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }

    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::InvalidValue
    }
}

impl From<String> for ValueError {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<&str> for ValueError {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}

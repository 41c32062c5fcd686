//! JSON kept as text: a body that only passes through is never parsed.

use crate::error::InputProblem;
use serde::{Deserialize, Serialize};

/// Valid JSON, as the text that was given. It is stored and read back byte for byte, so numbers keep
/// their digits and objects their order.
///
/// ```
/// use anabranch_core::Json;
/// let json = Json::parse(r#"{"total": 12.50}"#).unwrap();
/// assert_eq!(json.as_str(), r#"{"total": 12.50}"#);
/// assert!(Json::parse("{").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// Takes JSON text after checking all of it: syntax, strings, and a nesting of at most 127.
    pub fn parse(text: impl Into<String>) -> Result<Self, InputProblem> {
        let text = text.into();
        serde_json::from_str::<serde_json::Value>(&text).map_err(not_json)?;
        Self::without_nul(text)
    }

    /// The JSON of a value.
    pub fn of(value: &(impl Serialize + ?Sized)) -> Result<Self, InputProblem> {
        Self::without_nul(serde_json::to_string(value).map_err(not_json)?)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn without_nul(text: String) -> Result<Self, InputProblem> {
        if has_nul_escape(&text) {
            return Err(InputProblem::NulInJson);
        }
        Ok(Self(text.into()))
    }
}

/// Whether two JSON texts mean the same, whatever their white space and the order of their keys.
pub(crate) fn same_meaning(a: &str, b: &str) -> bool {
    let value = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    a == b || value(a).is_some_and(|a| Some(a) == value(b))
}

/// A value of the type that the caller asks for.
pub(crate) fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

fn not_json(error: serde_json::Error) -> InputProblem {
    InputProblem::NotJson(error.to_string())
}

/// Valid JSON can hold NUL only as the escape `\u0000`; `\\u0000` is a backslash and five letters.
fn has_nul_escape(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find("\\u0000") {
        let backslashes = rest[..at].bytes().rev().take_while(|&byte| byte == b'\\').count();
        if backslashes % 2 == 0 {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lone_surrogates_are_not_json() {
        assert!(matches!(Json::parse(r#""\ud800""#), Err(InputProblem::NotJson(_))));
    }

    #[test]
    fn values_that_json_cannot_hold_are_refused() {
        let keys_of_bytes = std::collections::HashMap::from([(vec![1u8], 1)]);
        assert!(matches!(Json::of(&keys_of_bytes), Err(InputProblem::NotJson(_))));
    }

    #[test]
    fn meaning_ignores_spacing_and_key_order() {
        assert!(same_meaning(r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#));
        assert!(!same_meaning(r#"{"a":1}"#, r#"{"a":2}"#));
    }

    proptest! {
        #[test]
        fn nul_is_found_exactly_when_a_string_holds_it(text in "[\\\\u0a\u{0}\"]{0,12}") {
            let refused = Json::of(&text) == Err(InputProblem::NulInJson);
            prop_assert_eq!(refused, text.contains('\0'));
        }
    }
}

//! JSON kept as text: a body that only passes through is never parsed.

use crate::error::InputProblem;
use serde::{Deserialize, Serialize};

/// How deep arrays and objects may be nested: what serde_json reads back.
const MAX_DEPTH: usize = 127;

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
    /// Takes JSON text after checking all of it: syntax, strings, and the depth of its nesting.
    pub fn parse(text: impl Into<String>) -> Result<Self, InputProblem> {
        let text = text.into();
        // Skipping over a value checks its syntax without building it; only the surrogates in its
        // strings need a closer look, and few texts have any.
        if has_surrogates(&text) {
            serde_json::from_str::<serde_json::Value>(&text).map_err(not_json)?;
        } else {
            serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(not_json)?;
        }
        Self::checked(text)
    }

    /// The JSON of a value.
    pub fn from_value(value: &(impl Serialize + ?Sized)) -> Result<Self, InputProblem> {
        Self::checked(serde_json::to_string(value).map_err(not_json)?)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn checked(text: String) -> Result<Self, InputProblem> {
        if has_nul_escape(&text) {
            return Err(InputProblem::NulInJson);
        }
        if is_too_deep(&text) {
            let reason = format!("it is nested more than {MAX_DEPTH} deep");
            return Err(InputProblem::NotJson(reason));
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

/// Whether an escape may be one half of a surrogate pair: `\ud800` to `\udfff`.
fn has_surrogates(text: &str) -> bool {
    text.contains("\\ud") || text.contains("\\uD")
}

/// Whether valid JSON is nested deeper than can be read back.
fn is_too_deep(text: &str) -> bool {
    let opens = |byte: &u8| matches!(byte, b'[' | b'{');
    if text.bytes().filter(opens).count() <= MAX_DEPTH {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    text.bytes().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        depth > MAX_DEPTH
    })
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
    fn what_is_nested_too_deep_to_be_read_back_is_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let fits = Json::parse(nested(MAX_DEPTH)).unwrap();
        decode::<serde_json::Value>(fits.as_str()).unwrap();
        assert!(matches!(Json::parse(nested(MAX_DEPTH + 1)), Err(InputProblem::NotJson(_))));
        assert!(decode::<serde_json::Value>(&nested(MAX_DEPTH + 1)).is_err());
        let deep =
            (0..MAX_DEPTH + 1).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
        assert!(matches!(Json::from_value(&deep), Err(InputProblem::NotJson(_))));
        let flat = vec![nested(1) + "\"\\[{"; 200];
        assert!(Json::from_value(&flat).is_ok(), "brackets in strings do not nest");
    }

    #[test]
    fn values_that_json_cannot_hold_are_refused() {
        let keys_of_bytes = std::collections::HashMap::from([(vec![1u8], 1)]);
        assert!(matches!(Json::from_value(&keys_of_bytes), Err(InputProblem::NotJson(_))));
    }

    #[test]
    fn meaning_ignores_spacing_and_key_order() {
        assert!(same_meaning(r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#));
        assert!(!same_meaning(r#"{"a":1}"#, r#"{"a":2}"#));
    }

    proptest! {
        #[test]
        fn nul_is_found_exactly_when_a_string_holds_it(text in "[\\\\u0a\u{0}\"]{0,12}") {
            let refused = Json::from_value(&text) == Err(InputProblem::NulInJson);
            prop_assert_eq!(refused, text.contains('\0'));
        }
    }
}

//! JSON as values of statements, with all digits of its numbers.

use anabranch::Value;
use anabranch::value::Digits;
use serde_json::value::RawValue;

/// How many digits a number has at the most that is written without its exponent: a float may have 309 before its
/// point.
const MOST_DIGITS: usize = 400;

/// A number with so many digits is that of the float next to it.
const EXACT_DIGITS: usize = 15;

/// The value of a statement that a JSON text is, which begins with the value.
///
/// A whole number that no integer holds, or one with a fraction that no float holds exactly, is JSON, its digits, which
/// a `numeric` takes. A list is an array, unless it has objects or such numbers in it: then it is JSON, which keeps
/// them as they are.
///
/// ```
/// use anabranch::Value;
/// use anabranch_file::json_value::value_of;
/// let value = |json| value_of(json).unwrap();
/// assert_eq!(value("1.5"), Value::Float(1.5));
/// assert_eq!(value("12345678901234567890.12"), Value::Json("12345678901234567890.12".into()));
/// assert_eq!(value(r#"["a", 1]"#), Value::Array(vec![Value::Text("a".into()), Value::Int(1)]));
/// assert_eq!(value(r#"[{"a": 1}]"#), Value::Json(r#"[{"a": 1}]"#.into()));
/// ```
pub fn value_of(text: &str) -> Result<Value, serde_json::Error> {
    Ok(match text.as_bytes().first() {
        Some(b'n') => Value::Null,
        Some(b't') => Value::Bool(true),
        Some(b'f') => Value::Bool(false),
        Some(b'"') => Value::Text(serde_json::from_str(text)?),
        Some(b'[') => list(text)?,
        Some(b'{') => Value::Json(text.to_owned()),
        _ => number(text),
    })
}

fn list(text: &str) -> Result<Value, serde_json::Error> {
    let items: Vec<&RawValue> = serde_json::from_str(text)?;
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        let value = value_of(item.get())?;
        if matches!(value, Value::Json(_) | Value::Unsigned(_)) {
            return Ok(Value::Json(text.to_owned()));
        }
        values.push(value);
    }
    Ok(Value::Array(values))
}

fn number(text: &str) -> Value {
    if let Ok(number) = text.parse() {
        return Value::Int(number);
    }
    if let Ok(number) = text.parse() {
        return Value::Unsigned(number);
    }
    if !text.contains(['.', 'e', 'E']) {
        return Value::Json(text.to_owned());
    }
    // So few digits come back from any float, and most numbers have no more.
    if text.len() <= EXACT_DIGITS
        && !text.contains(['e', 'E'])
        && let Ok(number) = text.parse()
    {
        return Value::Float(number);
    }
    let digits = Digits::of(text);
    match text.parse::<f64>() {
        Ok(number) if digits.is_some() && Digits::of(&format!("{number:e}")) == digits => {
            Value::Float(number)
        }
        _ => {
            let sign = if text.starts_with('-') { "-" } else { "" };
            let plain = digits.and_then(|digits| digits.plain(MOST_DIGITS));
            Value::Json(plain.map_or_else(|| text.to_owned(), |plain| format!("{sign}{plain}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        value_of(json).unwrap()
    }

    #[test]
    fn numbers_keep_all_their_digits() {
        for (json, number) in [("0", 0), ("-7", -7), ("9223372036854775807", i64::MAX)] {
            assert_eq!(value(json), Value::Int(number));
        }
        assert_eq!(value("18446744073709551615"), Value::Unsigned(u64::MAX));
        for float in ["0.1", "-2.50", "1e3", "1.0", "5E-324", "1e300"] {
            assert_eq!(value(float), Value::Float(float.parse().unwrap()), "{float}");
        }
        for (json, text) in [
            ("18446744073709551616", "18446744073709551616"),
            ("-9223372036854775809", "-9223372036854775809"),
            ("-12345678901234567890.12", "-12345678901234567890.12"),
            ("0.12345678901234567890123", "0.12345678901234567890123"),
            ("1.2345678901234567890123e3", "1234.5678901234567890123"),
            ("1.2345678901234567890123e-3", "0.0012345678901234567890123"),
            // No number of any column: refused there as it was written.
            ("1e999", "1e999"),
            ("1e99999999999999999999", "1e99999999999999999999"),
        ] {
            assert_eq!(value(json), Value::Json(text.to_owned()), "{json}");
        }
    }

    #[test]
    fn lists_with_what_arrays_do_not_keep_are_json() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(value(r#"["1", null, "é\n"]"#), {
            Value::Array(vec![text("1"), Value::Null, text("é\n")])
        });
        assert_eq!(value("[[1.5], []]"), {
            Value::Array(vec![Value::Array(vec![Value::Float(1.5)]), Value::Array(Vec::new())])
        });
        for json in [
            r#"[1, {"a": 0.12345678901234567890123}]"#,
            "[0.12345678901234567890123]",
            "[18446744073709551615]",
            "[1, [[{}]]]",
        ] {
            assert_eq!(value(json), Value::Json(json.to_owned()));
        }
        assert!(value_of(r#""\ud800""#).is_err());
    }
}

//! Values of a file as JSON, with all digits of their numbers.

use super::problem::Problem;
use serde_json::value::RawValue;
use std::fmt::Write;
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeValue};

/// A value as JSON; a time is a text there.
pub(super) fn json(value: &DeValue<'_>) -> serde_json::Value {
    serde_json::from_str(&text(value)).unwrap_or_default()
}

/// The same as text, in which numbers have their digits as they are written.
pub(super) fn raw(value: &DeValue<'_>) -> Option<Box<RawValue>> {
    RawValue::from_string(text(value)).ok()
}

/// The numbers in a value that JSON has no form for.
pub(super) fn check(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) {
    let mut wrong = |said: String, help: &str| {
        problems.push(Problem::new(value.span(), said).help(help));
    };
    match value.get_ref() {
        DeValue::Integer(number) if integer(number).is_none() => {
            let most = "a whole number is from -9223372036854775808 to 18446744073709551615";
            wrong(format!("{number} is too large: {most}"), "write it as a text, in quotes");
        }
        DeValue::Float(number) if float(number).is_none() => {
            wrong(format!("there is no {number} in JSON"), "write it as a text, in quotes");
        }
        DeValue::Array(items) => items.iter().for_each(|item| check(item, problems)),
        DeValue::Table(table) => table.iter().for_each(|(_, value)| check(value, problems)),
        _ => {}
    }
}

fn text(value: &DeValue<'_>) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &DeValue<'_>, out: &mut String) {
    match value {
        DeValue::String(text) => out.push_str(&quoted(text)),
        // What is none was refused.
        DeValue::Integer(number) => {
            out.push_str(&integer(number).unwrap_or_else(|| "null".to_owned()));
        }
        DeValue::Float(number) => out.push_str(&float(number).unwrap_or_else(|| "null".to_owned())),
        DeValue::Boolean(truth) => {
            let _ = write!(out, "{truth}");
        }
        DeValue::Datetime(time) => out.push_str(&quoted(&time.to_string())),
        DeValue::Array(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                write(item.get_ref(), out);
            }
            out.push(']');
        }
        DeValue::Table(table) => {
            out.push('{');
            for (number, (key, value)) in table.iter().enumerate() {
                out.push_str(if number > 0 { "," } else { "" });
                out.push_str(&quoted(key.get_ref()));
                out.push(':');
                write(value.get_ref(), out);
            }
            out.push('}');
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn integer(number: &DeInteger<'_>) -> Option<String> {
    let digits = number.as_str().replace('_', "");
    let signed = i64::from_str_radix(&digits, number.radix()).map(|number| number.to_string());
    let unsigned = || u64::from_str_radix(&digits, number.radix()).map(|number| number.to_string());
    signed.or_else(|_| unsigned()).ok()
}

/// The digits as they are written; JSON has neither `_` nor a plus, and no `inf` and `nan`.
fn float(number: &DeFloat<'_>) -> Option<String> {
    let digits = number.as_str().replace('_', "");
    let digits = digits.strip_prefix('+').unwrap_or(&digits);
    let is_number = digits.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit());
    is_number.then(|| digits.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::de::DeTable;

    #[test]
    fn numbers_keep_their_digits() {
        for (toml, json) in [
            ("1_000", "1000"),
            ("+7", "7"),
            ("0xff", "255"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("12345678901234567890.123456789", "12345678901234567890.123456789"),
            ("+0.10", "0.10"),
            ("1_0.5e+0_3", "10.5e+03"),
            ("-0.0", "-0.0"),
            ("[1.50, { a = 'x\"', b = 2026-11-16 }]", r#"[1.50,{"a":"x\"","b":"2026-11-16"}]"#),
        ] {
            let source = format!("x = {toml}");
            let table = DeTable::parse(&source).unwrap();
            let value = table.get_ref().get("x").unwrap();
            let mut problems = Vec::new();
            check(value, &mut problems);
            assert_eq!(problems, [], "{toml}");
            assert_eq!(raw(value.get_ref()).unwrap().get(), json);
        }
        for toml in
            ["inf", "-inf", "nan", "+nan", "18446744073709551616", "[{ a = -1e3, b = nan }]"]
        {
            let source = format!("x = {toml}");
            let table = DeTable::parse(&source).unwrap();
            let mut problems = Vec::new();
            check(table.get_ref().get("x").unwrap(), &mut problems);
            assert_eq!(problems.len(), 1, "{toml}");
        }
    }
}

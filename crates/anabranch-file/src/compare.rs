//! What a test expects beside what is there.

use anabranch::value::Digits;
use serde_json::{Number, Value};

/// Expected and actual, line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What was expected.
    pub expected: Vec<String>,
    /// What is there.
    pub actual: Vec<String>,
    /// Whether these are messages, which begin with what they are about: the order is no difference, and they are not
    /// shown beside each other.
    pub are_messages: bool,
}

impl Difference {
    /// Side by side where that fits into so many columns, with a `|` between lines that differ; else one below the other.
    /// Nothing is left out.
    #[must_use]
    pub fn shown(&self, columns: usize) -> String {
        if self.are_messages {
            return self.messages(columns);
        }
        let side_by_side = self.side_by_side();
        match side_by_side.lines().all(|line| line.chars().count() <= columns) {
            true => side_by_side,
            false => self.below_each_other(),
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let count = self.expected.len().max(self.actual.len());
        fn line(lines: &[String], number: usize) -> &str {
            lines.get(number).map_or("", String::as_str)
        }
        (0..count).map(|number| (line(&self.expected, number), line(&self.actual, number)))
    }

    fn side_by_side(&self) -> String {
        let longest = self.expected.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let left = longest.max("expected".len());
        let mut text = format!("    {:<left$}     actual\n", "expected");
        for (expected, actual) in self.pairs() {
            let sign = if expected == actual { ' ' } else { '|' };
            text += format!("    {expected:<left$}  {sign}  {actual}").trim_end();
            text.push('\n');
        }
        text
    }

    fn below_each_other(&self) -> String {
        let mut text = "    - expected\n    + actual\n\n".to_owned();
        for (expected, actual) in self.pairs() {
            if expected == actual {
                text += &format!("      {expected}\n");
                continue;
            }
            for (sign, line) in [('-', expected), ('+', actual)] {
                if !line.is_empty() {
                    text += &format!("    {sign} {line}\n");
                }
            }
        }
        text
    }

    fn messages(&self, columns: usize) -> String {
        let is_of = |said: &str, about: &str| {
            said.strip_prefix(about).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        let mut text = String::new();
        let missing = self
            .expected
            .iter()
            .filter(|expected| !self.actual.iter().any(|actual| is_of(actual, expected)));
        for line in missing {
            wrap(&mut text, '-', line, columns);
        }
        for line in &self.actual {
            let is_expected = self.expected.iter().any(|expected| is_of(line, expected));
            wrap(&mut text, if is_expected { ' ' } else { '+' }, line, columns);
        }
        text
    }
}

/// A message in lines of so many columns. Words are not cut.
fn wrap(text: &mut String, sign: char, message: &str, columns: usize) {
    let mut line = format!("    {sign}");
    let mut used = line.len();
    for word in message.split_whitespace() {
        let size = word.chars().count();
        if used + 1 + size > columns && used > 8 {
            *text += &line;
            text.push('\n');
            line = " ".repeat(7);
            used = line.len();
        }
        line.push(' ');
        line += word;
        used += 1 + size;
    }
    *text += &line;
    text.push('\n');
}

/// The difference between lists, if there is one that counts.
pub(crate) fn compare(expected: &[Value], actual: &[Value]) -> Option<Difference> {
    let is_same = expected.len() == actual.len()
        && expected.iter().zip(actual).all(|(expected, actual)| fits(expected, actual));
    if is_same {
        return None;
    }
    let lines = |values: &[Value]| values.iter().map(shown).collect();
    // What fits though it is written in another way is no difference, and fields that do not count are not shown.
    let actual = actual.iter().enumerate().map(|(number, actual)| match expected.get(number) {
        Some(expected) if fits(expected, actual) => shown(expected),
        Some(expected) => shown(&of_interest(expected, actual)),
        None => shown(actual),
    });
    Some(Difference { expected: lines(expected), actual: actual.collect(), are_messages: false })
}

/// NULL, as a file writes it.
fn is_null(value: &Value) -> bool {
    let Value::Object(table) = value else { return value.is_null() };
    table.len() == 1 && table.get("null") == Some(&Value::Bool(true))
}

/// Whether a value is what was expected. Databases have other types than files: a `numeric` is a text, `true` is 1, and
/// JSON may be a text. Of tables only the keys count that are expected.
fn fits(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (expected, Value::Null) => is_null(expected),
        (Value::Array(expected), Value::Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(expected, actual)| fits(expected, actual))
        }
        (Value::Object(expected), Value::Object(actual)) => {
            expected.iter().all(|(key, value)| fits(value, actual.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Object(_) | Value::Array(_), Value::String(text)) => {
            serde_json::from_str(text).is_ok_and(|actual: Value| fits(expected, &actual))
        }
        (Value::Number(expected), Value::Number(actual)) => {
            match expected.is_f64() && actual.is_f64() {
                true => expected.as_f64() == actual.as_f64(),
                false => is_written(expected, &actual.to_string()),
            }
        }
        (Value::Number(expected), Value::String(text)) => is_written(expected, text),
        (Value::Bool(expected), Value::Number(actual)) => {
            actual.as_i64() == Some(i64::from(*expected))
        }
        (expected, actual) => expected == actual,
    }
}

/// Whether a text is a number, digit by digit: floats would not tell large ones apart.
fn is_written(number: &Number, text: &str) -> bool {
    let number = number.to_string();
    let (Some(digits), Some(others)) = (Digits::of(&number), Digits::of(text)) else {
        return false;
    };
    let is_same_sign = number.starts_with('-') == text.starts_with('-');
    digits == others && (is_same_sign || digits.is_zero())
}

/// Of a table, the keys that are expected.
fn of_interest(expected: &Value, actual: &Value) -> Value {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => expected
            .iter()
            .map(|(key, value)| {
                let there = actual.get(key).unwrap_or(&Value::Null);
                (key.clone(), of_interest(value, there))
            })
            .collect(),
        (_, actual) => actual.clone(),
    }
}

/// A value on one line, as a file would have it.
fn shown(value: &Value) -> String {
    match value {
        value if is_null(value) => "NULL".to_owned(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Value::Object(table) => {
            let items: Vec<String> =
                table.iter().map(|(key, value)| format!("{key} = {}", shown(value))).collect();
            format!("{{ {} }}", items.join(", "))
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_of_databases_fit_those_of_files() {
        let same = [
            (json!([1, "a", { "null": true }]), json!([1, "a", null])),
            (json!([40]), json!(["40.00"])),
            (json!([true]), json!([1])),
            (json!([{ "a": [1] }]), json!(["{\"a\": [1], \"b\": 2}"])),
            (json!([1.5]), json!([1.5])),
            (json!([40]), json!([40.0])),
            (json!([-0.5]), json!(["-0.50"])),
            (json!([0]), json!(["-0.0"])),
            (json!([9_007_199_254_740_993_u64]), json!(["9007199254740993.0"])),
        ];
        for (expected, actual) in same {
            assert_eq!(compare(std::slice::from_ref(&expected), &[actual]), None, "{expected}");
        }
        let other = [
            (json!([1]), json!([2])),
            (json!(["1"]), json!([1])),
            (json!([{ "null": true }]), json!([0])),
            (json!([0]), json!([null])),
            (json!([{ "a": 1 }]), json!([{ "b": 1 }])),
            (json!([1]), json!([1, 2])),
            // As floats they are the same.
            (json!([9_007_199_254_740_993_u64]), json!([9_007_199_254_740_992_u64])),
            (json!([9_007_199_254_740_993_u64]), json!([9_007_199_254_740_992.0])),
            (json!([9_007_199_254_740_993_u64]), json!(["9007199254740992"])),
            (json!([u64::MAX]), json!([i64::MAX])),
            (json!([1]), json!(["-1"])),
            (json!([1]), json!(["1x"])),
            (json!([0]), json!([""])),
            (json!([0]), json!(["."])),
            (json!([0.1]), json!(["0.1000000000000000001"])),
        ];
        for (expected, actual) in other {
            assert!(compare(std::slice::from_ref(&expected), &[actual]).is_some(), "{expected}");
        }
    }

    #[test]
    fn both_stand_side_by_side() {
        let difference =
            compare(&[json!(["1", 40]), json!(["2", 5])], &[json!(["1", 40]), json!(["2", 6])]);
        let difference = difference.unwrap();
        assert_eq!(
            difference.shown(31),
            "    expected      actual\n    [\"1\", 40]     [\"1\", 40]\n    [\"2\", 5]   |  [\"2\", 6]\n"
        );
        assert_eq!(
            difference.shown(26),
            "    - expected\n    + actual\n\n      [\"1\", 40]\n    - [\"2\", 5]\n    + [\"2\", 6]\n"
        );
    }

    #[test]
    fn nothing_of_what_differs_is_cut() {
        let (one, other) = ("a".repeat(300), format!("{}b", "a".repeat(299)));
        let shown = compare(&[json!([one])], &[json!([other])]).unwrap().shown(160);
        assert!(shown.contains(&format!("- [\"{one}\"]\n    + [\"{other}\"]")), "{shown}");
    }

    #[test]
    fn messages_are_wrapped_and_whole() {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let difference = Difference {
            expected: lines(&["mail a", "mail b"]),
            actual: lines(&[
                "mail b: no such address",
                "totals Order:2: there is no table, and more words",
            ]),
            are_messages: true,
        };
        assert_eq!(
            difference.shown(30),
            "    - mail a\n      mail b: no such address\n    + totals Order:2: there is\n        no table, and more\n        words\n"
        );
    }
}

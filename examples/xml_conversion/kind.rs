//! The types of columns: how text of a document becomes a value.

use anabranch::Value;
use jiff::civil::Date;

/// How much of a wrong value is shown.
const SHOWN: usize = 40;
/// The digits of a decimal number, so that no database rounds it.
const MAX_DIGITS: usize = 30;

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At most so many characters. Whitespace is collapsed, unless it is kept.
    Text {
        max: Option<usize>,
        keep: bool,
    },
    Integer,
    /// With at most so many digits after the point.
    Decimal {
        scale: Option<usize>,
    },
    Date,
    Boolean,
}

impl Kind {
    /// The value of a text; none if the text is empty. If it is not of this type, what is wrong.
    pub fn read(&self, text: &str) -> Result<Option<Value>, String> {
        let trimmed = text.trim_matches(is_space);
        if trimmed.is_empty() {
            return Ok(None);
        }
        let wrong = |what: &str| format!("{} is not {what}", shown(trimmed));
        let value = match self {
            Self::Text { max, keep } => {
                let text = if *keep { trimmed.to_owned() } else { collapsed(trimmed) };
                let length = text.chars().count();
                match max {
                    Some(max) if length > *max => {
                        let text = shown(&text);
                        return Err(format!("{text} has {length} characters, more than {max}"));
                    }
                    _ => Value::Text(text),
                }
            }
            Self::Integer => {
                Value::Int(trimmed.parse::<i64>().map_err(|_| wrong("a whole number"))?)
            }
            Self::Decimal { scale } => match (decimal(trimmed), scale) {
                (Some((_, digits)), Some(scale)) if digits > *scale => {
                    let digits = format!("{digits} digits after the point, more than {scale}");
                    return Err(format!("{} has {digits}", shown(trimmed)));
                }
                (Some((number, _)), _) => Value::Text(number),
                (None, _) => return Err(wrong("a decimal number")),
            },
            Self::Date => {
                let date = date(trimmed).ok_or_else(|| wrong("a date (YYYY-MM-DD)"))?;
                Value::Text(date.to_string())
            }
            Self::Boolean => match trimmed {
                "true" | "1" => Value::Bool(true),
                "false" | "0" => Value::Bool(false),
                _ => return Err(wrong("true or false")),
            },
        };
        Ok(Some(value))
    }

    /// Its column in a table. SQLite would make a binary fraction of a `numeric`.
    pub fn column(&self, database: &str) -> &'static str {
        match (self, database) {
            (Self::Decimal { .. }, "postgres") => "numeric",
            (Self::Date, "postgres") => "date",
            (Self::Integer, _) => "bigint",
            (Self::Boolean, _) => "boolean",
            _ => "text",
        }
    }
}

/// What XML takes for whitespace; others, such as a no-break space, belong to the text.
pub fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn collapsed(text: &str) -> String {
    text.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A number in the form in which equal ones are equal but for zeros at the end, and how many digits it has
/// after the point.
fn decimal(text: &str) -> Option<(String, usize)> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let length = whole.len() + fraction.len();
    if !is_number(whole) || !is_number(fraction) || length == 0 || length > MAX_DIGITS {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let number = match fraction {
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    };
    Some((number, fraction.len()))
}

/// A day that there is, in exactly this form.
fn date(text: &str) -> Option<Date> {
    let form = text.bytes().enumerate().all(|(place, byte)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    (form && text.len() == 10).then(|| text.parse().ok()).flatten()
}

/// A text in quotes, shortened.
pub fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("\"{short}\"")
}

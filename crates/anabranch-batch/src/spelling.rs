//! Keys that name a row of the source by their value, though not by their text: `007` for 7.
//!
//! The log has keys as the source writes them. In another spelling they would be those of other rows, and the rows
//! that they mean would be handled again.

use anabranch_store::database::{EqualTexts, Kinds};
use uuid::Uuid;

/// No key of a database has more digits.
const MAX_DIGITS: usize = 1_000;

/// What keys are whose values can be written in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    Integer,
    Uuid,
}

impl Spelling {
    /// Of keys of these kinds.
    pub(crate) fn of(kinds: &Kinds) -> Option<Self> {
        match kinds {
            Kinds::Integers | Kinds::Texts { equal: Some(EqualTexts::Numeric) } => {
                Some(Self::Integer)
            }
            Kinds::Uuids => Some(Self::Uuid),
            Kinds::Unknown | Kinds::Texts { .. } | Kinds::Others(_) | Kinds::Mixed(_) => None,
        }
    }

    /// How the database writes the value of a text, if that is another way.
    pub(crate) fn otherwise(self, text: &str) -> Option<String> {
        let written = match self {
            Self::Integer => integer(text.trim()),
            Self::Uuid => Uuid::parse_str(text.trim()).ok().map(|id| id.to_string()),
        };
        written.filter(|written| written != text)
    }

    /// A column of text as such a key.
    pub(crate) fn cast(self, column: &str) -> String {
        match self {
            // `9.0` is no bigint to PostgreSQL.
            Self::Integer => format!("CAST(CAST({column} AS numeric) AS bigint)"),
            Self::Uuid => format!("CAST({column} AS uuid)"),
        }
    }
}

/// A whole number in any decimal notation, as databases write it.
fn integer(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (digits, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let point = i64::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let point = usize::try_from(point.max(0)).ok().filter(|point| *point <= MAX_DIGITS)?;
    let (whole, fraction) = digits.split_at(point.min(digits.len()));
    if fraction.bytes().any(|byte| byte != b'0') {
        return None;
    }
    let zeros = "0".repeat(point.saturating_sub(digits.len()));
    let whole = format!("{whole}{zeros}");
    Some(match whole.trim_start_matches('0') {
        "" => "0".to_owned(),
        whole if text.starts_with('-') => format!("-{whole}"),
        whole => whole.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_known_in_any_notation() {
        let read = |text| Spelling::Integer.otherwise(text);
        for (text, number) in [
            ("007", "7"),
            (" 8", "8"),
            ("9.0", "9"),
            ("9.", "9"),
            ("+10", "10"),
            ("1e1", "10"),
            ("1.20E+2", "120"),
            ("500e-2", "5"),
            ("-0012", "-12"),
            ("-0", "0"),
            (".0", "0"),
            ("0e-5", "0"),
        ] {
            assert_eq!(read(text).as_deref(), Some(number), "{text}");
        }
        for same in ["7", "-7", "0", "18446744073709551616"] {
            assert_eq!(read(same), None, "{same} is as it should be");
        }
        for none in ["", " ", "-", ".", "0.5", "5e-1", "12a", "1 2", "--1", "1e", "1e999999999"] {
            assert_eq!(read(none), None, "{none}");
        }
    }

    #[test]
    fn a_uuid_is_known_in_any_notation() {
        let id = "018f3f3e-8f6b-7c1a-8f3e-0000000000ab";
        let read = |text: &str| Spelling::Uuid.otherwise(text);
        assert_eq!(read(id), None);
        for text in [id.to_uppercase(), id.replace('-', ""), format!("{{{id}}}"), format!(" {id}")]
        {
            assert_eq!(read(&text).as_deref(), Some(id), "{text}");
        }
        assert_eq!(read("7"), None);
    }
}

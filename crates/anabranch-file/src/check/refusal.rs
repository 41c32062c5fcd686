//! What a database says against a statement: what more can be said about it, and which word it is about.

use anabranch::backend::named_values::NamedStatement;
use std::ops::Range;

/// What a database refuses a statement for, as far as more can be said about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A table, a column, a type or a function.
    Missing,
    There,
    Type,
    Other,
}

impl Refusal {
    pub(super) fn of(said: &str) -> Self {
        let has = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
        if has(&["could not determine data type", "is not unique"]) {
            Self::Type
        } else if has(&["no such", "does not exist", "has no column"]) {
            Self::Missing
        } else if has(&["already exists"]) {
            Self::There
        } else {
            Self::Other
        }
    }

    pub(super) fn help(self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("correct the name, or create it in `setup`"),
            Self::There => Some(
                "it was there before this consumer: write CREATE TABLE IF NOT EXISTS if it may be shared, or use \
                 another name",
            ),
            Self::Type => Some("say which type it is: CAST(:field AS BIGINT)"),
            Self::Other => None,
        }
    }
}

/// The word that a database complains about without saying where it is, or the whole statement.
pub(super) fn word_of(text: &str, named: &NamedStatement, said: &str) -> Range<usize> {
    let word = said.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let statement = &text[named.span.clone()];
    let stands_alone = |at: &usize| {
        let (before, after) = (&statement[..*at], &statement[at + word.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    };
    let found = statement.match_indices(word).map(|(at, _)| at).find(stands_alone);
    match found.filter(|_| !word.is_empty() && word.chars().all(is_word)) {
        Some(at) => named.span.start + at..named.span.start + at + word.len(),
        None => named.span.clone(),
    }
}

/// The word that begins at a place, or the sign that is there.
pub(super) fn word_at(text: &str, at: usize) -> Range<usize> {
    let rest = text.get(at..).unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || "_.:$\"".contains(c);
    let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    let length = word.max(rest.chars().next().map_or(0, char::len_utf8));
    at..at + length
}

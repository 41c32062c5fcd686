//! Whether a file has the shape that it must have: every key known, every value of its kind.

use super::problem::Problem;
use super::shape::{DATABASES, Key, Kind, Table};
use super::{json, one_of};
use jiff::SignedDuration;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Value<'t> = Spanned<DeValue<'t>>;

/// How far a word may be from one that is known to be taken for it.
const NEAR: usize = 3;

/// Everything that is wrong with a table.
pub(super) fn table(
    table: &DeTable<'_>,
    span: &Range<usize>,
    shape: &'static Table,
    problems: &mut Vec<Problem>,
) {
    let mut meant = Vec::new();
    for (name, value) in table {
        let (word, at) = (name.get_ref().as_ref(), name.span());
        match shape.keys.iter().find(|key| key.name == word) {
            Some(key) => self::value(value, key.kind, word, problems),
            None => {
                meant.extend(nearest(word, &shape.names()));
                problems.push(unknown(word, at, shape));
            }
        }
    }
    for Key { name, about, .. } in shape.keys.iter().filter(|key| key.is_required) {
        // One that is misspelled was complained about already.
        if !table.contains_key(*name) && !meant.contains(name) {
            let said = format!("{} lacks `{name}`", shape.name);
            problems.push(Problem::new(span.clone(), said).help(format!("{name}: {about}")));
        }
    }
}

fn unknown(word: &str, at: Range<usize>, shape: &Table) -> Problem {
    if let Some((_, until_then)) = shape.later.iter().find(|(name, _)| *name == word) {
        return Problem::new(at, format!("`{word}` has no meaning yet")).help(*until_then);
    }
    let said = format!("unknown key `{word}` in {}", shape.name);
    Problem::new(at, said).help(suggest(word, &shape.names()))
}

/// The nearest of some words, or all of them.
pub(crate) fn suggest(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected one of {}", known.join(", ")),
    }
}

/// Whether a word is another one with a slip or two: `steam_id` is `stream_id`, and `note` is not `type`.
pub(crate) fn is_nearly(word: &str, known: &str) -> bool {
    let plain = |word: &str| word.replace(['_', '-'], "").to_lowercase();
    let slips = strsim::damerau_levenshtein(&plain(word), &plain(known));
    slips <= known.chars().count() / 4
}

/// The word that is meant, if one is near: `streamId` is `stream_id`.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |word: &str| word.replace(['_', '-'], "").to_lowercase();
    let distance = |other: &&&str| strsim::damerau_levenshtein(&plain(word), &plain(other));
    let near = known.iter().min_by_key(distance)?;
    (distance(&near) <= NEAR.min(word.chars().count() / 2 + 1)).then_some(near)
}

fn value(value: &Value<'_>, kind: Kind, name: &str, problems: &mut Vec<Problem>) {
    let at = value.span();
    let found = value.get_ref();
    let mut wrong = |wants: &str| {
        let said = format!("`{name}` is {}, and must be {wants}", what(found));
        problems.push(Problem::new(at.clone(), said));
    };
    match (kind, found) {
        (Kind::Text | Kind::Setting, DeValue::String(_)) | (Kind::Truth, DeValue::Boolean(_)) => {}
        (Kind::Text | Kind::Setting, _) => wrong("a text in quotes"),
        (Kind::Truth, _) => wrong("true or false"),
        (Kind::Integer { least, most }, DeValue::Integer(number)) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            if !parsed.is_ok_and(|number| (least..=most).contains(&number)) {
                let said = format!(
                    "`{name}` is {number}, and must be a whole number from {least} to {most}"
                );
                problems.push(Problem::new(at, said));
            }
        }
        (Kind::Integer { least, most }, _) => {
            wrong(&format!("a whole number from {least} to {most}"));
        }
        (Kind::Duration, DeValue::String(text)) => {
            if let Err(said) = duration(text) {
                problems.push(Problem::new(at, format!("`{name}`: {said}")));
            }
        }
        (Kind::Duration, _) => wrong("a time in quotes, such as \"5s\", \"100ms\" or \"1h30m\""),
        (Kind::Word(words), DeValue::String(text)) => {
            if !words.contains(&text.as_ref()) {
                let said = format!("`{name}` cannot be {text:?}");
                problems.push(Problem::new(at, said).help(suggest(text, words)));
            }
        }
        (Kind::Word(words), _) => wrong(&format!("one of {}", words.join(", "))),
        (Kind::Secrets, DeValue::Array(items)) if (1..=4).contains(&items.len()) => {
            for item in items {
                secret(item, name, problems);
            }
        }
        (Kind::Secrets, DeValue::Array(_)) => wrong("a list of one to four secrets"),
        (Kind::Secrets, _) => secret(value, name, problems),
        (Kind::Texts, DeValue::Array(items)) => {
            for item in items.iter().filter(|item| !item.get_ref().is_str()) {
                let said = format!("`{name}` holds {}, and must hold texts", what(item.get_ref()));
                problems.push(Problem::new(item.span(), said));
            }
        }
        (Kind::Texts, _) => wrong("a list of texts"),
        (Kind::Statements, found) => statements(found, at, name, problems),
        (Kind::Each(kind), DeValue::Table(table)) => {
            for (key, item) in table {
                self::value(item, *kind, key.get_ref(), problems);
            }
        }
        (Kind::Table(shape) | Kind::TableOrTables(shape), DeValue::Table(of)) => {
            table(of, &at, shape, problems);
        }
        (Kind::Each(_) | Kind::Table(_), _) => wrong("a table"),
        (Kind::Tables(shape) | Kind::TableOrTables(shape), DeValue::Array(items)) => {
            for item in items {
                match item.get_ref() {
                    DeValue::Table(of) => table(of, &item.span(), shape, problems),
                    other => {
                        let said = format!("`{name}` holds {}, and must hold tables", what(other));
                        problems.push(Problem::new(item.span(), said));
                    }
                }
            }
        }
        (Kind::TablesOf(shapes), DeValue::Array(items)) => {
            for item in items {
                match item.get_ref() {
                    DeValue::Table(of) => one_of::table(of, &item.span(), shapes, problems),
                    other => {
                        let said = format!("`{name}` holds {}, and must hold tables", what(other));
                        problems.push(Problem::new(item.span(), said));
                    }
                }
            }
        }
        (Kind::Tables(_) | Kind::TablesOf(_), DeValue::Table(_)) => {
            let said = format!("`{name}` is one table, and there may be several");
            let help = format!("write [[…{name}]] with two brackets, or {name} = [{{ … }}]");
            problems.push(Problem::new(at, said).help(help));
        }
        (Kind::Tables(_) | Kind::TablesOf(_) | Kind::TableOrTables(_), _) => {
            wrong("a list of tables");
        }
        (Kind::Rows, DeValue::Array(rows)) => {
            for row in rows.iter().filter(|row| !row.get_ref().is_array()) {
                let said = format!("a row is {}, and must be a list", what(row.get_ref()));
                problems.push(Problem::new(row.span(), said));
            }
            json::check(value, problems);
        }
        (Kind::Rows, _) => wrong("a list of rows, each a list"),
        (Kind::Any, _) => json::check(value, problems),
    }
}

/// A secret, as a text or as the name of a variable. What stands there is not told.
fn secret(value: &Value<'_>, name: &str, problems: &mut Vec<Problem>) {
    let is_variable = |table: &DeTable<'_>| {
        table.len() == 1 && table.get("env").is_some_and(|value| value.get_ref().is_str())
    };
    match value.get_ref() {
        DeValue::String(_) => {}
        DeValue::Table(table) if is_variable(table) => {}
        other => {
            let said = format!("`{name}` is {}, and must be a secret", what(other));
            let help = "take it from the environment: { env = \"CRM_SECRET\" }";
            problems.push(Problem::new(value.span(), said).help(help));
        }
    }
}

fn statements(found: &DeValue<'_>, at: Range<usize>, name: &str, problems: &mut Vec<Problem>) {
    let is_texts = |value: &DeValue<'_>| match value {
        DeValue::String(_) => true,
        DeValue::Array(items) => items.iter().all(|item| item.get_ref().is_str()),
        _ => false,
    };
    match found {
        DeValue::Table(forms) => {
            for (database, form) in forms {
                let word = database.get_ref().as_ref();
                if !DATABASES.contains(&word) {
                    let said = format!("`{word}` is no database");
                    let problem = Problem::new(database.span(), said);
                    problems.push(problem.help(suggest(word, &DATABASES)));
                } else if !is_texts(form.get_ref()) {
                    let said = format!("`{word}` must be a statement, or a list of statements");
                    problems.push(Problem::new(form.span(), said));
                }
            }
        }
        found if is_texts(found) => {}
        found => {
            let said = format!(
                "`{name}` is {}, and must be a statement, a list of statements, or a form for each database",
                what(found)
            );
            let help = "for example { sqlite = '…', postgres = '…' }";
            problems.push(Problem::new(at, said).help(help));
        }
    }
}

/// What a value is, in words.
fn what(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A time such as `5s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    let parsed = parsed.map_err(|_| {
        format!(
            "{text:?} is no time; use one such as \"5s\", \"100ms\" or \"1h30m\"; a day is \"24h\""
        )
    })?;
    Duration::try_from(parsed).map_err(|_| format!("{text:?} is negative; use a time from 0s on"))
}

//! `/v1/consumers/{name}/parked/groups`: keys that are set aside, grouped by what their errors have in common.

use super::{READ, narrow};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::routes::Route;
use crate::state::Shared;
use crate::unseen::{Kind, must_see};
use anabranch::Timestamp;
use anabranch::operate::{KeyState, Parked};
use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// How many keys are looked at.
const LOOKS_AT: usize = 10_000;
/// How many of them in one statement.
const PAGE: usize = 1_000;
/// How many groups are shown.
const GROUPS: usize = 100;
/// How much of an error is compared and shown, in letters.
const LETTERS: usize = 300;
/// What stands for whatever differs from one error to the next.
const GAP: char = '…';

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/consumers/{name}/parked/groups", READ, groups).keeps_consumers()]
}

/// Groups of keys, the largest first.
#[derive(Serialize)]
struct Groups {
    items: Vec<Group>,
    /// How many keys were looked at.
    looked_at: usize,
    /// Whether that is all of them, and all groups are shown.
    is_all: bool,
}

/// Keys whose errors are alike.
#[derive(Serialize)]
struct Group {
    /// The error, without what differs.
    says: String,
    /// The longest piece of it that all of them have word for word; empty if there is none.
    contains: String,
    keys: u64,
    /// How many of the keys are tried again by themselves.
    retrying: u64,
    events: u64,
    /// Since when the first of them is set aside.
    since: Timestamp,
    /// One of the keys.
    example: String,
}

async fn groups(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Groups>, Problem> {
    must_see(&caller, Kind::Consumer, &name)?;
    let mut groups: HashMap<String, Group> = HashMap::new();
    let (mut looked_at, mut after, mut is_all) = (0, None::<String>, false);
    while looked_at < LOOKS_AT {
        // One more at the end, to see whether that is all.
        let limit = PAGE + usize::from(looked_at + PAGE == LOOKS_AT);
        let page = state.consumers.parked_page(&name, after.as_deref(), limit).await;
        let mut page = page.map_err(|error| narrow::refused(&caller, &name, error))?;
        is_all = page.len() < limit;
        page.truncate(PAGE);
        looked_at += page.len();
        after = page.last().map(|parked| parked.key.clone());
        page.into_iter().for_each(|parked| add(&mut groups, parked));
        if is_all {
            break;
        }
    }
    let mut items: Vec<Group> = groups.into_values().collect();
    items.sort_by(|one, other| {
        (Reverse(one.keys), &one.example).cmp(&(Reverse(other.keys), &other.example))
    });
    is_all &= items.len() <= GROUPS;
    items.truncate(GROUPS);
    if caller.is_masked() {
        // What a handler says often quotes what it was given.
        for group in &mut items {
            group.says.clear();
            group.contains.clear();
        }
    }
    Ok(Json(Groups { items, looked_at, is_all }))
}

fn add(groups: &mut HashMap<String, Group>, parked: Parked) {
    let says = alike(&parked.error);
    let group = groups.entry(says).or_insert_with_key(|says| Group {
        contains: longest_piece(says).to_owned(),
        says: says.clone(),
        keys: 0,
        retrying: 0,
        events: 0,
        since: parked.since,
        example: parked.key,
    });
    group.keys += 1;
    group.retrying += u64::from(parked.state == KeyState::Retrying);
    group.events += parked.events;
    group.since = group.since.min(parked.since);
}

/// An error without what differs from one key to the next: numbers, ids with digits in them, and what is quoted.
fn alike(error: &str) -> String {
    let end = error.char_indices().nth(LETTERS).map_or(error.len(), |(end, _)| end);
    let mut says = String::new();
    let mut rest = &error[..end];
    while let Some(letter) = rest.chars().next() {
        // Behind a word it is an apostrophe.
        let is_free = !says.ends_with(char::is_alphanumeric);
        let quoted = if is_free { quoted(rest) } else { None };
        match quoted.or_else(|| word_with_digit(rest)) {
            Some(length) => {
                push_gap(&mut says);
                rest = &rest[length..];
            }
            None => {
                // A word goes whole, so that its end is not taken for one.
                let length = word(rest).max(letter.len_utf8());
                says.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    if end < error.len() {
        push_gap(&mut says);
    }
    says
}

/// Two gaps beside one another are one.
fn push_gap(says: &mut String) {
    if !says.ends_with(GAP) {
        says.push(GAP);
    }
}

/// How long something in quotes is that stands at the beginning, its quotes included.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|letter| matches!(letter, '"' | '\'' | '`'))?;
    let inside = &text[quote.len_utf8()..];
    let length = inside.find(quote).filter(|length| *length > 0)?;
    let behind = &inside[length + quote.len_utf8()..];
    let is_name = !inside[..length].contains('\n') && !behind.starts_with(char::is_alphanumeric);
    is_name.then_some(length + 2 * quote.len_utf8())
}

/// How long the word at the beginning is: letters and digits, and what joins the parts of an id or a number.
fn word(text: &str) -> usize {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let joins = |letter: char| matches!(letter, '-' | '.' | ':' | ',' | '+');
    let mut length = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let goes_on = is_of_word(letter)
            || (at > 0
                && joins(letter)
                && letters.peek().is_some_and(|(_, next)| is_of_word(*next)));
        if !goes_on {
            break;
        }
        length = at + letter.len_utf8();
    }
    length
}

/// How long the word at the beginning is, if there is a digit in it.
fn word_with_digit(text: &str) -> Option<usize> {
    let length = word(text);
    text[..length].contains(|letter: char| letter.is_ascii_digit()).then_some(length)
}

/// The longest piece without a gap: text that stands in every error of the group as it is here.
fn longest_piece(says: &str) -> &str {
    let pieces = says.split(GAP).map(str::trim);
    pieces.max_by_key(|piece| piece.chars().count()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_left_out() {
        for (error, says) in [
            ("order 4711 is gone", "order … is gone"),
            ("order 0190a5b0-0000-7000-8000-000000000000 is gone", "order … is gone"),
            ("no column `total` in \"orders\"", "no column … in …"),
            ("timed out after 30.5s (10.0.0.7:5432)", "timed out after … (…)"),
            ("ord-123: can't be paid, isn't open", "…: can't be paid, isn't open"),
            ("{\"id\": 7}", "{…: …}"),
            ("at 2026-11-19T19:17:57Z", "at …"),
            ("1 2 3", "… … …"),
            ("12", "…"),
            ("poison", "poison"),
            ("Zeile fünf: ungültig", "Zeile fünf: ungültig"),
            ("", ""),
        ] {
            assert_eq!(alike(error), says, "{error}");
        }
        let long = alike(&"x y ".repeat(1_000));
        assert!(long.chars().count() <= LETTERS + 1 && long.ends_with(GAP), "{long}");
    }

    #[test]
    fn the_piece_stands_in_the_error_word_for_word() {
        for error in [
            "order 4711 is gone",
            "no column `total` in \"orders\"",
            "a 1 longer piece 2 b",
            "timed out after 30.5s (10.0.0.7:5432)",
            "…said the handler… 7",
            &"long enough to be cut ".repeat(100),
        ] {
            let says = alike(error);
            let piece = longest_piece(&says);
            assert!(!piece.is_empty() && error.contains(piece), "{error}: {piece}");
        }
        assert_eq!(longest_piece("a … longer piece … b"), "longer piece");
        assert_eq!(longest_piece("… …"), "");
        assert_eq!(longest_piece(&alike("12")), "");
    }
}

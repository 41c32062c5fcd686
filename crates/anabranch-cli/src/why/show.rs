//! The answer as text: a block for each consumer, words below each other, lines no wider than the terminal.

use super::{Answer, slot_in_words};
use crate::parked::next_attempt;
use anabranch::operate::{CursorStatus, NextEvent, Parked};
use anabranch::workpool::KeyTasks;
use anabranch_terminal::output::{self, count, time};

/// Where the texts begin.
const INDENT: usize = 10;
/// A text is not made narrower than this.
const NARROWEST: usize = 30;

pub(super) fn print(answers: &[Answer]) -> anyhow::Result<()> {
    let width = output::columns().saturating_sub(INDENT).max(NARROWEST);
    for (number, answer) in answers.iter().enumerate() {
        if number > 0 {
            output::line("")?;
        }
        for (word, text) in rows(answer) {
            for (line, part) in wrapped(&text, width).into_iter().enumerate() {
                let word = if line == 0 { word } else { "" };
                let line = format!("{word:<INDENT$}{part}").replace(char::is_control, " ");
                output::line(line)?;
            }
        }
    }
    Ok(())
}

fn rows(answer: &Answer) -> Vec<(&'static str, String)> {
    let by = match answer.kind.as_str() {
        crate::status::POOL => String::new(),
        _ => format!(", by {}", answer.strategy),
    };
    let mut rows = vec![
        ("consumer", format!("{} ({}{by}; {})", answer.consumer, answer.kind, answer.state)),
        ("key", answer.key.clone()),
        ("slot", slot_in_words(answer.slot, answer.hashed.as_ref())),
    ];
    let lane = answer.cursor.as_ref().and_then(|cursor| cursor.lane);
    let lane = lane.map_or_else(String::new, |lane| format!(", lane {lane}"));
    rows.push(("owner", format!("{}{lane}", answer.owner)));
    rows.extend(answer.cursor.as_ref().filter(|_| answer.tasks.is_none()).map(cursor));
    rows.extend(answer.parked.iter().flat_map(failed));
    rows.extend(answer.tasks.iter().flat_map(tasks));
    let next = answer.next.as_ref();
    rows.extend(
        next.map(|next| (if answer.parked.is_some() { "event" } else { "next" }, waits(next))),
    );
    rows.push(("why", answer.verdict.why.clone()));
    rows.extend(answer.verdict.todo.clone().map(|todo| ("do", todo)));
    rows
}

fn waits(next: &NextEvent) -> String {
    let event = &next.event;
    let slot = if next.is_of_slot { "" } else { ", perhaps of another slot" };
    let (stream, version, position) = (event.stream(), event.version(), event.position());
    format!("{} {stream}@{version} at position {position}{slot}", event.event_type())
}

fn cursor(cursor: &CursorStatus) -> (&'static str, String) {
    let CursorStatus { position, lag, slot_count, .. } = cursor;
    let slots = count(*slot_count as u64, "slot");
    ("cursor", format!("done up to {position}, lag {lag} ({slots})"))
}

fn failed(parked: &Parked) -> Vec<(&'static str, String)> {
    let (state, since, attempts) = (parked.state.name(), time(parked.since), parked.attempts);
    let attempts = count(attempts.into(), "failed attempt");
    vec![
        (state, format!("since {since}; {attempts}; next attempt {}", next_attempt(parked))),
        ("error", parked.error.clone()),
        ("waiting", count(parked.events, "event")),
    ]
}

fn tasks(tasks: &KeyTasks) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(first) = &tasks.first {
        let attempts = match first.attempts {
            0 => "not tried yet".to_owned(),
            attempts => count(attempts.into(), "failed attempt"),
        };
        let due = first.run_at.map_or_else(String::new, |at| format!("; due {}", time(at)));
        rows.push(("task", format!("{} is {}; {attempts}{due}", first.id, first.state)));
        rows.extend(first.error.clone().map(|error| ("error", error)));
    }
    rows.push(("waiting", count(tasks.tasks, "task")));
    rows
}

/// A text in lines of at most so many characters, broken between words. A word that is longer stays whole, so that it
/// can be copied.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        match line.chars().count() {
            0 => line.push_str(word),
            used if used + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrapped("a bb ccc dddd", 6), ["a bb", "ccc", "dddd"]);
        assert_eq!(wrapped("a-very-long-word b", 6), ["a-very-long-word", "b"]);
        assert_eq!(wrapped("", 6), [""]);
    }
}

//! The reason in one sentence, and what to do.

use anabranch::operate::{CursorStatus, KeyState, LimitStatus, Parked, Reason};
use anabranch::workpool::{KeyTasks, TaskState, TaskStatus};
use anabranch_terminal::output::time;
use serde::Serialize;

/// What keeps a key, and what to do about it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    /// Whether something waits.
    waits: bool,
    /// Why it waits, or that nothing does.
    pub(super) why: String,
    /// What to do, if somebody has to do something.
    pub(super) todo: Option<String>,
}

impl Verdict {
    fn new(waits: bool, why: impl Into<String>, todo: Option<String>) -> Self {
        Self { waits, why: why.into(), todo }
    }

    /// Of a consumer that follows the log.
    pub(super) fn of_events(
        name: &str,
        cursor: &CursorStatus,
        parked: Option<&Parked>,
        has_next: bool,
    ) -> Self {
        let (reasons, todo) = of_cursor(name, cursor);
        if let Some(parked) = parked {
            let (verb, more) = (failed(parked.attempts), and(&reasons));
            let (key, next) = (&parked.key, crate::parked::next_attempt(parked));
            let quoted = shell_quoted(key);
            return match parked.state {
                KeyState::Parked => Self::new(
                    true,
                    format!(
                        "its first event has failed {verb} and is parked; later ones wait behind it{more}"
                    ),
                    Some(format!(
                        "correct the cause, then `anabranch parked retry {name} {quoted}`; or leave the event out by \
                         `anabranch parked skip {name} {quoted}`"
                    )),
                ),
                KeyState::Retrying => Self::new(
                    true,
                    format!(
                        "its first event has failed {verb} and is tried again {next}; later ones wait behind it{more}"
                    ),
                    todo.or_else(|| {
                        Some(format!("`anabranch parked retry {name} {quoted}` tries it at once"))
                    }),
                ),
            };
        }
        let is_lost = cursor.reasons.iter().any(|reason| {
            matches!(
                reason,
                Reason::BeyondLog { .. } | Reason::WoundBack { .. } | Reason::OtherLog { .. }
            )
        });
        match (reasons.is_empty(), has_next || is_lost) {
            (_, false) => Self::new(
                false,
                format!("nothing waits: every event of its slot is handled{}", but(&reasons)),
                None,
            ),
            (false, true) => Self::new(true, reasons.join("; "), todo),
            (true, true) => Self::new(true, "it moves: its owner is about to handle it", None),
        }
    }

    /// Of a pool.
    pub(super) fn of_pool(
        name: &str,
        key: &str,
        limit: Option<LimitStatus>,
        cursor: &CursorStatus,
        tasks: &KeyTasks,
    ) -> Self {
        let (mut reasons, todo) = of_cursor(name, cursor);
        let Some(first) = &tasks.first else {
            let paused = if tasks.is_paused { "; but the key is paused" } else { "" };
            return Self::new(false, format!("nothing waits: no task of it is open{paused}"), None);
        };
        if first.state == TaskState::Dead {
            return Self::dead(first, tasks);
        }
        if tasks.is_paused {
            let resume = format!("`anabranch tasks resume-key {name} {}`", shell_quoted(key));
            return Self::new(true, format!("the key is paused{}", and(&reasons)), Some(resume));
        }
        if first.state == TaskState::Scheduled {
            return Self::scheduled(first, &reasons, todo);
        }
        reasons.extend(
            limit.filter(|limit| limit.waiting > 0).map(|limit| format!("the pool is {limit}")),
        );
        match reasons.is_empty() {
            true => {
                Self::new(true, "it moves: its task is being run, or is the next of its turn", None)
            }
            false => Self::new(true, reasons.join("; "), todo),
        }
    }

    /// Of a pool that no worker has ever run.
    pub(super) fn of_unrun(name: &str, tasks: &KeyTasks) -> Self {
        match tasks.first {
            None => Self::new(false, "nothing waits: no task of it is open", None),
            Some(_) => Self::new(
                true,
                "no worker has ever run the pool",
                Some(format!(
                    "start a worker that runs `{name}`, or check the name where tasks are enqueued"
                )),
            ),
        }
    }

    fn dead(first: &TaskStatus, tasks: &KeyTasks) -> Self {
        let behind = match tasks.tasks.saturating_sub(1) {
            0 => "",
            _ => "; the others wait behind it",
        };
        let (id, verb) = (first.id, failed(first.attempts));
        Self::new(
            true,
            format!("its first task has failed {verb} and is dead{behind}"),
            Some(format!(
                "correct the cause, then `anabranch tasks retry {id}`; or give it up by `anabranch tasks discard {id}`"
            )),
        )
    }

    fn scheduled(first: &TaskStatus, reasons: &[String], todo: Option<String>) -> Self {
        let at = first.run_at.map_or_else(|| "soon".to_owned(), |at| format!("at {}", time(at)));
        let why = match first.attempts {
            0 => format!("its first task waits for its time, {at}"),
            attempts => {
                format!("its first task has failed {} and is tried again {at}", failed(attempts))
            }
        };
        Self::new(true, format!("{why}{}", and(reasons)), todo)
    }
}

/// Why a cursor does not move, but for keys that have failed, which may be others; and what to do about it.
fn of_cursor(name: &str, cursor: &CursorStatus) -> (Vec<String>, Option<String>) {
    let of_keys = |reason: &&Reason| {
        matches!(reason, Reason::ParkedKeys { .. } | Reason::RetryingKeys { .. })
    };
    let reasons: Vec<&Reason> = cursor.reasons.iter().filter(|reason| !of_keys(reason)).collect();
    let todo = reasons.iter().find_map(|reason| match reason {
        Reason::Paused => Some(format!("`anabranch resume {name}`")),
        Reason::Unassigned => Some(format!("start a worker that runs `{name}`")),
        Reason::OutsidePartitions { .. } => {
            Some("start a process for the partition that has this slot".to_owned())
        }
        Reason::Outage(_) | Reason::Failing { .. } => {
            Some("correct what the handler says; it goes on by itself then".to_owned())
        }
        _ => None,
    });
    (reasons.iter().map(ToString::to_string).collect(), todo)
}

fn failed(attempts: u32) -> String {
    match attempts {
        1 => "once".to_owned(),
        attempts => format!("{attempts} times"),
    }
}

fn and(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("; and {reason}")).collect()
}

fn but(reasons: &[String]) -> String {
    match reasons.is_empty() {
        true => String::new(),
        false => format!(" (though: {})", reasons.join("; ")),
    }
}

/// A key as a shell takes it for one word.
fn shell_quoted(key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    match !key.is_empty() && key.chars().all(is_plain) {
        true => key.to_owned(),
        false => format!("'{}'", key.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::shell_quoted;

    #[test]
    fn keys_are_words_of_a_shell() {
        assert_eq!(shell_quoted("Order:9"), "Order:9");
        assert_eq!(shell_quoted("(no key) Order:1"), "'(no key) Order:1'");
        assert_eq!(shell_quoted("it's"), "'it'\\''s'");
    }
}

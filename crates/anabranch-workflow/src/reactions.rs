//! What is to happen because of an event, as data.

use crate::Workflow;
use anabranch_core::{InputProblem, Json};
use jiff::Timestamp;
use std::fmt;
use std::time::Duration;

/// What is to happen because of an event, in order.
///
/// ```
/// # use anabranch_workflow::{Reactions, Workflow};
/// # use std::time::Duration;
/// # fn f<W: Workflow>(reminder: W::Command, letter: W::Action) -> Reactions<W> {
/// Reactions::none().action(letter).timer("reminder", Duration::from_secs(3600), reminder)
/// # }
/// ```
#[must_use = "reactions happen when `react` returns them"]
pub struct Reactions<W: Workflow> {
    all: Vec<Reaction<W>>,
}

/// One thing that is to happen.
#[non_exhaustive]
pub enum Reaction<W: Workflow> {
    /// A command to the instance itself.
    Command(W::Command),
    /// A side effect. Those of an instance run in order, one at a time.
    Action(W::Action),
    /// A command to the instance itself, later. It takes the place of a timer with the same name.
    Timer {
        /// Its name.
        name: String,
        /// When.
        due: Due,
        /// The command.
        command: W::Command,
    },
    /// The end of a timer, if it runs.
    CancelTimer {
        /// Its name.
        name: String,
    },
    /// A command to another workflow.
    Tell {
        /// The name of the other workflow.
        workflow: String,
        /// The id of the instance.
        id: String,
        /// The command, if it could be made into JSON.
        command: Result<Json, InputProblem>,
    },
}

/// When a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// So long after the event was recorded.
    In(Duration),
    /// At a time.
    At(Timestamp),
}

impl Due {
    /// The time, for an event that was recorded then.
    #[must_use]
    pub fn of(self, recorded_at: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::In(wait) => recorded_at.checked_add(wait).unwrap_or(Timestamp::MAX),
        }
    }
}

impl<W: Workflow> Reactions<W> {
    /// Nothing.
    pub fn none() -> Self {
        Self { all: Vec::new() }
    }

    fn and(mut self, reaction: Reaction<W>) -> Self {
        self.all.push(reaction);
        self
    }

    /// A command to the instance itself.
    pub fn command(self, command: W::Command) -> Self {
        self.and(Reaction::Command(command))
    }

    /// A side effect. Those of an instance run in order, one at a time.
    pub fn action(self, action: W::Action) -> Self {
        self.and(Reaction::Action(action))
    }

    /// A command to the instance itself, so long after the event was recorded. It takes the place of
    /// a timer with the same name.
    pub fn timer(self, name: impl Into<String>, wait: Duration, command: W::Command) -> Self {
        self.and(Reaction::Timer { name: name.into(), due: Due::In(wait), command })
    }

    /// The same at a time.
    pub fn timer_at(self, name: impl Into<String>, time: Timestamp, command: W::Command) -> Self {
        self.and(Reaction::Timer { name: name.into(), due: Due::At(time), command })
    }

    /// The end of a timer, if it runs.
    pub fn cancel_timer(self, name: impl Into<String>) -> Self {
        self.and(Reaction::CancelTimer { name: name.into() })
    }

    /// A command to an instance of another workflow.
    pub fn tell<O: Workflow>(self, other: &O, id: impl Into<String>, command: O::Command) -> Self {
        let (workflow, command) = (other.name().to_owned(), Json::from_value(&command));
        self.and(Reaction::Tell { workflow, id: id.into(), command })
    }

    /// These, then those.
    pub fn then(mut self, others: Self) -> Self {
        self.all.extend(others.all);
        self
    }

    /// Whether nothing is to happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One by one, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Reaction<W>> {
        self.all.iter()
    }
}

impl<W: Workflow> IntoIterator for Reactions<W> {
    type Item = Reaction<W>;
    type IntoIter = std::vec::IntoIter<Reaction<W>>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl<W: Workflow> Default for Reactions<W> {
    fn default() -> Self {
        Self::none()
    }
}

impl<W: Workflow> fmt::Debug for Reactions<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.all).finish()
    }
}

impl<W: Workflow> fmt::Debug for Reaction<W> {
    /// With its command or action as JSON, since these need not have `Debug`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "command {}", Shown(command)),
            Self::Action(action) => write!(f, "action {}", Shown(action)),
            Self::Timer { name, due: Due::In(wait), command } => {
                write!(f, "timer `{name}` in {wait:?}: {}", Shown(command))
            }
            Self::Timer { name, due: Due::At(time), command } => {
                write!(f, "timer `{name}` at {time}: {}", Shown(command))
            }
            Self::CancelTimer { name } => write!(f, "cancel timer `{name}`"),
            Self::Tell { workflow, id, command: Ok(command) } => {
                write!(f, "tell {workflow} `{id}`: {}", command.as_str())
            }
            Self::Tell { workflow, id, command: Err(problem) } => {
                write!(f, "tell {workflow} `{id}`: {problem}")
            }
        }
    }
}

/// A value as JSON, for messages.
pub(crate) struct Shown<'a, T>(pub(crate) &'a T);

impl<T: serde::Serialize> fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match serde_json::to_string(self.0) {
            Ok(json) => f.write_str(&json),
            Err(error) => write!(f, "(no JSON: {error})"),
        }
    }
}

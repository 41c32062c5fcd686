//! How a task of a work pool stands, and what stands for it in the database.
//!
//! This is the one place that knows the stored numbers: statements are made from [`TaskState::code`] and
//! [`TaskStates`]. The numbers and the ranges stand in the indexes of the tables as well (migration 4) and
//! in programs of the last version, so they never change. A new state gets the next number, which lies in
//! the range of those that are finished; one that is open or holds its key needs indexes of its own, and
//! its migration must admit only programs that know it.
//!
//! A dead task has one number, whether somebody is still to deal with it or not, so that programs of the last
//! version read its row; what was done about it stands in a column of its own ([`TaskState::of_dead`]).

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Makes the states, so that the list of all of them is whole.
macro_rules! states {
    ($($(#[$doc:meta])* $state:ident = $code:literal, $name:literal;)*) => {
        /// How a task stands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum TaskState {
            $($(#[$doc])* $state,)*
        }

        impl TaskState {
            /// All of them, in the order of their codes.
            pub const ALL: [Self; [$($code),*].len()] = [$(Self::$state),*];

            /// What the database holds for it: the three that are dead share one.
            #[must_use]
            pub const fn code(self) -> i64 {
                match self { $(Self::$state => $code,)* }
            }

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$state => $name,)* }
            }
        }
    };
}

states! {
    /// It is run as soon as its turn comes, or is being run; after a failure, as soon as its wait is
    /// over.
    Ready = 0, "ready";
    /// Its time has not come.
    Scheduled = 1, "scheduled";
    /// It waits behind a dead task of its key, or its key is paused.
    Held = 2, "held";
    /// Its attempts are used up, and it waits for somebody: its key is held until it is retried or
    /// discarded.
    Dead = 3, "dead";
    /// Its attempts are used up, and that is dealt with: its key has gone on, and other tasks were enqueued
    /// instead of it.
    Compensated = 3, "compensated";
    /// Its attempts are used up, and its key has gone on without it: nothing was done instead.
    Skipped = 3, "skipped";
    /// It was run.
    Done = 4, "done";
    /// Somebody has cancelled it.
    Cancelled = 5, "cancelled";
}

impl TaskState {
    /// What a stored code stands for. Of those that are dead this is [`Dead`](Self::Dead); which of them it is
    /// [`of_dead`](Self::of_dead) knows.
    pub fn from_code(code: i64) -> Result<Self, UnknownTaskState> {
        Self::ALL.into_iter().find(|state| state.code() == code).ok_or(UnknownTaskState { code })
    }

    /// Which of those that are dead a task is, by the number of tasks that were enqueued instead of it;
    /// nothing, if its key has not gone on.
    #[must_use]
    pub const fn of_dead(instead: Option<usize>) -> Self {
        match instead {
            None => Self::Dead,
            Some(0) => Self::Skipped,
            Some(_) => Self::Compensated,
        }
    }

    /// Whether its attempts are used up.
    #[must_use]
    pub const fn is_dead(self) -> bool {
        self.code() == Self::Dead.code()
    }

    /// Whether it has not ended: it is run, now or later, unless somebody cancels it.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Ready | Self::Scheduled | Self::Held => true,
            Self::Dead | Self::Compensated | Self::Skipped => false,
            Self::Done | Self::Cancelled => false,
        }
    }

    /// Whether it may be forgotten after a while. A task that is dead is neither open nor finished, whatever
    /// was done about it: it is kept until somebody has seen it.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        match self {
            Self::Ready | Self::Scheduled | Self::Held => false,
            Self::Dead | Self::Compensated | Self::Skipped => false,
            Self::Done | Self::Cancelled => true,
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A code that stands for no state that this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a task has state {code}, which this program does not know (it knows {}); a newer program wrote \
     it: upgrade this one",
    known()
)]
pub struct UnknownTaskState {
    /// The code.
    pub code: i64,
}

fn known() -> String {
    let name = |state: TaskState| format!("{} {state}", state.code());
    let one_each = |state: &TaskState| TaskState::from_code(state.code()) == Ok(*state);
    TaskState::ALL.into_iter().filter(one_each).map(name).collect::<Vec<_>>().join(", ")
}

/// Several states, as statements ask for them: `state {}` with [`OPEN`](Self::OPEN) is `state < 3`.
///
/// They are ranges of codes, word for word as in the indexes: SQLite uses a partial index only for a
/// statement that holds the condition of the index itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStates {
    /// Those before a state.
    Before(TaskState),
    /// Those after a state.
    After(TaskState),
}

impl TaskStates {
    /// Those that have not ended ([`TaskState::is_open`]). The index of unique keys is on these.
    pub const OPEN: Self = Self::Before(TaskState::Dead);
    /// Those that are not finished: the open ones and the dead. The index by key is on these, so a
    /// statement that asks for some of a key's tasks says this as well.
    pub const UNFINISHED: Self = Self::Before(TaskState::Done);
    /// Those for which nothing is left to do ([`TaskState::is_finished`]). The index by the time of the
    /// end is on these.
    pub const FINISHED: Self = Self::After(TaskState::Dead);

    /// Whether a state is one of these.
    #[must_use]
    pub const fn contains(self, state: TaskState) -> bool {
        match self {
            Self::Before(end) => state.code() < end.code(),
            Self::After(start) => state.code() > start.code(),
        }
    }
}

impl fmt::Display for TaskStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(end) => write!(f, "< {}", end.code()),
            Self::After(start) => write!(f, "> {}", start.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_for_their_states_and_others_for_none() {
        let mut codes: Vec<i64> = TaskState::ALL.map(TaskState::code).to_vec();
        codes.dedup();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5], "codes have no holes: ranges go over them");
        for state in TaskState::ALL {
            let stands_for = if state.is_dead() { TaskState::Dead } else { state };
            assert_eq!(TaskState::from_code(state.code()), Ok(stands_for));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        let unknown = codes.len() as i64;
        for code in [-1, unknown, i64::MAX] {
            let error = TaskState::from_code(code).unwrap_err().to_string();
            assert!(error.contains(&format!("state {code}")), "{error}");
            assert!(error.contains("a newer program wrote it: upgrade"), "{error}");
            assert!(error.contains("2 held, 3 dead, 4 done"), "{error}");
        }
    }

    #[test]
    fn what_was_done_about_a_dead_task_makes_three_of_one_code() {
        let dead = [None, Some(0), Some(1), Some(7)].map(TaskState::of_dead);
        let (compensated, skipped) = (TaskState::Compensated, TaskState::Skipped);
        assert_eq!(dead, [TaskState::Dead, skipped, compensated, compensated]);
        assert!(dead.into_iter().all(|state| state.is_dead() && !state.is_open()));
        assert!(!TaskState::Done.is_dead() && !TaskState::Held.is_dead());
    }

    #[test]
    fn the_ranges_of_statements_are_the_predicates_of_the_code() {
        for state in TaskState::ALL {
            assert_eq!(TaskStates::OPEN.contains(state), state.is_open(), "{state}");
            assert_eq!(TaskStates::FINISHED.contains(state), state.is_finished(), "{state}");
            assert_eq!(TaskStates::UNFINISHED.contains(state), !state.is_finished(), "{state}");
        }
    }

    #[test]
    fn the_ranges_are_written_as_the_indexes_are() {
        // Word for word what migration 4 has; a change here would leave its indexes unused.
        assert_eq!(TaskStates::OPEN.to_string(), "< 3");
        assert_eq!(TaskStates::UNFINISHED.to_string(), "< 4");
        assert_eq!(TaskStates::FINISHED.to_string(), "> 3");
    }
}

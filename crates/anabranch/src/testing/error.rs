//! What a kit says when something is not as the test has it.

use crate::errors::ErrorCode;
use crate::running::Incomplete;
use crate::value::ColumnError;
use crate::{AppendError, InputError, RunError, StoreError};
use std::fmt;
use std::time::Duration;

/// Why a call of a [`TestKit`](super::TestKit) failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// A run has left something behind, that failed or waits for a later attempt.
    #[error("{0}; if the test is about that, call try_run, which says so in its answer")]
    Left(Box<Incomplete>),

    /// A run has crashed, as the test wanted.
    #[error(
        "the run has crashed, as crash_after had it; call try_run for that one, and run again to go on"
    )]
    Crashed,

    /// What was armed for a run has never come to pass.
    #[error(
        "{fault} never came to pass: in that run handlers were called {calls} times; calls are counted from 1 in \
         each run, and what is armed counts for the next run only"
    )]
    NeverReached {
        /// What was armed.
        fault: String,
        /// How often handlers were called.
        calls: u64,
    },

    /// The call was a delivery at most once, of which nothing can come again.
    #[error(
        "{fault} does not apply to a subscriber with Guarantee::AtMostOnce: it commits before it delivers, so a commit \
         that is fenced has delivered nothing, and nothing comes again; test what it loses by crash_after"
    )]
    AtMostOnce {
        /// What was armed.
        fault: String,
    },

    /// A run does not end.
    #[error(
        "the run has not ended within {0:?}; a handler waits for something that does not come, or the consumer is \
         paused; allow more by TestKit::patience"
    )]
    TooLong(Duration),

    /// The clock is not the kit's.
    #[error(
        "the clock of {at} goes on by itself and cannot be advanced; use TestKit::new, whose log has a clock that is \
         moved by hand"
    )]
    NotByHand {
        /// The log.
        at: String,
    },

    /// Rows do not have as many columns as the test reads.
    #[error(
        "the rows have {found} columns, and the test reads {wanted}; name as many in the SELECT"
    )]
    Columns {
        /// How many there are.
        found: usize,
        /// How many are read.
        wanted: usize,
    },

    /// A column does not hold what the test reads.
    #[error(transparent)]
    Column(#[from] ColumnError),

    /// A consumer was refused or has stopped.
    #[error(transparent)]
    Run(#[from] RunError),

    /// An event could not be appended.
    #[error(transparent)]
    Append(#[from] AppendError),

    /// The name of a stream is none.
    #[error(transparent)]
    Input(#[from] InputError),

    /// The database has failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// As it is displayed: a test that ends with `?` shows what to do.
impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code() {
            Some(code) => write!(f, "{self} [{code}]"),
            None => write!(f, "{self}"),
        }
    }
}

impl TestError {
    /// The stable code of the error of the engine that it holds, if it does.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Left(_) => Some(ErrorCode::CatchUpIncomplete),
            Self::Column(error) => Some(error.code()),
            Self::Run(error) => Some(error.code()),
            Self::Append(error) => Some(error.code()),
            Self::Input(error) => Some(error.code()),
            Self::Store(error) => Some(error.code()),
            _ => None,
        }
    }
}

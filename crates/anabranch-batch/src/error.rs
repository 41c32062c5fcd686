//! What can go wrong with a batch as a whole. What goes wrong with a row is an entry of its log.

use anabranch_core::{ErrorCode, ErrorKind, StoreError, debug_with_code};
use thiserror::Error;

/// Why a batch did not run, or stopped.
#[derive(Error)]
#[non_exhaustive]
pub enum BatchError {
    /// It cannot run as it is.
    #[error("batch `{job}` is refused: {problem}")]
    Refused {
        /// Which one.
        job: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// It met rows that it cannot tell apart, or cannot go through. What was begun before is done.
    #[error("batch `{job}` stopped: {problem}")]
    Stopped {
        /// Which one.
        job: String,
        /// What it met, and what to do.
        problem: String,
    },
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

debug_with_code!(BatchError);

impl BatchError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { .. } => ErrorCode::BatchRefused,
            Self::Stopped { .. } => ErrorCode::BatchStopped,
            Self::Store(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }

    pub(crate) fn refused(job: &str, problem: impl Into<String>) -> Self {
        Self::Refused { job: job.to_owned(), problem: problem.into() }
    }

    pub(crate) fn stopped(job: &str, problem: impl Into<String>) -> Self {
        Self::Stopped { job: job.to_owned(), problem: problem.into() }
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        matches!(self, Self::Store(error) if is_waited_for(error))
    }
}

/// Whether a batch waits until the cause is cured. A right that is missing is said at once, since the person who started
/// the batch can grant it.
pub(crate) fn is_waited_for(error: &StoreError) -> bool {
    error.is_worth_waiting() && !matches!(error, StoreError::Denied { .. })
}

//! Why a command on a scope was not carried out.

use crate::task_error::TaskError;
use anabranch_core::{ErrorCode, ErrorKind, ScopeKey};
use anabranch_runtime::HandlerError;
use thiserror::Error;

/// A command that was not carried out, and will not be.
///
/// ```
/// use anabranch_workpool::DcbRejected;
/// let rejected = DcbRejected::Refused { reason: "the seat is taken".to_owned() };
/// assert_eq!(rejected.to_string(), "REJECTED: the seat is taken");
/// assert_eq!(rejected.code().name(), "dcb_rejected");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DcbRejected {
    /// Its handler has refused it.
    #[error("REJECTED: {reason}")]
    Refused {
        /// What the handler said.
        reason: String,
    },
    /// It met a conflict until its attempts were used up.
    #[error(
        "DCB_MAX_RETRIES_EXCEEDED: {attempts} attempts on {scope} met a conflict, the last: {error}"
    )]
    MaxRetriesExceeded {
        /// On which scope.
        scope: ScopeKey,
        /// How often it was tried.
        attempts: u32,
        /// The last conflict.
        error: String,
    },
    /// Its handler failed until its attempts were used up, or said that no further one would help.
    #[error("given up: {error}")]
    GivenUp {
        /// What the handler said the last time.
        error: String,
    },
    /// Somebody has cancelled its task.
    #[error("it was cancelled")]
    Cancelled,
}

impl DcbRejected {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { .. } => ErrorCode::DcbRejected,
            Self::MaxRetriesExceeded { .. } => ErrorCode::DcbMaxRetriesExceeded,
            Self::GivenUp { .. } => ErrorCode::DcbGivenUp,
            Self::Cancelled => ErrorCode::DcbCancelled,
        }
    }
}

/// Why a command was not carried out.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DcbFailure {
    /// It is refused.
    #[error(transparent)]
    Rejected(#[from] DcbRejected),
    /// It could not be decided, and nothing was queued.
    #[error("{0}")]
    Failed(HandlerError),
    /// It could not be queued.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl DcbFailure {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Rejected(rejected) => rejected.code(),
            Self::Failed(error) => error.code().unwrap_or(ErrorCode::DcbUndecided),
            Self::Task(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}

//! What can go wrong with a batch as a whole. What goes wrong with a row is an entry of its log.

use anabranch_core::StoreError;
use thiserror::Error;

/// Why a batch did not run, or stopped.
#[derive(Debug, Error)]
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
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BatchError {
    pub(crate) fn refused(job: &str, problem: impl Into<String>) -> Self {
        Self::Refused { job: job.to_owned(), problem: problem.into() }
    }
}

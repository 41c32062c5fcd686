//! How a commit of rows went.

use crate::handler::HandlerError;
use crate::tx::Failure;
use anabranch_core::StoreError;
use anabranch_store::database::Reason;

/// How a commit went.
#[derive(Debug)]
pub enum Commit {
    /// It is stored.
    Done,
    /// Somebody else owns the slots now: nothing is stored, and nothing is held.
    Lost,
    /// The database is away or busy: nothing is stored, as far as anybody knows.
    Away(StoreError),
    /// A statement was refused: nothing is stored.
    Refused {
        /// The item whose statement it was: see [`Tx::for_event`](crate::Tx::for_event).
        item: Option<usize>,
        /// What the database said.
        error: HandlerError,
    },
}

impl Commit {
    pub(crate) fn of(failure: Failure) -> Self {
        match failure.failed.reason {
            Reason::Store(error) if error.is_worth_waiting() => Self::Away(error),
            reason => Self::Refused { item: failure.event, error: HandlerError::of(&reason) },
        }
    }
}

//! Why a replica set does not run.

use crate::incomplete::Incomplete;
use anabranch_core::{ErrorCode, InputError, Position, StoreError, debug_with_code};
use thiserror::Error;

/// Why a replica set did not start, or stopped.
#[derive(Error)]
#[non_exhaustive]
pub enum RunError {
    /// It cannot run as it is.
    #[error("consumer `{consumer}` is refused: {problem}")]
    Refused {
        /// Which consumer.
        consumer: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The replica set itself cannot run as it is.
    #[error("replica set `{name}` is refused: {problem}")]
    Set {
        /// Which one.
        name: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// It stands where the log has never been, so it would ignore what is appended next.
    #[error("{}", beyond_log(consumer, *position, *drawn))]
    BeyondLog {
        /// Which consumer.
        consumer: String,
        /// Where its furthest cursor stands.
        position: Position,
        /// The last position that the log has ever drawn.
        drawn: Position,
    },
    /// Another code of it is the accepted one. It begins by itself when its own is accepted.
    #[error("{}", other_code(consumer, accepted, own))]
    OtherCode {
        /// Which consumer.
        consumer: String,
        /// The code that is accepted.
        accepted: String,
        /// The code that this program has.
        own: String,
    },
    /// A setting is wrong.
    #[error(transparent)]
    Invalid(#[from] InputError),
    /// A handler failed, and its policy is to stop; or it failed for all keys.
    #[error("consumer `{consumer}` stopped at position {position} ({event}): {error}; {remedy}")]
    Stopped {
        /// Which consumer.
        consumer: String,
        /// Where it stopped: this event is not handled.
        position: Position,
        /// The event.
        event: String,
        /// What its handler said.
        error: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The database refused what it needs.
    #[error("consumer `{consumer}` cannot go on: {error}")]
    Broken {
        /// Which consumer.
        consumer: String,
        /// What the database said.
        error: StoreError,
    },
    /// It was to catch up, and not everything is handled.
    #[error("{0}")]
    Incomplete(Box<Incomplete>),
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

debug_with_code!(RunError);

impl RunError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { .. } => ErrorCode::ConsumerRefused,
            Self::Set { .. } => ErrorCode::ReplicaSetRefused,
            Self::BeyondLog { .. } => ErrorCode::BeyondLog,
            Self::OtherCode { .. } => ErrorCode::OtherCode,
            Self::Invalid(error) => error.code(),
            Self::Stopped { .. } => ErrorCode::HandlerStopped,
            Self::Incomplete(_) => ErrorCode::CatchUpIncomplete,
            Self::Broken { error, .. } | Self::Store(error) => error.code(),
        }
    }

    pub(crate) fn refused(consumer: &str, problem: String) -> Self {
        Self::Refused { consumer: consumer.to_owned(), problem }
    }

    /// Whether it is cured by what an operator says elsewhere, and waited for: nothing ends because of it.
    pub(crate) fn is_waited_for(&self) -> bool {
        matches!(self, Self::OtherCode { .. })
    }

    /// The code of a consumer has panicked where nothing catches that.
    pub(crate) fn panicked(consumer: &str) -> Self {
        Self::refused(consumer, "its code panicked; correct it and start again".to_owned())
    }

    /// What has happened, without the consumer.
    pub(crate) fn reason(&self) -> String {
        match self {
            // Rows have no position.
            Self::Stopped { position: Position::START, event, error, .. } => {
                format!("{error} ({event})")
            }
            Self::Stopped { position, event, error, .. } => {
                format!("{error} ({event}, position {position})")
            }
            other => other.to_string(),
        }
    }

    /// The same with the consumer that it is about.
    pub(crate) fn of(self, consumer: &str) -> Self {
        match self {
            Self::Store(error) => Self::Broken { consumer: consumer.to_owned(), error },
            other => other,
        }
    }
}

/// What is said of a consumer whose code is not the accepted one.
fn other_code(consumer: &str, accepted: &str, own: &str) -> String {
    let (accepted, own) = (shortened(accepted), shortened(own));
    format!(
        "consumer `{consumer}` has other code here ({own}) than the accepted one ({accepted}), so nothing of it is \
         run here: accept it (`anabranch run FILE --accept {consumer}`; in Rust Consumers::accept_code), or \
         rebuild it (docs/changing-a-projection.md), and it begins by itself"
    )
}

/// The beginning of a code: hashes are long.
pub(crate) fn shortened(code: &str) -> String {
    const SHOWN: usize = 12;
    match code.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &code[..end]),
        None => code.to_owned(),
    }
}

/// What is said of a consumer that stands where the log has never been.
pub(crate) fn beyond_log(consumer: &str, position: Position, drawn: Position) -> String {
    format!(
        "consumer `{consumer}` stands at position {position}, but the last position that the log has ever \
         drawn is {drawn}: the log was emptied, restored from an older backup, or its sequence was reset. As \
         it stands it would ignore the next {} events. Let it handle what the log holds now (`anabranch \
         replay {consumer} --from-start`, or `--after POSITION`), or go on after that (`anabranch \
         skip-to-head {consumer}`)",
        position.get() - drawn.get()
    )
}

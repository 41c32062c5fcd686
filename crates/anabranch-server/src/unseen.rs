//! What a caller may not see is answered, word for word, like what does not exist.

use crate::caller::Caller;
use crate::problem::Problem;
use anabranch::errors::ErrorCode;

/// How much of a name is repeated.
const NAME: usize = 200;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Consumer,
    Pool,
    Workflow,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Consumer => "consumer",
            Self::Pool => "pool",
            Self::Workflow => "workflow",
        }
    }

    const fn code(self) -> ErrorCode {
        match self {
            Self::Pool => ErrorCode::NoSuchPool,
            // The consumers of a workflow are what is missing.
            Self::Consumer | Self::Workflow => ErrorCode::NoSuchConsumer,
        }
    }
}

/// There is nothing of this name.
pub(crate) fn no_such(kind: Kind, name: &str) -> Problem {
    let name: String = name.chars().take(NAME).collect();
    let said = format!("there is no {} `{}`", kind.word(), name.escape_debug());
    Problem::new(kind.code(), said)
}

/// Refuses a consumer or a pool that does not exist for the caller.
pub(crate) fn must_see(caller: &Caller, kind: Kind, name: &str) -> Result<(), Problem> {
    if caller.sees_consumer(name) { Ok(()) } else { Err(no_such(kind, name)) }
}

//! What can go wrong with a workflow. Each error says what happened, to which one, and what to do.

use anabranch_core::{
    AppendError, DecodeError, ErrorCode, ErrorKind, InputError, StoreError, debug_with_code,
};
use thiserror::Error;

/// Why a state could not be loaded.
#[derive(Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The id, or the category, cannot name a stream.
    #[error(transparent)]
    Id(#[from] InputError),
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event of the instance cannot be read by the schema of the workflow.
    #[error("workflow `{workflow}` cannot read its instance `{id}`: {source}")]
    Event {
        /// The workflow.
        workflow: String,
        /// The instance.
        id: String,
        /// What is wrong with the event.
        r#source: DecodeError,
    },
}

debug_with_code!(LoadError, LifecycleError);

impl LoadError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Id(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Event { source, .. } => source.code(),
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }
}

/// Why a command was not carried out.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendError<R> {
    /// The workflow refused it.
    #[error("rejected: {0}")]
    Rejected(R),
    /// The instance is paused.
    #[error("workflow `{workflow}`: `{id}` is paused; resume it and send the command again")]
    Paused {
        /// The workflow.
        workflow: String,
        /// The instance.
        id: String,
    },
    /// The instance was cancelled, for good.
    #[error("workflow `{workflow}`: `{id}` is cancelled and takes no commands; begin another one")]
    Cancelled {
        /// The workflow.
        workflow: String,
        /// The instance.
        id: String,
    },
    /// Others were faster, again and again.
    #[error(
        "workflow `{workflow}`: others changed `{id}` before each of {attempts} attempts; send the \
         command again, and send those of one instance from one process if this is frequent"
    )]
    Contended {
        /// The workflow.
        workflow: String,
        /// The instance.
        id: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The events that were decided cannot be written.
    #[error("workflow `{workflow}` decided on an event that cannot be written: {problem}")]
    Unwritable {
        /// The workflow.
        workflow: String,
        /// What is wrong with the event.
        problem: String,
    },
    /// The state could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The events could not be stored.
    #[error(transparent)]
    Append(#[from] AppendError),
}

impl<R> SendError<R> {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Rejected(_) => ErrorCode::CommandRejected,
            Self::Paused { .. } => ErrorCode::InstancePaused,
            Self::Cancelled { .. } => ErrorCode::InstanceCancelled,
            Self::Contended { .. } => ErrorCode::InstanceContended,
            Self::Unwritable { .. } => ErrorCode::EventNotWritable,
            Self::Load(error) => error.code(),
            Self::Append(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }

    /// Whether the same command may succeed later without anybody changing anything. Send it with the
    /// same command id: what has been stored meanwhile is not stored again.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Contended { .. } => true,
            Self::Load(error) => error.is_transient(),
            Self::Append(AppendError::Store(error)) => error.is_transient(),
            _ => false,
        }
    }
}

/// Why an instance was not paused, resumed or cancelled.
#[derive(Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// There is no such instance.
    #[error("workflow `{workflow}` has no instance `{id}`; send it a command first")]
    Missing {
        /// The workflow.
        workflow: String,
        /// The instance.
        id: String,
    },
    /// The instance was cancelled, for good.
    #[error("workflow `{workflow}`: `{id}` is cancelled, which is final; begin another one")]
    Cancelled {
        /// The workflow.
        workflow: String,
        /// The instance.
        id: String,
    },
    /// Others were faster, again and again.
    #[error(
        "workflow `{workflow}`: others changed `{id}` before each of {attempts} attempts; try again"
    )]
    Contended {
        /// The workflow.
        workflow: String,
        /// The instance.
        id: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The state could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The event could not be stored.
    #[error(transparent)]
    Append(#[from] AppendError),
}

impl LifecycleError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Missing { .. } => ErrorCode::NoSuchInstance,
            Self::Cancelled { .. } => ErrorCode::InstanceCancelled,
            Self::Contended { .. } => ErrorCode::InstanceContended,
            Self::Load(error) => error.code(),
            Self::Append(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}

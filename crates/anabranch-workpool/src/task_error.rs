//! Why tasks could not be enqueued, looked at or changed.

use crate::task::Compensation;
use anabranch_core::{ErrorCode, ErrorKind, InputError, StoreError, TaskState, debug_with_code};
use thiserror::Error;
use uuid::Uuid;

/// Why tasks could not be enqueued, looked at or changed.
///
/// ```
/// # use anabranch_workpool::{TaskError, Tasks};
/// # async fn f(payouts: Tasks, task: uuid::Uuid) -> Result<(), TaskError> {
/// match payouts.discard(task).await {
///     Err(TaskError::NoSuchTask { .. }) => println!("404"),
///     Err(TaskError::WrongState { state, .. }) => println!("409: it is {state}"),
///     ended => ended?,
/// }
/// # Ok(()) }
/// ```
#[derive(Error)]
#[non_exhaustive]
pub enum TaskError {
    /// A task is not one that can be stored.
    #[error(transparent)]
    Invalid(#[from] InputError),
    /// There is no such task.
    #[error("task {task}: there is none with this id")]
    NoSuchTask {
        /// Its id.
        task: Uuid,
    },
    /// The task does not stand so that this can be done.
    #[error("task {task}: it is {state}; only {wanted}")]
    WrongState {
        /// Which one.
        task: Uuid,
        /// How it stands.
        state: TaskState,
        /// With which ones it can be done.
        wanted: &'static str,
    },
    /// The key of the task has gone on, and a program of the last version gave it up.
    #[error(
        "task {task}: its key has gone on, and a program of the last version gave it up, which does not say what \
         it enqueued instead: look for that first; if this is meant to be done besides, try it again all the same \
         (Tasks::retry_anyway, `anabranch tasks retry ID --force`)"
    )]
    Passed {
        /// Which one.
        task: Uuid,
    },
    /// The attempts of the task are used up and others were enqueued instead of it, so to try it again would do
    /// both.
    #[error(
        "task {task} was compensated when its attempts were used up: to try it again would do it beside what was \
         enqueued instead of it, {}; if both are meant, try it again all the same (Tasks::retry_anyway, \
         `anabranch tasks retry {task} --force`)",
        list(by)
    )]
    Compensated {
        /// Which one.
        task: Uuid,
        /// What was enqueued instead of it.
        by: Vec<Compensation>,
    },
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

debug_with_code!(TaskError);

impl TaskError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(error) => error.code(),
            Self::NoSuchTask { .. } => ErrorCode::NoSuchTask,
            Self::WrongState { .. } => ErrorCode::WrongTaskState,
            Self::Passed { .. } => ErrorCode::TaskPassed,
            Self::Compensated { .. } => ErrorCode::TaskCompensated,
            Self::Store(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}

fn list(tasks: &[Compensation]) -> String {
    tasks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

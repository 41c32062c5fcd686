//! Why an operation was not planned or not carried out.

use crate::plan::PlanState;
use anabranch_core::{ErrorCode, ErrorKind, StoreError, debug_with_code};
use anabranch_runtime::{OperateError, RebuildError, ReplayError};
use anabranch_workpool::{TaskConditionError, TaskError};
use thiserror::Error;
use uuid::Uuid;

/// Why an operation was not planned or not carried out. Unless it says otherwise, nothing was changed.
///
/// ```
/// # async fn f(operations: anabranch_operations::Operations, id: uuid::Uuid) {
/// use anabranch_operations::OperationError;
/// match operations.apply(id, |_| {}).await {
///     Ok(plan) => println!("{} done", plan.done),
///     Err(OperationError::Outdated { what, .. }) => println!("look again: {}", what.join(", ")),
///     Err(error) => println!("{} {error}", error.kind().http_status()),
/// }
/// # }
/// ```
#[derive(Error)]
#[non_exhaustive]
pub enum OperationError {
    /// There is no such plan.
    #[error(
        "there is no plan {id}; `--dry-run` makes one, and those that expired a day ago are gone"
    )]
    NoSuchPlan {
        /// Its id.
        id: Uuid,
    },
    /// The plan expired.
    #[error("plan {id} has expired; make another one with --dry-run, and look at it again")]
    Expired {
        /// Its id.
        id: Uuid,
    },
    /// The plan was applied, cancelled or ended already.
    #[error(
        "plan {id} is {state} already; nothing was done again (`anabranch journal --plan {id}`)"
    )]
    Used {
        /// Its id.
        id: Uuid,
        /// Its state.
        state: PlanState,
    },
    /// Another version of this program made the plan, and this one cannot read it.
    #[error(
        "plan {id} was made by another version of this program, and this one cannot read it: {why}; apply it with that \
         version, or make another one with --dry-run"
    )]
    Unreadable {
        /// Its id.
        id: Uuid,
        /// What of it.
        why: String,
    },
    /// The plan is being carried out by somebody else.
    #[error(
        "plan {id} is being carried out just now; if the process that does it is gone, it can be applied again after \
         ten seconds, and goes on where it was"
    )]
    Running {
        /// Its id.
        id: Uuid,
    },
    /// The plan is out of date: what it was made on has changed.
    #[error(
        "plan {id} is out of date, since {}; this changed nothing: make another one with --dry-run, and look at it again",
        what.join(", and ")
    )]
    Outdated {
        /// Its id.
        id: Uuid,
        /// What has changed.
        what: Vec<String>,
    },
    /// The plan is of another operation than the one that was asked for.
    #[error("plan {id} is of another operation: {says}; repeat the command that made it")]
    Differs {
        /// Its id.
        id: Uuid,
        /// What it would do.
        says: String,
    },
    /// Workers run what was to be removed.
    #[error("`{consumer}` is being run; stop its workers first (`anabranch status {consumer}`)")]
    StillRunning {
        /// The consumer.
        consumer: String,
    },
    /// There is no such pool.
    #[error(
        "there is no pool `{}`; one appears when a task is enqueued for it or a worker first runs it; `anabranch tasks` \
         shows those that have tasks, and `anabranch status` those that were run",
        pool.escape_debug()
    )]
    NoSuchPool {
        /// The pool.
        pool: String,
    },
    /// Only webhooks have ids.
    #[error("`{consumer}` is a {kind}, and only webhooks have ids")]
    NoIds {
        /// The consumer.
        consumer: String,
        /// What it is.
        kind: String,
    },
    /// Deliveries have no such state.
    #[error("deliveries are open, failed or delivered, and never `{}`", state.escape_debug())]
    NoSuchDeliveryState {
        /// What was given.
        state: String,
    },
    /// This program was built without webhooks.
    #[error(
        "this program was built without webhooks; build it with the feature `webhook` of anabranch"
    )]
    NoWebhooks,
    /// Tasks in this state cannot be retried, discarded or cancelled.
    #[error("{state} tasks cannot be {wanted}; use {those}")]
    WrongTaskState {
        /// Their state.
        state: String,
        /// What was wanted of them.
        wanted: &'static str,
        /// With which ones that can be done.
        those: &'static str,
    },
    /// A condition of a filter is none.
    #[error(transparent)]
    Condition(#[from] TaskConditionError),
    /// It is not possible with the consumer.
    #[error(transparent)]
    Operate(#[from] OperateError),
    /// The replay is not possible.
    #[error(transparent)]
    Replay(ReplayError),
    /// The switch is not possible.
    #[error(transparent)]
    Rebuild(RebuildError),
    /// It is not possible with the task.
    #[error(transparent)]
    Task(#[from] TaskError),
}

debug_with_code!(OperationError);

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        Self::Operate(error.into())
    }
}

impl From<ReplayError> for OperationError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Operate(error) => Self::Operate(error),
            error => Self::Replay(error),
        }
    }
}

impl From<RebuildError> for OperationError {
    fn from(error: RebuildError) -> Self {
        match error {
            RebuildError::Operate(error) => Self::Operate(error),
            error => Self::Rebuild(error),
        }
    }
}

impl OperationError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoSuchPlan { .. } => ErrorCode::NoSuchPlan,
            Self::Expired { .. } => ErrorCode::PlanExpired,
            Self::Used { .. } | Self::Running { .. } => ErrorCode::PlanUsed,
            Self::Outdated { .. } => ErrorCode::PlanOutdated,
            Self::Unreadable { .. } => ErrorCode::PlanUnreadable,
            Self::Differs { .. } => ErrorCode::PlanDiffers,
            Self::StillRunning { .. } => ErrorCode::StillRunning,
            Self::NoSuchPool { .. } => ErrorCode::NoSuchPool,
            Self::NoIds { .. } | Self::NoWebhooks => ErrorCode::InvalidArguments,
            Self::NoSuchDeliveryState { .. } => ErrorCode::UnknownName,
            Self::WrongTaskState { .. } => ErrorCode::WrongTaskState,
            Self::Condition(error) => error.code(),
            Self::Operate(error) => error.code(),
            Self::Replay(error) => error.code(),
            Self::Rebuild(error) => error.code(),
            Self::Task(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}

//! Decisions on a dynamic consistency boundary that are retried durably when somebody else was faster.

mod rejected;

pub use rejected::{DcbFailure, DcbRejected};

use crate::new_task::NewTask;
use crate::pool::{OutsidePool, PoolSettings, TaskGaveUp};
use crate::run::Run;
use crate::task::Task;
use crate::tasks::Tasks;
use anabranch_core::{AppendError, Failure, Retry, ScopeKey, StoreError, TaskState};
use anabranch_runtime::{HandlerError, HandlerResult};
use anabranch_store::Log;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use uuid::Uuid;

/// Decides on a scope: reads what is in it, and appends under the condition that nothing of that has
/// changed.
///
/// ```
/// use anabranch_core::{Append, Expected, NewEvent, Position, ScopeKey, StreamId};
/// use anabranch_store::Log;
/// use anabranch_workpool::{DcbError, DcbHandler};
///
/// struct Seats;
///
/// impl DcbHandler for Seats {
///     type Command = String; // who wants the seat
///     type Output = u64;
///     fn name(&self) -> &str {
///         "seats"
///     }
///     async fn decide(&self, log: &Log, seat: &ScopeKey, who: &String) -> Result<u64, DcbError> {
///         let seen = log.read(seat.query()).collect().await?;
///         if seen.iter().any(|event| event.event_type() == "SeatTaken") {
///             return Err(DcbError::Rejected("the seat is taken".to_owned()));
///         }
///         let after = seen.last().map_or(Position::START, |event| event.position());
///         let taken = seat.mark(NewEvent::new("SeatTaken", who));
///         let stream = StreamId::new("Seat", seat.id())?;
///         let append = Append::new().to(&stream, Expected::Any, [taken]).unless(seat.query(), after);
///         Ok(log.append_all(append).await?.version())
///     }
/// }
/// ```
pub trait DcbHandler: Send + Sync + 'static {
    /// What is asked for.
    type Command: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What a decision answers.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Its name, which is that of the pool of its retries: lower-case letters, digits, `_`, `-`, `.`.
    fn name(&self) -> &str;

    /// Reads, decides and appends. A conflict ([`AppendError::is_conflict`]) turns into
    /// [`DcbError::Conflict`] by `?`. A process may die between the append and the note of it, so a
    /// command that is tried again may find its own events: give them ids, or see them in the scope.
    fn decide(
        &self,
        log: &Log,
        scope: &ScopeKey,
        command: &Self::Command,
    ) -> impl Future<Output = Result<Self::Output, DcbError>> + Send;
}

/// Why a decision was not taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DcbError {
    /// Somebody else has changed the scope meanwhile: it is decided again.
    #[error(transparent)]
    Conflict(AppendError),
    /// The command is refused, for good.
    #[error("rejected: {0}")]
    Rejected(String),
    /// It could not be decided; it is tried again.
    #[error("{0}")]
    Failed(HandlerError),
}

impl From<AppendError> for DcbError {
    fn from(error: AppendError) -> Self {
        match error.is_conflict() {
            true => Self::Conflict(error),
            false => Self::Failed(error.into()),
        }
    }
}

macro_rules! failed {
    ($($error:ty),*) => {
        $(impl From<$error> for DcbError {
            fn from(error: $error) -> Self {
                Self::Failed(error.into())
            }
        })*
    };
}

failed!(StoreError, anabranch_core::InputError, anabranch_core::DecodeError, serde_json::Error);

impl From<HandlerError> for DcbError {
    fn from(error: HandlerError) -> Self {
        Self::Failed(error)
    }
}

/// What has become of a command so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DcbOutcome<T> {
    /// It is decided.
    Decided(T),
    /// It waits for its turn, as this task.
    Queued(Uuid),
}

/// Takes commands for scopes, and retries those that meet a conflict.
///
/// A command is tried at once, unless others of its scope wait. After a conflict it is a task under the
/// [key of the scope](ScopeKey::partition_key), `dcb:tenant:T:type:id`, so in the slot of the scope's events, and
/// serialised with whatever else is enqueued in the pool under that key: it waits 100 ms, 200 ms, 400 ms, … up to 30 s, commands that come later wait behind it,
/// and after five attempts it is rejected ([`DcbRejected::MaxRetriesExceeded`]). The tasks are run by a
/// replica set that has its [`pool`](Self::pool).
pub struct Dcb<H: DcbHandler> {
    log: Log,
    handler: Arc<H>,
    tasks: Tasks,
    retry: Retry,
}

/// A command as a task.
#[derive(Serialize, Deserialize)]
struct Wanted<C> {
    scope: ScopeKey,
    command: C,
}

/// What a command led to, as the result of its task.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decided<T> {
    Decided(T),
    Rejected(String),
}

/// What the last attempt has met, as the checkpoint of the task.
#[derive(Serialize, Deserialize)]
struct Conflicts {
    scope: ScopeKey,
    attempts: u32,
    error: String,
}

impl Conflicts {
    fn rejected(self) -> DcbRejected {
        let Self { scope, attempts, error } = self;
        DcbRejected::MaxRetriesExceeded { scope, attempts, error }
    }
}

impl<H: DcbHandler> Dcb<H> {
    /// Takes commands for a handler.
    pub fn new(log: &Log, handler: H) -> Self {
        let tasks = Tasks::new(log, handler.name());
        let retry = Retry::default().then(Failure::Skip);
        Self { log: log.clone(), handler: Arc::new(handler), tasks, retry }
    }

    /// Retries in another rhythm. The default: five attempts, 100 ms × 2ⁿ up to 30 s.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry.then(Failure::Skip);
        self
    }

    /// The pool that runs what was queued: add it to a replica set by
    /// [`outside_pool`](crate::PoolSet::outside_pool).
    #[must_use]
    pub fn pool(&self) -> DcbPool<H> {
        DcbPool { log: self.log.clone(), handler: Arc::clone(&self.handler), retry: self.retry }
    }

    /// The tasks of commands that were queued.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Carries out a command, now or later: a conflict is retried durably, after all that waits for the
    /// scope already. Fails if the command is refused, or the database cannot take it.
    pub async fn with_dcb_retry(
        &self,
        scope: &ScopeKey,
        command: H::Command,
    ) -> Result<DcbOutcome<H::Output>, DcbFailure> {
        let key = scope.partition_key();
        // Commands that wait for the scope come first.
        if self.tasks.is_open(&key).await? {
            let task = NewTask::new(key, &Wanted { scope: scope.clone(), command });
            return Ok(DcbOutcome::Queued(self.tasks.enqueue(task).await?.id));
        }
        let error = match self.handler.decide(&self.log, scope, &command).await {
            Ok(output) => return Ok(DcbOutcome::Decided(output)),
            Err(DcbError::Rejected(message)) => {
                return Err(DcbRejected::Refused { reason: message }.into());
            }
            Err(DcbError::Conflict(error)) => error.to_string(),
            Err(DcbError::Failed(error)) => return Err(DcbFailure::Failed(error)),
        };
        let Some(wait) = self.retry.delay(1, anabranch_store::backoff::random()) else {
            return Err(Conflicts { scope: scope.clone(), attempts: 1, error }.rejected().into());
        };
        let task = NewTask::new(key, &Wanted { scope: scope.clone(), command });
        Ok(DcbOutcome::Queued(self.tasks.enqueue_failed(task, &error, wait).await?))
    }

    /// The same, and waits for a command that was queued, though not longer than this.
    pub async fn decide(
        &self,
        scope: &ScopeKey,
        command: H::Command,
        at_most: Duration,
    ) -> Result<DcbOutcome<H::Output>, DcbFailure> {
        match self.with_dcb_retry(scope, command).await? {
            DcbOutcome::Queued(task) => self.wait(task, at_most).await,
            decided => Ok(decided),
        }
    }

    /// Waits for a command that was queued, though not longer than this.
    pub async fn wait(
        &self,
        task: Uuid,
        at_most: Duration,
    ) -> Result<DcbOutcome<H::Output>, DcbFailure> {
        let status = self.tasks.wait(task, at_most).await?;
        match status.state {
            TaskState::Done => match status.result().map_err(DcbFailure::Failed)? {
                Some(Decided::Decided(output)) => Ok(DcbOutcome::Decided(output)),
                Some(Decided::Rejected(reason)) => Err(DcbRejected::Refused { reason }.into()),
                None => Err(DcbFailure::Failed("the task of the command left no result".into())),
            },
            TaskState::Dead | TaskState::Compensated | TaskState::Skipped => {
                Err(self.given_up(task, status.error.unwrap_or_default()).await?.into())
            }
            TaskState::Cancelled => Err(DcbRejected::Cancelled.into()),
            TaskState::Ready | TaskState::Scheduled | TaskState::Held => {
                Ok(DcbOutcome::Queued(task))
            }
        }
    }

    /// Why the attempts of a task are used up: what its last one has left says whether it was a conflict.
    async fn given_up(&self, task: Uuid, error: String) -> Result<DcbRejected, DcbFailure> {
        let details = self.tasks.details(task).await?;
        let left = details.and_then(|details| details.checkpoint);
        let left = left.map(|json| serde_json::from_str::<Option<Conflicts>>(json.get()));
        Ok(match left.transpose().map_err(|error| DcbFailure::Failed(error.into()))?.flatten() {
            Some(conflicts) => conflicts.rejected(),
            None => DcbRejected::GivenUp { error },
        })
    }
}

/// The pool of commands that wait for their scope.
pub struct DcbPool<H> {
    log: Log,
    handler: Arc<H>,
    retry: Retry,
}

impl<H: DcbHandler> OutsidePool for DcbPool<H> {
    type Output = serde_json::Value;

    fn name(&self) -> &str {
        self.handler.name()
    }

    fn settings(&self) -> PoolSettings {
        PoolSettings::default().retry(self.retry)
    }

    async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult<serde_json::Value> {
        let Wanted { scope, command }: Wanted<H::Command> = task.payload()?;
        if run.checkpoint::<Option<Conflicts>>()?.is_some_and(|left| left.is_some()) {
            // Of an attempt before somebody had it tried again: it says nothing about this one.
            run.save(&None::<Conflicts>).await?;
        }
        let decided = match self.handler.decide(&self.log, &scope, &command).await {
            Ok(output) => Decided::Decided(output),
            Err(DcbError::Rejected(why)) => Decided::Rejected(why),
            Err(DcbError::Conflict(error)) if task.attempt() >= self.retry.attempts => {
                let (attempts, error) = (task.attempt(), error.to_string());
                let conflicts = Conflicts { scope, attempts, error };
                run.save(&Some(&conflicts)).await?;
                let rejected = conflicts.rejected();
                return Err(HandlerError::with_code(rejected.code(), rejected.to_string()));
            }
            Err(DcbError::Conflict(error)) => return Err(HandlerError::new(error.to_string())),
            Err(DcbError::Failed(error)) => return Err(error),
        };
        Ok(serde_json::to_value(decided)?)
    }

    fn gave_up(&self, _: &Task, _: &str) -> TaskGaveUp {
        // It is rejected, and the next one of its scope has its turn.
        TaskGaveUp::GoOn(Vec::new())
    }
}

//! What is done with tasks that failed: look at them, try them again, discard those whose attempts are used up.

use crate::tables::{Why, instead};
use crate::task::{Compensation, TaskDetails, TaskRef, TaskStatus};
use crate::task_error::TaskError;
use crate::tasks::Tasks;
use anabranch_core::{StoreError, TaskState};
use anabranch_store::Row;
use anabranch_store::database::{End, Session, Statement, Topic, column};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use uuid::Uuid;

/// How long a transaction of ours may be open without a statement.
const IDLE: Duration = Duration::from_secs(2);

/// A task that nobody changes before the session ends.
pub(crate) struct Locked {
    pub(crate) status: TaskStatus,
    /// What was enqueued instead of it.
    pub(crate) instead: Vec<TaskRef>,
    /// Whether its key is held because of a dead task.
    pub(crate) is_held: bool,
}

impl Tasks {
    /// All that is kept of a task: its payload, how far it came, what was enqueued instead of it.
    pub async fn details(&self, task: Uuid) -> Result<Option<TaskDetails>, TaskError> {
        let answers = self.run(vec![self.tables.details(task)]).await?;
        let Some(row) = answers.iter().find_map(|answer| answer.rows.first()) else {
            return Ok(None);
        };
        let instead = instead(self.database.at(), row)?.unwrap_or_default();
        let compensated_by = self.compensations(instead).await?;
        Ok(Some(self.tables.task_details(self.database.at(), row, compensated_by)?))
    }

    /// The tasks that stand so, the oldest first: of one key or of all, and only those behind one of them.
    ///
    /// ```
    /// # use anabranch_workpool::{TaskError, TaskState, Tasks};
    /// # async fn f(payouts: Tasks) -> Result<(), TaskError> {
    /// let page = payouts.page(TaskState::Dead, None, None, 100).await?;
    /// let next = payouts.page(TaskState::Dead, None, page.last().map(|task| task.id), 100).await?;
    /// # Ok(()) }
    /// ```
    pub async fn page(
        &self,
        state: TaskState,
        key: Option<&str>,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<TaskStatus>, TaskError> {
        let page = self.tables.page(self.pool(), state, key, after, limit);
        let answers = self.run(vec![page]).await?;
        let rows = answers.iter().flat_map(|answer| &answer.rows);
        let status = |row| self.tables.task_status(self.database.at(), row);
        Ok(rows.map(status).collect::<Result<_, _>>()?)
    }

    /// How the tasks stand that were enqueued instead of another one.
    async fn compensations(&self, tasks: Vec<TaskRef>) -> Result<Vec<Compensation>, TaskError> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.run(vec![self.tables.states(&tasks)]).await?;
        let at = self.database.at();
        let state = |row: &Row| Ok((column(at, row, "id")?, self.tables.state_in(at, row)?));
        let rows = answers.iter().flat_map(|answer| &answer.rows);
        let states: HashMap<Uuid, TaskState> =
            rows.map(state).collect::<Result<_, StoreError>>()?;
        let stands = |task: TaskRef| Compensation { state: states.get(&task.id).copied(), task };
        Ok(tasks.into_iter().map(stands).collect())
    }

    /// Tries a dead task again, as if it had never failed. Also one that was skipped: its key has gone on, so
    /// it is run after what has been run meanwhile.
    ///
    /// One that waits for its next attempt has it now: an endpoint is back, say.
    ///
    /// One that was compensated is refused, with what was done instead ([`TaskError::Compensated`]): to try it
    /// again would do both. [`retry_anyway`](Self::retry_anyway) does.
    pub async fn retry(&self, task: Uuid) -> Result<(), TaskError> {
        self.retry_one(task, false).await.map(drop)
    }

    /// Tries a dead task again, even if it was compensated. Returns what was done instead, and is not undone.
    pub async fn retry_anyway(&self, task: Uuid) -> Result<Vec<Compensation>, TaskError> {
        self.retry_one(task, true).await
    }

    async fn retry_one(&self, task: Uuid, anyway: bool) -> Result<Vec<Compensation>, TaskError> {
        let (session, locked) = self.lock(&[task]).await?;
        let Locked { status, instead, is_held } = one(task, locked)?;
        let state = status.state;
        if !state.is_dead() {
            return match self.hurry(session, task).await? {
                true => Ok(Vec::new()),
                false => {
                    let wanted =
                        "a dead one, or one that waits for its next attempt, can be tried again";
                    Err(TaskError::WrongState { task, state, wanted })
                }
            };
        }
        if state == TaskState::Compensated && !anyway {
            // Rolled back first: on SQLite nobody else could look.
            drop(session);
            let by = self.compensations(instead).await?;
            return Err(TaskError::Compensated { task, by });
        }
        if state == TaskState::Dead && !is_held && !anyway {
            return Err(TaskError::Passed { task });
        }
        self.revive(session, &[status], self.with.clone()).await?;
        self.compensations(instead).await
    }

    /// Discards a dead task; what its key held back goes on. One that was compensated or skipped is only
    /// cleared away: its key has gone on already, and so has what follows it.
    pub async fn discard(&self, task: Uuid) -> Result<(), TaskError> {
        let (session, locked) = self.lock(&[task]).await?;
        let Locked { status: TaskStatus { state, .. }, .. } = one(task, locked)?;
        if !state.is_dead() {
            let wanted = "a dead one can be discarded";
            return Err(TaskError::WrongState { task, state, wanted });
        }
        self.end(session, task, Some(state)).await.map(drop)
    }

    /// Some tasks, which nobody changes before the session ends.
    pub(crate) async fn lock(
        &self,
        tasks: &[Uuid],
    ) -> Result<(Box<dyn Session>, Vec<Locked>), TaskError> {
        let (mut session, at) = (self.database.begin(), self.database.at());
        let lock = vec![self.tables.lock(tasks)];
        let answers = session.run(lock, End::Open { idle: IDLE }).await;
        let answers = answers.map_err(|failed| failed.into_store_error(at))?;
        let task = |row: &Row| {
            let (status, instead) = (self.tables.task_status(at, row)?, instead(at, row)?);
            let is_held = column::<u64>(at, row, "holds")? > 0;
            Ok(Locked { status, instead: instead.unwrap_or_default(), is_held })
        };
        let rows = answers.iter().flat_map(|answer| &answer.rows);
        Ok((session, rows.map(task).collect::<Result<_, StoreError>>()?))
    }

    /// Has a task tried now, if it waits for its next attempt; says whether it does.
    async fn hurry(&self, mut session: Box<dyn Session>, task: Uuid) -> Result<bool, TaskError> {
        let mut statements = vec![self.tables.hurry(task)];
        statements.extend(self.with.clone());
        statements.push(Statement::signal(Topic::Tasks));
        match session.run(statements, End::Commit).await {
            Ok(_) => Ok(true),
            Err(failed) if failed.is_unmatched() => Ok(false),
            Err(failed) => Err(failed.into_store_error(self.database.at()).into()),
        }
    }

    /// Makes tasks ready that are locked, and releases the keys that they held.
    pub(crate) async fn revive(
        &self,
        mut session: Box<dyn Session>,
        tasks: &[TaskStatus],
        with: Vec<Statement>,
    ) -> Result<(), TaskError> {
        let ids: Vec<Uuid> = tasks.iter().map(|task| task.id).collect();
        let mut statements = vec![self.tables.revive(&ids)];
        // A key that has gone on is held by another one, if at all.
        let waiting = tasks.iter().filter(|task| task.state == TaskState::Dead);
        let keys: BTreeSet<(&str, &str)> = waiting.map(|task| (&*task.pool, &*task.key)).collect();
        for (pool, key) in keys {
            statements.extend(self.tables.release(pool, key, Why::Dead));
        }
        statements.extend(with);
        statements.push(Statement::signal(Topic::Tasks));
        let done = session.run(statements, End::Commit).await;
        done.map(drop).map_err(|failed| failed.into_store_error(self.database.at()).into())
    }
}

fn one(task: Uuid, locked: Vec<Locked>) -> Result<Locked, TaskError> {
    locked.into_iter().next().ok_or(TaskError::NoSuchTask { task })
}

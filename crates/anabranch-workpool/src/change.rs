//! What is done with tasks that are there: cancel them, pause and resume their keys.

use crate::new_task::Outcome;
use crate::tables::{There, Why, corrupt};
use crate::task_error::TaskError;
use crate::tasks::Tasks;
use anabranch_core::TaskState;
use anabranch_runtime::{HandlerError, RawTx, Tx};
use anabranch_store::database::{End, Session, Statement, Topic, column};
use std::time::Duration;
use uuid::Uuid;

impl Tasks {
    /// Cancels a task that has not ended: it will not be run, or what it does is not stored. Says
    /// whether it was in time.
    ///
    /// A task of an [`OutsidePool`](crate::OutsidePool) that runs at this moment may finish; nothing
    /// follows from it.
    pub async fn cancel(&self, task: Uuid) -> Result<bool, TaskError> {
        self.end(self.database.begin(), task, None).await
    }

    /// Cancels a task that is open, or one that is dead and stands so. Says whether there is one.
    pub(crate) async fn end(
        &self,
        mut session: Box<dyn Session>,
        task: Uuid,
        dead: Option<TaskState>,
    ) -> Result<bool, TaskError> {
        let Some(mut follows) = self.end_in(session.as_mut(), task, dead).await? else {
            return Ok(false);
        };
        follows.extend(self.with.clone());
        let done = session.run(follows, End::Commit).await;
        done.map_err(|failed| failed.into_store_error(self.database.at()))?;
        Ok(true)
    }

    /// The same in a transaction that goes on: answers with what is still to be run in it, if there is such a task.
    pub(crate) async fn end_in(
        &self,
        session: &mut dyn Session,
        task: Uuid,
        dead: Option<TaskState>,
    ) -> Result<Option<Vec<Statement>>, TaskError> {
        let idle = Duration::from_secs(2);
        let cancel = vec![self.tables.cancel(task, dead.is_some())];
        let answers = session.run(cancel, End::Open { idle }).await;
        let answers = answers.map_err(|failed| failed.into_store_error(self.database.at()))?;
        let Some(row) = answers.iter().find_map(|answer| answer.rows.first()) else {
            return Ok(None);
        };
        let at = self.database.at();
        let ended = self.tables.task(row).map_err(|error| corrupt(at, error))?;
        let error: Option<String> = column(at, row, "error")?;
        let mut statements = Vec::new();
        // If its key went on when it died, what follows it has followed then.
        let went_on = dead.is_some_and(|state| state != TaskState::Dead);
        let follower = ended.follower(Outcome::Cancelled, None, error.as_deref());
        if let Some((pool, task)) = follower.filter(|_| !went_on) {
            let tasks = [(pool.as_str(), &task)];
            let rule = self.log.hash_rule();
            // It has settled where it stands in a trace.
            statements.extend(self.tables.enqueue(rule, &tasks, There::Perhaps, None));
        }
        if dead == Some(TaskState::Dead) {
            let pool: String = column(at, row, "pool")?;
            statements.extend(self.tables.release(&pool, &ended.key, Why::Dead));
        }
        Ok(Some(statements))
    }

    /// Runs nothing of a key from now on; what runs at this moment is finished.
    pub async fn pause_key(&self, key: &str) -> Result<(), TaskError> {
        let slot = self.log.hash_rule().slot(key);
        let mut statements = vec![self.tables.hold(&self.pool, key, slot, Why::Paused)];
        statements.extend(self.with.clone());
        statements.push(Statement::signal(Topic::Tasks));
        self.run(statements).await.map(drop)
    }

    /// Goes on with a paused key.
    pub async fn resume_key(&self, key: &str) -> Result<(), TaskError> {
        let mut statements = self.tables.release(&self.pool, key, Why::Paused);
        statements.extend(self.with.clone());
        self.run(statements).await.map(drop)
    }

    /// [`pause_key`](Self::pause_key) in the transaction of a handler.
    pub async fn pause_key_in(&self, tx: &mut Tx, key: &str) -> Result<(), HandlerError> {
        let slot = self.log.hash_rule().slot(key);
        tx.push(self.tables.hold(&self.pool, key, slot, Why::Paused)).await?;
        tx.push(Statement::signal(Topic::Tasks)).await
    }

    /// [`resume_key`](Self::resume_key) in the transaction of a handler.
    pub async fn resume_key_in(&self, tx: &mut Tx, key: &str) -> Result<(), HandlerError> {
        for statement in self.tables.release(&self.pool, key, Why::Paused) {
            tx.push(statement).await?;
        }
        Ok(())
    }

    /// Cancels everything of a key that has not ended, in the transaction of a handler. No on-complete
    /// tasks follow.
    pub async fn cancel_key_in(&self, tx: &mut Tx, key: &str) -> Result<(), HandlerError> {
        tx.push(self.tables.cancel_key(&self.pool, key)).await
    }

    /// Cancels what is open under a unique key, in the transaction of a handler. No on-complete task
    /// follows.
    pub async fn cancel_unique_in(&self, tx: &mut Tx, key: &str) -> Result<(), HandlerError> {
        tx.push(self.tables.cancel_unique(&self.pool, key)).await
    }
}

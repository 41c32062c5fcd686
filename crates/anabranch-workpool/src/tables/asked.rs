//! What others than lanes ask of tasks: how they stand, to cancel them, to try them again.

use super::{CANCELLED, COLUMNS, DEAD, OPEN, READY, Tables, UNFINISHED, column, corrupt};
use crate::task::TaskStatus;
use anabranch_core::{StoreError, TaskState, TaskStates, UnknownTaskState};
use anabranch_store::database::Statement;
use anabranch_store::value::ColumnError;
use anabranch_store::{Row, params};
use jiff::Timestamp;
use uuid::Uuid;

/// What others read of a task.
const STATUS: &str =
    "id, pool, key, state, attempts, due_us, error, result, enqueued_us, finished_us";

impl Tables {
    /// Cancels a task that has not ended, or lets go of a dead one, and says what follows it.
    pub(crate) fn cancel(&self, task: Uuid, is_dead: bool) -> Statement {
        let state = if is_dead { format!("= {DEAD}") } else { OPEN.to_string() };
        let now = self.now;
        let update = format!(
            "UPDATE {} SET state = {CANCELLED}, finished_us = {now} WHERE id = $1 AND state {state} \
             RETURNING {COLUMNS}, {now} AS now_us, pool, error",
            self.tasks
        );
        Statement::query(update, params![task])
    }

    /// Cancels what is open of a key.
    pub(crate) fn cancel_key(&self, pool: &str, key: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET state = {CANCELLED}, finished_us = {} \
             WHERE pool = $1 AND key = $2 AND state {UNFINISHED} AND state {OPEN}",
            self.tasks, self.now
        );
        Statement::new(update, params![pool, key])
    }

    /// Cancels what is open under a unique key.
    pub(crate) fn cancel_unique(&self, pool: &str, unique: &str) -> Statement {
        let update = format!(
            "UPDATE {} SET state = {CANCELLED}, finished_us = {} \
             WHERE pool = $1 AND unique_key = $2 AND state {OPEN}",
            self.tasks, self.now
        );
        Statement::new(update, params![pool, unique])
    }

    /// Tries a dead task again, as if it had never failed.
    pub(crate) fn revive(&self, task: Uuid) -> Statement {
        let update = format!(
            "UPDATE {} SET state = {READY}, attempts = 0, due_us = 0, finished_us = NULL \
             WHERE id = $1 AND state = {DEAD} RETURNING pool, key",
            self.tasks
        );
        Statement::query(update, params![task])
    }

    /// How a task stands.
    pub(crate) fn status(&self, task: Uuid) -> Statement {
        Statement::query(
            format!("SELECT {STATUS} FROM {} WHERE id = $1", self.tasks),
            params![task],
        )
    }

    /// The tasks of a pool that stand so, the oldest first.
    pub(crate) fn list(&self, pool: &str, state: TaskState, limit: usize) -> Statement {
        let select = format!(
            "SELECT {STATUS} FROM {} WHERE pool = $1 AND state = $2 ORDER BY seq LIMIT $3",
            self.tasks
        );
        Statement::query(select, params![pool, state.code(), limit])
    }

    /// Whether something of a key is open.
    pub(crate) fn is_open(&self, pool: &str, key: &str) -> Statement {
        let select = format!(
            "SELECT 1 AS one FROM {} WHERE pool = $1 AND key = $2 AND state {UNFINISHED} \
             AND state {OPEN} LIMIT 1",
            self.tasks
        );
        Statement::query(select, params![pool, key])
    }

    /// How many tasks of each pool stand how: of some states, or of all.
    pub(crate) fn counts(&self, of: Option<TaskStates>) -> Statement {
        // Written out, so that the index of these states serves.
        let of = of.map(|states| format!(" WHERE state {states}")).unwrap_or_default();
        let select = format!(
            "SELECT pool, state, count(*) AS tasks FROM {}{of} \
             GROUP BY pool, state ORDER BY pool, state",
            self.tasks
        );
        Statement::query(select, vec![])
    }

    pub(crate) fn task_status(&self, at: &str, row: &Row) -> Result<TaskStatus, StoreError> {
        let state = state(at, row)?;
        self.status_of(row, state).map_err(|error| corrupt(at, error))
    }

    fn status_of(&self, row: &Row, state: TaskState) -> Result<TaskStatus, ColumnError> {
        let time = |micros: i64| Timestamp::from_microsecond(micros).unwrap_or_default();
        let due: i64 = row.get("due_us")?;
        let result: Option<String> = row.get("result")?;
        let finished: Option<i64> = row.get("finished_us")?;
        Ok(TaskStatus {
            id: row.get("id")?,
            pool: row.get("pool")?,
            key: row.get("key")?,
            state,
            attempts: row.get("attempts")?,
            run_at: (due > 0).then(|| time(due)),
            error: row.get("error")?,
            result: result.and_then(|json| serde_json::from_str(&json).ok()),
            enqueued_at: time(row.get("enqueued_us")?),
            finished_at: finished.map(time),
        })
    }
}

/// How a task stands. A number that this program does not know is an error: to take it for anything else
/// would be to guess.
pub(crate) fn state(at: &str, row: &Row) -> Result<TaskState, StoreError> {
    let unknown =
        |error: UnknownTaskState| StoreError::Other { at: at.to_owned(), source: error.into() };
    TaskState::from_code(column(at, row, "state")?).map_err(unknown)
}

//! What others than lanes ask of tasks: how they stand, and to cancel them.

use super::{CANCELLED, DEAD, OPEN, READY, SHOWN, Tables, UNFINISHED, Why, corrupt, state_of_dead};
use crate::new_task::Then;
use crate::task::{Compensation, OnComplete, TaskDetails, TaskStatus};
use anabranch_core::{StoreError, TaskState, TaskStates, UnknownTaskState};
use anabranch_store::database::{Statement, column};
use anabranch_store::value::ColumnError;
use anabranch_store::{Row, params};
use serde_json::value::RawValue;
use uuid::Uuid;

/// What others read of a task, beside what was done about it.
const STATUS: &str = "id, pool, key, attempts, due_us, error, result, enqueued_us, finished_us";
/// What is shown of one task besides.
const DETAILS: &str = "unique_key, payload, checkpoint, then_run";

impl Tables {
    /// Cancels a task that has not ended, or discards a dead one, and says what follows it.
    pub(crate) fn cancel(&self, task: Uuid, is_dead: bool) -> Statement {
        let state = if is_dead { format!("= {DEAD}") } else { OPEN.to_string() };
        let now = self.now;
        let update = format!(
            "UPDATE {} SET state = {CANCELLED}, finished_us = {now} WHERE id = $1 AND state {state} \
             RETURNING {}, {now} AS now_us, pool, error",
            self.tasks,
            self.columns()
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

    /// What [`task_status`](Self::task_status) reads.
    pub(super) fn status_columns(&self) -> String {
        format!("{STATUS}, {SHOWN} AS state, {} AS compensated", self.compensated())
    }

    /// How a task stands.
    pub(crate) fn status(&self, task: Uuid) -> Statement {
        let select = format!("SELECT {} FROM {} WHERE id = $1", self.status_columns(), self.tasks);
        Statement::query(select, params![task])
    }

    /// All that is kept of a task.
    pub(crate) fn details(&self, task: Uuid) -> Statement {
        let columns = self.status_columns();
        let select = format!("SELECT {columns}, {DETAILS} FROM {} WHERE id = $1", self.tasks);
        Statement::query(select, params![task])
    }

    /// The tasks of a pool that stand so, the oldest first.
    pub(crate) fn list(&self, pool: &str, state: TaskState, limit: usize) -> Statement {
        let (columns, stands) = (self.status_columns(), self.stands(state));
        let select = format!(
            "SELECT {columns} FROM {} WHERE pool = $1 AND {stands} ORDER BY seq LIMIT $2",
            self.tasks
        );
        Statement::query(select, params![pool, limit])
    }

    /// The same of one key or of all, behind one of them.
    pub(crate) fn page(
        &self,
        pool: &str,
        state: TaskState,
        key: Option<&str>,
        after: Option<Uuid>,
        limit: usize,
    ) -> Statement {
        let (columns, stands, tasks) = (self.status_columns(), self.stands(state), &self.tasks);
        let mut values = params![pool, limit];
        let mut and = String::new();
        if let Some(key) = key {
            values.push(key.into());
            and += &format!(" AND key = ${}", values.len());
        }
        if let Some(after) = after {
            values.push(after.into());
            // One that is gone is behind all of them: the page is empty, and no task is shown twice.
            and += &format!(" AND seq > (SELECT seq FROM {tasks} WHERE id = ${})", values.len());
        }
        let select = format!(
            "SELECT {columns} FROM {tasks} WHERE pool = $1 AND {stands}{and} ORDER BY seq LIMIT $2"
        );
        Statement::query(select, values)
    }

    /// How much of a key waits for its turn besides one task, how much of it was never tried, and which is the
    /// first, where that is one of these: of what was enqueued by a time, or until now.
    pub(crate) fn ready_of_key(
        &self,
        pool: &str,
        key: &str,
        except: Uuid,
        by_us: Option<i64>,
    ) -> Statement {
        let select = format!(
            "SELECT count(*) AS tasks, CAST(coalesce(sum(CASE WHEN attempts = 0 THEN 1 ELSE 0 END), 0) AS BIGINT) \
             AS untried, min(seq) AS first, min(CASE WHEN attempts = 0 THEN seq END) AS first_untried, \
             {now} AS now_us FROM {} WHERE pool = $1 AND key = $2 AND state {UNFINISHED} \
             AND state = {READY} AND id <> $3 AND enqueued_us <= coalesce(CAST($4 AS BIGINT), {now})",
            self.tasks,
            now = self.now
        );
        Statement::query(select, params![pool, key, except, by_us])
    }

    /// The first tasks of a pool that wait for their first attempt, or are in it. (To leave out those behind a task of
    /// their key took seconds where the planner knew nothing of the table yet.)
    pub(crate) fn line(&self, pool: &str, limit: usize) -> Statement {
        let select = format!(
            "SELECT seq FROM {} WHERE pool = $1 AND state = {READY} AND attempts = 0 ORDER BY seq LIMIT $2",
            self.tasks
        );
        Statement::query(select, params![pool, limit])
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

    /// The first tasks of a key that have not ended or are dead, in the order in which they are run.
    pub(crate) fn unfinished_of_key(&self, pool: &str, key: &str, limit: usize) -> Statement {
        let select = format!(
            "SELECT {} FROM {} WHERE pool = $1 AND key = $2 AND state {UNFINISHED} ORDER BY seq LIMIT $3",
            self.status_columns(),
            self.tasks
        );
        Statement::query(select, params![pool, key, limit])
    }

    /// How many they are, and whether the key is paused.
    pub(crate) fn count_of_key(&self, pool: &str, key: &str) -> Statement {
        let select = format!(
            "SELECT count(*) AS tasks, (SELECT count(*) FROM {} WHERE pool = $1 AND key = $2 AND why = $3) AS paused \
             FROM {} WHERE pool = $1 AND key = $2 AND state {UNFINISHED}",
            self.held, self.tasks
        );
        Statement::query(select, params![pool, key, Why::Paused.name()])
    }

    /// The pools that have tasks, or keys that are held.
    pub(crate) fn pools(&self) -> Statement {
        let (tasks, held) = (&self.tasks, &self.held);
        let select = format!("SELECT pool FROM {tasks} UNION SELECT pool FROM {held}");
        Statement::query(select, vec![])
    }

    /// A row if a worker has ever run a pool.
    pub(crate) fn was_run(&self, pool: &str) -> Statement {
        let select = format!("SELECT 1 AS was_run FROM {} WHERE name = $1", self.consumers);
        Statement::query(select, vec![pool.into()])
    }

    /// How many tasks of each pool stand how: of some states, or of all.
    pub(crate) fn counts(&self, of: Option<TaskStates>) -> Statement {
        // Written out, so that the index of these states serves.
        let of = of.map(|states| format!(" WHERE state {states}")).unwrap_or_default();
        let instead = self.number_instead();
        let select = format!(
            "SELECT pool, {SHOWN} AS state, {instead} AS instead, count(*) AS tasks FROM {}{of} \
             GROUP BY pool, {SHOWN}, {instead} ORDER BY pool, {SHOWN}, {instead}",
            self.tasks
        );
        Statement::query(select, vec![])
    }

    /// How a task stands.
    pub(crate) fn state_in(&self, at: &str, row: &Row) -> Result<TaskState, StoreError> {
        state_of_dead(at, row, state(at, row)?)
    }

    pub(crate) fn task_details(
        &self,
        at: &str,
        row: &Row,
        compensated_by: Vec<Compensation>,
    ) -> Result<TaskDetails, StoreError> {
        let status = self.task_status(at, row)?;
        let raw = |json: String| RawValue::from_string(json).map_err(|error| not_json(at, &error));
        let then: Option<String> = column(at, row, "then_run")?;
        let then = then.map(|json| serde_json::from_str(&json)).transpose();
        let then: Option<Then> = then.map_err(|error| not_json(at, &error))?;
        let checkpoint: Option<String> = column(at, row, "checkpoint")?;
        Ok(TaskDetails {
            status,
            unique_key: column(at, row, "unique_key")?,
            payload: raw(column(at, row, "payload")?)?,
            checkpoint: checkpoint.map(raw).transpose()?,
            on_complete: then.map(|Then { pool, key, payload }| OnComplete { pool, key, payload }),
            compensated_by,
        })
    }

    pub(crate) fn task_status(&self, at: &str, row: &Row) -> Result<TaskStatus, StoreError> {
        let state = self.state_in(at, row)?;
        self.status_of(row, state).map_err(|error| corrupt(at, error))
    }

    fn status_of(&self, row: &Row, state: TaskState) -> Result<TaskStatus, ColumnError> {
        let time = |micros: i64| anabranch_core::time::from_micros(micros);
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

pub(super) fn not_json(at: &str, error: &serde_json::Error) -> StoreError {
    let what = format!("the row of a task holds what is not JSON of ours: {error}");
    StoreError::Corrupt { at: at.to_owned(), what }
}

/// How a task stands, whatever was done about it if it is dead. A number that this program does not know is
/// an error: to take it for anything else would be to guess.
pub(crate) fn state(at: &str, row: &Row) -> Result<TaskState, StoreError> {
    let unknown =
        |error: UnknownTaskState| StoreError::Other { at: at.to_owned(), source: error.into() };
    TaskState::from_code(column(at, row, "state")?).map_err(unknown)
}

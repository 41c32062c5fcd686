//! The tasks of pools, as far as a status and a catch-up count them: what there is to do, and the keys
//! that are held back.

use super::Tables;
use super::parked::ParkedKey;
use anabranch_core::{Slot, StoreError, TaskState, TaskStates};
use anabranch_store::database::Statement;
use anabranch_store::migration::since;
use anabranch_store::{Row, params};
use std::time::Duration;

impl Tables {
    /// The keys of a pool that are held back, as if they were of the log: parked are those that a dead
    /// task or somebody holds, and retrying those whose task has failed and waits for its next attempt.
    pub(crate) async fn held(&self, pool: &str) -> Result<Vec<ParkedKey>, StoreError> {
        let dialect = self.database.dialect();
        let (held, tasks, now) = (dialect.table("held_keys"), dialect.table("tasks"), self.now);
        let (ready, scheduled, dead) =
            (TaskState::Ready.code(), TaskState::Scheduled.code(), TaskState::Dead.code());
        let unfinished = TaskStates::UNFINISHED;
        // One whose key went on is not what holds it, nor does it wait. Older logs have no such column.
        let waits = match self.database.schema() >= since::FLEET {
            true => " AND t.compensated IS NULL",
            false => "",
        };
        let parked = format!(
            "SELECT key, min(slot) AS slot, min(since_us) AS since_us, NULL AS retry_in, \
             coalesce((SELECT min(t.error) FROM {tasks} AS t WHERE t.pool = $1 AND t.key = h.key \
              AND t.state {unfinished} AND t.state = {dead}{waits}), min(why)) AS error, \
             (SELECT count(*) FROM {tasks} AS t WHERE t.pool = $1 AND t.key = h.key \
              AND t.state {unfinished} AND (t.state <> {scheduled} OR t.due_us <= {now}){waits}) AS tasks \
             FROM {held} AS h WHERE pool = $1 GROUP BY key ORDER BY 3, key"
        );
        let retrying = format!(
            "SELECT key, slot, enqueued_us AS since_us, due_us - {now} AS retry_in, error, \
             (SELECT count(*) FROM {tasks} AS t WHERE t.pool = $1 AND t.key = r.key \
              AND t.state = {ready}) AS tasks \
             FROM {tasks} AS r WHERE pool = $1 AND state = {ready} AND attempts > 0 AND due_us > {now} \
             AND NOT EXISTS (SELECT 1 FROM {held} AS h WHERE h.pool = $1 AND h.key = r.key) \
             ORDER BY seq"
        );
        let both = [parked, retrying].map(|select| Statement::query(select, params![pool]));
        let answers = self.commit(both.into()).await?;
        answers.iter().flat_map(|answer| &answer.rows).map(|row| self.held_key(row)).collect()
    }

    /// The pools that have unfinished tasks and are no consumers: one step into the index for each pool, however
    /// many tasks there are.
    pub(crate) async fn unrun_pools(&self) -> Result<Vec<String>, StoreError> {
        let (tasks, consumers) = (self.database.dialect().table("tasks"), &self.consumers);
        let unfinished = TaskStates::UNFINISHED;
        let select = format!(
            "WITH RECURSIVE pools (name) AS (SELECT min(pool) FROM {tasks} WHERE state {unfinished} UNION ALL \
             SELECT (SELECT min(t.pool) FROM {tasks} AS t WHERE t.state {unfinished} AND t.pool > pools.name) \
             FROM pools WHERE pools.name IS NOT NULL) \
             SELECT name FROM pools WHERE name IS NOT NULL \
             AND NOT EXISTS (SELECT 1 FROM {consumers} AS c WHERE c.name = pools.name)"
        );
        let rows = self.query(Statement::query(select, params![])).await?;
        rows.iter().map(|row| self.column(row, "name")).collect()
    }

    fn held_key(&self, row: &Row) -> Result<ParkedKey, StoreError> {
        let retry_in: Option<i64> = self.column(row, "retry_in")?;
        let error: Option<String> = self.column(row, "error")?;
        Ok(ParkedKey {
            key: self.column(row, "key")?,
            slot: self.slot(row)?,
            attempts: 0,
            error: error.unwrap_or_default(),
            since_us: self.column(row, "since_us")?,
            retry_in: retry_in.map(|micros| Duration::from_micros(micros.max(0).unsigned_abs())),
            asked: None,
            asked_to: None,
            events: self.column(row, "tasks")?,
            passed: self.column(row, "tasks")?,
            first: None,
        })
    }

    /// How many tasks of a pool could be run, slot by slot: they are ready, or their time has come, or
    /// their next attempt will, and nothing holds their key.
    pub(crate) async fn ready(&self, pool: &str) -> Result<Vec<(Slot, u64)>, StoreError> {
        let dialect = self.database.dialect();
        let (held, tasks, now) = (dialect.table("held_keys"), dialect.table("tasks"), self.now);
        let (ready, scheduled) = (TaskState::Ready.code(), TaskState::Scheduled.code());
        let select = format!(
            "SELECT slot, count(*) AS tasks FROM {tasks} AS t WHERE pool = $1 \
             AND (state = {ready} OR (state = {scheduled} AND due_us <= {now})) AND NOT EXISTS \
             (SELECT 1 FROM {held} AS h WHERE h.pool = $1 AND h.key = t.key) GROUP BY slot"
        );
        let rows = self.query(Statement::query(select, params![pool])).await?;
        let ready = |row: &Row| Ok((self.slot(row)?, self.column(row, "tasks")?));
        rows.iter().map(ready).collect()
    }
}

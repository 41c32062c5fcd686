//! Tasks whose attempts are used up: what was done about them, and to try them again.

use super::asked::not_json;
use super::{DEAD, HURRIED, OPEN, READY, SCHEDULED, SHOWN, Tables, UNFINISHED, Why};
use crate::filter::{Standing, TaskCondition, TaskFilter};
use crate::many::TaskBound;
use crate::task::TaskRef;
use anabranch_core::{StoreError, TaskState};
use anabranch_store::database::{Statement, column};
use anabranch_store::{Row, Value, params};
use uuid::Uuid;

impl Tables {
    /// What was done about a dead task, as an expression.
    pub(super) fn compensated(&self) -> &'static str {
        if self.keeps_instead { "compensated" } else { "NULL" }
    }

    /// How many tasks were enqueued instead of a dead one, 1 standing for several; NULL where that does not
    /// apply.
    pub(super) fn number_instead(&self) -> String {
        let compensated = self.compensated();
        format!(
            "CASE WHEN state = {DEAD} AND {compensated} IS NOT NULL THEN \
             CASE WHEN json_array_length({compensated}) > 0 THEN 1 ELSE 0 END END"
        )
    }

    /// The condition that a task stands so. The index of those that are not finished serves where it can.
    pub(super) fn stands(&self, state: TaskState) -> String {
        let (code, compensated) = (state.code(), self.compensated());
        let unfinished = match UNFINISHED.contains(state) {
            true => format!("state {UNFINISHED} AND "),
            false => String::new(),
        };
        let instead = match state {
            TaskState::Dead => format!(" AND {compensated} IS NULL"),
            TaskState::Skipped => format!(" AND json_array_length({compensated}) = 0"),
            TaskState::Compensated => format!(" AND json_array_length({compensated}) > 0"),
            _ => String::new(),
        };
        match state {
            TaskState::Ready => format!("{unfinished}(state = {code} OR ({HURRIED}))"),
            TaskState::Scheduled => format!("{unfinished}state = {code} AND NOT ({HURRIED})"),
            _ => format!("{unfinished}state = {code}{instead}"),
        }
    }

    /// How often the key of a task is held because of a dead one, as an expression: 1 or 0.
    fn holds(&self) -> String {
        let (held, tasks, dead) = (&self.held, &self.tasks, Why::Dead.name());
        format!(
            "(SELECT count(*) FROM {held} AS h WHERE h.pool = {tasks}.pool AND h.key = {tasks}.key \
             AND h.why = '{dead}')"
        )
    }

    /// How some tasks stand, and whether their keys are held, which stay so until the transaction ends.
    pub(crate) fn lock(&self, tasks: &[Uuid]) -> Statement {
        let (columns, ids, holds) = (self.status_columns(), self.is_any("id", 1), self.holds());
        let select = format!(
            "SELECT {columns}, {holds} AS holds FROM {} WHERE {ids} ORDER BY pool, key, seq{}",
            self.tasks, self.for_update
        );
        Statement::query(select, vec![tasks.iter().map(|id| Value::from(*id)).collect()])
    }

    /// Tries dead tasks again, as if they had never failed.
    pub(crate) fn revive(&self, tasks: &[Uuid]) -> Statement {
        let forget = if self.keeps_instead { ", compensated = NULL" } else { "" };
        let ids = self.is_any("id", 1);
        let update = format!(
            "UPDATE {} SET state = {READY}, attempts = 0, due_us = 0, finished_us = NULL{forget} \
             WHERE {ids} AND state = {DEAD}",
            self.tasks
        );
        let ids = tasks.iter().map(|id| Value::from(*id)).collect();
        Statement::fence(update, vec![ids], tasks.len() as u64)
    }

    /// Tries a task now that waits for its next attempt, as if it had never failed.
    pub(crate) fn hurry(&self, task: Uuid) -> Statement {
        let update = format!(
            "UPDATE {} SET state = {SCHEDULED}, attempts = 0, due_us = 0 \
             WHERE id = $1 AND state = {READY} AND attempts > 0 AND due_us > {}",
            self.tasks, self.now
        );
        Statement::fence(update, params![task], 1)
    }

    /// How some tasks stand, without what else is known of them.
    pub(crate) fn states(&self, tasks: &[TaskRef]) -> Statement {
        let (ids, compensated) = (self.is_any("id", 1), self.compensated());
        let select = format!(
            "SELECT id, {SHOWN} AS state, {compensated} AS compensated FROM {} WHERE {ids}",
            self.tasks
        );
        Statement::query(select, vec![tasks.iter().map(|task| Value::from(task.id)).collect()])
    }

    /// The last task that was ever enqueued, and the time.
    pub(crate) fn bound(&self) -> Statement {
        let select = format!(
            "SELECT coalesce(max(seq), 0) AS seq, {} AS now_us FROM {}",
            self.now, self.tasks
        );
        Statement::query(select, vec![])
    }

    /// How many tasks a filter finds, by pool.
    pub(crate) fn count_found(&self, filter: &TaskFilter, bound: TaskBound) -> Statement {
        let mut values = Vec::new();
        let found = self.found(filter, bound, &mut values);
        let select = format!(
            "SELECT pool, count(*) AS tasks FROM {} WHERE {found} GROUP BY pool ORDER BY pool",
            self.tasks
        );
        Statement::query(select, values)
    }

    /// The next tasks that a filter finds, after one.
    pub(crate) fn find(
        &self,
        filter: &TaskFilter,
        bound: TaskBound,
        after: i64,
        limit: usize,
    ) -> Statement {
        let mut values = params![after, limit];
        let found = self.found(filter, bound, &mut values);
        let select = format!(
            "SELECT id, seq FROM {} WHERE seq > $1 AND {found} ORDER BY seq LIMIT $2",
            self.tasks
        );
        Statement::query(select, values)
    }

    fn found(&self, filter: &TaskFilter, bound: TaskBound, values: &mut Vec<Value>) -> String {
        let mut found = match filter.standing {
            Standing::Is(state) => self.stands(state),
            Standing::Open => format!("state {UNFINISHED} AND state {OPEN}"),
        };
        values.extend(params![bound.seq, bound.at_us]);
        // What has died since was not meant, whenever it was enqueued.
        found += &format!(
            " AND seq <= ${} AND (finished_us IS NULL OR finished_us <= ${})",
            values.len() - 1,
            values.len()
        );
        if filter.standing == Standing::Is(TaskState::Dead) {
            // Programs of the last version do not say that they went on without one.
            found += &format!(" AND {} > 0", self.holds());
        }
        for TaskCondition { field, contains, text } in &filter.conditions {
            values.push(text.as_str().into());
            let place = values.len();
            let column = field.name();
            found += &match contains {
                false => format!(" AND {column} = ${place}"),
                true => format!(" AND {}", self.dialect().contains(column, &format!("${place}"))),
            };
        }
        found
    }
}

/// The tasks that were enqueued instead of one, if its key has gone on.
pub(crate) fn instead(at: &str, row: &Row) -> Result<Option<Vec<TaskRef>>, StoreError> {
    let json: Option<String> = column(at, row, "compensated")?;
    let tasks = json.map(|json| serde_json::from_str(&json)).transpose();
    tasks.map_err(|error| not_json(at, &error))
}

/// Which of those that are dead a task is, if it is one.
pub(crate) fn state_of_dead(
    at: &str,
    row: &Row,
    state: TaskState,
) -> Result<TaskState, StoreError> {
    match state.is_dead() {
        true => Ok(TaskState::of_dead(instead(at, row)?.map(|tasks| tasks.len()))),
        false => Ok(state),
    }
}

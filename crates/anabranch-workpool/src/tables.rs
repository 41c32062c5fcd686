//! The rows of tasks and held keys, as lanes use them. The statements run on every database; what differs is
//! here too.

mod asked;
mod counts;
mod dead;
mod enqueue;

pub(crate) use asked::state;
pub(crate) use dead::{instead, state_of_dead};
pub(crate) use enqueue::There;

use crate::new_task::NewTask;
use crate::queue::Key;
use crate::task::{Task, TaskRef};
use anabranch_core::{Slot, SlotSet, StoreError, TaskState, TaskStates};
use anabranch_store::database::{ColumnType, Dialect, Given, Hint, Statement, Topic};
use anabranch_store::migration::since;
use anabranch_store::value::ColumnError;
use anabranch_store::{Database, Row, Value, params};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// What a lane reads of a task.
const COLUMNS: &str = "id, seq, key, slot, attempts, due_us, payload, checkpoint, then_run, trace";
const COLUMNS_BEFORE_TRACES: &str =
    "id, seq, key, slot, attempts, due_us, payload, checkpoint, then_run, NULL AS trace";

// What statements write for states: a code after `state =`, a range of them after `state`.
const READY: i64 = TaskState::Ready.code();
const SCHEDULED: i64 = TaskState::Scheduled.code();
const HELD: i64 = TaskState::Held.code();
const DEAD: i64 = TaskState::Dead.code();
const DONE: i64 = TaskState::Done.code();
const CANCELLED: i64 = TaskState::Cancelled.code();
const OPEN: TaskStates = TaskStates::OPEN;
const UNFINISHED: TaskStates = TaskStates::UNFINISHED;
const FINISHED: TaskStates = TaskStates::FINISHED;

/// A task that is to be tried at once, though it waited: due before all others, in the index of what will be due,
/// where it is found without a look at those that wait.
const HURRIED: &str = "state = 1 AND due_us = 0";
/// How a task is shown: one that is to be tried at once is ready.
const SHOWN: &str = "CASE WHEN state = 1 AND due_us = 0 THEN 0 ELSE state END";
const _: () = assert!(SCHEDULED == 1 && READY == 0);

/// The tables of tasks, as statements write them.
#[derive(Clone)]
pub(crate) struct Tables {
    database: Arc<dyn Database>,
    tasks: String,
    held: String,
    consumers: String,
    now: &'static str,
    for_update: &'static str,
    /// Whether it is kept what was done about a dead task: older logs have no room for it.
    keeps_instead: bool,
    /// Whether it is kept where in a trace a task was enqueued.
    keeps_traces: bool,
}

/// A key of which nothing is run, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Dead,
    Paused,
}

impl Why {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Paused => "paused",
        }
    }
}

impl Tables {
    pub(crate) fn of(database: &Arc<dyn Database>) -> Self {
        let dialect = database.dialect();
        Self {
            database: Arc::clone(database),
            tasks: dialect.table("tasks"),
            held: dialect.table("held_keys"),
            consumers: dialect.table("consumers"),
            now: dialect.now_us(),
            for_update: dialect.for_update(),
            keeps_instead: database.schema() >= since::FLEET,
            keeps_traces: database.schema() >= since::TRACES,
        }
    }

    fn columns(&self) -> &'static str {
        if self.keeps_traces { COLUMNS } else { COLUMNS_BEFORE_TRACES }
    }

    fn dialect(&self) -> &dyn Dialect {
        self.database.dialect()
    }

    /// Whether a column is one of several values.
    fn is_any(&self, column: &str, place: usize) -> String {
        self.dialect().is_any(column, place)
    }

    /// The tasks that have one of these ids, or are open under one of these unique keys.
    pub(crate) fn existing(&self, pool: &str, tasks: &[NewTask]) -> Statement {
        let (ids, unique) = (self.is_any("id", 1), self.is_any("unique_key", 3));
        let select = format!(
            "SELECT id, unique_key FROM {t} WHERE {ids} UNION ALL SELECT id, unique_key FROM {t} \
             WHERE pool = $2 AND unique_key IS NOT NULL AND state {OPEN} AND {unique}",
            t = self.tasks
        );
        let ids = tasks.iter().map(|task| Value::from(task.id)).collect();
        let unique = tasks.iter().filter_map(|task| task.unique.clone()).map(Value::from).collect();
        Statement::query(select, vec![ids, pool.into(), unique])
    }

    /// Only one plan reads the beginning of a queue in order.
    pub(crate) fn plan(&self) -> Option<Statement> {
        self.dialect().hint(Hint::QueueInOrder)
    }

    /// The next tasks that are ready, after one, up to another, without those that are known.
    pub(crate) fn ready(&self, look: &Look<'_>) -> Statement {
        let (slots, known, apart) = (self.of_slots(6), self.not_known(5), self.not_apart(7));
        let select = format!(
            "SELECT {}, {} AS now_us FROM {} WHERE pool = $1 AND state = {READY} \
             AND seq > $2 AND seq <= $3{known}{slots}{apart} ORDER BY seq LIMIT $4",
            self.columns(),
            self.now,
            self.tasks
        );
        let mut values = params![look.pool, look.after, look.up_to, look.limit];
        values.extend([look.known(), self.slots(look.slots), look.apart()]);
        Statement::query(select, values)
    }

    /// The last task that is ready, of whatever key and slot.
    pub(crate) fn last(&self, pool: &str, after: i64) -> Statement {
        let select = format!(
            "SELECT max(seq) AS seq FROM {} WHERE pool = $1 AND state = {READY} AND seq > $2",
            self.tasks
        );
        Statement::query(select, params![pool, after])
    }

    /// Tasks whose time has come, and the next one whose time will.
    pub(crate) fn scheduled(&self, look: &Look<'_>) -> [Statement; 2] {
        let (tasks, now, columns) = (&self.tasks, self.now, self.columns());
        let (slots, known, apart) = (self.of_slots(4), self.not_known(3), self.not_apart(5));
        let due = format!(
            "SELECT {columns}, {now} AS now_us FROM {tasks} WHERE pool = $1 \
             AND state = {SCHEDULED} AND due_us <= {now}{known}{slots}{apart} ORDER BY due_us LIMIT $2"
        );
        let mut values = params![look.pool, look.limit];
        values.extend([look.known(), self.slots(look.slots), look.apart()]);
        let next_slots = self.of_slots(2);
        let next = format!(
            "SELECT due_us - {now} AS wait_us FROM {tasks} WHERE pool = $1 \
             AND state = {SCHEDULED} AND due_us > {now}{next_slots} ORDER BY due_us LIMIT 1"
        );
        let next_values = vec![look.pool.into(), self.slots(look.slots)];
        [Statement::query(due, values), Statement::query(next, next_values)]
    }

    /// Tasks that somebody asked for while they waited for their next attempt. A lane that waits with them learns
    /// it so, and one that does not know them must not run what stands behind them: all of them, always.
    pub(crate) fn hurried(&self, look: &Look<'_>) -> Statement {
        let select = format!(
            "SELECT {}, {} AS now_us FROM {} WHERE pool = $1 AND {HURRIED}{}",
            self.columns(),
            self.now,
            self.tasks,
            self.of_slots(2)
        );
        Statement::query(select, vec![look.pool.into(), self.slots(look.slots)])
    }

    fn of_slots(&self, place: usize) -> String {
        format!(" AND {}", self.dialect().has_slot("slot", place))
    }

    /// Slots as [`of_slots`](Self::of_slots) reads them.
    fn slots(&self, slots: &SlotSet) -> Value {
        self.dialect().slots(slots)
    }

    fn not_known(&self, place: usize) -> String {
        format!(" AND {}", self.dialect().is_none("id", place, ColumnType::Uuid))
    }

    /// Neither of certain keys.
    fn not_apart(&self, place: usize) -> String {
        format!(" AND {}", self.dialect().is_none("key", place, ColumnType::Text))
    }

    /// The first tasks of one key that are to be run.
    pub(crate) fn ready_of(&self, pool: &str, key: &str, limit: usize) -> Statement {
        let (now, columns) = (self.now, self.columns());
        let select = format!(
            "SELECT {columns}, {now} AS now_us FROM {} WHERE pool = $1 AND key = $2 \
             AND state {UNFINISHED} AND (state = {READY} OR (state = {SCHEDULED} AND due_us <= {now})) \
             ORDER BY seq LIMIT $3",
            self.tasks
        );
        Statement::query(select, params![pool, key, limit])
    }

    /// A task from its row.
    pub(crate) fn task(&self, row: &Row) -> Result<Task, ColumnError> {
        let (due, now): (i64, i64) = (row.get("due_us")?, row.get("now_us")?);
        let slot: u16 = row.get("slot")?;
        let then: Option<String> = row.get("then_run")?;
        let trace: Option<String> = row.get("trace")?;
        let wait = u64::try_from(due - now).ok().filter(|wait| *wait > 0);
        Ok(Task {
            id: row.get("id")?,
            seq: row.get("seq")?,
            key: row.get::<String>("key")?.into(),
            slot: Slot::new(slot).unwrap_or(Slot::ZERO),
            attempts: row.get("attempts")?,
            payload: row.get("payload")?,
            checkpoint: row.get("checkpoint")?,
            then: then.and_then(|json| serde_json::from_str(&json).ok()),
            trace: trace.and_then(|trace| trace.parse().ok()),
            wait: wait.map(|wait| self.database.clock().wait(Duration::from_micros(wait))),
            late: u64::try_from(now - due).ok().filter(|_| due > 0).map(Duration::from_micros),
        })
    }

    /// These tasks are done. All of them must still be open: one that was cancelled meanwhile, or is
    /// done already, fails the transaction.
    pub(crate) fn done(&self, results: Vec<(Uuid, String)>) -> Vec<Statement> {
        let (tasks, now) = (&self.tasks, self.now);
        let update = |given: &Given| {
            let (id, result, from) = (given.column("id"), given.column("result"), given.from(&[]));
            format!(
                "UPDATE {tasks} AS d SET state = {DONE}, finished_us = {now}, error = NULL, \
                 result = {result}{from} WHERE d.id = {id} AND d.state {OPEN}"
            )
        };
        let rows =
            results.into_iter().map(|(id, result)| params![id, Value::Json(result)]).collect();
        let columns = [("id", ColumnType::Uuid), ("result", ColumnType::Json)];
        let updates = self.dialect().for_rows(&columns, rows, &update).into_iter();
        // A planner that is told of a thousand ids would rather go through the table, with all that is done in it.
        let mut statements: Vec<_> = self.dialect().hint(Hint::RowsByKey).into_iter().collect();
        statements.extend(updates.map(|each| Statement::fence(each.sql, each.values, each.rows)));
        statements
    }

    /// Those of some tasks that are open.
    pub(crate) fn open(&self, tasks: impl Iterator<Item = Uuid>) -> Statement {
        let ids = self.is_any("id", 1);
        let select = format!("SELECT id FROM {} WHERE {ids} AND state {OPEN}", self.tasks);
        Statement::query(select, vec![tasks.map(Value::from).collect()])
    }

    /// A task has failed, and is tried again after a while.
    pub(crate) fn failed(
        &self,
        task: Uuid,
        attempts: u32,
        error: &str,
        wait: Duration,
    ) -> Statement {
        let update = format!(
            "UPDATE {} SET state = {READY}, attempts = $2, error = $3, due_us = {} + $4 \
             WHERE id = $1 AND state {OPEN}",
            self.tasks, self.now
        );
        let wait = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX / 4);
        Statement::fence(update, params![task, attempts, plain(error), wait], 1)
    }

    /// The attempts of a task are used up. If its key goes on, these tasks were enqueued instead of it.
    pub(crate) fn dead(
        &self,
        task: Uuid,
        attempts: u32,
        error: &str,
        instead: Option<&[TaskRef]>,
    ) -> Statement {
        let update = format!(
            "UPDATE {} SET state = {DEAD}, attempts = $2, error = $3, finished_us = {}, \
             compensated = $4 WHERE id = $1 AND state {OPEN}",
            self.tasks, self.now
        );
        let instead = instead.and_then(|tasks| serde_json::to_string(tasks).ok());
        let instead = instead.map_or(Value::Null, Value::Json);
        Statement::fence(update, params![task, attempts, plain(error), instead], 1)
    }

    /// Saves how far a task is.
    pub(crate) fn checkpoint(&self, task: Uuid, json: String) -> Statement {
        let update =
            format!("UPDATE {} SET checkpoint = $2 WHERE id = $1 AND state {OPEN}", self.tasks);
        Statement::fence(update, params![task, Value::Json(json)], 1)
    }

    /// Nothing of a key is run from now on.
    pub(crate) fn hold(&self, pool: &str, key: &str, slot: Slot, why: Why) -> Statement {
        let insert = format!(
            "INSERT INTO {} (pool, key, slot, why, since_us) VALUES ($1, $2, $3, $4, {}) \
             ON CONFLICT DO NOTHING",
            self.held, self.now
        );
        Statement::new(insert, params![pool, key, slot.get(), why.name()])
    }

    /// A key is held for one reason less; without any, what waits behind it is ready again.
    pub(crate) fn release(&self, pool: &str, key: &str, why: Why) -> Vec<Statement> {
        let (held, tasks) = (&self.held, &self.tasks);
        let delete = format!("DELETE FROM {held} WHERE pool = $1 AND key = $2 AND why = $3");
        let ready = format!(
            "UPDATE {tasks} SET state = {READY} WHERE pool = $1 AND key = $2 AND state {UNFINISHED} \
             AND state = {HELD} AND NOT EXISTS \
             (SELECT 1 FROM {held} AS h WHERE h.pool = $1 AND h.key = $2)"
        );
        vec![
            Statement::new(delete, params![pool, key, why.name()]),
            Statement::new(ready, params![pool, key]),
            Statement::signal(Topic::Tasks),
        ]
    }

    /// The keys that are held.
    pub(crate) fn held(&self, pool: &str) -> Statement {
        let select = format!("SELECT DISTINCT key, slot FROM {} WHERE pool = $1", self.held);
        Statement::query(select, params![pool])
    }

    /// Those of some keys that are held, and stay so until the transaction ends.
    pub(crate) fn lock_held(&self, pool: &str, keys: &[String]) -> Statement {
        let any = self.is_any("key", 2);
        let select = format!(
            "SELECT key FROM {} WHERE pool = $1 AND {any} ORDER BY key, why{}",
            self.held, self.for_update
        );
        Statement::query(select, vec![pool.into(), keys.iter().map(Value::from).collect()])
    }

    /// What there would be to do of held keys waits behind them.
    pub(crate) fn put_behind(&self, pool: &str, keys: &[String]) -> Statement {
        let any = self.is_any("key", 2);
        let update = format!(
            "UPDATE {} SET state = {HELD} WHERE pool = $1 AND {any} AND state {UNFINISHED} \
             AND (state = {READY} OR (state = {SCHEDULED} AND due_us <= {}))",
            self.tasks, self.now
        );
        Statement::new(update, vec![pool.into(), keys.iter().map(Value::from).collect()])
    }

    /// Forgets tasks that ended longer ago than this.
    pub(crate) fn prune(&self, pool: &str, keep: Duration, limit: usize) -> Statement {
        let tasks = &self.tasks;
        let delete = format!(
            "DELETE FROM {tasks} WHERE id IN (SELECT id FROM {tasks} WHERE pool = $1 \
             AND state {FINISHED} AND finished_us < {} - $2 ORDER BY finished_us LIMIT $3)",
            self.now
        );
        let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX / 4);
        Statement::new(delete, params![pool, keep, limit])
    }
}

/// What a lane looks for.
pub(crate) struct Look<'a> {
    pub(crate) pool: &'a str,
    pub(crate) slots: &'a SlotSet,
    pub(crate) after: i64,
    pub(crate) up_to: i64,
    pub(crate) limit: usize,
    pub(crate) known: &'a [Uuid],
    /// Keys that are left out.
    pub(crate) apart: &'a [Key],
}

impl Look<'_> {
    fn known(&self) -> Value {
        self.known.iter().map(|id| Value::from(*id)).collect()
    }

    fn apart(&self) -> Value {
        self.apart.iter().map(|key| Value::from(key.as_ref())).collect()
    }
}

pub(crate) fn corrupt(at: &str, error: ColumnError) -> StoreError {
    StoreError::Corrupt { at: at.to_owned(), what: error.to_string() }
}

/// Text that every database can hold.
fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

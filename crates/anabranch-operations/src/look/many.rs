//! What operations on tasks, keys and deliveries would do: one of them, or all that a filter finds.

use super::counted;
use crate::basis::{Basis, Bound};
use crate::operation_error::OperationError;
use crate::operations::{Looked, Operations};
use crate::plan::Effect;
use crate::request::{Request, task_filter};
use anabranch_core::TaskState;
use anabranch_runtime::{OperateError, ParkedAction, ParkedFilter};
use anabranch_workpool::{TaskAction, TaskError, Tasks};
use uuid::Uuid;

/// The kind of a work pool.
const POOL: &str = "pool";

impl Operations {
    pub(super) async fn parked(
        &self,
        request: &Request,
        name: &str,
        action: ParkedAction,
        filter: &ParkedFilter,
    ) -> Result<Looked, OperationError> {
        let known = vec![self.consumers.fingerprint(name).await?];
        let found = self.consumers.count_parked(name, filter).await?;
        if let (Some(key), 0) = (&filter.key, found.keys) {
            let (at, consumer, key) = (self.log.at().to_owned(), name.to_owned(), key.clone());
            return Err(OperateError::NoSuchKey { at, consumer, key }.into());
        }
        let keys = counted(found.keys, "key", "keys");
        let events = counted(found.events, "event waits", "events wait");
        let says = match action {
            ParkedAction::Retry => {
                format!("{keys} of `{name}` would be tried again; {events} behind")
            }
            ParkedAction::Skip => format!(
                "the first event of {keys} of `{name}` would never be handled, and those behind it would be tried; \
                 {events} in all"
            ),
            ParkedAction::SkipAll => format!(
                "all events that wait behind {keys} of `{name}` would never be handled; {events}"
            ),
        };
        let mut effect = Effect::new(says).count("keys", found.keys).count("events", found.events);
        effect.first = found.first;
        effect.is_final = action != ParkedAction::Retry;
        effect.seconds = seconds(request, found.keys);
        let bound = Bound::ParkedUpTo(found.at_us, found.up_to);
        Ok(Looked {
            basis: Basis { consumers: known, set: None, bound },
            effect,
            total: found.keys,
        })
    }

    pub(super) async fn tasks(
        &self,
        request: &Request,
        action: TaskAction,
        state: Option<TaskState>,
        conditions: &[String],
    ) -> Result<Looked, OperationError> {
        may_be(action, state)?;
        let filter = task_filter(action, state, conditions)?;
        if let Some(pool) = conditions.iter().find_map(|text| text.strip_prefix("pool=")) {
            self.must_be_pool(pool).await?;
        }
        let found = Tasks::find_where(&self.log, &filter).await?;
        let all = found.tasks();
        let stand = state.map_or_else(
            || if action == TaskAction::Cancel { "open" } else { "dead" }.to_owned(),
            |state| state.to_string(),
        );
        let (task, tasks) = (format!("{stand} task"), format!("{stand} tasks"));
        let would = match action {
            TaskAction::Retry => "would be tried again",
            TaskAction::Discard => {
                "would be discarded, and what they hold back would go on without them"
            }
            TaskAction::Cancel => "would be cancelled",
        };
        let pools = found.pools.iter().map(|(pool, tasks)| format!("{tasks} of pool `{pool}`"));
        let pools = pools.collect::<Vec<_>>().join(", ");
        let colon = if pools.is_empty() { "" } else { ": " };
        let says = format!("{} {would}{colon}{pools}", counted(all, &task, &tasks));
        let mut effect =
            Effect::new(says).count("tasks", all).count("pools", found.pools.len() as u64);
        effect.first = found.first.iter().map(Uuid::to_string).collect();
        effect.is_final = action != TaskAction::Retry;
        effect.seconds = seconds(request, all);
        let bound = Bound::Tasks(found.bound);
        Ok(Looked { basis: Basis { consumers: Vec::new(), set: None, bound }, effect, total: all })
    }

    pub(super) async fn task(
        &self,
        action: TaskAction,
        id: Uuid,
        force: bool,
    ) -> Result<Looked, OperationError> {
        let tasks = Tasks::new(&self.log, "");
        let Some(task) = tasks.status(id).await? else {
            return Err(TaskError::NoSuchTask { task: id }.into());
        };
        let wanted = match action {
            TaskAction::Cancel if !task.state.is_open() => Some("an open one can be cancelled"),
            TaskAction::Discard if !task.state.is_dead() => Some("a dead one can be discarded"),
            _ => None,
        };
        if let Some(wanted) = wanted {
            return Err(TaskError::WrongState { task: id, state: task.state, wanted }.into());
        }
        let says = match (action, task.state) {
            (TaskAction::Retry, _) => format!("task {id} of `{}` would be tried again", task.key),
            (TaskAction::Cancel, _) => format!("task {id} of `{}` would never be run", task.key),
            (TaskAction::Discard, TaskState::Dead) => format!(
                "task {id} would never be run, and the later tasks of `{}` would go on without it",
                task.key
            ),
            (TaskAction::Discard, state) => {
                format!("task {id}, which is {state}, could not be tried again any more")
            }
        };
        let mut effect = Effect::new(says).count("tasks", 1).note(
            (action == TaskAction::Retry && force)
                .then(|| "it is done besides what was enqueued instead of it".to_owned()),
        );
        effect.first = vec![id.to_string()];
        effect.is_final = action == TaskAction::Discard;
        Ok(Looked::one(Vec::new(), Bound::None, effect))
    }

    pub(super) async fn key(&self, pool: &str, says: String) -> Result<Looked, OperationError> {
        self.must_be_pool(pool).await?;
        Ok(Looked::one(Vec::new(), Bound::None, Effect::new(says).count("keys", 1)))
    }

    /// Refuses a pool that nobody has: what is said of it would be true, and about nothing.
    async fn must_be_pool(&self, pool: &str) -> Result<(), OperationError> {
        let no_such_pool = || OperationError::NoSuchPool { pool: pool.to_owned() };
        if Tasks::pools(&self.log).await?.iter().any(|known| known == pool) {
            return Ok(());
        }
        match self.consumers.fingerprint(pool).await {
            Ok(known) if known.kind == POOL => Ok(()),
            Ok(_) | Err(OperateError::NoSuchConsumer { .. }) => Err(no_such_pool()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Refuses tasks in a state in which this cannot be done with them.
fn may_be(action: TaskAction, state: Option<TaskState>) -> Result<(), OperationError> {
    let Some(state) = state else { return Ok(()) };
    let (is_possible, wanted, those) = match action {
        TaskAction::Retry => (state.is_dead(), "tried again", "dead, skipped or compensated"),
        TaskAction::Discard => (state.is_dead(), "discarded", "dead, skipped or compensated"),
        TaskAction::Cancel => (state.is_open(), "cancelled", "ready, scheduled or held"),
    };
    match is_possible {
        true => Ok(()),
        false => Err(OperationError::WrongTaskState { state: state.to_string(), wanted, those }),
    }
}

/// About how long it takes at the rate that was asked for.
pub(super) fn seconds(request: &Request, things: u64) -> Option<f64> {
    request.per_second().map(|rate| things as f64 / f64::from(rate.get()))
}

//! What each operation would do, counted. Nothing here changes anything.

use crate::basis::{Basis, Bound};
use crate::operation_error::OperationError;
use crate::operations::{Looked, Operations};
use crate::plan::Effect;
use crate::request::{Begin, Request, task_filter};
use anabranch_core::{Position, TaskState};
use anabranch_runtime::{
    ConsumerStatus, Fingerprint, OperateError, ParkedAction, ParkedFilter, Reason, Rebuild,
};
use anabranch_workpool::{TaskAction, TaskError, Tasks};
use std::collections::BTreeSet;
use uuid::Uuid;

/// The kind of a work pool.
const POOL: &str = "pool";

impl Looked {
    /// About one thing.
    fn one(consumers: Vec<Fingerprint>, bound: Bound, effect: Effect) -> Self {
        Self { basis: Basis { consumers, bound }, effect, total: 1 }
    }
}

impl Operations {
    pub(crate) async fn look_at(&self, request: &Request) -> Result<Looked, OperationError> {
        match request {
            Request::Pause { consumer } => self.pause(consumer).await,
            Request::Resume { consumer } => self.resume(consumer).await,
            Request::Replay { consumer, from, accept_missing, new_ids } => {
                self.replay(consumer, *from, *accept_missing, *new_ids).await
            }
            Request::SkipToHead { consumer } => self.skip(consumer).await,
            Request::Parked { consumer, action, filter, .. } => {
                self.parked(request, consumer, *action, filter).await
            }
            Request::Tasks { action, state, conditions, .. } => {
                self.tasks(request, *action, *state, conditions).await
            }
            Request::Task { action, id, force } => self.task(*action, *id, *force).await,
            Request::PauseKey { pool, key } => {
                let says = format!(
                    "nothing of `{key}` in pool `{pool}` would be run until it is resumed; what runs at this moment \
                     is finished"
                );
                self.key(pool, says).await
            }
            Request::ResumeKey { pool, key } => {
                self.key(pool, format!("`{key}` of pool `{pool}` would not be paused any more"))
                    .await
            }
            Request::SwitchRebuild { consumer, tables } => self.switch(consumer, tables).await,
            Request::Forget { consumer } => self.forget(consumer).await,
        }
    }

    async fn known(
        &self,
        consumer: &str,
    ) -> Result<(ConsumerStatus, Vec<Fingerprint>), OperationError> {
        // The fingerprint first: what changes in between is found when the plan is applied.
        let fingerprint = self.consumers.fingerprint(consumer).await?;
        Ok((self.consumers.status(consumer).await?, vec![fingerprint]))
    }

    async fn pause(&self, name: &str) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        let workers = workers(&status);
        let says = match (status.paused, workers) {
            (true, _) => format!("`{name}` is paused already; nothing would change"),
            (_, 0) => {
                format!("`{name}` would stand still until it is resumed; no worker runs it now")
            }
            (_, workers) => format!(
                "`{name}` would stand still until it is resumed: {} their batches and wait",
                counted(workers, "worker finishes", "workers finish")
            ),
        };
        let effect = Effect::new(says).count("workers", workers).count("lag", status.lag);
        Ok(Looked::one(known, Bound::None, effect))
    }

    async fn resume(&self, name: &str) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        let waits = |reason: &&Reason| {
            matches!(reason, Reason::WoundBack { .. } | Reason::BeyondLog { .. })
        };
        let reasons = status.cursors.iter().flat_map(|cursor| &cursor.reasons);
        let decision = reasons.clone().find(waits);
        let says = match (decision, status.paused, &status.outage) {
            (Some(reason), ..) => format!(
                "`{name}` would not go on by that: {reason} (`anabranch replay {name} --from-start`, `anabranch \
                 skip-to-head {name}`)"
            ),
            (None, false, None) => {
                format!("`{name}` is neither paused nor stopped; nothing would change")
            }
            (None, _, Some(outage)) => {
                format!("`{name}` would be tried again at once; it has {outage}")
            }
            (None, true, None) => format!(
                "`{name}` would go on, with {}",
                counted(status.lag_ready, "event to do", "events to do")
            ),
        };
        let effect = Effect::new(says).count("workers", workers(&status)).count("lag", status.lag);
        Ok(Looked::one(known, Bound::None, effect))
    }

    async fn replay(
        &self,
        name: &str,
        from: Begin,
        accept_missing: bool,
        new_ids: bool,
    ) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        let is_webhook = status.kind == "webhook";
        if new_ids && !is_webhook {
            let (consumer, kind) = (name.to_owned(), status.kind);
            return Err(OperationError::NoIds { consumer, kind });
        }
        let to = self.consumers.replay_position(name, from.replay_from(), accept_missing).await?;
        let again = status.position.get().saturating_sub(to.get());
        let position = status.position;
        let says = match (is_webhook, is_of_other_log(&status)) {
            (_, true) => format!(
                "this is another log than the one of which `{name}` has handled the events up to position {position}; \
                 it would begin with this one, and belong to it"
            ),
            (true, _) => format!(
                "`{name}` is a webhook: every event after position {to}, up to position {position}, is sent to its \
                 endpoint again, {}",
                if new_ids { "under new ids" } else { "under the same ids" }
            ),
            (false, _) => format!(
                "`{name}` would handle its events after position {to} again, up to position {position}: at most {}",
                counted(again, "event", "events")
            ),
        };
        let parked = (status.parked_keys + status.retrying_keys) as u64;
        let mut effect =
            Effect::new(says)
                .count("events", again)
                .count("keys", parked)
                .note((parked > 0).then(|| {
                    format!(
                        "{} handled again with the others",
                        counted(parked, "key that has failed is", "keys that have failed are")
                    )
                }))
                .note((!status.is_run()).then(|| {
                    "no worker runs it now, so the next one that does will do it".to_owned()
                }));
        // What its hook takes back comes again; what an endpoint was sent does not come back.
        effect.is_final = is_webhook || accept_missing || is_of_other_log(&status);
        Ok(Looked::one(known, Bound::ReplayAfter(to), effect))
    }

    async fn skip(&self, name: &str) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        let head = status.head;
        let failed = (status.parked_keys + status.retrying_keys) as u64;
        let (keys, position) = (counted(failed, "failed key", "failed keys"), status.position);
        let says = match beyond(&status) {
            Some(drawn) => format!(
                "`{name}` stands at position {position}, beyond {drawn}, the last one that the log has ever drawn; it \
                 would go back to {head} and never handle the events that are there now, nor those of its {keys}"
            ),
            None if is_of_other_log(&status) => format!(
                "this is another log than the one of which `{name}` has handled the events up to position {position}; \
                 it would go on at the end of this one, and belong to it"
            ),
            None => format!(
                "`{name}` would never handle its events after position {position} up to {head}, nor those of its {keys}"
            ),
        };
        let mut effect = Effect::new(says).count("events", status.lag).count("keys", failed);
        effect.is_final = true;
        Ok(Looked::one(known, Bound::SkipUpTo(head), effect))
    }

    async fn parked(
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
        let bound = Bound::ParkedUpTo(found.at_us);
        Ok(Looked { basis: Basis { consumers: known, bound }, effect, total: found.keys })
    }

    async fn tasks(
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
        Ok(Looked { basis: Basis { consumers: Vec::new(), bound }, effect, total: all })
    }

    async fn task(
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

    async fn key(&self, pool: &str, says: String) -> Result<Looked, OperationError> {
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

    pub(crate) fn rebuild(&self, name: &str, tables: &[String]) -> Rebuild {
        if tables.is_empty() {
            return Rebuild::for_view(&self.log, name);
        }
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        Rebuild::new(&self.log, name, &tables)
    }

    async fn switch(&self, name: &str, tables: &[String]) -> Result<Looked, OperationError> {
        let preview = self.rebuild(name, tables).preview().await?;
        let mut known = Vec::new();
        for name in [name.to_owned(), format!("{name}.next")] {
            known.push(self.consumers.fingerprint(&name).await?);
        }
        let (new, old) = (&preview.new, &preview.old);
        let says = format!(
            "version {} of `{name}` would take the place of version {}",
            new.version, old.version
        );
        let mut effect = Effect::new(says)
            .count("tables", preview.columns.len() as u64)
            .count("old_workers", old.workers.len() as u64)
            .count("new_workers", new.workers.len() as u64)
            .note(
                "the old tables are kept, with _old in their names, until the next switch"
                    .to_owned(),
            );
        effect.first = preview.columns.iter().map(|(table, _)| table.clone()).take(10).collect();
        effect.is_final = true;
        Ok(Looked::one(known, Bound::None, effect))
    }

    async fn forget(&self, name: &str) -> Result<Looked, OperationError> {
        let (status, known) = self.known(name).await?;
        if status.is_run() {
            return Err(OperationError::StillRunning { consumer: name.to_owned() });
        }
        let failed = (status.parked_keys + status.retrying_keys) as u64;
        let says = format!(
            "how far `{name}` is (position {}) and its {} would be gone, and it would begin anew if it ran again",
            status.position,
            counted(failed, "failed key", "failed keys")
        );
        let mut effect = Effect::new(says).count("keys", failed);
        effect.is_final = true;
        Ok(Looked::one(known, Bound::None, effect))
    }
}

/// Refuses tasks that stand so that this cannot be done with them.
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

/// How many living workers own slots of a consumer.
fn workers(status: &ConsumerStatus) -> u64 {
    let own = status.runners.iter().filter(|runner| runner.slots > 0);
    own.map(|runner| &runner.worker).collect::<BTreeSet<_>>().len() as u64
}

fn is_of_other_log(status: &ConsumerStatus) -> bool {
    let mut reasons = status.cursors.iter().flat_map(|cursor| &cursor.reasons);
    reasons.any(|reason| matches!(reason, Reason::OtherLog { .. }))
}

/// The last position that the log has ever drawn, if a consumer stands beyond it.
fn beyond(status: &ConsumerStatus) -> Option<Position> {
    let mut reasons = status.cursors.iter().flat_map(|cursor| &cursor.reasons);
    reasons.find_map(|reason| match reason {
        Reason::BeyondLog { drawn } => Some(*drawn),
        _ => None,
    })
}

/// About how long it takes at the rate that was asked for.
fn seconds(request: &Request, things: u64) -> Option<f64> {
    request.per_second().map(|rate| things as f64 / f64::from(rate.get()))
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

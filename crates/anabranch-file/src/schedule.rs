//! Schedules: a task of a pool of their own waits for the next time of each. What is due and the task for the time after
//! it are stored with its end, in one transaction; an event is appended before, under an id that follows from the task, so
//! that a second attempt finds it.
//!
//! Processes with different files share the pool, as in a rolling deploy. One that meets the task of a schedule that
//! its file does not have puts it back: it may be new, and a task that ended there would never come again.

use crate::file::{Due, Schedule, Set};
use crate::fingerprint::Fingerprint;
use anabranch::workpool::{NewTask, OutsidePool, PoolSettings, Run, Task, TaskError, Tasks};
use anabranch::{Expected, HandlerResult, Log, Retry, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// The pool of the schedules of a set.
pub(crate) struct Schedules {
    name: String,
    schedules: Vec<Schedule>,
    log: Log,
}

/// After this time a task that was put back is due again.
const AGAIN: Duration = Duration::from_secs(30);
/// A schedule that no process knew for this long was removed from the file.
const REMOVED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// What waits for the next time of a schedule. One whose cron has changed is another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Next {
    name: String,
    cron: String,
    at: Timestamp,
}

impl Schedules {
    /// The pool of a set, if that has schedules.
    pub(crate) fn of(set: &Set, log: &Log) -> Option<Self> {
        let (name, schedules) = (pool_name(set), set.schedules.clone());
        (!schedules.is_empty()).then(|| Self { name, schedules, log: log.clone() })
    }

    /// Its name, and what tells it from other schedules.
    pub(crate) fn print(&self) -> (String, String) {
        let mut print = Fingerprint::new("schedules");
        for Schedule { name, cron, what } in &self.schedules {
            print = print.text("name", &name.text).text("cron", &cron.to_string());
            print = match what {
                Due::Enqueue { pool, key, payload } => {
                    print.text("pool", &pool.text).text("key", key).text("payload", payload.get())
                }
                Due::Append { stream, event } => {
                    print.text("stream", &stream.to_string()).text("event", &format!("{event:?}"))
                }
            };
        }
        (self.name.clone(), print.finish())
    }

    /// Sees to it that each schedule has a next time. One that has is left as it is: it may be due since an outage.
    pub(crate) async fn begin(set: &Set, log: &Log) -> Result<(), TaskError> {
        let now = log.database().clock().now();
        let tasks = Tasks::new(log, pool_name(set)).about_to_run();
        for schedule in &set.schedules {
            if let Some(task) = next(schedule, now) {
                tasks.enqueue(task).await?;
            }
        }
        Ok(())
    }
}

/// The pool of the schedules of a set.
pub(crate) fn pool_name(set: &Set) -> String {
    format!("{}.schedules", set.name.text)
}

/// The task of the next time after this one.
fn next(schedule: &Schedule, after: Timestamp) -> Option<NewTask> {
    let at = schedule.cron.after(after)?;
    let (name, cron) = (schedule.name.text.clone(), schedule.cron.to_string());
    Some(Next { name, cron, at }.task().run_at(at))
}

impl Next {
    /// Tasks of one key are run in order, so schedules have keys of their own: none waits for another.
    fn task(&self) -> NewTask {
        let key = format!("{} {}", self.name, self.cron);
        // Each time begins a trace: one that goes on with the time before would never end.
        NewTask::new(key.clone(), self).unique(key).without_trace()
    }
}

impl Schedules {
    /// The file of this process does not have the schedule; that of another process may.
    fn put_back(&self, due: &Next, run: &mut Run) {
        let (schedule, cron, set) = (due.name.as_str(), due.cron.as_str(), self.name.as_str());
        let late = self.log.database().clock().now().duration_since(due.at);
        if Duration::try_from(late).is_ok_and(|late| late > REMOVED_AFTER) {
            tracing::warn!(
                target: "anabranch::schedule", schedule, cron, pool = set,
                "no process had this schedule for a day: it was removed, and ends"
            );
            return;
        }
        tracing::warn!(
            target: "anabranch::schedule", schedule, cron, pool = set,
            "a schedule is due that is not in the file of this process: it waits for a process that has it"
        );
        run.then(set, due.task().run_after(AGAIN));
    }
}

impl OutsidePool for Schedules {
    type Output = Timestamp;

    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> PoolSettings {
        // A schedule that was given up would never come again.
        let retry = Retry::default().longest(Duration::from_secs(60)).attempts(u32::MAX);
        PoolSettings::default().retry(retry)
    }

    async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult<Timestamp> {
        let due: Next = task.payload()?;
        let is_it = |schedule: &&Schedule| {
            schedule.name.text == due.name && schedule.cron.to_string() == due.cron
        };
        let Some(schedule) = self.schedules.iter().find(is_it) else {
            self.put_back(&due, run);
            return Ok(due.at);
        };
        match &schedule.what {
            Due::Enqueue { pool, key, payload } => {
                run.then(pool.text.as_str(), NewTask::new(key.as_str(), payload));
            }
            Due::Append { stream, event } => {
                let id = Uuid::new_v5(&task.id(), b"event");
                let event = event.as_ref().clone().with_id(id);
                self.log.append(stream, Expected::Any, [event]).await?;
            }
        }
        // What came due while nobody ran comes once. The clock of this machine may be behind the database's, which
        // said that it is time.
        let now = self.log.database().clock().now().max(due.at);
        if let Some(following) = next(schedule, now) {
            run.then(self.name.as_str(), following);
        }
        Ok(due.at)
    }
}

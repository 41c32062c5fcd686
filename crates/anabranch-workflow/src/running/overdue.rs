//! Timers that came due while nobody ran: what was to happen before them comes first.
//!
//! A timer guards what its instance does: "cancel the order if it is not paid within a day". After an outage both
//! are ready at the same moment, and the timer must not win because the action had no chance. So a timer that is
//! late lets the actions of its instance have their first attempt, and what they led to its turn. It does not wait
//! for long: an action that hangs is what it guards against.

use super::job::{Job, task_id};
use super::{action_pool, command_pool};
use crate::{Workflow, Workflows};
use anabranch_runtime::Result;
use anabranch_workpool::{NewTask, ReadyOfKey, Task, Tasks};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// While somebody runs, a timer is found sooner than this after its time.
const LATE: Duration = Duration::from_secs(2);
/// A late timer waits as long as it was set for, within these bounds.
const WAIT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// It looks again at the next full second that is not nearer than this. All timers of an instance look at the same
/// time, so that they keep their order.
const NEXT: Duration = Duration::from_millis(100);

/// What a timer knows that was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PutOff {
    /// When it was first seen, by the database's clock: what comes later is not before it.
    seen: Timestamp,
    /// How long it waits at the most.
    until: Timestamp,
    /// Whether it is behind the commands that were ready before it.
    is_behind: bool,
}

/// What becomes of a late timer.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// Its command is delivered.
    Now,
    /// It goes behind the commands that are ready.
    Behind,
    /// It looks again then: an action is still to have its first attempt.
    At(Timestamp),
}

impl PutOff {
    fn turn(&self, actions: &ReadyOfKey, commands: &ReadyOfKey) -> Turn {
        if actions.untried > 0 && actions.now < self.until {
            let next = actions.now.checked_add(NEXT).unwrap_or(actions.now).as_second() + 1;
            return Turn::At(Timestamp::from_second(next).unwrap_or(self.until));
        }
        match commands.tasks > 0 && !self.is_behind {
            true => Turn::Behind,
            false => Turn::Now,
        }
    }
}

/// The tasks of a workflow, as its late timers look at them.
pub(super) struct Overdue {
    commands: Tasks,
    actions: Tasks,
}

impl Overdue {
    pub(super) fn of<W: Workflow>(workflows: &Workflows<W>) -> Self {
        let (log, name) = (workflows.log(), workflows.workflow().name());
        let commands = Tasks::of(log, command_pool(name));
        Self { commands, actions: Tasks::of(log, action_pool(name)) }
    }

    /// The task that a timer's command is delivered by instead of this one, if it is not its turn yet.
    pub(super) async fn put_off(
        &self,
        task: &Task,
        command: &serde_json::Value,
        put_off: Option<PutOff>,
    ) -> Result<Option<NewTask>> {
        if put_off.is_none() && task.late().is_none_or(|late| late < LATE) {
            return Ok(None);
        }
        let by = put_off.map(|put_off| put_off.seen);
        let actions = self.actions.ready_of_key(task.key(), task.id(), by).await?;
        let commands = self.commands.ready_of_key(task.key(), task.id(), None).await?;
        if put_off.is_none() && actions.untried + commands.tasks == 0 {
            return Ok(None);
        }
        let Some(details) = self.commands.details(task.id()).await? else { return Ok(None) };
        let put_off = put_off.unwrap_or_else(|| {
            let (set, due) = (details.status.enqueued_at, details.status.run_at);
            let wait = due.and_then(|due| Duration::try_from(due.duration_since(set)).ok());
            let wait = wait.unwrap_or_default().clamp(WAIT.0, WAIT.1);
            let until = actions.now.checked_add(wait).unwrap_or(Timestamp::MAX);
            PutOff { seen: actions.now, until, is_behind: false }
        });
        let (is_behind, at) = match put_off.turn(&actions, &commands) {
            Turn::Now => return Ok(None),
            Turn::Behind => (true, None),
            Turn::At(time) => (false, Some(time)),
        };
        let put_off = PutOff { is_behind, ..put_off };
        let job = Job::Late { command: command.clone(), put_off };
        let next = NewTask::new(task.key(), &job).with_id(task_id(task.id(), 0));
        let next = match at {
            Some(time) => next.run_at(time),
            None => next,
        };
        // Under its name it is cancelled and replaced as before.
        Ok(Some(match details.unique_key {
            Some(unique) => next.unique(unique),
            None => next,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(tasks: u64, untried: u64, second: i64) -> ReadyOfKey {
        ReadyOfKey { tasks, untried, now: Timestamp::from_second(second).unwrap() }
    }

    #[test]
    fn it_lets_the_first_attempt_and_its_outcome_go_first_and_waits_for_no_more() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let put_off = PutOff { seen: time(100), until: time(160), is_behind: false };
        let at = |second| Turn::At(time(second));
        assert_eq!(put_off.turn(&ready(1, 1, 100), &ready(0, 0, 100)), at(101));
        assert_eq!(put_off.turn(&ready(1, 1, 104), &ready(3, 0, 104)), at(105));
        // It hangs: that is what the timer is for.
        assert_eq!(put_off.turn(&ready(1, 1, 160), &ready(0, 0, 160)), Turn::Now);
        // Tried, and to be tried again: the same.
        assert_eq!(put_off.turn(&ready(1, 0, 101), &ready(0, 0, 101)), Turn::Now);
        // What has come of it is ready; a second time there is nothing to wait for.
        assert_eq!(put_off.turn(&ready(0, 0, 101), &ready(1, 1, 101)), Turn::Behind);
        let behind = PutOff { is_behind: true, ..put_off };
        assert_eq!(behind.turn(&ready(0, 0, 101), &ready(1, 1, 101)), Turn::Now);
    }
}

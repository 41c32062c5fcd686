//! Timers that came due while nobody ran: what was to happen before them comes first.
//!
//! A timer guards what its instance does: "cancel the order if it is not paid within a day". After an outage both
//! are ready at the same moment, and the timer must not win because the action had no chance. So a timer that is
//! late lets the actions of its instance have their first attempt, and what they led to its turn. It does not wait
//! for long once it is the action's turn: one that hangs is what it guards against. Nothing says when an attempt
//! begins, but the actions before it are known: while these become fewer, its turn has not come.

use super::job::{Job, task_id};
use super::{action_pool, command_pool};
use crate::{Workflow, Workflows};
use anabranch_runtime::HandlerResult;
use anabranch_workpool::{NewTask, ReadyOfKey, Task, Tasks};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use uuid::Uuid;

/// While somebody runs, a timer is found sooner than this after its time.
const LATE: Duration = Duration::from_secs(2);
/// A late timer waits as long as it was set for, within these bounds, for an action with none before it, and for
/// the longer one where some are before it and none of them comes to an end.
const WAIT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// However the line moves: a pool that is tried now and then moves as well.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// How many actions at the front of the line are looked at, and how often: all late timers look at the same.
const LINE: usize = 1000;
const LOOK: Duration = Duration::from_millis(500);
/// It looks again at the next full second that is not nearer than this, and later where so many actions are before
/// its own: thousands of late timers would else look each second. All timers of an instance look at the same time, so
/// that they keep their order.
const NEXT: Duration = Duration::from_millis(100);
const SECONDS: [(usize, i64); 3] = [(1000, 16), (100, 4), (0, 1)];

/// What a timer knows that was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PutOff {
    /// The id of its command: that of the task that was put off first. So it is carried out once, though a worker
    /// that died, or that stood still, has delivered it by another task. One of the last version has none.
    #[serde(default)]
    command_id: Option<Uuid>,
    /// When it was first seen, by the database's clock: what comes later is not before it.
    seen: Timestamp,
    /// How long it waits at the most, if nothing moves.
    until: Timestamp,
    /// Whether it is behind the commands that were ready before it.
    is_behind: bool,
    /// How many milliseconds it waits for an action that hangs. One of the last version has no more than its `until`.
    #[serde(default)]
    wait_ms: u64,
    /// What was before its action when it looked last.
    #[serde(default)]
    ahead: Option<Ahead>,
}

/// The actions before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ahead {
    /// How many, of those that are looked at.
    count: usize,
    /// The last of them: it rises when one before it has gone.
    last: i64,
}

impl Ahead {
    /// Before a place in a line. Who waits for another attempt of its own instance has no place.
    fn of(place: Option<i64>, line: &[i64]) -> Self {
        let count = place.map_or(0, |place| line.partition_point(|before| *before < place));
        Self { count, last: count.checked_sub(1).map_or(0, |last| line[last]) }
    }

    fn has_moved(self, since: Self) -> bool {
        self.count < since.count || self.last > since.last
    }
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
    fn new(task: Uuid, seen: Timestamp, wait: Duration) -> Self {
        let wait_ms = wait.clamp(WAIT.0, WAIT.1).as_millis() as u64;
        let command_id = Some(task);
        Self { command_id, seen, until: seen, is_behind: false, wait_ms, ahead: None }
    }

    /// The id of the command that a task delivers.
    pub(super) fn command_id(put_off: Option<Self>, task: Uuid) -> Uuid {
        put_off.and_then(|put_off| put_off.command_id).unwrap_or(task)
    }

    /// Its time begins anew when the line has moved.
    fn looked(self, ahead: Ahead, now: Timestamp) -> Self {
        let is_of_last_version = self.ahead.is_none() && self.wait_ms == 0;
        if is_of_last_version || self.ahead.is_some_and(|since| !ahead.has_moved(since)) {
            return self;
        }
        let wait = if ahead.count == 0 { Duration::from_millis(self.wait_ms) } else { WAIT.1 };
        let later = |time: Timestamp, wait| time.checked_add(wait).unwrap_or(Timestamp::MAX);
        let until = later(now, wait).min(later(self.seen, LONGEST));
        Self { until, ahead: Some(ahead), ..self }
    }

    fn turn(&self, actions: &ReadyOfKey, commands: &ReadyOfKey) -> Turn {
        if actions.untried > 0 && actions.now < self.until {
            let ahead = self.ahead.map_or(0, |ahead| ahead.count);
            let step = SECONDS.iter().find(|(many, _)| ahead >= *many).map_or(1, |(_, step)| *step);
            let next = actions.now.checked_add(NEXT).unwrap_or(actions.now).as_second() / step + 1;
            return Turn::At(Timestamp::from_second(next * step).unwrap_or(self.until));
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
    /// The line of actions, as it was a moment ago.
    line: Mutex<Option<(Instant, Arc<[i64]>)>>,
    /// When the late timers of an instance look again.
    looks: std::sync::Mutex<HashMap<String, Timestamp>>,
}

impl Overdue {
    pub(super) fn of<W: Workflow>(workflows: &Workflows<W>) -> Self {
        let (log, name) = (workflows.log(), workflows.workflow().name());
        let commands = Tasks::new(log, command_pool(name));
        let actions = Tasks::new(log, action_pool(name));
        Self { commands, actions, line: Mutex::default(), looks: std::sync::Mutex::default() }
    }

    /// When a timer looks again that would at this time: not before or after another one of its instance.
    fn look(&self, key: &str, time: Timestamp, now: Timestamp) -> Timestamp {
        let Ok(mut looks) = self.looks.lock() else { return time };
        let known = looks.get(key).copied().filter(|known| *known > now);
        if known.is_none() {
            if looks.len() >= looks.capacity() {
                looks.retain(|_, look| *look > now);
            }
            looks.insert(key.to_owned(), time);
        }
        known.unwrap_or(time)
    }

    async fn line(&self) -> HandlerResult<Arc<[i64]>> {
        let mut kept = self.line.lock().await;
        if let Some((at, line)) = &*kept
            && at.elapsed() < LOOK
        {
            return Ok(Arc::clone(line));
        }
        let line: Arc<[i64]> = self.actions.line(LINE).await?.into();
        *kept = Some((Instant::now(), Arc::clone(&line)));
        Ok(line)
    }

    /// The task that a timer's command is delivered by instead of this one, if it is not its turn yet.
    pub(super) async fn put_off(
        &self,
        task: &Task,
        command: &serde_json::Value,
        put_off: Option<PutOff>,
    ) -> HandlerResult<Option<NewTask>> {
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
            PutOff::new(task.id(), actions.now, wait.unwrap_or_default())
        });
        let put_off = match actions.untried {
            0 => put_off,
            _ => put_off.looked(Ahead::of(actions.place, &self.line().await?), actions.now),
        };
        let (is_behind, at) = match put_off.turn(&actions, &commands) {
            Turn::Now => return Ok(None),
            Turn::Behind => (true, None),
            Turn::At(time) => (false, Some(self.look(task.key(), time, actions.now))),
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

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(tasks: u64, untried: u64, second: i64) -> ReadyOfKey {
        let mut ready = ReadyOfKey::default();
        (ready.tasks, ready.untried, ready.now) = (tasks, untried, time(second));
        ready
    }

    #[test]
    fn it_lets_the_first_attempt_and_its_outcome_go_first_and_waits_for_no_more() {
        let put_off = PutOff::new(Uuid::nil(), time(100), Duration::from_secs(60));
        let put_off = put_off.looked(Ahead::of(None, &[]), time(100));
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

    #[test]
    fn its_time_begins_when_no_action_is_before_its_own() {
        let looked = |put_off: PutOff, line: &[i64], second| {
            put_off.looked(Ahead::of(Some(7), line), time(second))
        };
        let put_off = PutOff::new(Uuid::nil(), time(0), Duration::ZERO);
        let put_off = looked(put_off, &[2, 4, 7, 8], 0);
        assert_eq!(put_off.until, time(600));
        // Nothing has moved; what is behind it does not count.
        let put_off = looked(put_off, &[2, 4, 7], 100);
        assert_eq!(put_off.until, time(600));
        let put_off = looked(put_off, &[4, 7], 500);
        assert_eq!(put_off.until, time(1100));
        let put_off = looked(put_off, &[7], 600);
        assert_eq!(
            (put_off.until, put_off.turn(&ready(1, 1, 610), &ready(0, 0, 610))),
            (time(610), Turn::Now)
        );
        // Far behind, the end of what is looked at moves.
        let far = looked(PutOff::new(Uuid::nil(), time(0), Duration::ZERO), &[1, 2, 3], 0);
        assert_eq!(looked(far, &[1, 3, 4], 500).until, time(1100));
        // Far behind it looks seldom.
        let many: Vec<i64> = (-1000..0).collect();
        for (before, second) in [(5, 101), (100, 104), (1000, 112)] {
            let far =
                looked(PutOff::new(Uuid::nil(), time(100), Duration::ZERO), &many[..before], 100);
            assert_eq!(far.turn(&ready(1, 1, 100), &ready(0, 0, 100)), Turn::At(time(second)));
        }
        // Not for ever, though one goes now and then.
        let day = 24 * 3600;
        assert_eq!(looked(far, &[1, 3, 4], day - 5).until, time(day));
    }
}

//! How tasks end, as statements of the transaction that stores it: done, to be tried again, dead.

use crate::new_task::{NewTask, Outcome};
use crate::pool::TaskGaveUp;
use crate::tables::{Tables, There, Why};
use crate::task::{Task, TaskRef};
use anabranch_core::{Failure, HashRule, InputError, Retry};
use anabranch_core::{Happening, Notice};
use anabranch_runtime::{Commit, HandlerError};
use anabranch_store::Emitter;
use anabranch_store::Log;
use anabranch_store::backoff::random;
use anabranch_store::database::Statement;
use anabranch_store::trace::Work;
use std::fmt;
use std::time::Duration;

/// A task that was run, with its result as JSON and what is to follow.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) task: Task,
    pub(crate) result: String,
    pub(crate) then: Vec<(String, NewTask)>,
    /// It lasts until the end is stored.
    pub(crate) traced: Option<Work>,
}

impl Done {
    /// What was run, in what is traced of it.
    pub(crate) fn new(mut task: Task, result: String, traced: Option<Work>) -> Self {
        // What follows goes on from here.
        task.trace = traced.as_ref().and_then(Work::context);
        Self { task, result, then: Vec::new(), traced }
    }
}

/// The commit of the ends of some tasks.
pub(crate) fn commit(done: &[Done]) -> Option<Work> {
    Work::commit_of(done.iter().filter_map(|done| done.traced.as_ref()))
}

/// Why nothing is stored of what ran in a slot that was lost meanwhile.
pub(crate) const LOST: &str = "another lane owns the slot by now";

/// What is traced of a commit, and of the tasks that end with it, says why nothing of them is stored, if that is so.
pub(crate) fn mark_unstored<'a>(
    commit: Option<&Work>,
    tasks: impl Iterator<Item = Option<&'a Work>>,
    outcome: &Commit,
) {
    let (at, error): (_, &dyn fmt::Display) = match outcome {
        Commit::Done => return,
        Commit::Lost => (None, &LOST),
        Commit::Away(error) => (None, error),
        Commit::Refused { item, error } => (*item, error),
    };
    commit.into_iter().for_each(|commit| commit.failed(error));
    for (number, task) in tasks.enumerate() {
        match (task, at) {
            (Some(task), Some(at)) if at != number => {
                task.failed(&format_args!("it was rolled back with another task: {error}"));
            }
            (Some(task), _) => task.failed(error),
            (None, _) => {}
        }
    }
}

/// The statements that store the end of tasks that were run.
pub(crate) fn done(tables: &Tables, rule: HashRule, tasks: &[Done]) -> Vec<Statement> {
    if tasks.is_empty() {
        return Vec::new();
    }
    let results = tasks.iter().map(|done| (done.task.id, done.result.clone())).collect();
    let mut statements = tables.done(results);
    let mut follow: Vec<(String, NewTask)> = Vec::new();
    for done in tasks {
        follow.extend(done.task.follower(Outcome::Done, Some(&done.result), None));
        follow.extend(done.then.iter().cloned());
    }
    statements.extend(enqueue(tables, rule, &follow));
    statements
}

fn enqueue(tables: &Tables, rule: HashRule, tasks: &[(String, NewTask)]) -> Vec<Statement> {
    if tasks.is_empty() {
        return Vec::new();
    }
    let tasks: Vec<(&str, &NewTask)> =
        tasks.iter().map(|(pool, task)| (pool.as_str(), task)).collect();
    // Each has settled where it stands in a trace.
    tables.enqueue(rule, &tasks, There::Perhaps, None)
}

/// Refuses tasks that could not be enqueued: found out now, they fail the task that wants them.
pub(crate) fn check(tasks: &[(String, NewTask)], payload_bytes: usize) -> Result<(), InputError> {
    tasks.iter().try_for_each(|(pool, task)| task.check(pool, payload_bytes))
}

/// What becomes of a task that has failed.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is tried again after a while.
    Again(Duration),
    /// It is dead and its key is held.
    Park,
    /// It is dead and its key goes on.
    GoOn,
    /// The pool stops.
    Stop,
}

/// What becomes of the task, and of what waits behind it.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again(wait) => write!(f, "it is tried again in {wait:.1?}"),
            Self::Park => {
                f.write_str("it is dead, and its key is held until it is retried or discarded")
            }
            Self::GoOn => f.write_str("its attempts are used up, and its key goes on without it"),
            Self::Stop => f.write_str("it stays as it is, and its pool stops"),
        }
    }
}

/// What becomes of a task that has failed, and the statements that store it.
pub(crate) fn failed(
    tables: &Tables,
    (log, pool, events): (&Log, &str, &Emitter),
    retry: &Retry,
    (task, error): (&Task, &HandlerError),
    gave_up: impl FnOnce() -> TaskGaveUp,
) -> (Verdict, Vec<Statement>) {
    let attempts = task.attempts + 1;
    let (again, error) = (error.again(), &error.to_string());
    if let Some(wait) = retry.after(attempts, again, random()) {
        return (Verdict::Again(wait), vec![tables.failed(task.id, attempts, error, wait)]);
    }
    let (verdict, then) = match gave_up() {
        TaskGaveUp::Park => (Verdict::Park, Vec::new()),
        TaskGaveUp::GoOn(then) => match check(&then, log.limits().data_bytes) {
            Ok(()) => (Verdict::GoOn, then),
            Err(refused) => {
                let (refused, task) = (Some(refused.to_string()), format!("task={}", task.id));
                let what = Happening::notice(Notice::FollowersRefused, refused, Some(task));
                events.emit(what);
                (Verdict::Park, Vec::new())
            }
        },
        TaskGaveUp::AsSet => match retry.then {
            Failure::Park => (Verdict::Park, Vec::new()),
            Failure::Skip => (Verdict::GoOn, Vec::new()),
            Failure::Stop => return (Verdict::Stop, Vec::new()),
        },
    };
    if matches!(verdict, Verdict::Park) {
        let dead = tables.dead(task.id, attempts, error, None);
        return (verdict, vec![dead, tables.hold(pool, &task.key, task.slot, Why::Dead)]);
    }
    let mut follow: Vec<(String, NewTask)> =
        then.into_iter().map(|(pool, then)| (pool, then.carried_by(task.trace))).collect();
    follow.extend(task.follower(Outcome::Dead, None, Some(error)));
    let instead: Vec<TaskRef> = follow.iter().map(|(pool, task)| TaskRef::to(pool, task)).collect();
    let mut statements = vec![tables.dead(task.id, attempts, error, Some(&instead))];
    statements.extend(enqueue(tables, log.hash_rule(), &follow));
    (verdict, statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_what_becomes_of_a_task_in_plain_words() {
        let again = Verdict::Again(Duration::from_micros(1_234_567));
        assert_eq!(again.to_string(), "it is tried again in 1.2s");
        for (verdict, words) in [
            (Verdict::Park, "dead, and its key is held"),
            (Verdict::GoOn, "its key goes on"),
            (Verdict::Stop, "its pool stops"),
        ] {
            assert!(verdict.to_string().contains(words), "{verdict}");
        }
    }
}

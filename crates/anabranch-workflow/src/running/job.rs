//! What stands in the tasks of a workflow.

use super::overdue::PutOff;
use anabranch_core::limits::MAX_NAME_BYTES;
use anabranch_workpool::NewTask;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// What is to be delivered to an instance.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Job {
    /// A command.
    Command(serde_json::Value),
    /// A command of a program that does not have the code: see [`CommandQueue`](crate::CommandQueue).
    Sent {
        /// Which command it is, for this instance.
        id: Uuid,
        /// As it was sent, digit by digit.
        command: Box<RawValue>,
    },
    /// The command of a timer that came due while nobody ran, and lets others go first.
    Late {
        /// The command.
        command: serde_json::Value,
        /// What it knows.
        put_off: PutOff,
    },
    /// The command of a schedule, at one of its times.
    Schedule {
        /// Its name.
        name: String,
        /// When it is due, as it was when this was enqueued: a schedule that has changed has another.
        cron: String,
        /// The time.
        at: Timestamp,
    },
}

impl Job {
    /// A command as a task for an instance. Its id follows from what caused it, so that it is enqueued
    /// once however often that is handled.
    pub(super) fn command(id: &str, command: serde_json::Value, task: Uuid) -> NewTask {
        NewTask::new(id, &Self::Command(command)).with_id(task)
    }
}

/// A command of a program that does not have the code, as a task with an id that follows from the command's.
pub(crate) fn sent(instance: &str, task: Uuid, id: Uuid, command: &RawValue) -> NewTask {
    NewTask::new(instance, &Job::Sent { id, command: command.to_owned() }).with_id(task)
}

/// Whether the payload of a task is this command, however it is written.
pub(crate) fn is_sent(payload: &RawValue, command: &RawValue) -> bool {
    let Ok(Job::Sent { command: there, .. }) = serde_json::from_str(payload.get()) else {
        return false;
    };
    let value = |json: &RawValue| serde_json::from_str::<serde_json::Value>(json.get()).ok();
    // What is no value (a number that is too large) is compared as it is written.
    there.get() == command.get() || value(&there).is_some_and(|there| Some(there) == value(command))
}

/// The id of the task that follows from something as its n-th consequence.
pub(super) fn task_id(cause: Uuid, number: usize) -> Uuid {
    Uuid::new_v5(&cause, &(number as u64).to_be_bytes())
}

/// The unique key of a timer: one of its name for an instance.
pub(super) fn timer_key(id: &str, name: &str) -> String {
    let key = format!("timer:{id}:{name}");
    match key.len() <= MAX_NAME_BYTES {
        true => key,
        false => format!("timer:{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, key.as_bytes())),
    }
}

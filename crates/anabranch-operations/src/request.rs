//! What somebody wants to do: one value for each operation, as the command, the API and the console write it.

use anabranch_core::{Position, TaskState};
use anabranch_runtime::{ParkedAction, ParkedFilter, ReplayFrom};
use anabranch_workpool::{TaskAction, TaskCondition, TaskConditionError, TaskFilter};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::num::NonZeroU32;
use uuid::Uuid;

/// What somebody wants to do. In JSON, `do` says which:
///
/// ```
/// use anabranch_operations::Request;
/// let request = r#"{"do": "replay", "consumer": "order_summary", "from": {"last": 100}}"#;
/// let request: Request = serde_json::from_str(request)?;
/// assert_eq!((request.verb(), &*request.target()), ("replay", "order_summary"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// A consumer handles nothing until it is resumed.
    Pause {
        /// Which.
        consumer: String,
    },
    /// A consumer goes on that was paused, or that has stopped by itself.
    Resume {
        /// Which.
        consumer: String,
    },
    /// A consumer handles events again.
    Replay {
        /// Which.
        consumer: String,
        /// From where on.
        from: Begin,
        /// Though the log may have lost the events with which it would begin.
        #[serde(default)]
        accept_missing: bool,
        /// Of a webhook: under new ids, so that receivers take what comes again for new.
        #[serde(default)]
        new_ids: bool,
    },
    /// A consumer handles one key again, from its first event on; its later events wait meanwhile, and other keys go on.
    ReplayKey {
        /// Which consumer.
        consumer: String,
        /// Which key, as `Order:ord-123`.
        key: String,
        /// Though the log may have lost the first events of the key.
        #[serde(default)]
        accept_missing: bool,
    },
    /// A consumer leaves out what it has not handled, keys that have failed included.
    SkipToHead {
        /// Which.
        consumer: String,
    },
    /// Something is done with keys of a consumer that have failed.
    Parked {
        /// Which consumer.
        consumer: String,
        /// What.
        action: ParkedAction,
        /// Which of its keys.
        #[serde(default)]
        filter: ParkedFilter,
        /// At most this many per second.
        #[serde(default)]
        per_second: Option<NonZeroU32>,
    },
    /// Something is done with tasks of pools.
    Tasks {
        /// What.
        action: TaskAction,
        /// With those in this state: `dead`, `skipped` or `compensated` to retry or discard, `ready`, `scheduled` or `held`
        /// to cancel. Dead ones, or all open ones, if nothing is said.
        #[serde(default)]
        state: Option<TaskState>,
        /// Only those of which all of this is true: `pool=NAME`, `key=KEY`, `error~TEXT`.
        #[serde(default, rename = "where")]
        conditions: Vec<String>,
        /// At most this many per second.
        #[serde(default)]
        per_second: Option<NonZeroU32>,
    },
    /// Something is done with one task.
    Task {
        /// What. One that waits for its next attempt can be retried as well: it has it now.
        action: TaskAction,
        /// Which task.
        id: Uuid,
        /// Retry it though others were enqueued instead of it.
        #[serde(default)]
        force: bool,
    },
    /// Workers send deliveries of a webhook once more, under the same ids, in the order of each key.
    Resend {
        /// Which webhook.
        consumer: String,
        /// Which of its deliveries.
        #[serde(default)]
        filter: ResendFilter,
        /// At most this many per second.
        #[serde(default)]
        per_second: Option<NonZeroU32>,
    },
    /// Slots of a replica set move for the load that its workers have measured, at once.
    Rebalance {
        /// Which replica set.
        replica_set: String,
    },
    /// Nothing of a key of a pool is run until it is resumed.
    PauseKey {
        /// Which pool.
        pool: String,
        /// Which key.
        key: String,
    },
    /// A paused key of a pool goes on.
    ResumeKey {
        /// Which pool.
        pool: String,
        /// Which key.
        key: String,
    },
    /// The new version of a projection takes the place of the old one.
    SwitchRebuild {
        /// Which projection.
        consumer: String,
        /// Every table that it writes; none for a view or rollup, whose table is known.
        #[serde(default)]
        tables: Vec<String>,
    },
    /// A consumer that no longer exists is removed, with its cursors and the keys that have failed.
    Forget {
        /// Which.
        consumer: String,
    },
}

/// Which deliveries of a webhook are meant: those that pass everything that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResendFilter {
    /// With this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Of this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// In this state: `open`, `failed` or `delivered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// From where on a consumer handles events again: `"start"`, `"first_kept"`, `{"after": 12}`,
/// `{"time": "2026-11-15T09:16:47Z"}` or `{"last": 100}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// The first event.
    Start,
    /// The first event that the log still has.
    FirstKept,
    /// The event after this position.
    After(Position),
    /// The first event that was recorded at this time or later.
    Time(Timestamp),
    /// This many of its events before its position.
    Last(u64),
}

impl Begin {
    pub(crate) fn replay_from(self) -> ReplayFrom {
        match self {
            Self::Start => ReplayFrom::Start,
            Self::FirstKept => ReplayFrom::FirstKept,
            Self::After(position) => ReplayFrom::After(position),
            Self::Time(time) => ReplayFrom::Time(time.as_microsecond()),
            Self::Last(events) => ReplayFrom::Last(events),
        }
    }
}

impl Request {
    /// What is done, in a word: as the journal has it.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
            Self::Replay { .. } => "replay",
            Self::ReplayKey { .. } => "replay_key",
            Self::Resend { .. } => "resend",
            Self::Rebalance { .. } => "rebalance",
            Self::SkipToHead { .. } => "skip_to_head",
            Self::Parked { action: ParkedAction::Retry, .. } => "retry_parked",
            Self::Parked { action: ParkedAction::Skip, .. } => "skip_parked",
            Self::Parked { action: ParkedAction::SkipAll, .. } => "skip_all_parked",
            Self::Task { action: TaskAction::Retry, .. } => "retry_task",
            Self::Task { action: TaskAction::Discard, .. } => "discard_task",
            Self::Task { action: TaskAction::Cancel, .. } => "cancel_task",
            Self::Tasks { action: TaskAction::Retry, .. } => "retry_tasks",
            Self::Tasks { action: TaskAction::Discard, .. } => "discard_tasks",
            Self::Tasks { action: TaskAction::Cancel, .. } => "cancel_tasks",
            Self::PauseKey { .. } => "pause_key",
            Self::ResumeKey { .. } => "resume_key",
            Self::SwitchRebuild { .. } => "switch_rebuild",
            Self::Forget { .. } => "forget",
        }
    }

    /// With what: a consumer, a pool, a replica set or a task. `*` where tasks of any pool may be meant.
    #[must_use]
    pub fn target(&self) -> Cow<'_, str> {
        match self {
            Self::Pause { consumer }
            | Self::Resume { consumer }
            | Self::Replay { consumer, .. }
            | Self::ReplayKey { consumer, .. }
            | Self::Resend { consumer, .. }
            | Self::SkipToHead { consumer }
            | Self::Parked { consumer, .. }
            | Self::SwitchRebuild { consumer, .. }
            | Self::Forget { consumer } => Cow::Borrowed(consumer),
            Self::Rebalance { replica_set } => Cow::Borrowed(replica_set),
            Self::PauseKey { pool, .. } | Self::ResumeKey { pool, .. } => Cow::Borrowed(pool),
            Self::Task { id, .. } => Cow::Owned(id.to_string()),
            Self::Tasks { conditions, .. } => {
                let pool = conditions.iter().find_map(|text| text.strip_prefix("pool="));
                Cow::Borrowed(pool.unwrap_or("*"))
            }
        }
    }

    /// How many things a second it is about at most, if that was said.
    pub(crate) fn per_second(&self) -> Option<NonZeroU32> {
        match self {
            Self::Parked { per_second, .. }
            | Self::Tasks { per_second, .. }
            | Self::Resend { per_second, .. } => *per_second,
            _ => None,
        }
    }

    /// Whether it goes step by step through what its filter finds; else it is one transaction.
    #[must_use]
    pub fn is_of_many(&self) -> bool {
        matches!(self, Self::Parked { .. } | Self::Tasks { .. } | Self::Resend { .. })
    }
}

/// The filter of tasks that a request means.
pub(crate) fn task_filter(
    action: TaskAction,
    state: Option<TaskState>,
    conditions: &[String],
) -> Result<TaskFilter, TaskConditionError> {
    let mut filter = match (action, state) {
        (_, Some(state)) => TaskFilter::in_state(state),
        (TaskAction::Cancel, None) => TaskFilter::open(),
        (TaskAction::Retry | TaskAction::Discard, None) => TaskFilter::dead(),
    };
    for condition in conditions {
        filter = filter.and(condition.parse::<TaskCondition>()?);
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_refused() {
        for wrong in [
            r#"{"do": "pause"}"#,
            r#"{"do": "pause", "consumer": "a", "force": true}"#,
            r#"{"do": "explode", "consumer": "a"}"#,
            r#"{"do": "parked", "consumer": "a", "action": "retry", "filter": {"keys": "b"}}"#,
            r#"{"do": "parked", "consumer": "a", "action": "retry", "per_second": 0}"#,
            r#"{"do": "replay", "consumer": "a"}"#,
        ] {
            assert!(serde_json::from_str::<Request>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_is_read_as_it_is_written() {
        let all = [
            Request::Pause { consumer: "a".to_owned() },
            Request::Replay {
                consumer: "a".to_owned(),
                from: Begin::After(Position::new(7)),
                accept_missing: true,
                new_ids: false,
            },
            Request::Parked {
                consumer: "a".to_owned(),
                action: ParkedAction::SkipAll,
                filter: ParkedFilter::of_key("k"),
                per_second: NonZeroU32::new(5),
            },
            Request::Tasks {
                action: TaskAction::Cancel,
                state: Some(TaskState::Held),
                conditions: vec!["pool=mails".to_owned()],
                per_second: None,
            },
        ];
        for request in all {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request, "{text}");
        }
    }
}

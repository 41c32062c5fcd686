//! The journal: who did what, when, and what came of it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

/// What an entry of the journal tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It was done, in one transaction.
    Applied,
    /// It began, and goes on step by step.
    Began,
    /// The last step is done.
    Done,
    /// Somebody has cancelled it.
    Cancelled,
    /// It could not go on.
    Failed,
}

impl Stage {
    const ALL: [Self; 5] = [Self::Applied, Self::Began, Self::Done, Self::Cancelled, Self::Failed];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Began => "began",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// An entry of the journal.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Its number: later ones are higher.
    pub seq: i64,
    /// When.
    pub at: Timestamp,
    /// The plan that was applied.
    pub plan: Uuid,
    /// What became of it.
    pub stage: Stage,
    /// What was done, in a word.
    pub verb: String,
    /// With what: a consumer, a pool, a task.
    pub target: String,
    /// Who.
    pub who: String,
    /// By which way: `cli`, `api`, `console` or `library`.
    pub via: String,
    /// What was asked for, as JSON.
    pub request: Box<RawValue>,
    /// What the plan said, as JSON.
    pub effect: Box<RawValue>,
    /// With how many things it was done (`done`), and how many were not there any more (`gone`), as JSON. Of keys that are
    /// set aside and of deliveries that is how many were asked of workers, who may find that there is nothing left to do.
    pub outcome: Option<Box<RawValue>>,
}

/// Which entries of the journal are looked for.
#[derive(Clone, Debug)]
pub struct JournalFilter {
    /// Only those about this consumer, pool or task.
    pub target: Option<String>,
    /// Only those of this plan.
    pub plan: Option<Uuid>,
    /// Only those before this one.
    pub before: Option<i64>,
    /// At most this many, the newest first.
    pub limit: usize,
}

impl Default for JournalFilter {
    fn default() -> Self {
        Self { target: None, plan: None, before: None, limit: 100 }
    }
}

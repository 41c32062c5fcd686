//! Plans: what an operation would do, and how far it is.

use crate::basis::{Basis, Bound};
use crate::operation_error::OperationError;
use crate::request::Request;
use anabranch_core::Position;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// What an operation would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Effect {
    /// In one sentence.
    pub says: String,
    /// Counted: `keys`, `events`, `tasks`, `workers`, `slots`.
    pub counts: BTreeMap<String, u64>,
    /// The first of what it is about, by name: ten at most.
    pub first: Vec<String>,
    /// About how long it takes, where that is known: if it is done at a rate.
    pub seconds: Option<f64>,
    /// What else to know before deciding.
    pub notes: Vec<String>,
    /// Whether it cannot be taken back.
    pub is_final: bool,
}

impl Effect {
    pub(crate) fn new(says: String) -> Self {
        Self { says, ..Self::default() }
    }

    pub(crate) fn count(mut self, what: &str, number: u64) -> Self {
        self.counts.insert(what.to_owned(), number);
        self
    }

    pub(crate) fn note(mut self, note: impl Into<Option<String>>) -> Self {
        self.notes.extend(note.into());
        self
    }
}

/// The state of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Nobody has applied it.
    Open,
    /// It is being carried out, step by step.
    Running,
    /// It was carried out.
    Done,
    /// It could not be carried out to its end.
    Failed,
    /// Somebody has cancelled it; what was done until then stays.
    Cancelled,
}

impl PlanState {
    const ALL: [Self; 5] = [Self::Open, Self::Running, Self::Done, Self::Failed, Self::Cancelled];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for PlanState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Plan {
    /// After which position a replay begins, if it is one.
    #[must_use]
    pub fn replays_after(&self) -> Option<Position> {
        match self.basis.bound {
            Bound::ReplayAfter(position) => Some(position),
            _ => None,
        }
    }

    /// What is to be done; refused if this program cannot read it.
    pub(crate) fn readable(&self) -> Result<&Request, OperationError> {
        match (&self.request, &self.unreadable) {
            (Some(request), None) => Ok(request),
            (_, why) => {
                let why = why.clone().unwrap_or_default();
                Err(OperationError::Unreadable { id: self.id, why })
            }
        }
    }
}

/// What an operation would do, until somebody applies it; then, how far it is.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// Its id.
    pub id: Uuid,
    /// What is to be done. None if another version of this program made the plan and this one cannot read it: a note of
    /// its effect says so then. Such a plan can be cancelled, and not applied.
    pub request: Option<Request>,
    /// In a word; `unknown` if it cannot be read.
    pub verb: &'static str,
    /// With what.
    pub target: String,
    /// What that would do.
    pub effect: Effect,
    /// Of what it was made on: what is to be done, with what, by which filter, and up to where.
    pub hash: String,
    /// Who made it.
    pub who: String,
    /// By which way: `cli`, `api`, `console` or `library`.
    pub via: String,
    /// Who applies it, or has applied it: not always the one who made it.
    pub applied_by: Option<String>,
    /// By which way that one does.
    pub applied_via: Option<String>,
    /// Its state.
    pub state: PlanState,
    /// When it was made.
    pub made_at: Timestamp,
    /// Until when it can be applied.
    pub expires_at: Timestamp,
    /// When it was begun.
    pub began_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How many things it is about.
    pub total: u64,
    /// With how many of them it was done.
    pub done: u64,
    /// How many were not there any more, or not as they were.
    pub gone: u64,
    /// Why it failed.
    pub problem: Option<String>,
    #[serde(skip)]
    pub(crate) basis: Basis,
    /// Why this program cannot read it.
    #[serde(skip)]
    pub(crate) unreadable: Option<String>,
    /// The call that applies it, or has applied it in one transaction.
    #[serde(skip)]
    pub(crate) runner: Option<String>,
    /// How far it is in what its filter finds.
    #[serde(skip)]
    pub(crate) after: Option<String>,
}

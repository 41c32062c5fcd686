//! What a worker says of itself with each heartbeat, so that `status` can name why something does not
//! advance.

use anabranch_store::database::Shortage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much of an error is reported.
const MAX_ERROR: usize = 300;

/// What a worker says of itself. What is as it should be is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The consumers that it runs.
    #[serde(default)]
    pub consumers: Vec<String>,
    /// The limits over all processes that it knows: how much of a consumer may be in work at the same time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, usize>,
    /// Since when, in milliseconds, wakes of other processes do not arrive: it polls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deaf_ms: Option<u64>,
    /// How many events were found by a poll though no wake had told of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unannounced: u64,
    /// The generation in which it has measured the load of its slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighed: Option<i64>,
    /// Set where it has fewer sessions than its lanes could use: they take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<ShortageReport>,
    /// Lanes that are not as they should be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneReport>,
}

/// How much a worker can run at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortageReport {
    /// How many transactions it can run at the same time.
    pub sessions: usize,
    /// How many it may.
    pub of: usize,
    /// What the database said.
    pub error: String,
}

impl ShortageReport {
    /// For a worker with so many lanes.
    pub(crate) fn of(shortage: &Shortage, lanes: usize) -> Self {
        let Shortage { open, wanted, error } = shortage;
        Self { sessions: *open, of: lanes.min(*wanted), error: Doing::cut(error) }
    }
}

/// What a lane says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneReport {
    /// Which consumer's.
    pub consumer: String,
    /// Its number.
    pub lane: usize,
    /// The cursors that it holds.
    pub cursors: Vec<i64>,
    /// What it does.
    pub doing: Doing,
    /// For how long, in milliseconds.
    pub for_ms: u64,
}

/// What a lane does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It waits for events.
    #[default]
    Idle,
    /// A transaction is at work: the handler, or the database.
    Handling,
    /// Its handler fails, and nothing has worked since.
    Failing {
        /// What it said the last time.
        error: String,
    },
    /// The database is away, or cannot do it now.
    Waiting {
        /// What the database said.
        error: String,
    },
}

impl Report {
    /// The report from its stored text; an empty one from another version's.
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned())
    }
}

impl Doing {
    /// The beginning of an error: the report is written with every heartbeat.
    pub(crate) fn cut(error: &str) -> String {
        match error.char_indices().nth(MAX_ERROR) {
            Some((end, _)) => format!("{}…", &error[..end]),
            None => error.to_owned(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_its_text_and_a_foreign_one_is_empty() {
        let lane = LaneReport {
            consumer: "orders".to_owned(),
            lane: 1,
            cursors: vec![7],
            doing: Doing::Failing { error: "no".to_owned() },
            for_ms: 12,
        };
        let report = Report {
            consumers: vec!["orders".to_owned()],
            limits: [("orders".to_owned(), 3)].into(),
            deaf_ms: Some(5),
            unannounced: 0,
            weighed: Some(3),
            shortage: Some(ShortageReport { sessions: 1, of: 4, error: "none left".to_owned() }),
            lanes: vec![lane],
        };
        assert_eq!(Report::parse(&report.text()), report);
        assert_eq!(Report::parse("{}"), Report::default());
        assert_eq!(Report::parse("what?"), Report::default());
    }
}

//! What a plan was made on: compared before it is applied.
//!
//! The identity of what it is about, and up to where that was counted. Never a position or a lag, which move all the
//! time.

use crate::request::Request;
use anabranch_core::Position;
use anabranch_runtime::Fingerprint;
use anabranch_workpool::TaskBound;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Basis {
    /// The consumers that it is about: one, or the old and the new version.
    pub(crate) consumers: Vec<Fingerprint>,
    /// The replica set that it is about, and its generation: another one has other members, or other slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) set: Option<(String, i64)>,
    pub(crate) bound: Bound,
}

/// Up to where it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// It is about one thing.
    #[default]
    None,
    /// A replay begins after this position.
    ReplayAfter(Position),
    /// What is appended later is handled.
    SkipUpTo(Position),
    /// What is set aside later, by the database's clock in microseconds since 1970, is left out. What comes behind the
    /// keys after the last event that was there is not skipped.
    ParkedUpTo(i64, Position),
    /// What was sent or written down later, in microseconds since 1970, is left out.
    DeliveriesUpTo(i64),
    /// What is enqueued or dies later is left out.
    Tasks(TaskBound),
}

impl Basis {
    /// In what the consumers differ that there are now; nothing if the plan is still true.
    pub(crate) fn differences(&self, now: &[Fingerprint]) -> Vec<String> {
        let pairs = self.consumers.iter().zip(now);
        let several = self.consumers.len() > 1;
        let differ = pairs.flat_map(|(was, is)| {
            let of = if several { format!("of `{}`: ", was.consumer) } else { String::new() };
            was.differences(is).into_iter().map(move |said| format!("{of}{said}"))
        });
        differ.collect()
    }

    /// What tells one plan from another: of the request, what it is about, and up to where.
    pub(crate) fn hash(&self, request: &Request) -> String {
        let text = serde_json::to_string(&(request, self)).unwrap_or_default();
        Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut hash, byte| {
            let _ = write!(hash, "{byte:02x}");
            hash
        })
    }
}

//! What of a consumer a decision about it rests on: compared again, in the same transaction, when the decision is carried
//! out.

use crate::consumers::Consumers;
use crate::operate_error::OperateError;
use crate::tables::consumers::Registered;
use anabranch_core::Position;
use anabranch_store::database::Statement;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What of a consumer a decision about it rests on. Positions are not part of it: they move all the time.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
/// use anabranch_runtime::Consumers;
/// let consumers = Consumers::new(&log);
/// let shown = consumers.fingerprint("order_summary").await?;
/// let now = consumers.fingerprint("order_summary").await?;
/// assert!(shown.differences(&now).is_empty(), "nobody has paused it, or given it other code");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fingerprint {
    /// Its name.
    pub consumer: String,
    /// What it is.
    pub kind: String,
    /// How its keys become slots.
    pub strategy: String,
    /// The version of its tables.
    pub version: u32,
    /// The code that is accepted, if one has been stored.
    pub code: Option<String>,
    /// The log that its cursors belong to, if that is stored.
    pub log: Option<Uuid>,
    /// Whether it is paused.
    pub paused: bool,
    /// Where it is to begin again, if somebody has asked for that and no worker has done it yet.
    pub replay_from: Option<Position>,
}

impl Fingerprint {
    fn of(registered: Registered) -> Self {
        let Registered { name, kind, strategy, version, code, log, paused, reset_to, .. } =
            registered;
        Self { consumer: name, kind, strategy, version, code, log, paused, replay_from: reset_to }
    }

    /// In what another one differs, in words; empty if in nothing.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let none = || "none".to_owned();
        let told = |all: &Self| {
            [
                ("kind", all.kind.clone()),
                ("partition", all.strategy.clone()),
                ("version", all.version.to_string()),
                ("accepted code", all.code.clone().unwrap_or_else(none)),
                ("log", all.log.map_or_else(none, |log| log.to_string())),
                ("state", if all.paused { "paused" } else { "not paused" }.to_owned()),
                ("replay", all.replay_from.map_or_else(none, |to| format!("from position {to}"))),
            ]
        };
        let pairs = told(self).into_iter().zip(told(now));
        let differ = pairs.filter(|((_, was), (_, is))| was != is);
        differ.map(|((what, was), (_, is))| format!("its {what} was {was} and is {is}")).collect()
    }
}

impl Consumers {
    /// What of a consumer a decision about it rests on.
    pub async fn fingerprint(&self, name: &str) -> Result<Fingerprint, OperateError> {
        match self.tables.registered(Some(name)).await?.pop() {
            Some(registered) => Ok(Fingerprint::of(registered)),
            None => Err(self.unknown(name).await),
        }
    }

    /// The statement that matches only while no living worker owns slots of a consumer.
    #[doc(hidden)]
    #[must_use]
    pub fn not_run(&self, name: &str) -> Statement {
        self.tables.not_run(name)
    }

    /// The statement that matches only while a consumer is as this says.
    #[doc(hidden)]
    #[must_use]
    pub fn unchanged(&self, fingerprint: &Fingerprint) -> Statement {
        self.tables.unchanged(fingerprint)
    }
}

//! What was sent, as operators see it.

use crate::tables::Tables;
use anabranch_core::{Position, StoreError};
use anabranch_runtime::{Consumers, ReplayError, ReplayFrom};
use anabranch_store::Log;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It was not tried, or waits for its endpoint.
    Open,
    /// The endpoint did not take it; it is tried again, or its key is parked.
    Failed,
    /// It has arrived.
    Delivered,
}

impl DeliveryState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Failed, Self::Delivered];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Failed => "failed",
            Self::Delivered => "delivered",
        }
    }

    pub(crate) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.name() == name).unwrap_or(Self::Open)
    }
}

/// One delivery: a message with one event, or with several of one key.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Delivery {
    /// The webhook.
    pub consumer: String,
    /// What the receiver knows it by: the header `webhook-id`.
    pub id: String,
    /// The key of its events.
    pub key: String,
    /// The positions of its events.
    pub members: Vec<Position>,
    /// How it stands.
    pub state: DeliveryState,
    /// How often it was tried.
    pub attempts: u64,
    /// The status of the last answer, if there was one.
    pub status: Option<u16>,
    /// How long that took.
    #[serde(rename = "took_us", serialize_with = "micros::of_some")]
    pub took: Option<Duration>,
    /// How that answer began, or why there was none.
    pub answer: Option<String>,
    /// When it was tried last, or written down.
    pub at: Timestamp,
    /// The last attempts that failed.
    pub failures: Vec<Failure>,
}

/// An attempt that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// When.
    pub at: Timestamp,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// How long it took.
    #[serde(rename = "took_us", with = "micros")]
    pub took: Duration,
    /// How the answer began, or why there was none.
    pub answer: String,
}

/// Times as whole microseconds.
mod micros {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    fn whole(time: &Duration) -> u64 {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn of_some<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_u64(whole(time)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(whole(time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

/// Which deliveries are looked for.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Of this webhook.
    pub consumer: Option<String>,
    /// In this state.
    pub state: Option<DeliveryState>,
    /// Of this key.
    pub key: Option<String>,
    /// With this id.
    pub id: Option<String>,
    /// Tried last, or written down, at this time or before.
    pub until: Option<Timestamp>,
    /// So many at most.
    pub limit: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self { consumer: None, state: None, key: None, id: None, until: None, limit: 100 }
    }
}

/// The deliveries of a log: those that have not arrived, and the last of those that have.
///
/// ```no_run
/// # async fn f(log: &anabranch_store::Log) -> Result<(), anabranch_core::StoreError> {
/// use anabranch_webhook::{Deliveries, DeliveryState, Filter};
/// let failed = Filter { state: Some(DeliveryState::Failed), ..Filter::default() };
/// for delivery in Deliveries::new(log).list(&failed).await? {
///     println!("{} {} {:?}", delivery.consumer, delivery.key, delivery.status);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Deliveries {
    pub(crate) log: Log,
    pub(crate) tables: Tables,
}

impl Deliveries {
    /// Those of a log.
    #[must_use]
    pub fn new(log: &Log) -> Self {
        Self { log: log.clone(), tables: Tables::of(&log.database()) }
    }

    /// The newest that a filter matches.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Delivery>, StoreError> {
        self.tables.list(filter).await
    }

    /// Asks for a replay of a webhook under new ids: its receiver takes what comes again for new. See
    /// [`Consumers::replay`].
    ///
    /// ```no_run
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch_runtime::ReplayFrom;
    /// use anabranch_webhook::Deliveries;
    /// Deliveries::new(&log).replay_anew("crm", ReplayFrom::Start, false).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replay_anew(
        &self,
        consumer: &str,
        from: ReplayFrom,
        accepts_missing: bool,
    ) -> Result<Position, ReplayError> {
        Consumers::new(&self.log).replay_under_new_ids(consumer, from, accepts_missing).await
    }
}

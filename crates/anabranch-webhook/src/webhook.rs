//! A webhook: a consumer whose events go to an endpoint.

use crate::deliveries::Delivery;
use crate::endpoint::{Attempt, Endpoint};
use crate::lane::Lane;
use crate::message;
use crate::rate::Rate;
use crate::tables::{Group, Tables};
use anabranch_core::{Event, Partition, Position, Query, StoreError};
use anabranch_runtime::{Courier, HandlerResult, Permits, Settings, Tx};
use anabranch_store::{Filter, Log, ReadRequest, Scope};
use std::sync::Arc;
use thiserror::Error;

/// How many keys are delivered at the same time, unless something else is said.
const CONCURRENCY: usize = 16;
/// How many deliveries that have arrived are kept.
const KEPT: usize = 10_000;
/// How many events a message may hold.
pub const MAX_BATCH: usize = 1_000;

/// Delivers events to an endpoint, **at least once** and in order for each key, by the
/// [Standard Webhooks](https://www.standardwebhooks.com) specification.
///
/// Several keys are delivered at the same time. A message that the endpoint refuses is tried again, and then parked with
/// its key; other keys go on. An endpoint that is away or asks for less is left alone for a while, by all workers, and no
/// key is parked for it. A message that is sent again has the same `webhook-id`.
///
/// ```no_run
/// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch_core::Partition;
/// use anabranch_runtime::ReplicaSet;
/// use anabranch_webhook::{Endpoint, Secrets, Webhook, WebhookSet};
/// let endpoint = Endpoint::new("https://example.com/hook")?
///     .secrets(Secrets::of([std::env::var("CRM_SECRET")?])?);
/// let crm = Webhook::new(&log, "crm", Partition::customer(), endpoint).max_per_second(200.0);
/// ReplicaSet::new("webhooks").webhook(crm).run(&log).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Webhook {
    hook: Arc<Hook>,
}

/// What all lanes of a webhook share.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) name: Arc<str>,
    pub(crate) partition: Partition,
    settings: Settings,
    pub(crate) endpoint: Endpoint,
    pub(crate) batch: usize,
    pub(crate) concurrency: usize,
    pub(crate) rate: Option<Rate>,
    pub(crate) kept: usize,
    pub(crate) log: Log,
    pub(crate) tables: Tables,
}

/// Why a delivery was not sent again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResendError {
    /// The log does not have one of its events any more.
    #[error(
        "the event at position {0} of this delivery is not in the log any more, so it cannot be sent again"
    )]
    Missing(Position),
    /// The database could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is no JSON.
    #[error("an event of it cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

impl Webhook {
    /// A webhook for the events of a log, under a name.
    pub fn new(
        log: &Log,
        name: impl Into<String>,
        partition: Partition,
        endpoint: Endpoint,
    ) -> Self {
        let tables = Tables::of(&log.database());
        let (name, endpoint) = (name.into().into(), endpoint.connected());
        let (settings, log) = (Settings::default(), log.clone());
        let (batch, concurrency, rate, kept) = (1, CONCURRENCY, None, KEPT);
        let hook = Hook {
            name,
            partition,
            settings,
            endpoint,
            batch,
            concurrency,
            rate,
            kept,
            log,
            tables,
        };
        Self { hook: Arc::new(hook) }
    }

    fn change(mut self, change: impl FnOnce(&mut Hook)) -> Self {
        // Nobody else has it before it runs.
        if let Some(hook) = Arc::get_mut(&mut self.hook) {
            change(hook);
        }
        self
    }

    /// What else it chooses: scope, retry, start.
    pub fn settings(self, settings: Settings) -> Self {
        self.change(|hook| hook.settings = settings)
    }

    /// The most events of one message, all of one key. Default 1: then the message is the event; else it holds a list.
    pub fn batch(self, events: usize) -> Self {
        self.change(|hook| hook.batch = events.clamp(1, MAX_BATCH))
    }

    /// How many messages are under way at the same time, from all workers together. Default 16.
    pub fn concurrency(self, messages: usize) -> Self {
        self.change(|hook| hook.concurrency = messages.max(1))
    }

    /// How many messages are sent in a second, from all workers together. Default: as many as the endpoint takes.
    pub fn max_per_second(self, messages: f64) -> Self {
        self.change(|hook| {
            let (tables, name) = (hook.tables.clone(), Arc::clone(&hook.name));
            hook.rate = Some(Rate::new(tables, name, messages));
        })
    }

    /// How many deliveries that have arrived are kept, for tests. Default 10,000.
    #[doc(hidden)]
    pub fn kept(self, deliveries: usize) -> Self {
        self.change(|hook| hook.kept = deliveries.max(1))
    }

    /// Sends a message that says that it is a test, and writes down nothing.
    pub async fn test(&self) -> Result<Attempt, serde_json::Error> {
        let body = message::test(&self.hook.name)?;
        let id = format!("msg_test_{}", jiff::Timestamp::now().as_microsecond());
        Ok(self.hook.endpoint.send(&id, body).await)
    }

    /// Sends a delivery once more, whatever became of it, under its id or a new one; and writes down how that went. It
    /// moves no cursor, and lets go of no key that is parked.
    pub async fn resend(
        &self,
        delivery: &Delivery,
        new_id: bool,
    ) -> Result<(String, Attempt), ResendError> {
        let hook = &self.hook;
        let mut events = Vec::new();
        for &position in &delivery.members {
            let found = hook.event_at(position).await?;
            events.push(found.ok_or(ResendError::Missing(position))?);
        }
        let id = match new_id {
            true => message::id(&hook.name, jiff::Timestamp::now().as_microsecond(), &events),
            false => delivery.id.clone(),
        };
        let body = hook.body(&delivery.key, &events.iter().collect::<Vec<_>>())?;
        if let Some(rate) = &hook.rate {
            rate.turn().await?;
        }
        let attempt = hook.endpoint.send_for(&id, body, &events).await;
        let (key, members) = (delivery.key.clone(), delivery.members.clone());
        // No delivery of the lanes is of this edition, so that they do not take it for one of theirs.
        let edition = if new_id { -1 } else { 0 };
        let group = Group { id: id.clone(), key, edition, members, has_arrived: false };
        hook.tables.tried(&hook.name, &group, &attempt).await?;
        Ok((id, attempt))
    }
}

impl Hook {
    /// The body of a message.
    pub(crate) fn body(
        &self,
        key: &str,
        events: &[&Event],
    ) -> Result<hyper::body::Bytes, serde_json::Error> {
        match events {
            [event] if self.batch == 1 => message::event(event),
            events => message::batch(key, events),
        }
    }

    /// The event at a position, if the log has it. While an append that began before it is in flight, that cannot be
    /// said.
    pub(crate) async fn event_at(&self, position: Position) -> Result<Option<Event>, StoreError> {
        let request = ReadRequest {
            scope: Scope::Log(Query::all()),
            filter: Filter::default(),
            cursor: position.get() - 1,
            up_to: position,
            backwards: false,
            max_events: 1,
        };
        let page = self.log.store().read(request).await?;
        if page.events.is_empty() && page.cursor < position.get() {
            let (at, source) = (self.log.at().to_owned(), "an append is in flight".into());
            return Err(StoreError::Busy { at, source });
        }
        Ok(page.events.into_iter().next())
    }
}

impl Courier for Webhook {
    type Lane = Lane;

    fn name(&self) -> &str {
        &self.hook.name
    }

    fn partition(&self) -> Partition {
        self.hook.partition.clone()
    }

    fn settings(&self) -> Settings {
        self.hook.settings.clone()
    }

    fn max_parallelism(&self) -> Option<usize> {
        Some(self.hook.concurrency)
    }

    fn lane(&self, permits: Permits) -> Lane {
        Lane::new(Arc::clone(&self.hook), permits)
    }

    async fn set_up(&self, _: &mut Tx) -> HandlerResult {
        Ok(())
    }

    async fn reset(&self, to: Position, tx: &mut Tx) -> HandlerResult {
        for statement in self.hook.tables.again(&self.hook.name, to) {
            tx.run_own(statement).await?;
        }
        Ok(())
    }
}

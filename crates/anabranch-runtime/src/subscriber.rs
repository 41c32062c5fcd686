//! Subscribers: effects outside the database, at least once.

use crate::consumer::{Code, Hooks};
use crate::handler::{HandlerResult, LaneHandler, RepeatedKey, Undelivered};
use crate::permits::Permits;
use crate::settings::Settings;
use crate::tx::Tx;
use anabranch_core::{Event, HashRule, Partition, Position};
use anabranch_store::trace::{self, Work};
use futures_util::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long deliveries go on before the cursor moves: what a crash repeats is bounded by it.
const MAX_DELIVERING: Duration = Duration::from_millis(500);

/// Tells the world outside about events, **at least once**: the cursor moves after the delivery, so a
/// crash in between repeats it.
///
/// Each delivery has an [`idempotency_key`](Delivery::idempotency_key) that stays the same when it is
/// repeated: hand it on, so that the receiver can recognise it.
///
/// ```
/// use anabranch_core::Partition;
/// use anabranch_runtime::{Delivery, HandlerError, HandlerResult, Subscriber};
/// use std::time::Duration;
///
/// struct Warehouse;
///
/// impl Subscriber for Warehouse {
///     fn name(&self) -> &str {
///         "warehouse"
///     }
///
///     fn partition(&self) -> Partition {
///         Partition::entity("Order")
///     }
///
///     async fn deliver(&self, delivery: &Delivery<'_>) -> HandlerResult {
///         let call = post(delivery.idempotency_key(), delivery.event().data_json());
///         match tokio::time::timeout(Duration::from_secs(10), call).await? {
///             200..=299 => Ok(()),
///             422 => Err(HandlerError::for_good("the warehouse refuses this order")),
///             status => Err(HandlerError::new(format!("the warehouse says {status}"))),
///         }
///     }
/// }
///
/// /// Your HTTP client.
/// async fn post(_idempotency_key: String, _body: &str) -> u16 {
///     200
/// }
/// ```
pub trait Subscriber: Send + Sync + 'static {
    /// Its name: lower-case letters, digits, `_`, `-` and `.`. Its cursors are kept under it.
    fn name(&self) -> &str;

    /// How its events are keyed: events of one key are delivered in order, one at a time.
    fn partition(&self) -> Partition;

    /// What else it chooses: scope, retry, batch size.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// At least once, unless it says otherwise.
    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    /// Delivers one event.
    fn deliver(&self, delivery: &Delivery<'_>) -> impl Future<Output = HandlerResult> + Send;
}

/// What a subscriber promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// The cursor moves after the delivery: a crash may repeat it, nothing is left out.
    AtLeastOnce,
    /// The cursor moves before the delivery: a crash or an error may leave it out, nothing is
    /// repeated. Errors are logged.
    AtMostOnce,
}

/// One event for the world outside.
#[derive(Debug)]
pub struct Delivery<'a> {
    event: &'a Event,
    subscriber: &'a str,
}

impl Delivery<'_> {
    /// The event.
    #[must_use]
    pub fn event(&self) -> &Event {
        self.event
    }

    /// The same for every delivery of this event to this subscriber, and for no other.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}:{}", self.subscriber, self.event.id())
    }
}

/// A subscriber as the runtime runs it.
pub(crate) struct SubscriberCode<S>(pub(crate) Arc<S>);

impl<S: Subscriber> Code for SubscriberCode<S> {
    fn lane(&self, _: HashRule, _: Permits) -> Box<dyn LaneHandler> {
        Box::new(SubscriberLane(Arc::clone(&self.0)))
    }
}

impl<S: Subscriber> Hooks for SubscriberCode<S> {
    fn set_up<'a>(&'a self, _: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What was delivered cannot be undone; a replay delivers it again, under the same keys.
    fn reset<'a>(&'a self, _: Position, _: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn resets_keys(&self) -> bool {
        true
    }
}

struct SubscriberLane<S>(Arc<S>);

impl<S: Subscriber> SubscriberLane<S> {
    async fn deliver(&self, event: &Event) -> HandlerResult {
        self.0.deliver(&Delivery { event, subscriber: self.0.name() }).await
    }
}

impl<S: Subscriber> LaneHandler for SubscriberLane<S> {
    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(async move {
            if self.delivers_after_commit() {
                return Ok(());
            }
            let started = Instant::now();
            for (number, event) in events.iter().enumerate() {
                tx.for_event(number);
                let traced = Work::one_of(events, event);
                trace::attempt(traced.as_ref(), self.deliver(event)).await?;
                if started.elapsed() > MAX_DELIVERING {
                    tx.cut(number + 1);
                    break;
                }
            }
            Ok(())
        })
    }

    /// What was delivered cannot be undone.
    fn reset_key<'a>(
        &'a mut self,
        _: &'a RepeatedKey,
        _: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_external(&self) -> bool {
        true
    }

    fn delivers_after_commit(&self) -> bool {
        self.0.guarantee() == Guarantee::AtMostOnce
    }

    fn after_commit<'a>(&'a mut self, events: &'a [Event]) -> BoxFuture<'a, Vec<Undelivered>> {
        Box::pin(async move {
            let mut failed = Vec::new();
            if !self.delivers_after_commit() {
                return failed;
            }
            for event in events {
                let traced = Work::send([event]);
                if let Err(error) = trace::attempt(traced.as_ref(), self.deliver(event)).await {
                    failed.push((event.position(), error));
                }
            }
            failed
        })
    }
}

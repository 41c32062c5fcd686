//! Couriers: subscribers that deliver events of several keys at the same time, under one limit for all processes, and
//! keep what they must know about a delivery in the database. Webhooks are built on them.

use crate::consumer::{Code, Hooks};
use crate::handler::{HandlerResult, LaneHandler, RepeatedKey};
use crate::permits::Permits;
use crate::settings::Settings;
use crate::tx::Tx;
use anabranch_core::{Event, HashRule, Partition, Position};
use anabranch_store::Emitter;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;

/// Delivers events of several keys at the same time, at least once.
#[doc(hidden)]
pub trait Courier: Send + Sync + 'static {
    /// What one lane has.
    type Lane: CourierLane;

    /// Its name.
    fn name(&self) -> &str;

    /// How its events are keyed: events of one key are delivered in order.
    fn partition(&self) -> Partition;

    /// What else it chooses.
    fn settings(&self) -> Settings;

    /// How many deliveries may be under way at the same time, over all processes.
    fn max_parallelism(&self) -> Option<usize>;

    /// What a lane begins with; each delivery needs a permit. It ends when the lane's slots may have been somebody
    /// else's, and another one begins.
    fn lane(&self, permits: Permits) -> Self::Lane;

    /// Called the first time that it runs.
    fn set_up(&self, tx: &mut Tx) -> impl Future<Output = HandlerResult> + Send;

    /// Called before what follows a position is delivered again.
    fn reset(&self, to: Position, tx: &mut Tx) -> impl Future<Output = HandlerResult> + Send;
}

/// What one lane of a courier knows.
#[doc(hidden)]
pub trait CourierLane: Send + 'static {
    /// Who sees what it does: said of the lane's set, worker and consumer.
    fn seen_by(&mut self, events: &Emitter);

    /// How many events of one key it can deliver together.
    fn together(&self) -> usize;

    /// Whether something must be stored before these events are delivered.
    fn prepares(&mut self, events: &[Event]) -> bool;

    /// Stores that: it is committed, while the lane owns the events' slots, before they are delivered.
    fn prepare(
        &mut self,
        events: &[Event],
        tx: &mut Tx,
    ) -> impl Future<Output = HandlerResult> + Send;

    /// Delivers events. Says how many of them, from the first one on, are delivered: at least one. An error is about
    /// the first event, and says that none is.
    fn deliver(
        &mut self,
        events: &[Event],
        tx: &mut Tx,
    ) -> impl Future<Output = HandlerResult<usize>> + Send;

    /// Makes ready what is to be delivered again: the deliveries of a key with events in a table of this name.
    fn deliver_again(
        &mut self,
        key: &str,
        events: &str,
        tx: &mut Tx,
    ) -> impl Future<Output = HandlerResult> + Send;

    /// What it wrote is committed, or rolled back.
    fn settled(&mut self, committed: bool);
}

/// A courier as the runtime runs it.
pub(crate) struct CourierCode<C>(pub(crate) Arc<C>);

impl<C: Courier> Code for CourierCode<C> {
    fn lane(&self, _: HashRule, permits: Permits) -> Box<dyn LaneHandler> {
        Box::new(Lane(self.0.lane(permits)))
    }

    fn max_parallelism(&self) -> Option<usize> {
        self.0.max_parallelism()
    }
}

impl<C: Courier> Hooks for CourierCode<C> {
    fn set_up<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.set_up(tx))
    }

    fn reset<'a>(&'a self, to: Position, tx: &'a mut Tx) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.reset(to, tx))
    }

    fn resets_keys(&self) -> bool {
        true
    }
}

struct Lane<L>(L);

impl<L: CourierLane> LaneHandler for Lane<L> {
    fn seen_by(&mut self, events: &Emitter) {
        self.0.seen_by(events);
    }

    fn prepares(&mut self, events: &[Event]) -> bool {
        self.0.prepares(events)
    }

    fn prepare<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.prepare(events, tx))
    }

    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(async move {
            tx.for_event(0);
            let delivered = self.0.deliver(events, tx).await?;
            if delivered < events.len() {
                tx.cut(delivered);
            }
            Ok(())
        })
    }

    fn reset_key<'a>(
        &'a mut self,
        key: &'a RepeatedKey,
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.0.deliver_again(&key.key, &key.events, tx))
    }

    fn settled(&mut self, committed: bool) {
        self.0.settled(committed);
    }

    fn together(&self) -> usize {
        self.0.together()
    }

    fn tells_whose_fault(&self) -> bool {
        true
    }

    fn is_external(&self) -> bool {
        true
    }
}

//! What a test does to handlers: it is called around each of their calls, by the lanes that production has.
//!
//! For `anabranch::testing`; programs have no use for it.

use crate::consumer::Consumer;
use crate::handler::{HandlerResult, LaneHandler, RepeatedKey, Undelivered};
use crate::holding::Holding;
use crate::tables::Tables;
use crate::tx::Tx;
use anabranch_core::{Event, StoreError};
use anabranch_store::Log;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;
use uuid::Uuid;

/// What a handler is called with.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// An event.
    Event(&'a Event),
    /// An event that is delivered at most once: its transaction is committed already.
    Committed(&'a Event),
    /// A row of a consumer of rows: the task of a pool.
    Task {
        /// Its id.
        id: Uuid,
        /// Its key.
        key: &'a str,
    },
}

/// Called around each call of a handler.
pub trait Interference: Send + Sync {
    /// A transaction for these is about to begin: nothing is written or locked yet.
    fn begin<'a>(&'a self, consumer: &'a str, items: &'a [Item<'a>]) -> BoxFuture<'a, ()>;

    /// The handler is about to be called: the number of the call, or the error that it is to have
    /// returned.
    fn before<'a>(&'a self, item: Item<'a>) -> BoxFuture<'a, HandlerResult<u64>>;

    /// The handler has returned from that call, without an error.
    fn after(&self, call: u64) -> BoxFuture<'_, HandlerResult>;
}

/// The calls of a consumer's handler, with whatever interferes.
#[derive(Clone)]
pub struct Calls {
    consumer: String,
    by: Option<Arc<dyn Interference>>,
}

impl Calls {
    fn of(consumer: &Consumer) -> Self {
        Self { consumer: consumer.name.clone(), by: consumer.interference.clone() }
    }

    /// A transaction for these is about to begin.
    pub async fn begin<'a>(&self, items: impl Iterator<Item = Item<'a>>) {
        if let Some(by) = &self.by {
            let items: Vec<Item<'a>> = items.collect();
            by.begin(&self.consumer, &items).await;
        }
    }

    /// One call.
    pub async fn around<T>(
        &self,
        item: Item<'_>,
        call: impl Future<Output = HandlerResult<T>>,
    ) -> HandlerResult<T> {
        let Some(by) = &self.by else { return call.await };
        let number = by.before(item).await?;
        let done = call.await?;
        by.after(number).await?;
        Ok(done)
    }
}

impl Holding {
    /// The calls of this consumer's handler.
    #[must_use]
    pub fn calls(&self) -> Calls {
        Calls::of(&self.setup.consumer)
    }
}

/// Takes a consumer's slots away from whoever has them, as heirs do: a commit that is on its way is fenced, and
/// the slots are free.
pub async fn take_slots(log: &Log, consumer: &str) -> Result<(), StoreError> {
    let tables = Tables::of(log.database());
    for cursor in tables.cursors(consumer).await? {
        if let Some(owner) = &cursor.owner {
            tables.release(consumer, owner).await?;
        }
    }
    Ok(())
}

/// A lane whose calls are interfered with. It hands over events one by one, so that they can be told apart.
pub(crate) struct WatchedCalls {
    handler: Box<dyn LaneHandler>,
    calls: Calls,
}

impl WatchedCalls {
    /// The handler of a lane, watched if anything interferes.
    pub(crate) fn wrap(handler: Box<dyn LaneHandler>, consumer: &Consumer) -> Box<dyn LaneHandler> {
        let calls = Calls::of(consumer);
        if calls.by.is_some() { Box::new(Self { handler, calls }) } else { handler }
    }

    async fn each(&mut self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        if self.handler.delivers_after_commit() {
            return self.handler.handle(events, tx).await;
        }
        self.calls.begin(events.iter().map(Item::Event)).await;
        for (number, event) in events.iter().enumerate() {
            tx.count_from(number);
            tx.for_event(0);
            let call = self.handler.handle(std::slice::from_ref(event), tx);
            self.calls.around(Item::Event(event), call).await?;
            if tx.is_cut() {
                break;
            }
        }
        tx.count_from(0);
        Ok(())
    }
}

impl LaneHandler for WatchedCalls {
    fn handle<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        Box::pin(self.each(events, tx))
    }

    fn prepares(&mut self, events: &[Event]) -> bool {
        self.handler.prepares(events)
    }

    fn prepare<'a>(
        &'a mut self,
        events: &'a [Event],
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        self.handler.prepare(events, tx)
    }

    fn is_external(&self) -> bool {
        self.handler.is_external()
    }

    fn tells_whose_fault(&self) -> bool {
        self.handler.tells_whose_fault()
    }

    fn together(&self) -> usize {
        self.handler.together()
    }

    fn row_of(&self, event: &Event) -> Option<String> {
        self.handler.row_of(event)
    }

    fn reset_key<'a>(
        &'a mut self,
        key: &'a RepeatedKey,
        tx: &'a mut Tx,
    ) -> BoxFuture<'a, HandlerResult> {
        self.handler.reset_key(key, tx)
    }

    fn settled(&mut self, committed: bool) {
        self.handler.settled(committed);
    }

    fn delivers_after_commit(&self) -> bool {
        self.handler.delivers_after_commit()
    }

    fn after_commit<'a>(&'a mut self, events: &'a [Event]) -> BoxFuture<'a, Vec<Undelivered>> {
        Box::pin(async move {
            if !self.handler.delivers_after_commit() {
                return self.handler.after_commit(events).await;
            }
            let mut failed = Vec::new();
            for event in events {
                let mut undelivered = Vec::new();
                let deliver = self.handler.after_commit(std::slice::from_ref(event));
                let call = deliver.map(|of_it| {
                    undelivered = of_it;
                    Ok(())
                });
                if let Err(error) = self.calls.around(Item::Committed(event), call).await {
                    failed.push((event.position(), error));
                }
                failed.append(&mut undelivered);
            }
            failed
        })
    }
}

//! Other consumers for a set that runs.

use super::ReplicaSet;
use crate::consumer::Consumer;
use crate::run_error::RunError;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Gives a replica set other consumers while it runs in this process. Only those that are replaced, added or removed
/// are handed over; the others never notice.
///
/// ```
/// # use anabranch_runtime::{Projection, ReplicaSet, RunError, SetHandle};
/// # async fn f<P: Projection + Clone, Q: Projection>(log: anabranch_store::Log, orders: P, sums: Q) -> Result<(), RunError> {
/// let handle = SetHandle::new();
/// let set = ReplicaSet::new("main").projection(orders.clone()).handle(&handle);
/// let running = tokio::spawn(async move { set.run(&log).await });
/// // `orders` goes on, and `sums` begins.
/// handle.exchange(ReplicaSet::new("main").projection(orders).projection(sums), |name| name == "orders")?;
/// running.await.expect("it does not panic")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct SetHandle(Arc<Exchanges>);

/// What a worker is to exchange.
#[derive(Default)]
pub(crate) struct Exchanges {
    waiting: Mutex<VecDeque<Exchange>>,
    added: Notify,
}

/// Consumers that a worker has from now on.
pub(crate) struct Exchange {
    pub(crate) consumers: Vec<Arc<Consumer>>,
    /// Those of them that it has just so.
    pub(crate) keeps: Vec<String>,
}

impl SetHandle {
    /// A handle that no set has yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the set that runs with this handle have the consumers of another one: those whose names are kept go on as
    /// they are, others of that name are replaced, new ones begin, and what is not there any more is released. How the
    /// set is run (lanes, tuning, roll-out) stays as it is. Refused if the other set could not run.
    ///
    /// It returns at once, and does what it does within a moment, as soon as handlers have returned.
    pub fn exchange(&self, set: ReplicaSet, keeps: impl Fn(&str) -> bool) -> Result<(), RunError> {
        if let Some(refusal) = set.check().into_iter().next() {
            return Err(refusal);
        }
        let consumers = set.prepared();
        let names = consumers.iter().map(|consumer| consumer.own_name());
        let keeps = names.filter(|name| keeps(name)).map(ToOwned::to_owned).collect();
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(Exchange { consumers, keeps });
        self.0.added.notify_one();
        Ok(())
    }

    pub(crate) fn exchanges(&self) -> Arc<Exchanges> {
        Arc::clone(&self.0)
    }
}

impl Exchanges {
    /// The next one. It is not lost if nobody waits for it any more.
    pub(crate) async fn next(&self) -> Exchange {
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if let Some(next) = next {
                return next;
            }
            self.added.notified().await;
        }
    }
}

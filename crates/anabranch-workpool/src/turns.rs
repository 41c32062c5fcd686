//! When a lane may run a task: one of the turns of its process, and a permit of the whole pool if that has a
//! limit.

use anabranch_runtime::{Holding, Permits};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of one lane.
pub(crate) struct Turns {
    here: Arc<Semaphore>,
    permits: Permits,
    /// Its place among those who wait, kept while the lane does other things.
    waiting: Option<BoxFuture<'static, Turn>>,
}

/// A task may run, until this is dropped.
pub(crate) struct Turn {
    _here: OwnedSemaphorePermit,
    _permit: anabranch_runtime::Permit,
}

impl Turns {
    /// `here` are the turns of the process, for all lanes.
    pub(crate) fn new(here: &Arc<Semaphore>, holding: &Holding) -> Self {
        Self { here: Arc::clone(here), permits: holding.permits(), waiting: None }
    }

    /// So many tasks could run, beyond those that do. Each turn makes that one less.
    pub(crate) fn wants(&mut self, tasks: usize) {
        if tasks == 0 {
            self.waiting = None;
        }
        let room = self.here.available_permits() + usize::from(self.waiting.is_some());
        self.permits.wants(tasks.min(room.max(1)));
    }

    /// Waits for the next turn. Called again after it was given up, it has kept its place.
    pub(crate) async fn next(&mut self) -> Turn {
        let (here, permits) = (&self.here, &self.permits);
        let waiting = self.waiting.get_or_insert_with(|| {
            let (here, permit) = (Arc::clone(here).acquire_owned(), permits.next());
            Box::pin(async move {
                match here.await {
                    Ok(here) => Turn { _here: here, _permit: permit.await },
                    // Nobody closes it.
                    Err(_) => std::future::pending().await,
                }
            })
        });
        let turn = waiting.await;
        self.waiting = None;
        turn
    }

    /// The next turn, if there is one now.
    pub(crate) fn try_next(&mut self) -> Option<Turn> {
        self.next().now_or_never()
    }
}

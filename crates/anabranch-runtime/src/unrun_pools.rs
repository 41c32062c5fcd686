//! Pools that have tasks, and that no worker has ever run: nobody would notice a misspelled name.

use crate::backlog::Backlog;
use crate::consumers::Consumers;
use anabranch_core::{Position, SlotSet, StoreError};
use serde::Serialize;

/// A pool that has tasks, and that no worker has ever run; see [`Consumers::unrun_pools`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnrunPool {
    /// Its name.
    pub name: String,
    /// How many of its tasks wait: those that could be run, and those of keys that are paused.
    pub lag: u64,
    /// How many of them could be run.
    pub lag_ready: u64,
}

impl Consumers {
    /// The pools that have tasks, and that no worker has ever run. Their names may be misspelled where tasks
    /// are enqueued, or their workers are still to come.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_core::StoreError> {
    /// use anabranch_runtime::Consumers;
    /// for pool in Consumers::new(&log).unrun_pools().await? {
    ///     println!("no worker has run {} yet, and {} tasks wait", pool.name, pool.lag);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn unrun_pools(&self) -> Result<Vec<UnrunPool>, StoreError> {
        let mut pools = Vec::new();
        for name in self.tables.unrun_pools().await? {
            let backlog = Backlog::of_rows(&self.tables, &name).await?;
            let lag = backlog.lag(&SlotSet::all(), Position::START, 0);
            pools.push(UnrunPool { name, lag: lag.all, lag_ready: lag.ready });
        }
        Ok(pools)
    }
}

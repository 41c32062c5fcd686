//! Work pools: durable tasks, run one at a time and in order for each key, in parallel across keys, by
//! as many processes as there are.
//!
//! A task is a row, and its key has a slot: the worker that owns the slot runs the task. So there is nobody to
//! compete with for it, and what holds for consumers holds for tasks: order is kept across processes,
//! crashes and rescaling, and a process that has lost its slots stores nothing.
//!
//! | module | subject |
//! |---|---|
//! | [`new_task`] | [`NewTask`]: key, payload, when, unique, what follows |
//! | [`task`] | [`Task`] as it is run, [`TaskStatus`] as others see it |
//! | [`tasks`] | [`Tasks`]: enqueue, status |
//! | `change` | what is done with tasks that are there |
//! | [`dead`] | tasks whose attempts are used up: their details, retry, discard |
//! | [`many`] | many tasks at a time |
//! | [`filter`] | [`TaskFilter`]: which of them are meant |
//! | [`key`] | [`KeyTasks`]: what there is of one key |
//! | [`pool`] | [`Pool`] (exactly once) and [`OutsidePool`] (at least once) |
//! | [`mod@run`] | [`Run`]: checkpoints, and what is to follow |
//! | [`dcb`] | [`Dcb::with_dcb_retry`]: conflicts are retried durably, one after the other |
//! | `queue` | what a lane has read, key by key: pure |
//! | `sight` | what a lane has seen of the tables, and what it looks for: pure |
//! | `reader` | how a lane finds its tasks |
//! | `inside`, `outside` | the lanes of the two kinds of pools |
//! | `turns` | when a lane may run a task |
//! | `ending` | how tasks end |
//! | `tables` | the statements |
//!
//! It stands on consumers of rows ([`RowConsumer`](anabranch_runtime::RowConsumer)) and uses their public
//! API only.

mod change;
pub mod dcb;
pub mod dead;
mod ending;
pub mod filter;
mod inside;
pub mod key;
pub mod many;
pub mod new_task;
mod outside;
pub mod pool;
mod queue;
mod reader;
pub mod run;
mod sight;
mod tables;
pub mod task;
pub mod task_error;
pub mod tasks;
mod turns;

pub use anabranch_core::TaskState;
pub use dcb::{Dcb, DcbError, DcbFailure, DcbHandler, DcbOutcome, DcbPool, DcbRejected};
pub use filter::{TaskCondition, TaskConditionError, TaskFilter};
pub use key::KeyTasks;
pub use many::{TaskAction, TaskBound, TaskPage, TasksFound};
pub use new_task::{Completed, NewTask, Outcome};
pub use pool::{OutsidePool, Pool, PoolSettings, TaskGaveUp};
pub use run::Run;
pub use task::{Compensation, OnComplete, Task, TaskDetails, TaskRef, TaskStatus};
pub use task_error::TaskError;
pub use tasks::{Enqueued, PoolCounts, ReadyOfKey, Tasks};

use anabranch_runtime::ReplicaSet;

/// Adds pools to a replica set.
///
/// ```
/// # use anabranch_runtime::{ReplicaSet, RunError};
/// # use anabranch_workpool::{Pool, PoolSet};
/// # async fn f<P: Pool>(log: anabranch_store::Log, payouts: P) -> Result<(), RunError> {
/// ReplicaSet::new("payouts").pool(payouts).lanes(4).run(&log).await?;
/// # Ok(()) }
/// ```
pub trait PoolSet {
    /// Adds a pool whose effects are in the database, exactly once.
    #[must_use]
    fn pool(self, pool: impl Pool) -> Self;

    /// Adds a pool whose effects are outside, at least once.
    #[must_use]
    fn outside_pool(self, pool: impl OutsidePool) -> Self;
}

impl PoolSet for ReplicaSet {
    fn pool(self, pool: impl Pool) -> Self {
        self.rows(inside::Inside::new(pool))
    }

    fn outside_pool(self, pool: impl OutsidePool) -> Self {
        self.rows(outside::Outside::new(pool))
    }
}

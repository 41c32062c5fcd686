//! What a pool does with its tasks: two traits, by where the effects are.

use crate::new_task::NewTask;
use crate::run::Run;
use crate::task::Task;
use anabranch_core::Retry;
use anabranch_runtime::{HandlerResult, Tx};
use serde::Serialize;
use std::future::Future;
use std::time::Duration;

/// Tasks whose effects are in the database that holds the log, **exactly once**: what a task writes
/// through its [`Tx`] commits together with its end, or not at all.
///
/// Tasks of one key are run one at a time, in order. Several tasks share a transaction, so a task should
/// not take long; for one that does, or has effects elsewhere, there is [`OutsidePool`].
///
/// ```
/// use anabranch_runtime::{HandlerResult, Tx};
/// use anabranch_store::params;
/// use anabranch_workpool::{Pool, Task};
///
/// struct Payouts;
///
/// impl Pool for Payouts {
///     type Output = i64;
///     fn name(&self) -> &str {
///         "payouts"
///     }
///     async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult<i64> {
///         let cents: i64 = task.payload()?;
///         let pay = "UPDATE accounts SET cents = cents - $1 WHERE id = $2";
///         tx.execute(pay, params![cents, task.key()]).await?;
///         Ok(cents)
///     }
/// }
/// ```
pub trait Pool: Send + Sync + 'static {
    /// What a task returns. It is kept with the task.
    type Output: Serialize + Send;

    /// Its name: lower-case letters, digits, `_`, `-` and `.`.
    fn name(&self) -> &str;

    /// Which code it has, if it says so: see [`Settings::code`](anabranch_runtime::Settings::code).
    fn code(&self) -> Option<&str> {
        None
    }

    /// What else it chooses.
    fn settings(&self) -> PoolSettings {
        PoolSettings::default()
    }

    /// Whether a task may begin in a transaction in which the one before it has queried. That transaction may not be open
    /// for long, so a task that is slow before its own first query should say no: what was done before it is committed
    /// first.
    fn begins_in_open_transaction(&self) -> bool {
        true
    }

    /// Runs one task. An error rolls back what it wrote.
    fn run(
        &self,
        task: &Task,
        tx: &mut Tx,
    ) -> impl Future<Output = HandlerResult<Self::Output>> + Send;

    /// The attempts of a task are used up.
    fn gave_up(&self, _task: &Task, _error: &str) -> TaskGaveUp {
        TaskGaveUp::AsSet
    }
}

/// Tasks with effects outside the database, **at least once**: a crash after the effect and before the
/// task's end is stored repeats it, under the same [idempotency key](Task::idempotency_key).
///
/// Tasks of one key are run one at a time, in order, and the next begins when the end of the one before
/// is stored. Tasks of different keys run at the same time: in each process up to
/// [`in_flight_per_process`](PoolSettings::in_flight_per_process), and in all of them together up to
/// [`max_parallelism`](PoolSettings::max_parallelism).
///
/// ```
/// use anabranch_runtime::HandlerResult;
/// use anabranch_workpool::{NewTask, OutsidePool, Run, Task};
/// use std::time::Duration;
///
/// /// Prints a statement, page by page: a crash goes on at the page that is next.
/// struct Statements;
///
/// impl OutsidePool for Statements {
///     type Output = u32;
///     fn name(&self) -> &str {
///         "statements"
///     }
///     async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult<u32> {
///         let pages: u32 = task.payload()?;
///         let first: u32 = run.checkpoint()?.unwrap_or(1);
///         for page in first..=pages {
///             let key = format!("{}:{page}", task.idempotency_key());
///             tokio::time::timeout(Duration::from_secs(30), print(key, page)).await??;
///             run.save(&(page + 1)).await?;
///         }
///         run.then("mails", NewTask::new(task.key(), &pages));
///         Ok(pages)
///     }
/// }
///
/// /// Your printer.
/// async fn print(_idempotency_key: String, _page: u32) -> std::io::Result<()> {
///     Ok(())
/// }
/// ```
pub trait OutsidePool: Send + Sync + 'static {
    /// What a task returns. It is kept with the task.
    type Output: Serialize + Send;

    /// Its name: lower-case letters, digits, `_`, `-` and `.`.
    fn name(&self) -> &str;

    /// Which code it has, if it says so: see [`Settings::code`](anabranch_runtime::Settings::code).
    fn code(&self) -> Option<&str> {
        None
    }

    /// What else it chooses.
    fn settings(&self) -> PoolSettings {
        PoolSettings::default()
    }

    /// Runs one task.
    fn run(
        &self,
        task: &Task,
        run: &mut Run,
    ) -> impl Future<Output = HandlerResult<Self::Output>> + Send;

    /// The attempts of a task are used up.
    fn gave_up(&self, _task: &Task, _error: &str) -> TaskGaveUp {
        TaskGaveUp::AsSet
    }
}

/// What becomes of a task whose attempts are used up, and of its key.
#[derive(Debug)]
pub enum TaskGaveUp {
    /// What the [retry](PoolSettings::retry) of the pool says.
    AsSet,
    /// It is dead, and its key is held until somebody retries or discards it.
    Park,
    /// Its key goes on, and these tasks are enqueued, each with its pool, in the same transaction: it is
    /// compensated, or skipped if there are none.
    GoOn(Vec<(String, NewTask)>),
}

/// What a pool may choose. The defaults suit most.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct PoolSettings {
    pub(crate) retry: Option<Retry>,
    pub(crate) max_parallelism: Option<usize>,
    pub(crate) in_flight_per_process: usize,
    pub(crate) batch_size: usize,
    pub(crate) keep: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            retry: None,
            max_parallelism: None,
            in_flight_per_process: 64,
            batch_size: 1_000,
            keep: Duration::from_secs(86_400),
        }
    }
}

impl PoolSettings {
    /// How often a failing task is tried, and what happens then: its key is held until somebody
    /// [retries or discards](crate::Tasks::retry) it ([`Failure::Park`], the default), the key goes on
    /// without it ([`Failure::Skip`]), or the pool stops, and is tried with this task now and
    /// then ([`Failure::Stop`]). While it waits for its next attempt it holds back the later tasks of its
    /// key, and nobody else.
    ///
    /// Default: [`Retry::default`] for a [`Pool`], whose effects are in the database, and
    /// [`Retry::outside`] for an [`OutsidePool`].
    ///
    /// [`Failure::Park`]: anabranch_core::Failure::Park
    /// [`Failure::Skip`]: anabranch_core::Failure::Skip
    /// [`Failure::Stop`]: anabranch_core::Failure::Stop
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// How many tasks of the pool run at the same time in **all processes together**, at the most: what a
    /// provider allows, say. Default: no limit. Tasks of a [`Pool`] share transactions, one for each lane; there
    /// it is how many lanes run at the same time.
    ///
    /// It holds once all workers that run the pool know a limit: while they come, go, crash and hand over keys,
    /// and every key has its turn, also with a limit of 1. Workers lease permits from the database, in blocks, and
    /// return them when others wait. In a deploy that changes it, the lowest limit of the workers that have
    /// something to do holds. In one that introduces it, it holds when the last worker without a limit is gone: until
    /// then `status` says so ([`ConsumerStatus::unlimited`](anabranch_runtime::ConsumerStatus::unlimited)), and
    /// so does a worker that knows it, in its log. A replica set with a pool whose limit is 0 is refused.
    ///
    /// The permits of a worker end with its lease, and from then on nothing that it does is stored. A task of an
    /// [`OutsidePool`] that hangs in a process without a lease may still do something *outside* meanwhile.
    ///
    /// ```
    /// use anabranch_workpool::PoolSettings;
    /// // The provider allows ten calls at once, however many processes there are.
    /// let settings = PoolSettings::default().max_parallelism(10);
    /// # let _ = settings;
    /// ```
    pub fn max_parallelism(mut self, tasks: usize) -> Self {
        self.max_parallelism = Some(tasks);
        self
    }

    /// How many tasks run at the same time in **each process**, at the most: what its memory and connections
    /// allow. Default 64; at least 1, whatever is said. Of a [`Pool`] it is how many lanes run at the same time. It
    /// costs nothing.
    ///
    /// ```
    /// use anabranch_workpool::PoolSettings;
    /// let settings = PoolSettings::default().in_flight_per_process(8);
    /// # let _ = settings;
    /// ```
    pub fn in_flight_per_process(mut self, tasks: usize) -> Self {
        self.in_flight_per_process = tasks.max(1);
        self
    }

    /// The most tasks that end in one transaction. Default 1,000; at least 1, whatever is said.
    pub fn batch_size(mut self, tasks: usize) -> Self {
        self.batch_size = tasks.max(1);
        self
    }

    /// How long a task that has ended is kept, with its result. Default one day.
    pub fn keep(mut self, time: Duration) -> Self {
        self.keep = time;
        self
    }
}

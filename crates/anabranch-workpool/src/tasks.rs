//! The handle of a pool: enqueue tasks, ask how they stand, cancel. What is done with dead ones is in
//! [`dead`](crate::dead).

use crate::new_task::NewTask;
use crate::tables::{self, Tables, There};
use crate::task::TaskStatus;
use crate::task_error::TaskError;
use anabranch_core::{
    Happening, InputError, Notice, StoreError, TaskState, TaskStates, TraceContext,
};
use anabranch_runtime::{HandlerError, RawTx, Tx};
use anabranch_store::database::{Answer, End, Failed, Reason, Statement, column};
use anabranch_store::{Database, Log, Row, trace};
use jiff::Timestamp;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How soon to look again whether a task has ended, at first and at most.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// How many tasks one statement enqueues.
const PAGE: usize = 5_000;

/// The tasks of a pool. Cheap to clone.
///
/// ```
/// # use anabranch_store::Log;
/// # use anabranch_workpool::{NewTask, Tasks};
/// # async fn f(log: Log) -> Result<(), Box<dyn std::error::Error>> {
/// let payouts = Tasks::new(&log, "payouts");
/// let id = payouts.enqueue(NewTask::new("cust-7", &4_000)).await?.id;
/// println!("{}", payouts.status(id).await?.unwrap().state);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Tasks {
    pub(crate) log: Log,
    pub(crate) database: Arc<dyn Database>,
    pub(crate) tables: Tables,
    pub(crate) pool: String,
    /// Whether it has been asked if a worker has ever run the pool. Clones share it.
    has_asked: Arc<AtomicBool>,
    /// What is written in the transaction of a change by an operator.
    pub(crate) with: Vec<Statement>,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Enqueued {
    /// Its id.
    pub id: Uuid,
    /// Whether it was not there before, under its id or its unique key.
    pub is_new: bool,
}

/// What of a key is ready: see [`Tasks::ready_of_key`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadyOfKey {
    /// How many tasks wait for their turn, wait for another attempt, or are being run.
    pub tasks: u64,
    /// How many of them have never failed: they wait for their first attempt, or are in it.
    pub untried: u64,
    /// The place in the [line](Tasks::line) of the first of them all, if that one has never failed.
    pub place: Option<i64>,
    /// The time, by the database's clock.
    pub now: Timestamp,
}

/// How many tasks of a pool stand how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// The pool.
    pub pool: String,
    /// How many are ready, scheduled, and so on.
    pub tasks: Vec<(TaskState, u64)>,
}

impl PoolCounts {
    /// How many tasks of it stand so.
    ///
    /// ```
    /// use anabranch_workpool::{PoolCounts, TaskState};
    /// let mut mails = PoolCounts::default();
    /// mails.tasks.push((TaskState::Ready, 3));
    /// assert_eq!((mails.count(TaskState::Ready), mails.count(TaskState::Dead)), (3, 0));
    /// ```
    #[must_use]
    pub fn count(&self, state: TaskState) -> u64 {
        self.tasks.iter().find(|(of, _)| *of == state).map_or(0, |(_, number)| *number)
    }
}

/// What to do where events and tasks are on two servers.
const ENQUEUE_REMEDY: &str = "let a projection that reads the log enqueue them (Tasks::enqueue_in), or, for a transaction \
                              in the database of the tasks, take them from its own handle (Tasks::new(&home, …))";

impl Tasks {
    /// The tasks of a pool.
    #[must_use]
    pub fn new(log: &Log, pool: impl Into<String>) -> Self {
        let database = log.database();
        let tables = Tables::of(&database);
        let has_asked = Arc::default();
        Self { log: log.clone(), database, tables, pool: pool.into(), has_asked, with: Vec::new() }
    }

    /// The same, with statements that are run in the transaction of what an operator does with a task or a key, after its own:
    /// for the journal of operations.
    #[doc(hidden)]
    #[must_use]
    pub fn in_transaction_with(&self, statements: Vec<Statement>) -> Self {
        Self { with: statements, ..self.clone() }
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// Enqueues a task. It is stored when this returns.
    ///
    /// The first time it is also looked whether a worker has ever run the pool, in the same round trip, and a
    /// warning is logged if not: its name may be misspelled. `anabranch status` shows such pools, and so does
    /// [`Consumers::unrun_pools`](anabranch_runtime::Consumers::unrun_pools).
    pub async fn enqueue(&self, task: NewTask) -> Result<Enqueued, TaskError> {
        let mut all = self.enqueue_all(vec![task]).await?;
        Ok(all.remove(0))
    }

    /// The same, for a pool that is about to be run: nobody is warned that no worker has run it yet.
    #[doc(hidden)]
    #[must_use]
    pub fn about_to_run(self) -> Self {
        self.has_asked.store(true, Ordering::Relaxed);
        self
    }

    /// Enqueues tasks, all or none: those of one key in this order.
    pub async fn enqueue_all(&self, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>, TaskError> {
        loop {
            if let Some(enqueued) = self.try_enqueue(&tasks).await? {
                return Ok(enqueued);
            }
            // One was there under its unique key, and has ended before anybody could say which it was.
        }
    }

    async fn try_enqueue(&self, tasks: &[NewTask]) -> Result<Option<Vec<Enqueued>>, TaskError> {
        let current = trace::current();
        let enqueueing = |there| {
            let pages = tasks.chunks(PAGE).map(|page| self.enqueueing(page, there, current));
            let pages = pages.collect::<Result<Vec<_>, InputError>>()?;
            Ok::<Vec<Statement>, InputError>(pages.into_iter().flatten().collect())
        };
        let asks = !tasks.is_empty() && !self.has_asked.swap(true, Ordering::Relaxed);
        if !tasks.iter().any(|task| task.id_is_callers || task.unique.is_some()) {
            let run = async |there| {
                let mut statements = enqueueing(there)?;
                statements.extend(asks.then(|| self.tables.was_run(&self.pool)));
                Ok::<_, InputError>(self.database.begin().run(statements, End::Commit).await)
            };
            // To look first whether they are there takes a fifth of the time.
            let done = match run(There::No).await? {
                // They can be: a task may be cloned, and be enqueued again.
                Err(Failed { reason: Reason::Refused { .. }, .. }) => run(There::Perhaps).await?,
                done => done,
            };
            let answers = done.map_err(|failed| failed.into_store_error(self.database.at()))?;
            self.warn_of_unrun(answers.last().filter(|_| asks));
            let is_new = |task: &NewTask| Enqueued { id: task.id, is_new: true };
            return Ok(Some(tasks.iter().map(is_new).collect()));
        }
        let (mut statements, mut session) = (enqueueing(There::Tell)?, self.database.begin());
        // Of those that are not new, which are meant?
        statements.push(self.tables.existing(&self.pool, tasks));
        statements.extend(asks.then(|| self.tables.was_run(&self.pool)));
        let answers = session.run(statements, End::Open { idle: Duration::from_secs(2) }).await;
        let mut answers = answers.map_err(|failed| failed.into_store_error(self.database.at()))?;
        let was_run = if asks { answers.pop() } else { None };
        let Some((existing, inserted)) = answers.split_last() else { return Ok(None) };
        let mut new = HashSet::new();
        for row in inserted.iter().flat_map(|answer| &answer.rows) {
            new.insert(column::<Uuid>(self.database.at(), row, "id")?);
        }
        let existing = self.ids(existing)?;
        let find = |task: &NewTask| {
            let by_id = || existing.iter().find(|(id, _)| *id == task.id);
            let is_meant = |unique: &Option<String>| unique.is_some() && *unique == task.unique;
            let by_unique = || existing.iter().find(|(_, unique)| is_meant(unique));
            // A new one first: only the first with an id is.
            match new.remove(&task.id) {
                true => Some(Enqueued { id: task.id, is_new: true }),
                false => {
                    by_id().or_else(by_unique).map(|(id, _)| Enqueued { id: *id, is_new: false })
                }
            }
        };
        let Some(enqueued) = tasks.iter().map(find).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let done = session.run(Vec::new(), End::Commit).await;
        done.map_err(|failed| failed.into_store_error(self.database.at()))?;
        self.warn_of_unrun(was_run.as_ref());
        Ok(Some(enqueued))
    }

    /// Warns if it was asked whether a worker has ever run the pool, and none has.
    fn warn_of_unrun(&self, was_run: Option<&Answer>) {
        if was_run.is_some_and(|answer| answer.rows.is_empty()) {
            let what = Happening::noticed(Notice::PoolNeverRun, None);
            self.log.events().of(&self.pool).emit(what);
        }
    }

    fn ids(&self, answer: &Answer) -> Result<Vec<(Uuid, Option<String>)>, StoreError> {
        let at = self.database.at();
        let row = |row| Ok((column(at, row, "id")?, column(at, row, "unique_key")?));
        answer.rows.iter().map(row).collect()
    }

    /// Enqueues a task that has failed once already: it is tried again after a while, and until then holds
    /// back the later tasks of its key.
    pub(crate) async fn enqueue_failed(
        &self,
        task: NewTask,
        error: &str,
        wait: Duration,
    ) -> Result<Uuid, TaskError> {
        let tasks = std::slice::from_ref(&task);
        let mut statements = self.enqueueing(tasks, There::Perhaps, trace::current())?;
        statements.push(self.tables.failed(task.id, 1, error, wait));
        self.run(statements).await?;
        Ok(task.id)
    }

    /// Enqueues tasks in the transaction of a handler: they are there if and when it commits.
    pub async fn enqueue_in(&self, tx: &mut Tx, tasks: &[NewTask]) -> Result<(), HandlerError> {
        tx.must_be_in(self.database.as_ref())?;
        for statement in self.enqueueing(tasks, There::Perhaps, tx.trace())? {
            tx.push(statement).await?;
        }
        Ok(())
    }

    /// The statements that enqueue tasks, for a transaction of your own: see
    /// `Postgres::run_in` and `Sqlite::run_in`.
    ///
    /// Where the events are on another server than the tasks (`Log::with_database`) they are refused
    /// ([`StoreError::TwoServers`]): run in the transaction of an append they would be enqueued where nobody looks.
    pub fn statements(&self, tasks: &[NewTask]) -> Result<Vec<Statement>, TaskError> {
        if self.log.is_apart() {
            let (at, log) = (self.database.at().to_owned(), self.log.at().into());
            let what = "to enqueue tasks in the transaction of an append";
            return Err(StoreError::TwoServers { at, log, what, remedy: ENQUEUE_REMEDY }.into());
        }
        Ok(self.enqueueing(tasks, There::Perhaps, trace::current())?)
    }

    fn enqueueing(
        &self,
        tasks: &[NewTask],
        there: There,
        current: Option<TraceContext>,
    ) -> Result<Vec<Statement>, InputError> {
        let limit = self.log.limits().data_bytes;
        tasks.iter().try_for_each(|task| task.check(&self.pool, limit))?;
        let tasks: Vec<(&str, &NewTask)> =
            tasks.iter().map(|task| (self.pool.as_str(), task)).collect();
        Ok(match tasks.is_empty() {
            true => Vec::new(),
            false => self.tables.enqueue(self.log.hash_rule(), &tasks, there, current),
        })
    }

    /// How a task stands, if it is known: one that has ended is kept for a while.
    pub async fn status(&self, task: Uuid) -> Result<Option<TaskStatus>, TaskError> {
        let answers = self.run(vec![self.tables.status(task)]).await?;
        Ok(self.statuses(&answers)?.into_iter().next())
    }

    /// Waits until a task has ended, though not longer than this. Returns how it stands then.
    pub async fn wait(&self, task: Uuid, at_most: Duration) -> Result<TaskStatus, TaskError> {
        let (until, mut pause) = (Instant::now() + at_most, LOOK.0);
        loop {
            let status = self.status(task).await?;
            let status = status.ok_or(TaskError::NoSuchTask { task })?;
            if !status.state.is_open() || Instant::now() >= until {
                return Ok(status);
            }
            tokio::time::sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
            pause = (pause * 2).min(LOOK.1);
        }
    }

    /// The tasks of the pool that stand so, the oldest first.
    pub async fn list(&self, state: TaskState, limit: usize) -> Result<Vec<TaskStatus>, TaskError> {
        let answers = self.run(vec![self.tables.list(&self.pool, state, limit)]).await?;
        Ok(self.statuses(&answers)?)
    }

    /// The names of the pools that have tasks, or keys that are held. One without either is known only as a
    /// [consumer](anabranch_runtime::Consumers::list), if a worker has run it.
    pub async fn pools(log: &Log) -> Result<Vec<String>, TaskError> {
        let tasks = Self::new(log, "");
        let answers = tasks.run(vec![tasks.tables.pools()]).await?;
        let name = |row: &Row| Ok(column(log.at(), row, "pool")?);
        answers.iter().flat_map(|answer| &answer.rows).map(name).collect()
    }

    /// How many tasks of each pool stand how.
    pub async fn counts(log: &Log) -> Result<Vec<PoolCounts>, TaskError> {
        Self::count(log, None).await
    }

    /// The same without those that are done or cancelled, which takes less time where many are kept.
    pub async fn open_counts(log: &Log) -> Result<Vec<PoolCounts>, TaskError> {
        Self::count(log, Some(TaskStates::UNFINISHED)).await
    }

    async fn count(log: &Log, of: Option<TaskStates>) -> Result<Vec<PoolCounts>, TaskError> {
        let tasks = Self::new(log, "");
        let answers = tasks.run(vec![tasks.tables.counts(of)]).await?;
        let mut counts: Vec<PoolCounts> = Vec::new();
        for row in answers.iter().flat_map(|answer| &answer.rows) {
            let pool: String = column(log.at(), row, "pool")?;
            let instead: Option<u64> = column(log.at(), row, "instead")?;
            let state = match tables::state(log.at(), row)? {
                state if state.is_dead() => TaskState::of_dead(instead.map(|tasks| tasks as usize)),
                state => state,
            };
            if counts.last().is_none_or(|last| last.pool != pool) {
                counts.push(PoolCounts { pool, tasks: Vec::new() });
            }
            let number = column::<u64>(log.at(), row, "tasks")?;
            counts.last_mut().into_iter().for_each(|last| last.tasks.push((state, number)));
        }
        Ok(counts)
    }

    /// What of a key waits for its turn or is being run, besides one task: of what was enqueued by a time, or
    /// until now.
    ///
    /// ```
    /// # use anabranch_workpool::{Task, TaskError, Tasks};
    /// # async fn f(payouts: Tasks, task: &Task) -> Result<(), TaskError> {
    /// let others = payouts.ready_of_key(task.key(), task.id(), None).await?;
    /// if others.untried > 0 {
    ///     println!("{} tasks of the key have not been tried yet", others.untried);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn ready_of_key(
        &self,
        key: &str,
        except: Uuid,
        by: Option<Timestamp>,
    ) -> Result<ReadyOfKey, TaskError> {
        let by = by.map(Timestamp::as_microsecond);
        let answers = self.run(vec![self.tables.ready_of_key(&self.pool, key, except, by)]).await?;
        let at = self.database.at();
        let row = answers.iter().flat_map(|answer| &answer.rows).next();
        let corrupt = |what: String| StoreError::Corrupt { at: at.to_owned(), what };
        let row = row.ok_or_else(|| corrupt("a count without a row".to_owned()))?;
        let now = Timestamp::from_microsecond(column(at, row, "now_us")?);
        let first: Option<i64> = column(at, row, "first")?;
        let untried: Option<i64> = column(at, row, "first_untried")?;
        Ok(ReadyOfKey {
            place: untried.filter(|_| first == untried),
            tasks: column(at, row, "tasks")?,
            untried: column(at, row, "untried")?,
            now: now.map_err(|error| corrupt(error.to_string()))?,
        })
    }

    /// The places of the first tasks that wait for their first attempt, or are in it. Places rise in the order in
    /// which tasks were enqueued, and never change.
    ///
    /// ```
    /// # use anabranch_workpool::{Task, TaskError, Tasks};
    /// # async fn f(payouts: Tasks) -> Result<(), TaskError> {
    /// let line = payouts.line(100).await?;
    /// println!("the first of {} tasks has the place {:?}", line.len(), line.first());
    /// # Ok(()) }
    /// ```
    pub async fn line(&self, limit: usize) -> Result<Vec<i64>, TaskError> {
        let answers = self.run(vec![self.tables.line(&self.pool, limit)]).await?;
        let rows = answers.iter().flat_map(|answer| &answer.rows);
        Ok(rows.map(|row| column(self.database.at(), row, "seq")).collect::<Result<_, _>>()?)
    }

    /// Whether something of a key has not ended.
    pub async fn is_open(&self, key: &str) -> Result<bool, TaskError> {
        let answers = self.run(vec![self.tables.is_open(&self.pool, key)]).await?;
        Ok(answers.iter().any(|answer| !answer.rows.is_empty()))
    }

    pub(crate) async fn run(&self, statements: Vec<Statement>) -> Result<Vec<Answer>, TaskError> {
        let answers = self.database.begin().run(statements, End::Commit).await;
        answers.map_err(|failed| failed.into_store_error(self.database.at()).into())
    }

    fn statuses(&self, answers: &[Answer]) -> Result<Vec<TaskStatus>, StoreError> {
        let at = self.database.at();
        let status = |row: &Row| self.tables.task_status(at, row);
        answers.iter().flat_map(|answer| &answer.rows).map(status).collect()
    }
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("pool", &self.pool).finish_non_exhaustive()
    }
}

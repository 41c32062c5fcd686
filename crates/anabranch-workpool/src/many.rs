//! Many tasks at a time: by what a filter says, evaluated at the database, a page of them in a transaction.

use crate::filter::{Standing, TaskFilter};
use crate::task::TaskStatus;
use crate::task_error::TaskError;
use crate::tasks::Tasks;
use anabranch_core::{StoreError, TaskState};
use anabranch_store::database::{End, Statement, Topic, column};
use anabranch_store::{Log, Row};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How many tasks are changed in one transaction.
const PAGE: usize = 500;
/// How many tasks are named where all are counted.
const NAMED: usize = 10;

/// Up to where tasks are meant: what is enqueued later, or dies later, was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskBound {
    /// The last task that was ever enqueued.
    pub seq: i64,
    /// The time by the database's clock, in microseconds since 1970.
    pub at_us: i64,
}

impl TaskBound {
    /// Whatever there is.
    pub const NONE: Self = Self { seq: i64::MAX, at_us: i64::MAX };
}

/// What a filter finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TasksFound {
    /// How many, by pool.
    pub pools: Vec<(String, u64)>,
    /// The first of them.
    pub first: Vec<Uuid>,
    /// Up to where was counted.
    pub bound: TaskBound,
}

impl TasksFound {
    /// How many there are in all.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        self.pools.iter().map(|(_, tasks)| tasks).sum()
    }
}

/// What is wanted of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskAction {
    /// Try dead ones again, as if they had never failed.
    Retry,
    /// Discard dead ones; what their keys held back goes on.
    Discard,
    /// Cancel those that have not ended.
    Cancel,
}

/// Some of the tasks that a filter finds.
#[derive(Clone, Copy, Debug)]
pub struct TaskPage<'a> {
    /// Which.
    pub filter: &'a TaskFilter,
    /// Up to where.
    pub bound: TaskBound,
    /// After this one, by its place in the line.
    pub after: i64,
    /// So many at most.
    pub limit: usize,
    /// What is wanted of them.
    pub action: TaskAction,
}

impl Tasks {
    /// How many tasks a filter finds, by pool.
    pub async fn count_where(
        log: &Log,
        filter: &TaskFilter,
    ) -> Result<Vec<(String, u64)>, TaskError> {
        Self::new(log, "").count_up_to(filter, TaskBound::NONE).await
    }

    async fn count_up_to(
        &self,
        filter: &TaskFilter,
        bound: TaskBound,
    ) -> Result<Vec<(String, u64)>, TaskError> {
        let at = self.database.at();
        let answers = self.run(vec![self.tables.count_found(filter, bound)]).await?;
        let count = |row| Ok((column(at, row, "pool")?, column(at, row, "tasks")?));
        answers.iter().flat_map(|answer| &answer.rows).map(count).collect()
    }

    /// How many tasks a filter finds, the first of them, and up to where was counted.
    ///
    /// ```
    /// # use anabranch_workpool::{TaskError, TaskFilter, Tasks};
    /// # async fn f(log: anabranch_store::Log) -> Result<(), TaskError> {
    /// let found = Tasks::find_where(&log, &TaskFilter::dead()).await?;
    /// println!("{} tasks wait for somebody", found.tasks());
    /// # Ok(()) }
    /// ```
    pub async fn find_where(log: &Log, filter: &TaskFilter) -> Result<TasksFound, TaskError> {
        let tasks = Self::new(log, "");
        let at = tasks.database.at();
        let answers = tasks.run(vec![tasks.tables.bound()]).await?;
        let row = answers.iter().find_map(|answer| answer.rows.first());
        let corrupt = || StoreError::Corrupt { at: at.to_owned(), what: "no clock".to_owned() };
        let row = row.ok_or_else(corrupt)?;
        let bound = TaskBound { seq: column(at, row, "seq")?, at_us: column(at, row, "now_us")? };
        let pools = tasks.count_up_to(filter, bound).await?;
        let answers = tasks.run(vec![tasks.tables.find(filter, bound, 0, NAMED)]).await?;
        let id = |row: &Row| Ok(column(at, row, "id")?);
        let first = answers.iter().flat_map(|answer| &answer.rows).map(id);
        Ok(TasksFound { pools, first: first.collect::<Result<_, TaskError>>()?, bound })
    }

    /// Tries all tasks again that a filter finds, of whatever pool, some hundreds in a transaction, and says
    /// how many so far after each. Returns how many there were: those that somebody else has retried or
    /// discarded meanwhile are not among them.
    pub async fn retry_where(
        log: &Log,
        filter: &TaskFilter,
        mut so_far: impl FnMut(u64),
    ) -> Result<u64, TaskError> {
        let (mut retried, mut after, bound) = (0, 0, TaskBound::NONE);
        loop {
            let action = TaskAction::Retry;
            let page = TaskPage { filter, bound, after, limit: PAGE, action };
            let Some((tasks, last)) = Self::act_on_page(log, &page, |_, _| Vec::new()).await?
            else {
                return Ok(retried);
            };
            (retried, after) = (retried + tasks, last);
            so_far(retried);
        }
    }

    /// Does something with a page of the tasks that a filter finds, together with the statements of `then`, which
    /// receives how many there were and the place of the last one. None if there are no more; `then` is not called
    /// then.
    #[doc(hidden)]
    pub async fn act_on_page(
        log: &Log,
        page: &TaskPage<'_>,
        then: impl Fn(u64, i64) -> Vec<Statement> + Send,
    ) -> Result<Option<(u64, i64)>, TaskError> {
        let tasks = Self::new(log, "");
        let at = tasks.database.at();
        let TaskPage { filter, bound, after, limit, action } = *page;
        let answers = tasks.run(vec![tasks.tables.find(filter, bound, after, limit)]).await?;
        let rows: Vec<&Row> = answers.iter().flat_map(|answer| &answer.rows).collect();
        let Some(last) = rows.last() else { return Ok(None) };
        let last: i64 = column(at, last, "seq")?;
        let id = |row: &&Row| column(at, row, "id");
        let ids = rows.iter().map(id).collect::<Result<Vec<Uuid>, _>>()?;
        // Whoever changes one of them meanwhile is waited for, and then it may not be meant any more.
        let (mut session, locked) = tasks.lock(&ids).await?;
        let still =
            locked.into_iter().filter(|task| is_meant(filter, action, task.is_held, &task.status));
        let still: Vec<TaskStatus> = still.map(|task| task.status).collect();
        let number = still.len() as u64;
        if action == TaskAction::Retry {
            tasks.revive(session, &still, then(number, last)).await?;
            return Ok(Some((number, last)));
        }
        let mut statements = Vec::new();
        for task in &still {
            let dead = (action == TaskAction::Discard).then_some(task.state);
            let follows = tasks.end_in(session.as_mut(), task.id, dead).await?;
            statements.extend(follows.into_iter().flatten());
        }
        statements.extend(then(number, last));
        statements.push(Statement::signal(Topic::Tasks));
        let done = session.run(statements, End::Commit).await;
        done.map_err(|failed| failed.into_store_error(at))?;
        Ok(Some((number, last)))
    }
}

/// Whether something can be done with a task that a filter found, as it stands now.
fn is_meant(filter: &TaskFilter, action: TaskAction, is_held: bool, task: &TaskStatus) -> bool {
    let may = match action {
        TaskAction::Retry | TaskAction::Discard => task.state.is_dead(),
        TaskAction::Cancel => task.state.is_open(),
    };
    let waits = filter.standing != Standing::Is(TaskState::Dead) || is_held;
    may && waits && filter.standing.meets(task.state)
}

//! The handle: look, plan, apply, cancel, and read the journal.

use crate::basis::Basis;
use crate::journal::{JournalEntry, JournalFilter, Stage};
use crate::operation_error::OperationError;
use crate::plan::{Effect, Plan, PlanState};
use crate::request::Request;
use crate::tables::{NewPlan, Tables};
use anabranch_core::StoreError;
use anabranch_runtime::{Consumers, Fingerprint};
use anabranch_store::Log;
use anabranch_store::database::{End, Statement};
use uuid::Uuid;

/// Who operates, and by which way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    pub(crate) who: String,
    pub(crate) via: String,
}

impl By {
    /// A person or program, by the command (`cli`), the API (`api`), the console (`console`), or a program of yours
    /// (`library`).
    #[must_use]
    pub fn new(who: impl Into<String>, via: impl Into<String>) -> Self {
        Self { who: who.into(), via: via.into() }
    }
}

/// Operations on a log: each is planned, applied unless the plan is out of date, and written in the journal. Cheap to clone.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_operations::OperationError> {
/// use anabranch_operations::{By, Operations, Request};
/// let operations = Operations::new(&log, By::new("mary", "library"));
/// let plan = operations.plan(&Request::Pause { consumer: "order_summary".to_owned() }).await?;
/// println!("{} ({})", plan.effect.says, plan.id);
/// operations.apply(plan.id, |_| {}).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Operations {
    pub(crate) log: Log,
    pub(crate) consumers: Consumers,
    pub(crate) tables: Tables,
    pub(crate) by: By,
}

/// What an operation would do, and what that was made on.
pub(crate) struct Looked {
    pub(crate) basis: Basis,
    pub(crate) effect: Effect,
    pub(crate) total: u64,
}

impl Operations {
    /// The operations on a log, in the name of whoever operates.
    #[must_use]
    pub fn new(log: &Log, by: By) -> Self {
        let (consumers, tables) = (Consumers::new(log), Tables::of(log.database()));
        Self { log: log.clone(), consumers, tables, by }
    }

    /// The same in the name of another one.
    #[must_use]
    pub fn by(&self, by: By) -> Self {
        Self { by, ..self.clone() }
    }

    /// What an operation would do. Nothing is stored.
    pub async fn look(&self, request: &Request) -> Result<Effect, OperationError> {
        Ok(self.look_at(request).await?.effect)
    }

    /// Plans an operation: what it would do is stored, until it is applied or expires in ten minutes.
    pub async fn plan(&self, request: &Request) -> Result<Plan, OperationError> {
        self.tables.database.require_newest_schema()?;
        let looked = self.look_at(request).await?;
        let id = Uuid::now_v7();
        let statements = self.tables.add(&NewPlan {
            id,
            request,
            basis: &looked.basis,
            effect: &looked.effect,
            total: looked.total,
            by: &self.by,
        });
        self.run(statements).await?;
        Ok(self.stored(id).await?.0)
    }

    /// A plan, and how far it is.
    pub async fn get(&self, id: Uuid) -> Result<Plan, OperationError> {
        Ok(self.stored(id).await?.0)
    }

    /// The newest plans, of all or about one consumer, pool, set or task. One that this program cannot read is among them,
    /// without its [request](Plan::request).
    pub async fn plans(
        &self,
        target: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Plan>, OperationError> {
        self.tables.database.require_newest_schema()?;
        let rows = self.tables.database.rows(self.tables.newest(target, limit)).await?;
        let plan = |row| Ok(self.tables.plan(row)?.0);
        rows.iter().map(plan).collect()
    }

    /// The plans that somebody has begun to carry out in one of these ways (`cli`, `api`, `console`, `library`) and
    /// left, since their process died, say: [`apply`](Self::apply) goes on with them. Those that this program cannot read are
    /// left out.
    pub async fn abandoned(&self, via: &[&str]) -> Result<Vec<Plan>, OperationError> {
        self.tables.database.require_newest_schema()?;
        if via.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.tables.database.rows(self.tables.abandoned(via)).await?;
        let plans = rows.iter().map(|row| Ok(self.tables.plan(row)?.0));
        let mut plans = plans.collect::<Result<Vec<Plan>, StoreError>>()?;
        plans.retain(|plan| plan.unreadable.is_none());
        Ok(plans)
    }

    /// Applies a plan, unless it is out of date. What goes step by step tells `progress` after each; if it is interrupted,
    /// it can be applied again and goes on where it was, unless it is out of date by then: that ends it as failed.
    pub async fn apply(
        &self,
        id: Uuid,
        mut progress: impl FnMut(&Plan) + Send,
    ) -> Result<Plan, OperationError> {
        let (plan, has_expired) = self.stored(id).await?;
        let is_of_many = plan.readable()?.is_of_many();
        match plan.state {
            PlanState::Open if has_expired => return Err(OperationError::Expired { id }),
            PlanState::Open => self.must_be_true(&plan).await?,
            PlanState::Running if is_of_many => {
                if let Err(error) = self.must_be_true(&plan).await {
                    return Err(self.end_left(&plan, error).await);
                }
            }
            state => return Err(OperationError::Used { id, state }),
        }
        match is_of_many {
            true => self.carry_many(&plan, &mut progress).await,
            false => self.carry_one(&plan).await,
        }
    }

    /// Plans an operation and applies it at once. A log that is older than plans has no journal either; then it is only
    /// carried out, and what is answered has the id of no plan.
    pub async fn carry_out(
        &self,
        request: &Request,
        progress: impl FnMut(&Plan) + Send,
    ) -> Result<Plan, OperationError> {
        if !self.tables.has_journal() {
            return self.carry_unwritten(request).await;
        }
        let plan = self.plan(request).await?;
        self.apply(plan.id, progress).await
    }

    /// Whether what is done is written in the journal: not on a log that is older than it.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.tables.has_journal()
    }

    /// Cancels a plan that is open or being carried out; what was done until then stays.
    pub async fn cancel(&self, id: Uuid) -> Result<Plan, OperationError> {
        let (plan, _) = self.stored(id).await?;
        let statements = vec![
            self.tables.cancelled(id),
            self.tables.entry_if_begun(&plan, Stage::Cancelled, &self.by),
        ];
        match self.tables.database.control().run(statements, End::Commit).await {
            Ok(_) => {}
            Err(failed) if failed.is_unmatched() => {
                let state = self.stored(id).await?.0.state;
                return Err(OperationError::Used { id, state });
            }
            Err(failed) => return Err(failed.into_store_error(self.log.at()).into()),
        }
        self.get(id).await
    }

    /// Entries of the journal, the newest first.
    ///
    /// ```
    /// # async fn f(operations: anabranch_operations::Operations) -> Result<(), anabranch_operations::OperationError> {
    /// use anabranch_operations::JournalFilter;
    /// let of = JournalFilter { target: Some("order_summary".to_owned()), ..JournalFilter::default() };
    /// for entry in operations.journal(&of).await? {
    ///     println!("{} {} {} by {}", entry.at, entry.verb, entry.target, entry.who);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn journal(
        &self,
        filter: &JournalFilter,
    ) -> Result<Vec<JournalEntry>, OperationError> {
        self.tables.database.require_newest_schema()?;
        let rows = self.tables.database.rows(self.tables.entries(filter)).await?;
        Ok(rows.iter().map(|row| self.tables.journal_entry(row)).collect::<Result<_, _>>()?)
    }

    /// A stored plan, and whether it has expired.
    pub(crate) async fn stored(&self, id: Uuid) -> Result<(Plan, bool), OperationError> {
        self.tables.database.require_newest_schema()?;
        let rows = self.tables.database.rows(self.tables.find(id)).await?;
        let row = rows.first().ok_or(OperationError::NoSuchPlan { id })?;
        Ok(self.tables.plan(row)?)
    }

    /// Refuses a plan if what it was made on has changed.
    pub(crate) async fn must_be_true(&self, plan: &Plan) -> Result<(), OperationError> {
        let mut now: Vec<Fingerprint> = Vec::new();
        for known in &plan.basis.consumers {
            now.push(self.consumers.fingerprint(&known.consumer).await?);
        }
        let mut what = plan.basis.differences(&now);
        if let Some((set, was)) = &plan.basis.set {
            let is = self.consumers.rebalance_preview(set).await?.generation;
            if is != *was {
                what.push(format!("the generation of `{set}` was {was} and is {is}"));
            }
        }
        match what.is_empty() {
            true => Ok(()),
            false => Err(OperationError::Outdated { id: plan.id, what }),
        }
    }

    /// The time by the database's clock, in microseconds since 1970.
    #[cfg(feature = "webhook")]
    pub(crate) async fn now_us(&self) -> Result<i64, StoreError> {
        let rows = self.tables.database.rows(self.tables.clock()).await?;
        self.tables.time(&rows)
    }

    pub(crate) async fn run(&self, statements: Vec<Statement>) -> Result<(), StoreError> {
        let done = self.tables.database.control().run(statements, End::Commit).await;
        done.map(drop).map_err(|failed| failed.into_store_error(self.log.at()))
    }
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operations").field("by", &self.by).finish_non_exhaustive()
    }
}

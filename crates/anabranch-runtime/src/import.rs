//! Import of positions: a consumer goes on where runners that were there before stopped, so that a
//! system can switch without handling its events again.
//!
//! | module | subject |
//! |---|---|
//! | `plan` | what an import would do: pure |
//! | `refusal` | why it may not, and what to do |
//! | `checkpoints` | the table in which the old runners keep their positions |

mod checkpoints;
mod plan;
mod refusal;

pub use checkpoints::CheckpointTable;
pub use plan::{Before, ImportPlan, ImportedPartition};
pub use refusal::Refusal;

use crate::consumer::{differ_in_case_only, strategy_text, twin_problem};
use crate::standing;
use crate::tables::Tables;
use anabranch_core::{
    ErrorCode, ErrorKind, Happening, HashRule, Notice, Partition, Position, StoreError, Strategy,
    debug_with_code,
};
use anabranch_store::Log;
use anabranch_store::database::{End, Session};
use plan::Found;
use thiserror::Error;

/// The positions of the old partitions of a consumer: N runners that each took the keys with
/// `hash(key) % N == i` and kept in a table how far they were.
///
/// Each slot goes on exactly where its old partition stood. Usually that is done before the consumer
/// first runs; then its `set_up` hook is still called when it does.
///
/// ```
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::ImportError> {
/// use anabranch_core::{HashRule, Strategy};
/// use anabranch_runtime::Import;
/// let import = Import::new("order_summary")
///     .strategy(Strategy::Entity)
///     .rule(HashRule::Fnv1a)
///     .partitions(3)
///     .checkpoint(0, 120)
///     .checkpoint(1, 80)
///     .checkpoint(2, 95);
/// let plan = import.check(&log).await?; // changes nothing
/// if plan.refusals.is_empty() {
///     import.apply(&log).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Import {
    consumer: String,
    strategy: Strategy,
    rule: Option<HashRule>,
    total: u16,
    checkpoints: Vec<(u16, Position)>,
    replace: bool,
}

/// Why positions were not imported. Nothing was changed.
#[derive(Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It would lose or repeat events, or somebody is at work.
    #[error("the positions for `{consumer}` are refused: {}", list(.refusals))]
    Refused {
        /// For which consumer.
        consumer: String,
        /// Why.
        refusals: Vec<Refusal>,
    },
    /// The table of the old runners does not hold what it should.
    #[error("table `{table}`: {problem}")]
    Table {
        /// The table.
        table: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The database could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

debug_with_code!(ImportError);

impl ImportError {
    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { .. } => ErrorCode::ImportRefused,
            Self::Table { .. } => ErrorCode::ImportTable,
            Self::Store(error) => error.code(),
        }
    }

    /// Which kind of error it is: what an API answers.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.code().kind()
    }
}

fn list(refusals: &[Refusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; and ")
}

impl Import {
    /// Positions for this consumer; of one partition by entity, until something else is said.
    pub fn new(consumer: impl Into<String>) -> Self {
        Self {
            consumer: consumer.into(),
            strategy: Strategy::Entity,
            rule: None,
            total: 1,
            checkpoints: Vec::new(),
            replace: false,
        }
    }

    /// How the consumer's events are keyed.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// The strategy, and the rule if it has one of its own, of a consumer's partition.
    pub fn partition(self, partition: &Partition) -> Self {
        // What a partition without a rule of its own says depends on what it is asked for.
        let (one, other) = (partition.rule(HashRule::Fnv1a), partition.rule(HashRule::Md5));
        let rule = (one == other).then_some(one);
        Self { rule: rule.or(self.rule), ..self.strategy(partition.strategy()) }
    }

    /// How the old runners hashed keys; the log's rule if nothing is said. The consumer must use the
    /// same, and is refused otherwise.
    pub fn rule(mut self, rule: HashRule) -> Self {
        self.rule = Some(rule);
        self
    }

    /// How many old partitions there are.
    pub fn partitions(mut self, total: u16) -> Self {
        self.total = total;
        self
    }

    /// How far one of them is: all its events up to this position are done, and none after it.
    pub fn checkpoint(mut self, index: u16, position: impl Into<Position>) -> Self {
        self.checkpoints.push((index, position.into()));
        self
    }

    /// The same for several.
    pub fn checkpoints(mut self, all: impl IntoIterator<Item = (u16, Position)>) -> Self {
        self.checkpoints.extend(all);
        self
    }

    /// Also if the consumer has run already, and so would repeat events or leave some out.
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// What [`apply`](Self::apply) would do, and why it may not. Changes nothing.
    pub async fn check(&self, log: &Log) -> Result<ImportPlan, ImportError> {
        let tables = Tables::of(log.database());
        let head = log.head().await?;
        let mut session = tables.database.control();
        let found = self.found(&tables, session.as_mut(), "").await?;
        let looked = session.run(Vec::new(), End::Commit).await;
        looked.map_err(|failed| tables.error(failed))?;
        let mut plan = self.plan(log.hash_rule(), head, found.as_ref());
        if found.is_none() {
            let all = tables.registered(None).await?;
            let twin = all.iter().find(|it| differ_in_case_only(&it.name, &self.consumer));
            plan.refusals.extend(twin.map(|twin| Refusal::Name(twin_problem(&twin.name))));
        }
        Ok(plan)
    }

    /// Writes the positions, in one transaction, or nothing at all.
    pub async fn apply(&self, log: &Log) -> Result<ImportPlan, ImportError> {
        let tables = Tables::of(log.database());
        tables.database.require_newest_schema()?;
        // Before the transaction, which may keep all others from the database.
        let head = log.head().await?;
        let mut cursors = self.cursors();
        for cursor in &mut cursors {
            cursor.anchor = standing::point(log, cursor.position).await?.anchor;
        }
        let log_identity = log.identity().await?;
        let mut session = tables.database.control();
        let (name, strategy) = (&self.consumer, self.strategy_text(log.hash_rule()));
        let slots = self.slots();
        // A consumer that is to be added is locked by that, against others who add it.
        let is_new = tables.add_imported(session.as_mut(), name, &strategy, &slots).await?;
        let found = self.found(&tables, session.as_mut(), tables.for_update).await?;
        let mut plan = self.plan(log.hash_rule(), head, found.as_ref().filter(|_| !is_new));
        if is_new && let Some(twin) = tables.twin(session.as_mut(), name).await? {
            plan.refusals.push(Refusal::Name(twin_problem(&twin)));
        }
        if !plan.refusals.is_empty() {
            let (consumer, refusals) = (name.clone(), plan.refusals);
            return Err(ImportError::Refused { consumer, refusals });
        }
        let old = found.map(|found| found.cursors).unwrap_or_default();
        let is_audited = tables.is_audited_in(session.as_mut(), name).await?;
        let mut statements = tables.import(name, (&strategy, &slots), &old, cursors, is_audited);
        statements.push(tables.belongs_to(name, log_identity));
        let done = session.run(statements, End::Commit).await;
        done.map_err(|failed| tables.error(failed))?;
        let detail = format!("at={} minimum={}", log.at(), plan.minimum);
        log.events().of(name).emit(Happening::noticed(Notice::Imported, detail));
        Ok(plan)
    }

    fn strategy_text(&self, log_rule: HashRule) -> String {
        strategy_text(self.strategy, self.rule.unwrap_or(log_rule))
    }

    async fn found(
        &self,
        tables: &Tables,
        session: &mut dyn Session,
        lock: &str,
    ) -> Result<Option<Found>, StoreError> {
        let name = &self.consumer;
        let Some(registered) = tables.registered_in(session, name, lock).await? else {
            return Ok(None);
        };
        if !lock.is_empty() {
            // Whoever lets slots go adds a row, which a statement that waited for it does not see.
            tables.cursors_in(session, name, lock).await?;
        }
        Ok(Some(Found {
            registered,
            cursors: tables.cursors_in(session, name, "").await?,
            owners: tables.living_owners(session, name).await?,
            parked_keys: tables.parked_in(session, name).await?,
        }))
    }
}

//! Audits: whether a consumer's handler received every event once and in order, proven on a live system.
//!
//! While a consumer is audited, each of its commits adds a row to a record, in its own transaction: which slots, from
//! where to where, and a digest of what the handler received (`tables/audit.rs`). A proof compares these rows with
//! each other, with the log and with the cursors (`proof`; what it compares is pure and in the core).

mod proof;

pub use proof::{AuditError, AuditProgress, Proof};

use crate::consumers::Consumers;
use crate::operate_error::{Obstacle, OperateError};
use crate::tables::Tables;
use anabranch_core::{Position, StoreError};
use anabranch_store::database::{End, Statement, Topic};
use jiff::Timestamp;
use serde::Serialize;

/// A consumer that is audited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditStatus {
    /// Which one.
    pub consumer: String,
    /// Since when.
    pub since: Timestamp,
    /// How many rows its record has.
    pub records: u64,
    /// When all of it was proven last.
    pub proven_at: Option<Timestamp>,
    /// Every slot was proven up to here then.
    pub proven_up_to: Option<Position>,
}

impl Consumers {
    /// Begins to audit a consumer; says whether it was not audited before. From here on each commit records what its
    /// handler received. Its workers go on: their slots are taken from them and claimed again, so that no batch
    /// commits without its record.
    ///
    /// Workers of older versions know nothing of it, so as long as one runs the consumer it is refused. So are
    /// consumers of rows, such as pools: there is no log to compare with.
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch_runtime::Consumers;
    /// let consumers = Consumers::new(&log);
    /// consumers.start_audit("order_summary").await?;
    /// // Later, and as often as you like, while its workers run:
    /// let proof = consumers.audit("order_summary", |_| {}).await?;
    /// println!("{} events were handed over once and in order", proof.proven.handed);
    /// # Ok(()) }
    /// ```
    pub async fn start_audit(&self, name: &str) -> Result<bool, OperateError> {
        self.must_be_auditable(name).await?;
        let stored = self.tables.identity(name).await?;
        if stored.is_none_or(|stored| stored.is_partial()) {
            return Err(self.not_possible(name, Obstacle::NeverRun));
        }
        let old = self.tables.workers_before_audits(name).await?;
        if !old.is_empty() {
            return Err(self.not_possible(name, Obstacle::OldWorkers { workers: old }));
        }
        Ok(begin(&self.tables, name).await?)
    }

    /// Ends the audit of a consumer, and removes its record; says whether it was audited.
    pub async fn stop_audit(&self, name: &str) -> Result<bool, OperateError> {
        self.must_be_auditable(name).await?;
        let mut session = self.tables.database.control();
        // Whoever is about to commit does so before this, or not at all.
        self.tables.lock(session.as_mut(), name).await?;
        let was_audited = self.tables.is_audited_in(session.as_mut(), name).await?;
        let statements = if was_audited { self.tables.end_record(name) } else { Vec::new() };
        let done = session.run(statements, End::Commit).await;
        done.map_err(|failed| self.tables.error(failed))?;
        Ok(was_audited)
    }

    /// The consumers that are audited, and when all of their record was proven last.
    pub async fn audits(&self) -> Result<Vec<AuditStatus>, StoreError> {
        self.tables.database.require_newest_schema()?;
        self.tables.audited().await
    }

    /// Refuses what has nothing to compare, and logs that are older than this.
    async fn must_be_auditable(&self, name: &str) -> Result<(), OperateError> {
        self.tables.database.require_newest_schema()?;
        match self.must_follow_log(name).await {
            Err(OperateError::NotPossible { because: Obstacle::NoPosition { kind }, .. }) => {
                Err(self.not_possible(name, Obstacle::NotOfLog { kind }))
            }
            followed => followed,
        }
    }
}

/// Begins the record of a consumer, unless it has one; says whether it had none.
pub(crate) async fn begin(tables: &Tables, name: &str) -> Result<bool, StoreError> {
    let mut session = tables.database.control();
    // Whoever is about to commit without a record does so before this, or not at all.
    let locked = tables.lock(session.as_mut(), name).await?;
    let is_new = !tables.is_audited_in(session.as_mut(), name).await?;
    let mut statements = Vec::new();
    if is_new {
        statements = tables.begin_record(session.as_mut(), name, &locked.cursors).await?;
        statements.extend(tables.fence_all(name));
        statements.push(Statement::signal(Topic::Workers));
    }
    let done = session.run(statements, End::Commit).await;
    done.map_err(|failed| tables.error(failed))?;
    Ok(is_new)
}

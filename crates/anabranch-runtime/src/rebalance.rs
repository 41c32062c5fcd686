//! Moving slots for their load now, since somebody asks for it: the plan that workers make by themselves, without the
//! pause between two of them.

use crate::consumers::Consumers;
use crate::operate_error::OperateError;
use crate::tables::loads::Levelled;
use anabranch_core::engine_event::SlotMove;
use serde::Serialize;

/// What moves for the load of slots, or would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rebalance {
    /// The replica set.
    pub replica_set: String,
    /// Its generation: the one that was made if slots move, else the current one; of a preview always that.
    pub generation: i64,
    /// How many slots go from whom to whom; none if the load is even enough.
    pub moves: Vec<SlotMove>,
    /// Workers that have not measured the load of the slots that they own now. What they share with others does not
    /// move before they have.
    pub unmeasured: Vec<String>,
}

impl Consumers {
    /// What [`rebalance`](Self::rebalance) would do now. Nothing is changed.
    pub async fn rebalance_preview(&self, replica_set: &str) -> Result<Rebalance, OperateError> {
        self.level(replica_set, None, false).await
    }

    /// Moves slots of a replica set for the load that its workers have measured, now: without the pause that they keep
    /// between two such moves. As few as balance allows, and none if no worker has a quarter more than its share; then
    /// there is no new generation either. Workers that do not measure ([`Tuning::never_rebalance`]) are named.
    ///
    /// [`Tuning::never_rebalance`]: crate::Tuning::never_rebalance
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::Consumers;
    /// let consumers = Consumers::new(&log);
    /// let slots: usize = consumers.rebalance_preview("shop").await?.moves.iter().map(|one| one.slots).sum();
    /// println!("{slots} slots would move");
    /// let made = consumers.rebalance("shop").await?;
    /// println!("generation {}", made.generation);
    /// # Ok(()) }
    /// ```
    pub async fn rebalance(&self, replica_set: &str) -> Result<Rebalance, OperateError> {
        self.level(replica_set, None, true).await
    }

    /// The same, if the set is of this generation still.
    #[doc(hidden)]
    pub async fn rebalance_of(
        &self,
        replica_set: &str,
        generation: i64,
    ) -> Result<Rebalance, OperateError> {
        self.level(replica_set, Some(generation), true).await
    }

    async fn level(
        &self,
        replica_set: &str,
        expected: Option<i64>,
        applies: bool,
    ) -> Result<Rebalance, OperateError> {
        self.tables.database.require_newest_schema()?;
        let (at, name) = (|| self.log.at().to_owned(), replica_set.to_owned());
        let known = self.tables.replica_set_names().await?;
        if !known.contains(&name) {
            return Err(OperateError::NoSuchReplicaSet { at: at(), name, known });
        }
        let statements = self.around(Vec::new());
        match self.tables.level(replica_set, expected, applies.then_some(statements)).await? {
            Some(Levelled { generation, moves, unmeasured }) => {
                Ok(Rebalance { replica_set: name, generation, moves, unmeasured })
            }
            None => Err(OperateError::SetChanges { at: at(), name }),
        }
    }
}

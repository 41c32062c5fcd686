//! Handling one key again: asked for here, done by the worker that owns its slot.

use crate::consumer::{PROJECTION, VIEW, follows_log};
use crate::consumers::Consumers;
use crate::operate_error::{Obstacle, OperateError};
use crate::tables::consumers::Registered;
use crate::tables::parked::Asked;
use anabranch_core::{Partition, Position, Slot};
use anabranch_store::database::Statement;
use std::collections::BTreeMap;

impl Consumers {
    /// Asks for one key to be handled again, from its first event on, while all other keys go on: the worker that owns
    /// its slot undoes what was made of it and handles its events in order. Its later events wait behind them. The key is
    /// written as [`parked`](Self::parked) has it, such as `Order:ord-123`.
    ///
    /// Possible with views (which lose the rows of the key), subscribers and webhooks (which deliver again, under the
    /// same ids), and with projections that have a [`reset_key`](crate::Projection::reset_key) hook. A key that is parked
    /// may be handled again as well; what waits behind it keeps its order. Events that were left out once come again.
    /// Until it is done, [`parked`](Self::parked) shows the key; if it fails again, it is parked like any other.
    ///
    /// Refused if the log no longer has its first events, since what was made of deleted ones cannot be made again: see
    /// [`replay_what_is_left_of_key`](Self::replay_what_is_left_of_key).
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_runtime::OperateError> {
    /// use anabranch_runtime::{Consumers, Obstacle, OperateError};
    /// match Consumers::new(&log).replay_key("order_summary", "Order:ord-123").await {
    ///     Err(OperateError::NotPossible { because: Obstacle::NoKeyReset { .. }, .. }) => {
    ///         println!("it has no hook for that: replay all of it");
    ///     }
    ///     asked => asked?,
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn replay_key(&self, name: &str, key: &str) -> Result<(), OperateError> {
        self.ask_replay_of_key(name, key, false).await
    }

    /// [`replay_key`](Self::replay_key), though the log may have lost the first events of the key: what was made of those
    /// cannot be made again.
    pub async fn replay_what_is_left_of_key(
        &self,
        name: &str,
        key: &str,
    ) -> Result<(), OperateError> {
        self.ask_replay_of_key(name, key, true).await
    }

    async fn ask_replay_of_key(
        &self,
        name: &str,
        key: &str,
        accepts_missing: bool,
    ) -> Result<(), OperateError> {
        let slot = self.can_replay_key(name, key, accepts_missing).await?;
        let mut statements = vec![self.tables.no_problem(name)];
        statements.push(self.tables.ask_again(name, (key, slot), Asked::Replay));
        self.on_existing(name, statements).await
    }

    /// Refuses what [`replay_key`](Self::replay_key) would refuse; answers with the slot of the key.
    #[doc(hidden)]
    pub async fn can_replay_key(
        &self,
        name: &str,
        key: &str,
        accepts_missing: bool,
    ) -> Result<Slot, OperateError> {
        let (found, partition) = self.must_repeat(name).await?;
        let slot = self.slot_of(name, key, &partition)?;
        let makes_something = [PROJECTION, VIEW].contains(&found.kind.as_str());
        if makes_something && !accepts_missing {
            self.must_have_first(name, key).await?;
        }
        Ok(slot)
    }

    /// The statements that ask for some events of some keys to be delivered again, or why that is not possible.
    #[doc(hidden)]
    pub async fn deliver_again(
        &self,
        name: &str,
        keys: &BTreeMap<String, Vec<Position>>,
    ) -> Result<Vec<Statement>, OperateError> {
        let (_, partition) = self.must_repeat(name).await?;
        let mut statements = Vec::with_capacity(2 * keys.len() + 1);
        statements.push(self.tables.is_there(name));
        for (key, positions) in keys {
            let slot = self.slot_of(name, key, &partition)?;
            // The row of the key first: the lane that does it locks that before it looks at the events.
            statements.push(self.tables.ask_again(name, (key, slot), Asked::Resend));
            let events = positions.iter().map(|position| (*position, None));
            statements.push(self.tables.keep_replayed(name, key, events));
        }
        Ok(statements)
    }

    /// Refuses what cannot be handled again, key by key; says how it is partitioned.
    async fn must_repeat(&self, name: &str) -> Result<(Registered, String), OperateError> {
        self.tables.database.require_newest_schema()?;
        let Some(found) = self.tables.registered(Some(name)).await?.pop() else {
            return Err(self.unknown(name).await);
        };
        let refuse = |because| Err(self.not_possible(name, because));
        if !follows_log(&found.kind) {
            return refuse(Obstacle::NoPosition { kind: found.kind });
        }
        self.must_have_log(&found).await?;
        let workers = self.tables.workers_before_key_replays(name).await?;
        let replays_keys = self.tables.replays_keys(name).await?;
        let stored = self.tables.identity(name).await?;
        let partition = stored.and_then(|stored| stored.partition);
        let (Some(replays_keys), Some(partition), true) =
            (replays_keys, partition, workers.is_empty())
        else {
            return refuse(Obstacle::KeyReplayUnknown { workers });
        };
        if !replays_keys {
            return refuse(Obstacle::NoKeyReset { kind: found.kind });
        }
        if self.tables.edition(name).await?.is_some() {
            return refuse(Obstacle::KeyReplayAudited);
        }
        Ok((found, partition))
    }

    fn slot_of(&self, name: &str, key: &str, partition: &str) -> Result<Slot, OperateError> {
        Partition::slot_of_key(partition, key).ok_or_else(|| {
            let (key, partition) = (key.to_owned(), partition.to_owned());
            self.not_possible(name, Obstacle::NotAKey { key, partition })
        })
    }

    /// Refuses a key whose first events the log may have lost.
    async fn must_have_first(&self, name: &str, key: &str) -> Result<(), OperateError> {
        let first = self.first_after(Position::START).await?;
        let first = first.map(|event| event.position());
        if first.is_some_and(|first| first.get() == 1) {
            return Ok(());
        }
        let is_new = self.tables.cursors(name).await?;
        if is_new.iter().all(|cursor| cursor.position == Position::START) {
            return Ok(());
        }
        Err(self.not_possible(name, Obstacle::KeyLacksEvents { key: key.to_owned(), first }))
    }
}

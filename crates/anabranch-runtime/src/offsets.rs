//! How far a consumer is, partition by partition, and what going to another number of partitions moves.

use crate::backlog::Backlog;
use crate::consumer::follows_log;
use crate::consumers::Consumers;
use crate::operate_error::{Obstacle, OperateError};
use crate::standing;
use crate::status::{Owner, WorkerStatus, owner};
use anabranch_core::rescale::{self, Extent, Move};
use anabranch_core::{Cursor, FixedPartition, InputError, Position, SlotSet};
use serde::Serialize;

/// How far a consumer is, in parts.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Offsets {
    /// Its name.
    pub consumer: String,
    /// The end of the log.
    pub head: Position,
    /// All its events up to here are done, those of parked and retrying keys apart.
    pub minimum: Position,
    /// What is not handled: see [`ConsumerStatus::lag`](crate::ConsumerStatus::lag).
    pub lag: u64,
    /// What more workers could do: without what is parked.
    pub lag_ready: u64,
    /// Its partitions, or its cursors.
    pub parts: Vec<Offset>,
}

/// How far a part of a consumer is.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Offset {
    /// Which part, in words: a partition, or the slots of a cursor.
    pub part: String,
    /// Its slots, and where they stand.
    #[serde(flatten)]
    pub extent: Extent,
    /// What is not handled of it: the positions from the last of them to the end of the log, and the
    /// events of its keys that are parked or retrying.
    pub lag: u64,
    /// What more workers could do: without what is parked.
    pub lag_ready: u64,
    /// Who moves it on: each owner once.
    pub owners: Vec<Owner>,
}

/// What going from so many fixed partitions to so many others moves. Nothing has to be done for it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Rescale {
    /// As it is.
    pub before: Offsets,
    /// As it will be.
    pub after: Offsets,
    /// Which slots go where.
    pub moves: Vec<Move>,
    /// The workers that run as one of the old partitions.
    pub running: Vec<WorkerStatus>,
}

impl Rescale {
    /// How many slots stay with the process that has the same index.
    #[must_use]
    pub fn staying(&self) -> usize {
        self.moves.iter().filter(|one| one.stays()).map(|one| one.extent.slots).sum()
    }

    /// How many slots go to a process with another index.
    #[must_use]
    pub fn moving(&self) -> usize {
        self.moves.iter().filter(|one| !one.stays()).map(|one| one.extent.slots).sum()
    }
}

/// The cursors of a consumer at one time, and who is there.
struct Look {
    name: String,
    cursors: Vec<Cursor>,
    workers: Vec<WorkerStatus>,
    head: Position,
    backlog: Backlog,
}

impl Consumers {
    /// How far a consumer is: cursor by cursor, or for so many fixed partitions (1 to 5040).
    ///
    /// ```
    /// # async fn f(log: anabranch_store::Log) -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch_runtime::Consumers;
    /// let offsets = Consumers::new(&log).offsets("order_summary", Some(3)).await?;
    /// for part in &offsets.parts {
    ///     println!("{} has {} events to do", part.part, part.lag_ready);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn offsets(&self, name: &str, total: Option<u16>) -> Result<Offsets, OperateError> {
        let partitions = total.map(partitions).transpose()?;
        let look = self.look(name).await?;
        Ok(match partitions {
            Some(partitions) => look.of(&partitions),
            None => look.by_cursor(),
        })
    }

    /// What going from `from` fixed partitions to `to` moves. Slots carry their positions, so there is
    /// nothing to migrate: this looks, and changes nothing.
    pub async fn rescale(&self, name: &str, from: u16, to: u16) -> Result<Rescale, OperateError> {
        let (old, new) = (partitions(from)?, partitions(to)?);
        let look = self.look(name).await?;
        let moves = rescale::moves(&look.cursors, from, to);
        let running = if from == to { Vec::new() } else { look.running(&old) };
        Ok(Rescale { before: look.of(&old), after: look.of(&new), moves, running })
    }

    async fn look(&self, name: &str) -> Result<Look, OperateError> {
        let workers = self.workers().await?;
        let registered = self.tables.registered(Some(name)).await?.pop();
        let Some(registered) = registered else { return Err(self.unknown(name).await) };
        self.must_have_log(&registered).await?;
        if let Some(reason) = standing::reason(&self.log, &self.tables, &registered).await? {
            // People delete old events by what this says, and so what would show it.
            return Err(self.not_possible(name, Obstacle::WoundBack { what: reason.to_string() }));
        }
        let mut cursors = self.tables.cursors(name).await?;
        // After the cursors: they may move on meanwhile, and a lag is never negative.
        let (head, drawn) = (self.log.head().await?, self.log.store().drawn().await?);
        if !follows_log(&registered.kind) {
            // Whoever finds its work elsewhere is never behind the log.
            cursors.iter_mut().for_each(|cursor| cursor.position = head);
        }
        if let Some(beyond) = cursors.iter().map(|cursor| cursor.position).max()
            && beyond > drawn
        {
            // Any count of events would be wrong.
            return Err(self.not_possible(name, Obstacle::BeyondLog { position: beyond, drawn }));
        }
        let lowest = cursors.iter().map(|cursor| cursor.position).min().unwrap_or_default();
        let backlog = Backlog::of(&self.tables, name, &registered.kind, lowest).await?;
        Ok(Look { name: name.to_owned(), cursors, workers, head, backlog })
    }
}

fn partitions(total: u16) -> Result<Vec<FixedPartition>, InputError> {
    (0..total.max(1)).map(|index| FixedPartition::new(index, total)).collect()
}

impl Look {
    fn of(&self, partitions: &[FixedPartition]) -> Offsets {
        let extents = rescale::extents(&self.cursors, partitions.len() as u16);
        let part = |(partition, extent): (&FixedPartition, Extent)| {
            self.offset(partition.to_string(), extent, &partition.slots())
        };
        self.sum(partitions.iter().zip(extents).map(part).collect())
    }

    fn by_cursor(&self) -> Offsets {
        let part = |cursor: &Cursor| {
            let at = Some(cursor.position);
            let extent = Extent { slots: cursor.slots.len(), lowest: at, highest: at };
            self.offset(cursor.slots.to_string(), extent, &cursor.slots)
        };
        self.sum(self.cursors.iter().map(part).collect())
    }

    fn sum(&self, parts: Vec<Offset>) -> Offsets {
        let minimum = parts.iter().filter_map(|part| part.extent.lowest).min().unwrap_or_default();
        let (consumer, head) = (self.name.clone(), self.head);
        let lag = self.backlog.lag(&SlotSet::all(), minimum, behind(minimum, head));
        Offsets { consumer, head, minimum, lag: lag.all, lag_ready: lag.ready, parts }
    }

    fn offset(&self, part: String, extent: Extent, slots: &SlotSet) -> Offset {
        let mut owners = Vec::new();
        for cursor in self.cursors.iter().filter(|cursor| !cursor.slots.is_disjoint(slots)) {
            let owner = owner(cursor, &self.workers);
            if !owners.contains(&owner) {
                owners.push(owner);
            }
        }
        let lowest = extent.lowest.unwrap_or(self.head);
        let lag = self.backlog.lag(slots, lowest, behind(lowest, self.head));
        Offset { part, extent, lag: lag.all, lag_ready: lag.ready, owners }
    }

    /// The living workers that run as one of these partitions, in a replica set that owns something of
    /// the consumer: standbys are among them.
    fn running(&self, partitions: &[FixedPartition]) -> Vec<WorkerStatus> {
        let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        let owns = |worker: &&WorkerStatus| {
            self.cursors.iter().any(|cursor| cursor.owner.as_ref() == Some(&worker.id))
        };
        let sets: Vec<&str> =
            self.workers.iter().filter(owns).map(|worker| worker.replica_set.as_str()).collect();
        let is_old = |worker: &&WorkerStatus| {
            worker.is_alive
                && sets.contains(&worker.replica_set.as_str())
                && names.contains(&worker.runs)
        };
        self.workers.iter().filter(is_old).cloned().collect()
    }
}

/// How many positions lie between one and the end of the log.
pub(crate) fn behind(position: Position, head: Position) -> u64 {
    head.get().saturating_sub(position.get())
}

//! One look at the log: what `status` reads, and which slots have keys that have failed.

use super::why::Why;
use crate::status::POOL;
use anabranch::operate::{ConsumerStatus, Consumers, UnrunPool, WorkerStatus};
use anabranch::workpool::{PoolCounts, Tasks};
use anabranch::{Log, Position};
use std::collections::BTreeMap;
use std::time::Instant;

/// Of how many failed keys of a consumer the slots are shown.
const MOST_KEYS: usize = 500;

/// What was seen.
pub(super) struct Looked {
    pub(super) at: Instant,
    pub(super) head: Position,
    pub(super) consumers: Vec<ConsumerStatus>,
    /// Pools that have tasks, and that no worker has run yet.
    pub(super) unrun: Vec<UnrunPool>,
    /// How many tasks the pools have, if there is one.
    pub(super) pools: Vec<PoolCounts>,
    pub(super) workers: Vec<WorkerStatus>,
    pub(super) marks: BTreeMap<String, Vec<(u16, Why)>>,
}

/// Looks at all consumers, or at one.
pub(super) async fn look(log: Log, only: Option<String>) -> anyhow::Result<Looked> {
    let (at, consumers) = (Instant::now(), Consumers::new(&log));
    let mut unrun = consumers.unrun_pools().await?;
    unrun.retain(|pool| only.as_ref().is_none_or(|name| pool.name == *name));
    let mut all = match &only {
        Some(_) if !unrun.is_empty() => Vec::new(),
        Some(name) => vec![consumers.status(name).await?],
        None => consumers.list().await?,
    };
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let pools = match all.iter().any(|status| status.kind == POOL) {
        true => Tasks::open_counts(&log).await?,
        false => Vec::new(),
    };
    let mut marks = BTreeMap::new();
    let has_failed = |status: &&ConsumerStatus| {
        status.kind != POOL && status.parked_keys + status.retrying_keys > 0
    };
    for status in all.iter().filter(has_failed) {
        let keys = consumers.parked_page(&status.name, None, MOST_KEYS).await?;
        let slots = keys.iter().map(|key| (key.slot.get(), Why::of_key(key.state)));
        marks.insert(status.name.clone(), slots.collect());
    }
    let (workers, head) = (consumers.workers().await?, log.head().await?);
    Ok(Looked { at, head, consumers: all, unrun, pools, workers, marks })
}

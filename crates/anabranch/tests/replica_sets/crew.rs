//! Workers that come and go, each with connections of its own, as processes have.

use crate::support::*;
use anabranch::Tuning;
use anabranch::operate::{Consumers, Generation, Owner};
use anabranch::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So long that no case waits for it: whoever is taken over from was noticed in another way.
pub const LONG_LEASE: Duration = Duration::from_secs(300);

/// The same, with many signs of life: for cases that wait for what a heartbeat says.
pub fn quick() -> Tuning {
    Tuning::default().lease(LONG_LEASE).heartbeat(Duration::from_millis(50))
}

/// Appends to the same streams for as long as it lives.
pub struct Appender {
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<u64>,
}

impl Appender {
    pub const STREAMS: u64 = 40;

    pub fn start(log: &Log) -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let log = log.clone();
        let task = tokio::spawn(async move {
            let mut number = 0;
            while stopped.try_recv().is_err() {
                number += 1;
                fill(&log, 0..Self::STREAMS, number..=number).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            number
        });
        Self { stop, task }
    }

    /// How many events each stream has.
    pub async fn finish(self) -> u64 {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
}

/// How many slots each living worker owns of a consumer; none if some slot is not owned by one.
pub async fn owned(log: &Log, consumer: &str) -> Option<BTreeMap<String, usize>> {
    let mut owned = BTreeMap::new();
    // There is none before it first runs.
    for cursor in Consumers::new(log).status(consumer).await.ok()?.cursors {
        let Owner::Worker(worker) = cursor.owner else { return None };
        *owned.entry(worker.id).or_default() += cursor.slot_count;
    }
    Some(owned)
}

/// Waits until so many workers own all slots, evenly.
pub async fn until_shared(log: &Log, consumer: &str, workers: usize) -> BTreeSet<String> {
    let what = format!("{workers} workers that share all slots");
    until(&what, async || {
        let owned = owned(log, consumer).await?;
        let fair = 5040 / workers;
        let is_even = owned.values().all(|slots| slots.abs_diff(fair) <= 1);
        (owned.len() == workers && is_even).then(|| owned.into_keys().collect())
    })
    .await
}

pub async fn generations(log: &Log) -> Vec<Generation> {
    Consumers::new(log).generations(None, 100).await.unwrap()
}

/// Waits until everything is handled, and proves it.
pub async fn until_proven(log: &Log, table: &str, streams: u64, each: u64) {
    let events = (streams * each) as i64;
    until("all events", async || (proof(log, table).await.handled >= events).then_some(())).await;
    let all = Proof { handled: events, doubled: 0, keys: streams as i64, wrong: 0 };
    assert_eq!(proof(log, table).await, all);
}

/// Who has handled events.
pub async fn handlers(log: &Log, table: &str) -> BTreeSet<String> {
    let sql = format!("SELECT DISTINCT worker FROM {table}");
    query(log, &sql, vec![]).await.iter().map(|row| row.get(0).unwrap()).collect()
}

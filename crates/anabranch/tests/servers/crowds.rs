//! Many workers on a server with few connections: all slots advance, and nobody takes more than its share.

use crate::budget::{options, sessions, url_of};
use crate::server::Server;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::{Consumers, Owner, SLOTS};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts, and writes nothing.
struct Count {
    handled: Arc<AtomicU64>,
}

impl Projection for Count {
    fn name(&self) -> &str {
        "count"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, _: &Event, _: &mut Tx<'_>) -> Result<()> {
        self.handled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A stream for each slot.
fn streams(log: &Log) -> Vec<StreamId> {
    let mut found: BTreeMap<u16, String> = BTreeMap::new();
    for number in 0_u64.. {
        let id = number.to_string();
        found.entry(log.hash_rule().slot(&id).get()).or_insert(id);
        if found.len() == usize::from(SLOTS) {
            break;
        }
    }
    found.values().map(|id| StreamId::new("Order", id.clone()).unwrap()).collect()
}

async fn append_to_each(log: &Log, streams: &[StreamId]) {
    for some in streams.chunks(840) {
        let append = some.iter().fold(Append::new(), |append, stream| {
            append.to(stream, Expected::Any, [NewEvent::new("Counted", ())])
        });
        log.append_all(append).await.unwrap();
    }
}

/// Waits until every slot has an owner that has handled all there is; returns the owners.
async fn until_all_advance(log: &Log, workers: usize) -> BTreeSet<String> {
    let head = log.head().await.unwrap();
    until("all slots advance", async || {
        let status = Consumers::of(log).status("count").await.ok()?;
        let owners: BTreeSet<String> =
            status.cursors.iter().filter_map(|cursor| owner(&cursor.owner)).collect();
        let slots: usize = status.cursors.iter().map(|cursor| cursor.slots.len()).sum();
        assert_eq!(slots, usize::from(SLOTS), "each slot once");
        let is_done = status.cursors.iter().all(|cursor| cursor.position >= head);
        (is_done && owners.len() == workers).then_some(owners)
    })
    .await
}

fn owner(owner: &Owner) -> Option<String> {
    match owner {
        Owner::Worker(worker) => Some(worker.id.clone()),
        _ => None,
    }
}

/// So many workers of four lanes, each with sessions of its own.
async fn crowd(workers: usize, connections: usize, most: usize) {
    let server = Server::start(&[&format!("max_connections={connections}")]);
    let log = anabranch::connect_with(&server.url(), &options("crowd")).await.unwrap();
    let streams = streams(&log);
    append_to_each(&log, &streams).await;
    let urls: Vec<String> = (0..workers).map(|number| url_of(&server, number)).collect();
    let handled = Arc::new(AtomicU64::new(0));
    let start_one = async |url: String| {
        let handled = Arc::clone(&handled);
        let log = until("a connection", async || {
            anabranch::connect_with(&url, &options("crowd")).await.ok()
        })
        .await;
        let set = ReplicaSet::new("crowd").lanes(4).projection(Count { handled });
        start(&log, set.lease(Duration::from_secs(20)))
    };
    let running = futures_util::future::join_all(urls.into_iter().map(start_one)).await;
    until_all_advance(&log, workers).await;
    // And once all are there, all lanes at work at the same time.
    append_to_each(&log, &streams).await;
    until_all_advance(&log, workers).await;
    let taken = sessions(&server);
    assert_eq!(taken.len(), workers, "all have sessions: {taken:?}");
    assert!(taken[0] <= most, "each takes its lanes and four at most: {taken:?}");
    assert_eq!(handled.load(Ordering::Relaxed), 2 * u64::from(SLOTS), "each event once");
    let stopped = futures_util::future::join_all(running.into_iter().map(Running::stop)).await;
    assert_eq!(stopped.len(), workers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_workers_of_four_lanes_run_on_420_connections() {
    crowd(50, 420, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_workers_of_four_lanes_run_on_100_connections() {
    crowd(16, 100, 8).await;
}

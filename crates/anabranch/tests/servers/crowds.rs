//! Many workers on a server with few connections: all slots advance, and nobody takes more than its share.

use crate::budget::{Monitor, options, url_of, url_of_owner};
use crate::server::Server;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::{Consumers, Owner, SLOTS};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many sessions a process of four lanes takes at most.
const MOST: i64 = 8;
const LOOK: Duration = Duration::from_millis(200);

/// Writes a row for each event.
struct Count;

impl Projection for Count {
    fn name(&self) -> &str {
        "count"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx<'_>) -> Result<()> {
        tx.execute("INSERT INTO counted VALUES ($1)", params![event.position()]).await
    }

    async fn set_up(&self, tx: &mut Tx<'_>) -> Result<()> {
        tx.execute("CREATE TABLE counted (position BIGINT PRIMARY KEY)", vec![]).await
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
        // A status of many cursors is not for nothing.
        tokio::time::sleep(LOOK).await;
        let status = Consumers::of(log).status("count").await.ok()?;
        let owners: BTreeSet<String> =
            status.cursors.iter().filter_map(|cursor| owner(&cursor.owner)).collect();
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
async fn crowd(workers: usize, connections: usize) {
    let server = Server::start(&[&format!("max_connections={connections}")]);
    let monitor = Monitor::of(&server).await;
    let owner = url_of_owner(&server);
    let log = anabranch::connect_with(&owner, &options("crowd")).await.unwrap();
    let streams = streams(&log);
    append_to_each(&log, &streams).await;
    let urls: Vec<String> = (0..workers).map(|number| url_of(&server, number)).collect();
    let start_one = async |url: String| {
        let log = until("a connection", async || {
            anabranch::connect_with(&url, &options("crowd")).await.ok()
        })
        .await;
        let set = ReplicaSet::new("crowd").lanes(4).projection(Count);
        start(&log, set.lease(Duration::from_secs(20)))
    };
    let running = futures_util::future::join_all(urls.into_iter().map(start_one)).await;
    until_all_advance(&log, workers).await;
    // What was opened while all joined at once is closed again.
    until("each takes its lanes and four at most", async || {
        monitor.sessions().await.iter().all(|taken| *taken <= MOST).then_some(())
    })
    .await;
    // And from then on, with all lanes at work at the same time.
    append_to_each(&log, &streams).await;
    let advanced = until_all_advance(&log, workers);
    tokio::pin!(advanced);
    loop {
        let look = async {
            let taken = monitor.sessions().await;
            assert_eq!(taken.len(), workers, "all have sessions: {taken:?}");
            if taken[0] > MOST {
                panic!("lanes and four at most: {taken:?}\n{}", monitor.busiest().await);
            }
            tokio::time::sleep(LOOK).await;
        };
        tokio::select! {
            _ = &mut advanced => break,
            () = look => {}
        }
    }
    let counted = number(&log, "SELECT count(*) FROM counted").await;
    assert_eq!(counted, 2 * i64::from(SLOTS), "each event once");
    // As a crash would: what fifty who leave one after the other do to a server is not the question here.
    running.into_iter().for_each(Running::crash);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_workers_of_four_lanes_run_on_420_connections() {
    crowd(50, 420).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_workers_of_four_lanes_run_on_100_connections() {
    crowd(16, 100).await;
}

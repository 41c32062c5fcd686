//! Many workers on a server with few connections: all slots advance, and nobody takes more than its share.

use crate::budget::{Monitor, options, url_of, url_of_owner};
use crate::server::Server;
use crate::support::*;
use anabranch::operate::{Consumers, Owner};
use anabranch::partitioning::SLOTS;
use anabranch::prelude::*;
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

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        tx.execute("INSERT INTO counted VALUES ($1)", params![event.position()]).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
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
        let status = Consumers::new(log).status("count").await.ok()?;
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

/// Six workers start at once where there are connections for three: three run, and the others hold nothing while
/// they wait. When one of the three stops, another runs.
async fn too_many(server: &Server, role: &str) {
    drop(anabranch::connect_with(&server.url_of(role, "x"), &options("crowd")).await.unwrap());
    let log = anabranch::connect_with(&server.url(), &options("crowd")).await.unwrap();
    let streams = streams(&log);
    append_to_each(&log, &streams).await;
    let start_one = async |number: usize| {
        // Another name makes it another process, as far as sessions go.
        let url = format!("{}?application_name=worker_{number}", server.url_of(role, "x"));
        let log = until("a connection", async || {
            anabranch::connect_with(&url, &options("crowd")).await.ok()
        })
        .await;
        let set = ReplicaSet::new("crowd").lanes(4).projection(Count);
        start(&log, set.lease(Duration::from_secs(20)))
    };
    let mut running = futures_util::future::join_all((0..6).map(start_one)).await;
    until_all_advance(&log, 3).await;
    append_to_each(&log, &streams).await;
    let before = until_all_advance(&log, 3).await;
    // Whichever of them runs: those that wait stop at once, and free nothing.
    let after = loop {
        running.remove(0).stop().await;
        if running.len() == 2 {
            break until_all_advance(&log, 2).await;
        }
        append_to_each(&log, &streams).await;
        let now = until_all_advance(&log, 3).await;
        if now != before {
            break now;
        }
    };
    assert_ne!(after, before, "another runs instead of one that stopped");
    for running in running {
        running.stop().await;
    }
    let appended = log.head().await.unwrap();
    let counted = number(&log, "SELECT count(*) FROM counted").await;
    assert_eq!(counted as u64, appended.get(), "each event once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_workers_share_a_role_with_connections_for_three() {
    let server = Server::start(&["max_connections=60"]);
    url_of_owner(&server);
    server.ask("ALTER ROLE app CONNECTION LIMIT 17");
    too_many(&server, "app").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_workers_share_a_server_with_connections_for_three() {
    // Three are reserved, and the test itself needs two.
    let server = Server::start(&["max_connections=22"]);
    url_of_owner(&server);
    too_many(&server, "app").await;
}

//! How many sessions a process takes: its lanes at work, and four.

use crate::server::Server;
use crate::support::*;
use anabranch::Namespace;
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A role of its own for each process of a test: its sessions can be told from others' by it, whatever they
/// call themselves.
pub fn url_of(server: &Server, process: usize) -> String {
    server.ask(&format!("CREATE ROLE process_{process} SUPERUSER LOGIN PASSWORD 'x'"));
    server.url_of(&format!("process_{process}"), "x")
}

/// How many sessions each process has, the largest number first.
pub fn sessions(server: &Server) -> Vec<usize> {
    let count = "SELECT coalesce(string_agg(sessions::text, ' ' ORDER BY sessions DESC), '') FROM (\
                 SELECT count(*) AS sessions FROM pg_stat_activity \
                 WHERE usename LIKE 'process\\_%' GROUP BY usename) AS counted";
    server.ask(count).split_whitespace().map(|count| count.parse().unwrap()).collect()
}

pub fn options(namespace: &str) -> Options {
    Options { namespace: Namespace::new(namespace).unwrap(), ..Options::default() }
}

pub fn recorder(name: &str) -> Recorder {
    Recorder {
        name: name.to_owned(),
        table: format!("{name}_rows"),
        partition: Partition::entity("Order"),
        settings: Settings::default(),
        worker: "w".to_owned(),
        hook: None,
        handled: std::sync::Arc::default(),
    }
}

/// Three sets and two logs of four lanes each, one of them with nine consumers, and somebody who follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_takes_its_lanes_at_work_and_four() {
    let server = Server::start(&["max_connections=200"]);
    let url = url_of(&server, 0);
    let one = anabranch::connect_with(&url, &options("one")).await.unwrap();
    let two = anabranch::connect_with(&url, &options("two")).await.unwrap();
    let all: Vec<Recorder> = (0..11).map(|number| recorder(&format!("c_{number}"))).collect();
    let handled: Vec<Arc<AtomicU64>> = all.iter().map(|one| Arc::clone(&one.handled)).collect();
    let mut all = all.into_iter();
    let nine = all.by_ref().take(9);
    let nine = nine.fold(ReplicaSet::new("nine").lanes(4), ReplicaSet::projection);
    let sets = [
        start(&one, nine),
        start(&one, ReplicaSet::new("other").lanes(4).projection(all.next().unwrap())),
        start(&two, ReplicaSet::new("third").lanes(4).projection(all.next().unwrap())),
    ];
    let mut follower = one.subscribe(Query::all(), Position::START);
    fill(&one, 0..50, 1..=4).await;
    fill(&two, 0..50, 1..=4).await;
    until("all have handled all", async || {
        handled.iter().all(|count| count.load(Ordering::Relaxed) >= 200).then_some(())
    })
    .await;
    follower.next().await.unwrap().unwrap();
    // At rest: one session for each set, and four.
    until("a process at rest takes seven", async || (sessions(&server) == [7]).then_some(())).await;
    for set in sets {
        set.stop().await;
    }
}

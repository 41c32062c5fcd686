//! A server whose lock table is too small for a batch of appends.

use crate::server::Server;
use crate::support::{Db, fill, left_by};
use anabranch::Retry;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ORDERS: u64 = 3_000;

/// Makes copies of each event, each in a stream and with a tag of its own.
struct Copier {
    calls: Arc<AtomicU64>,
    /// So many of order 7, and one of each other.
    of_seven: u64,
}

impl Projection for Copier {
    fn name(&self) -> &str {
        "copier"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().retry(Retry::never())
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let copies = if event.stream_id() == "7" { self.of_seven } else { 1 };
        for copy in 0..copies {
            let id = format!("{}-{copy}", event.stream_id());
            let copied = NewEvent::new("Copied", copy).with_tag(format!("copy:{id}"));
            let stream = StreamId::new("Copy", id)?;
            tx.append(&stream, Expected::Any, [copied.caused_by(event)])?;
        }
        Ok(())
    }
}

async fn filled(server: &Server, orders: u64) -> Log {
    let log = Db::at(server.url()).log().await;
    for first in (0..orders).step_by(100) {
        fill(&log, first..first + 100, 1..=1).await;
    }
    log
}

fn small() -> Server {
    Server::start(&["max_locks_per_transaction=10", "max_connections=20"])
}

async fn copies(log: &Log) -> u64 {
    log.read(Query::types(["Copied"])).collect().await.unwrap().len() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_too_large_for_the_lock_table_is_made_smaller() {
    let server = small();
    let log = filled(&server, ORDERS).await;
    let calls = Arc::new(AtomicU64::new(0));
    let copier = Copier { calls: Arc::clone(&calls), of_seven: 1 };
    let set = ReplicaSet::new("s").lanes(1).projection(copier);
    let caught_up = tokio::time::timeout(crate::support::PATIENCE, set.catch_up(&log)).await;
    caught_up.unwrap().unwrap();
    assert_eq!(copies(&log).await, ORDERS);
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= ORDERS * 4, "{calls} calls for {ORDERS} events");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_too_large_for_the_lock_table_fails_alone() {
    let server = small();
    let log = filled(&server, 100).await;
    let copier = Copier { calls: Arc::default(), of_seven: 9_000 };
    let left = left_by(ReplicaSet::new("s").lanes(1).projection(copier), &log);
    let left = tokio::time::timeout(crate::support::PATIENCE, left).await.unwrap();
    assert_eq!((left.parked_keys, left.parked_events), (1, 1));
    let parked = Consumers::new(&log).parked("copier").await.unwrap();
    assert_eq!(parked[0].key, "Order:7");
    assert!(parked[0].error.contains("raise max_locks_per_transaction"), "{}", parked[0].error);
    assert_eq!(copies(&log).await, 99);
}

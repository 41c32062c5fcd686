//! The database goes away in the middle of it, and comes back.

use crate::support::{Db, Proof, fill, proof, query, start, until};
use anabranch::backend::database::Who;
use anabranch::operate::Consumers;
use anabranch::prelude::*;

/// Every session of the workers is ended by the server, again and again, wherever it stands: in a
/// commit too, whose outcome nobody then knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_and_double_nothing() {
    let db = Db::postgres();
    let (workers, outside) = (db.log_named("workers").await, db.log_named("outside").await);
    let recorder = db.recorder("orders").settings(Settings::default().batch_size(10));
    let table = recorder.table.clone();
    ReplicaSet::new("s").projection(recorder.clone()).catch_up(&outside).await.unwrap();
    fill(&outside, 0..20, 1..=100).await;
    let running = start(&workers, ReplicaSet::new("s").projection(recorder).lanes(3));
    // Whatever it has open goes by its own name, the rest by that of its connections.
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = $1 OR starts_with(application_name, $2)";
    let worker = until("a worker", async || {
        Consumers::new(&outside).workers().await.unwrap().pop().map(|worker| worker.id)
    });
    let prefix = Who::prefix(&worker.await);
    let mut cuts = 0;
    let mut last = 0;
    until("everything, between cuts", async || {
        let handled = proof(&outside, &table).await.handled;
        if handled == 2_000 {
            return Some(());
        }
        // Some progress between two cuts, so that they hit work and not only connecting.
        if handled > last && cuts < 12 {
            last = handled;
            cuts += 1;
            query(&outside, cut, params![format!("{}_workers", db.own), &prefix]).await;
        }
        None
    })
    .await;
    running.stop().await;
    assert!(cuts > 3, "cut {cuts} times");
    let all = Proof { handled: 2_000, doubled: 0, keys: 20, wrong: 0 };
    assert_eq!(proof(&outside, &table).await, all);
}

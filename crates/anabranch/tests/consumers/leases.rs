//! Leases, sessions and locks: who lives, who waits for whom, and for how long.

use crate::gates::*;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::backend::database::{End, Statement};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

on_both! {
    workers_that_died_are_not_kept_for_ever,
    a_worker_whose_lease_is_over_begins_anew,
}

on_postgres! {
    handlers_that_hold_all_sessions_do_not_look_dead,
    a_lock_of_somebody_else_does_not_outlast_the_grace_time,
}

/// Somebody may have begun to take its cursors: a lease that is over is never renewed.
async fn a_worker_whose_lease_is_over_begins_anew(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let set = ReplicaSet::new("s").projection(recorder).lease(Duration::from_secs(2));
    let running = start(&log, set);
    let alive = async || {
        let workers = Consumers::new(&log).workers().await.unwrap();
        workers.into_iter().find(|worker| worker.is_alive).map(|worker| worker.id)
    };
    until("its cursors", async || {
        let status = Consumers::new(&log).status("orders").await.ok()?;
        let owned =
            |c: &anabranch::operate::CursorStatus| c.owner != anabranch::operate::Owner::Unassigned;
        status.cursors.iter().all(owned).then_some(())
    })
    .await;
    let first = until("a worker", alive).await;
    let workers = table_of(&log, "workers");
    let end = Statement::new(format!("UPDATE {workers} SET lease_us = 0"), vec![]);
    log.store().database().begin().run(vec![end], End::Commit).await.unwrap();
    let second = until("a worker again", alive).await;
    assert_ne!(first, second);
    fill(&log, 0..5, 1..=2).await;
    until("the events", async || (proof(&log, &table).await.handled == 10).then_some(())).await;
    running.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 10, doubled: 0, keys: 5, wrong: 0 });
}

async fn workers_that_died_are_not_kept_for_ever(db: Db) {
    let log = db.log().await;
    let lease = Duration::from_millis(200);
    let set = |worker: &str| {
        ReplicaSet::new("s").projection(db.recorder("orders").worker(worker)).lease(lease)
    };
    let consumers = Consumers::new(&log);
    for _ in 0..2 {
        let other = db.log().await;
        let running = start(&other, set("crashes"));
        until("a worker", async || {
            consumers.workers().await.unwrap().iter().any(|w| w.is_alive).then_some(())
        })
        .await;
        running.crash();
        until("its end", async || {
            consumers.workers().await.unwrap().iter().all(|w| !w.is_alive).then_some(())
        })
        .await;
    }
    set("last").catch_up(&log).await.unwrap();
    let left = consumers.workers().await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// All sessions are in the hands of handlers that have read and now wait.
async fn handlers_that_hold_all_sessions_do_not_look_dead(db: Db) {
    struct Waiter(Arc<AtomicU32>, Arc<tokio::sync::Semaphore>);
    impl Projection for Waiter {
        fn name(&self) -> &str {
            "waiter"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, _: &Event, tx: &mut Tx) -> HandlerResult {
            tx.query("SELECT 1 AS one", vec![]).await?;
            self.0.fetch_add(1, Ordering::SeqCst);
            drop(self.1.acquire().await);
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..60, 1..=1).await;
    let sessions = db.options.sessions;
    let worker_log = db.log().await;
    let (inside, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let waiter = Waiter(Arc::clone(&inside), Arc::clone(&gate));
    let lease = Duration::from_millis(500);
    let set = ReplicaSet::new("s").projection(waiter).lanes(10).lease(lease);
    let running = start(&worker_log, set);
    until("handlers in all sessions", async || {
        (inside.load(Ordering::SeqCst) as usize >= sessions).then_some(())
    })
    .await;
    let select = format!("SELECT lease_us FROM {}", table_of(&log, "workers"));
    let mut seen = BTreeSet::new();
    let alive = until("signs of life, or its end", async || {
        seen.insert(number(&log, &select).await);
        let alive = Consumers::new(&log).workers().await.unwrap().iter().any(|w| w.is_alive);
        (!alive || seen.len() > 5).then_some(alive)
    })
    .await;
    gate.add_permits(1000);
    running.stop().await;
    assert!(alive, "its lease is over, though it only waits");
}

/// Told to stop while its consumer is locked, a worker ends within its grace time, more or less.
async fn a_lock_of_somebody_else_does_not_outlast_the_grace_time(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let set = || ReplicaSet::new("s").projection(db.recorder("orders"));
    set().catch_up(&log).await.unwrap();
    let lock = format!("SELECT name FROM {} FOR UPDATE", table_of(&log, "consumers"));
    let running = start(&log, set().grace(Duration::from_millis(200)));
    until("a worker", async || Consumers::new(&other).workers().await.unwrap().first().map(drop))
        .await;
    let held = hold(&other, lock).await;
    let ended = tokio::time::timeout(Duration::from_secs(15), running.stop()).await;
    drop(held);
    assert!(ended.is_ok(), "it still waits");
}

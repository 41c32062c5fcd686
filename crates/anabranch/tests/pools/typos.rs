//! A pool whose name nobody runs: somebody must hear of it.

use crate::ledger::*;
use crate::on_both;
use crate::said::Said;
use crate::support::*;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Tasks};
use std::time::Duration;

on_both! {
    a_pool_that_nobody_has_run_is_said_once_for_a_handle,
    a_pool_that_nobody_has_run_is_shown,
}

const UNRUN: &str = "no worker has run a pool of this name yet";

async fn a_pool_that_nobody_has_run_is_said_once_for_a_handle(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    ReplicaSet::new("s").pool(ledger).catch_up(&log).await.unwrap();
    let (said, _guard) = Said::listen();
    let misspelled = Tasks::new(&log, "leger");
    for number in 0..3 {
        misspelled.enqueue(NewTask::new("a", &number)).await.unwrap();
        misspelled.clone().enqueue(NewTask::new("a", &number).unique("u")).await.unwrap();
    }
    let lines = said.lines(UNRUN);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("pool=\"leger\""), "{lines:?}");
    // Also if the first has a key that must be looked at.
    Tasks::new(&log, "leger").enqueue(NewTask::new("a", &1).unique("u")).await.unwrap();
    assert_eq!(said.lines(UNRUN).len(), 2);
    Tasks::new(&log, "ledger").enqueue(NewTask::new("a", &1)).await.unwrap();
    assert_eq!(said.lines(UNRUN).len(), 2, "a worker has run it");
}

async fn a_pool_that_nobody_has_run_is_shown(db: Db) {
    let log = db.log().await;
    let consumers = Consumers::new(&log);
    assert_eq!(consumers.unrun_pools().await.unwrap(), []);
    let misspelled = Tasks::new(&log, "leger");
    let tasks = (0..3).map(|number| NewTask::new("a", &number)).collect();
    misspelled.enqueue_all(tasks).await.unwrap();
    misspelled.enqueue(NewTask::new("b", &1).run_after(Duration::from_secs(3_600))).await.unwrap();
    misspelled.enqueue(NewTask::new("c", &1)).await.unwrap();
    misspelled.pause_key("c").await.unwrap();
    Tasks::new(&log, "another").enqueue(NewTask::new("a", &1)).await.unwrap();
    let ledger = Ledger::new(&db, &log, "ledger").await;
    Tasks::new(&log, "ledger").enqueue(NewTask::new("a", &1)).await.unwrap();
    ReplicaSet::new("s").pool(ledger).catch_up(&log).await.unwrap();
    let shown = consumers.unrun_pools().await.unwrap();
    let shown: Vec<_> = shown.iter().map(|pool| (&*pool.name, pool.lag, pool.lag_ready)).collect();
    assert_eq!(shown, [("another", 1, 1), ("leger", 4, 3)]);
}

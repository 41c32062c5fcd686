//! Every event once and in order, whatever the lanes, and across restarts and rescaling.

use crate::on_both;
use crate::support::{Db, Proof, fill, proof, start, status, until};
use anabranch::prelude::*;
use anabranch::{Failure, FixedPartition, HandlerError, Retry, RunError};
use std::collections::BTreeSet;

on_both! {
    everything_is_handled_once_and_in_order,
    a_restart_goes_on_where_it_stopped,
    rescaling_fixed_partitions_loses_and_doubles_nothing,
    a_lane_without_events_writes_down_how_far_it_has_looked,
}

const STREAMS: u64 = 40;

fn all(events_each: i64) -> Proof {
    let keys = STREAMS as i64;
    Proof { handled: keys * events_each, doubled: 0, keys, wrong: 0 }
}

async fn everything_is_handled_once_and_in_order(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=50).await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let progress = ReplicaSet::new("s").projection(recorder).lanes(4).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await, all(50));
    assert_eq!(progress.consumers[0].handled, 2_000);
    let status = status(&log, "orders").await;
    assert_eq!(status.lag, 0, "{status:?}");
}

async fn a_restart_goes_on_where_it_stopped(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    for round in 0..4u64 {
        fill(&log, 0..STREAMS, round * 10 + 1..=round * 10 + 10).await;
        let lanes = [3, 1, 5, 2][round as usize];
        let set = ReplicaSet::new("s").projection(recorder.clone()).lanes(lanes);
        set.catch_up(&log).await.unwrap();
        assert_eq!(proof(&log, &table).await, all((round as i64 + 1) * 10));
    }
}

/// 3 → 5 → 2 → 7 → 1 partitions. In every step each partition is stopped at a position of its own, by an
/// event that it refuses; then each slot goes on from where it stood.
async fn rescaling_fixed_partitions_loses_and_doubles_nothing(db: Db) {
    let log = db.log().await;
    let retry = Retry::never().then(Failure::Stop);
    let settings = Settings::default().batch_size(7).retry(retry);
    let recorder = db.recorder("orders").settings(settings);
    let table = recorder.table.clone();
    ReplicaSet::new("s").projection(recorder.clone()).catch_up(&log).await.unwrap();
    let mut appended = 0;
    for total in [3u16, 5, 2, 7, 1] {
        let begin = log.head().await.unwrap().get();
        fill(&log, 0..STREAMS, appended + 1..=appended + 10).await;
        appended += 10;
        for index in 0..total {
            let partition = FixedPartition::new(index, total).unwrap();
            let last = begin + u64::from(index + 1) * 40;
            let hook = move |event: &Event| match event.position().get() <= last {
                true => Ok(()),
                false => Err(HandlerError::new("not today")),
            };
            let recorder = recorder.clone().worker(partition.to_string()).hook(hook);
            let set = ReplicaSet::new("s").projection(recorder).partition(partition).fail_fast();
            let ended = start(&log, set).ended().await;
            assert!(matches!(ended, Err(RunError::Stopped { .. })), "{ended:?}");
        }
        let cursors = status(&log, "orders").await.cursors;
        let positions: BTreeSet<_> = cursors.iter().map(|cursor| cursor.position).collect();
        assert!(positions.len() >= usize::from(total), "each stands elsewhere: {cursors:?}");
    }
    let behind = proof(&log, &table).await.handled;
    assert!(behind < 40 * 50, "something is left to do: {behind}");
    let set = ReplicaSet::new("s").projection(recorder).lanes(3);
    set.catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await, all(50));
    let status = status(&log, "orders").await;
    assert!(status.cursors.len() <= 3, "cursors that met are one again: {:?}", status.cursors);
}

/// What it looks for never comes. It must not look through the same events again after a restart.
async fn a_lane_without_events_writes_down_how_far_it_has_looked(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=5).await;
    let never = Settings::default().scope(Scope::types(["Never"]));
    let recorder = db.recorder("orders").settings(never);
    let running = start(&log, ReplicaSet::new("s").projection(recorder).lanes(2));
    until("it to look", async || {
        let known = anabranch::operate::Consumers::new(&log).list().await.unwrap();
        (known.first()?.lag == 0).then_some(())
    })
    .await;
    running.stop().await;
    assert_eq!(status(&log, "orders").await.position, log.head().await.unwrap());
}

//! Cursors that stand at different positions, when a record begins and when they are divided anew.

use crate::on_both;
use crate::proofs::{STREAMS, proven};
use crate::support::{Db, fill, proof, query};
use anabranch::FixedPartition;
use anabranch::events::{EngineEvent, Happening};
use anabranch::partitioning::SlotSet;
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

on_both! {
    lanes_get_the_rows_that_are_theirs,
    a_record_with_custom_keys_begins_at_different_positions,
}

/// Two cursors with records of their own become one and are divided, below one that is divided more often: new rows of
/// both are added by one claim, and each lane must hold the row of its own slots.
async fn lanes_get_the_rows_that_are_theirs(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let recorder = db.recorder("orders").settings(Settings::default().audit(true).batch_size(50));
    let table = recorder.table.clone();
    let run = async |index, total| {
        let part = FixedPartition::new(index, total).unwrap();
        let set = ReplicaSet::new("s").projection(recorder.clone()).partition(part);
        set.catch_up(&log).await.unwrap();
    };
    run(1, 3).await;
    fill(&log, 0..STREAMS, 11..=15).await;
    run(0, 3).await;
    // The one in the middle becomes two that go on from different rows, as two workers leave them that die.
    let database = log.database();
    let dialect = database.dialect();
    let (cursors, audit) = (dialect.table("cursors"), dialect.table("audit"));
    let half = |index| SlotSet::partition(index, 6).to_bytes().to_vec();
    for (sql, values) in [
        (
            format!(
                "INSERT INTO {audit} (consumer, kind, parents, slots, from_position, to_position, count, recorded_us) \
                 SELECT consumer, 'join', CAST(audit AS text), $1, position, position, 0, 0 FROM {cursors} \
                 WHERE position = 400"
            ),
            params![half(4)],
        ),
        (
            format!(
                "INSERT INTO {cursors} (consumer, slots, position, epoch, audit) SELECT consumer, $1, position, \
                 epoch, (SELECT max(id) FROM {audit}) FROM {cursors} WHERE position = 400"
            ),
            params![half(4)],
        ),
        (
            format!(
                "UPDATE {cursors} SET slots = $1 WHERE position = 400 AND audit < (SELECT max(id) FROM {audit})"
            ),
            params![half(1)],
        ),
    ] {
        query(&log, &sql, values).await;
    }
    let stand = format!("SELECT position FROM {cursors} ORDER BY position");
    let stand = query(&log, &stand, vec![]).await;
    let stand: Vec<i64> = stand.iter().map(|row| row.get(0).unwrap()).collect();
    assert_eq!(stand, [0, 400, 400, 600]);

    fill(&log, 0..STREAMS, 16..=20).await;
    let fenced = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fenced);
    let watch = move |event: &EngineEvent| {
        if let Happening::LaneFenced { .. } = event.what {
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let set = ReplicaSet::new("s").projection(recorder).lanes(7).observer(watch);
    set.catch_up(&log).await.unwrap();
    assert_eq!(fenced.load(Ordering::Relaxed), 0, "a lane holds the row of another one");
    let held = proof(&log, &table).await;
    assert_eq!((held.handled, held.doubled), (STREAMS as i64 * 20, 0));
    assert_eq!(proven(&log, "orders").await.proven.slots, 5_040);
}

/// Where slots are unknown, an event before the beginning of some slots may have been handled before the record began: what
/// is left of pruned rows must not say that nobody has handled it.
async fn a_record_with_custom_keys_begins_at_different_positions(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let key = Partition::custom("order", |event| Some(event.stream_id().to_owned()));
    let recorder = db.recorder("orders").partition(key);
    let table = recorder.table.clone();
    let part = FixedPartition::new(0, 2).unwrap();
    let set = ReplicaSet::new("s").projection(recorder.clone()).partition(part);
    set.catch_up(&log).await.unwrap();
    let consumers = anabranch::operate::Consumers::new(&log);
    consumers.start_audit("orders").await.unwrap();
    assert_eq!(proven(&log, "orders").await.pruned, 0, "not all slots have come that far");
    ReplicaSet::new("s").projection(recorder.clone()).catch_up(&log).await.unwrap();
    assert!(proven(&log, "orders").await.proven.handed > 0);
    fill(&log, 0..STREAMS, 11..=11).await;
    ReplicaSet::new("s").projection(recorder).lanes(3).catch_up(&log).await.unwrap();
    proven(&log, "orders").await;
    assert!(proven(&log, "orders").await.proven.handed == 0, "all was proven and pruned");
    let held = proof(&log, &table).await;
    assert_eq!((held.handled, held.doubled), (STREAMS as i64 * 11, 0));
}

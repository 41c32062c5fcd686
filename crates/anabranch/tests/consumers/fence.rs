//! Law 2: who has lost its cursors writes nothing. Standbys take over.

use crate::on_both;
use crate::support::{Db, Proof, fill, number, proof, start, status, until};
use anabranch::FixedPartition;
use anabranch::operate::Owner;
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both! {
    a_handler_that_sleeps_past_its_lease_is_fenced,
    a_second_process_with_the_same_partition_is_a_standby,
    a_crashed_owner_is_replaced_after_its_lease,
    a_commit_whose_cursor_moved_is_rolled_back,
}

const STREAMS: u64 = 10;
const LEASE: Duration = Duration::from_millis(400);

/// The first worker's whole process sleeps in its handler, heartbeat and all. The second takes over;
/// when the first wakes up and commits, its batch must vanish.
async fn a_handler_that_sleeps_past_its_lease_is_fenced(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=20).await;
    let batch = log.head().await.unwrap();
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let (sleeping, wake_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let zombie = {
        let (sleeping, wake_up) = (Arc::clone(&sleeping), Arc::clone(&wake_up));
        recorder.clone().worker("zombie").hook(move |_| {
            sleeping.store(true, Ordering::SeqCst);
            while !wake_up.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(())
        })
    };
    let calls = Arc::clone(&zombie.handled);
    let (url, options) = (db.url.clone(), db.options.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let log = anabranch::connect_with(&url, &options).await.unwrap();
            let stop = async {
                let _ = stopped.await;
            };
            ReplicaSet::new("s").projection(zombie).lease(LEASE).run_until(&log, stop).await
        })
    });
    until("the zombie to sleep", async || sleeping.load(Ordering::SeqCst).then_some(())).await;

    let heir = start(&log, ReplicaSet::new("s").projection(recorder.worker("heir")).lease(LEASE));
    let everything = Proof { handled: 200, doubled: 0, keys: STREAMS as i64, wrong: 0 };
    until("the heir to finish", async || (proof(&log, &table).await == everything).then_some(()))
        .await;
    assert!(calls.load(Ordering::SeqCst) > 0, "it is in its handler");
    wake_up.store(true, Ordering::SeqCst);
    // It comes back as another worker, with a share of its own.
    until("the zombie to be a worker again", async || {
        let workers = anabranch::operate::Consumers::new(&log).workers().await.unwrap();
        (workers.iter().filter(|worker| worker.is_alive).count() == 2).then_some(())
    })
    .await;
    fill(&log, 0..STREAMS, 21..=22).await;
    until("both to go on", async || (proof(&log, &table).await.handled == 220).then_some(())).await;
    heir.stop().await;
    stop.send(()).unwrap();
    tokio::task::spawn_blocking(|| thread.join().unwrap().unwrap()).await.unwrap();
    let proof = proof(&log, &table).await;
    assert_eq!(proof, Proof { handled: 220, ..everything });
    let by_zombie =
        format!("SELECT count(*) FROM {table} WHERE worker = 'zombie' AND position <= {batch}");
    assert_eq!(number(&log, &by_zombie).await, 0, "not one row of its batch");
}

async fn a_second_process_with_the_same_partition_is_a_standby(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let partition = FixedPartition::new(0, 1).unwrap();
    let set = |worker: &str| {
        let set = ReplicaSet::new("s").projection(recorder.clone().worker(worker));
        set.partition(partition).lanes(2)
    };
    let first = start(&log, set("first"));
    until("the first to own everything", async || {
        let known = anabranch::operate::Consumers::new(&log).list().await.unwrap();
        let cursors = &known.first()?.cursors;
        cursors.iter().all(|cursor| matches!(cursor.owner, Owner::Worker(_))).then_some(())
    })
    .await;
    let second = start(&other, set("second"));
    until("two workers", async || {
        let workers = anabranch::operate::Consumers::new(&log).workers().await.unwrap();
        (workers.len() == 2).then_some(())
    })
    .await;
    fill(&log, 0..STREAMS, 1..=10).await;
    until("the first to handle it", async || {
        (proof(&log, &table).await.handled == 100).then_some(())
    })
    .await;
    first.stop().await;
    fill(&log, 0..STREAMS, 11..=20).await;
    until("the second to handle the rest", async || {
        (proof(&log, &table).await.handled == 200).then_some(())
    })
    .await;
    let progress = second.stop().await;
    assert_eq!(progress.consumers[0].handled, 100);
    assert_eq!(proof(&log, &table).await, Proof { handled: 200, doubled: 0, keys: 10, wrong: 0 });
    let by = |name: &str| format!("SELECT count(*) FROM {table} WHERE worker = '{name}'");
    assert_eq!(number(&log, &by("first")).await, 100);
    let workers = anabranch::operate::Consumers::new(&log).workers().await.unwrap();
    assert!(workers.is_empty(), "both have left: {workers:?}");
}

async fn a_crashed_owner_is_replaced_after_its_lease(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let set = |worker: &str| {
        let set = ReplicaSet::new("s").projection(recorder.clone().worker(worker));
        set.lanes(2).lease(LEASE)
    };
    let first = start(&log, set("first"));
    fill(&log, 0..STREAMS, 1..=10).await;
    until("the first to handle some", async || {
        let known = anabranch::operate::Consumers::new(&log).list().await.unwrap();
        if known.is_empty() {
            return None;
        }
        (proof(&log, &table).await.handled > 0).then_some(())
    })
    .await;
    first.crash();
    let second = start(&other, set("second"));
    fill(&other, 0..STREAMS, 11..=20).await;
    until("the second to handle the rest", async || {
        (proof(&log, &table).await.handled == 200).then_some(())
    })
    .await;
    second.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 200, doubled: 0, keys: 10, wrong: 0 });
    assert_eq!(status(&log, "orders").await.lag, 0);
}

/// A commit whose answer was lost is found out by the cursor's position and not repeated: here the
/// cursor is moved behind the lane's back, as that commit would have.
async fn a_commit_whose_cursor_moved_is_rolled_back(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=1).await;
    let recorder = db.recorder("orders");
    let (table, cursors) =
        (recorder.table.clone(), log.store().database().dialect().table("cursors"));
    let moved = Arc::new(AtomicBool::new(false));
    let (in_handler, sender) = {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        (Arc::new(std::sync::Mutex::new(receiver)), sender)
    };
    let hook = {
        let moved = Arc::clone(&moved);
        move |_: &Event| {
            if !moved.swap(true, Ordering::SeqCst) {
                tokio::task::block_in_place(|| in_handler.lock().unwrap().recv().unwrap());
            }
            Ok(())
        }
    };
    let running = start(&log, ReplicaSet::new("s").projection(recorder.hook(hook)));
    until("the handler", async || moved.load(Ordering::SeqCst).then_some(())).await;
    let other = db.log().await;
    let move_on = anabranch::backend::database::Statement::new(
        format!("UPDATE {cursors} SET position = 4"),
        vec![],
    );
    let end = anabranch::backend::database::End::Commit;
    other.store().database().begin().run(vec![move_on], end).await.unwrap();
    sender.send(()).unwrap();
    until("the rest", async || (proof(&log, &table).await.handled >= 6).then_some(())).await;
    running.stop().await;
    let first = format!("SELECT count(*) FROM {table} WHERE position <= 4");
    assert_eq!(number(&log, &first).await, 0, "the whole batch was rolled back");
    assert_eq!(number(&log, &format!("SELECT count(*) FROM {table}")).await, 6);
}

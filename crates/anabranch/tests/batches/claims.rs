//! Several instances: shared, fixed, mixed, dying; and a zombie that comes too late.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::batch::{Part, Summary};
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

on_both!(
    instances_without_ids_share_and_fixed_ones_keep_to_their_parts,
    instances_that_collide_on_purpose_still_handle_each_row_once,
    an_instance_that_dies_leaves_nothing_behind,
    a_zombie_stores_nothing,
);

fn instance(log: Log, records: Records, part: Part) -> JoinHandle<Summary> {
    tokio::spawn(async move {
        let batch = records.batch().part(part).batch_size(20).workers(2);
        batch.run(&log, records).await.unwrap()
    })
}

fn fixed(id: u32, count: u32) -> Part {
    Part::new(Some(id), Some(count), false).unwrap()
}

async fn instances_without_ids_share_and_fixed_ones_keep_to_their_parts(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=600).await.hook(|_| {
        std::thread::sleep(Duration::from_micros(200));
        Ok(())
    });
    let mut shares = Vec::new();
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(instance(db.log().await, records.clone(), Part::Elastic));
    }
    for instance in running {
        shares.push(instance.await.unwrap().succeeded);
    }
    assert_eq!(shares.iter().sum::<u64>(), 600);
    assert_eq!(records.copied(&log).await, (600, 0));
    // The same rows again as another table, in fixed parts.
    let other = records.clone();
    query(&log, &format!("DELETE FROM {}", other.copy), vec![]).await;
    query(&log, &format!("DELETE FROM {}", other.log_table), vec![]).await;
    query(&log, &format!("DELETE FROM {}_history", other.log_table), vec![]).await;
    let mut running = Vec::new();
    for id in 0..3 {
        running.push(instance(db.log().await, other.clone(), fixed(id, 3)));
    }
    for instance in running {
        assert_eq!(instance.await.unwrap().succeeded, 200);
    }
    let verified = other.batch().verify(&log).await.unwrap();
    assert!(verified.violations(true).is_empty(), "{verified:?}");
    assert!(verified.sessions.iter().all(|session| session.partitions == 1));
    assert_eq!(other.copied(&log).await, (600, 0));
}

async fn instances_that_collide_on_purpose_still_handle_each_row_once(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=400).await;
    let parts = [fixed(0, 2), fixed(0, 2), Part::Elastic, fixed(1, 3), Part::Elastic];
    let mut running = Vec::new();
    for part in parts {
        running.push(instance(db.log().await, records.clone(), part));
    }
    let mut sum = 0;
    for instance in running {
        sum += instance.await.unwrap().succeeded;
    }
    assert_eq!(sum, 400);
    assert_eq!(records.copied(&log).await, (400, 0));
    let verified = records.batch().verify(&log).await.unwrap();
    assert!(verified.violations(true).is_empty(), "{verified:?}");
}

async fn an_instance_that_dies_leaves_nothing_behind(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=300).await.hook(|_| {
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    let lease = Duration::from_millis(500);
    let start = |log: Log| {
        let records = records.clone();
        tokio::spawn(async move {
            let batch = records.batch().batch_size(40).workers(2).lease(lease);
            batch.run(&log, records).await.unwrap()
        })
    };
    let victim = start(db.log().await);
    until("some rows", async || (records.copied(&log).await.0 > 20).then_some(())).await;
    victim.abort();
    let heir = start(db.log().await);
    let summary = heir.await.unwrap();
    assert!(summary.succeeded < 300, "the victim has done some: {summary:?}");
    assert_eq!(records.copied(&log).await, (300, 0));
    let verified = records.batch().verify(&log).await.unwrap();
    assert!(verified.violations(true).is_empty(), "{verified:?}");
}

async fn a_zombie_stores_nothing(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=1).await;
    let (met, open) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (meet, gate, calls) = (Arc::clone(&met), Arc::clone(&open), AtomicU32::new(0));
    let slow = records.clone().hook(move |_| {
        calls.fetch_add(1, Ordering::SeqCst);
        meet.store(true, Ordering::SeqCst);
        tokio::task::block_in_place(|| {
            while !gate.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Ok(())
    });
    let zombie = {
        let (log, records) = (db.log().await, records.clone());
        tokio::spawn(async move { records.batch().run(&log, slow).await.unwrap() })
    };
    until("the row is begun", async || met.load(Ordering::SeqCst).then_some(())).await;
    // Others take it for dead.
    let dead = format!("UPDATE {}_sessions SET lease_us = 0", records.log_table);
    query(&log, &dead, vec![]).await;
    let heir = records.batch().run(&log, records.clone()).await.unwrap();
    assert_eq!(heir.succeeded, 1);
    open.store(true, Ordering::SeqCst);
    let zombie = zombie.await.unwrap();
    assert_eq!((zombie.succeeded, zombie.lost), (0, 1));
    assert_eq!(records.copied(&log).await, (1, 0));
    assert!(records.batch().verify(&log).await.unwrap().violations(true).is_empty());
}

//! A live system is proven: whatever the lanes, the partitions and the strategies.

use crate::on_both;
use crate::proofs::{STREAMS, handled, proven};
use crate::support::{Db, fill, number, numbered, start, status};
use anabranch::errors::ErrorCode;
use anabranch::operate::{AuditError, Consumers};
use anabranch::prelude::*;
use anabranch::{FixedPartition, HandlerError, HashRule, Retry, RunError};

on_both! {
    what_was_handled_is_proven,
    an_audit_begins_and_ends_while_workers_run,
    every_strategy_is_proven,
    lanes_and_workers_come_and_go,
    partitions_that_stop_in_many_places_are_proven,
    what_never_matches_is_proven_too,
}

async fn what_was_handled_is_proven(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=50).await;
    let recorder = db.recorder("orders").settings(Settings::default().audit(true).batch_size(64));
    ReplicaSet::new("s").projection(recorder.clone()).lanes(4).catch_up(&log).await.unwrap();
    let proof = proven(&log, "orders").await;
    assert_eq!((proof.proven.handed, proof.compared), (2_000, 2_000), "{proof:?}");
    let head = log.head().await.unwrap();
    assert_eq!((proof.proven.since, proof.proven.up_to), (Position::START, head));
    assert_eq!(proof.proven.slots, 5_040);
    assert!(proof.pruned > 0, "{proof:?}");
    // What is left is what was proven, and goes on from there.
    let again = proven(&log, "orders").await;
    assert_eq!((again.proven.handed, again.compared, again.pruned), (0, 0, 0), "{again:?}");
    fill(&log, 0..STREAMS, 51..=60).await;
    ReplicaSet::new("s").projection(recorder).lanes(3).catch_up(&log).await.unwrap();
    let last = proven(&log, "orders").await;
    assert_eq!((last.proven.handed, last.compared), (400, 400), "{last:?}");
    let listed = Consumers::new(&log).audits().await.unwrap();
    let [audit] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((audit.consumer.as_str(), audit.proven_up_to), ("orders", Some(last.proven.up_to)));
    assert!(audit.proven_at > Some(audit.since), "{audit:?}");
    Consumers::new(&log).forget("orders").await.unwrap();
    let rows = format!("SELECT count(*) FROM {}", log.database().dialect().table("audit"));
    assert_eq!(number(&log, &rows).await, 0, "the record is forgotten with it");
}

async fn an_audit_begins_and_ends_while_workers_run(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let recorder = db.recorder("orders");
    let running = start(&log, ReplicaSet::new("s").projection(recorder.clone()).lanes(3));
    handled(&log, &recorder, 400).await;
    let consumers = Consumers::new(&log);
    let error = consumers.audit("orders", |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotAudited, "{error}");
    assert!(consumers.start_audit("orders").await.unwrap());
    assert!(!consumers.start_audit("orders").await.unwrap(), "it is audited already");
    fill(&log, 0..STREAMS, 11..=20).await;
    handled(&log, &recorder, 800).await;
    let proof = proven(&log, "orders").await;
    assert_eq!(proof.proven.handed, 400, "{proof:?}");
    assert!(consumers.stop_audit("orders").await.unwrap());
    fill(&log, 0..STREAMS, 21..=30).await;
    handled(&log, &recorder, 1_200).await;
    assert_eq!(consumers.audits().await.unwrap(), []);
    let error = consumers.audit("orders", |_| {}).await.unwrap_err();
    assert!(matches!(error, AuditError::Operate(_)), "{error}");
    assert!(!consumers.stop_audit("orders").await.unwrap(), "it is not audited any more");
    running.stop().await;
}

async fn every_strategy_is_proven(db: Db) {
    let log = db.log().await;
    for number in 1..=60_u64 {
        let id = StreamId::new("Order", (number % 7).to_string()).unwrap();
        let mut event = numbered(number).with_tenant("t");
        // Some events have no key: they are in slot 0, and set aside there.
        if number % 5 != 0 {
            let of = (number % 9).to_string();
            event = event.with_customer(of.clone()).with_correlation(of.clone());
            event = event.with_tags([format!("seat:{of}")]);
        }
        log.append(&id, Expected::Any, [event]).await.unwrap();
    }
    let by_number = |event: &Event| Some((event.data::<u64>().ok()? % 4).to_string());
    let cases = [
        ("entity", Partition::entity("Order"), 0),
        ("entities", Partition::entities(), 0),
        ("customer", Partition::customer(), 12),
        ("saga", Partition::saga(), 12),
        ("global", Partition::global(), 0),
        ("dcb", Partition::dcb("seat"), 12),
        ("md5", Partition::customer().with_rule(HashRule::Md5), 12),
        ("custom", Partition::custom("by-number", by_number), 0),
    ];
    for (name, partition, keyless) in cases {
        let settings = Settings::default().audit(true).retry(Retry::never()).batch_size(5);
        let recorder = db.recorder(name).partition(partition).settings(settings);
        let lanes = if name == "global" { 1 } else { 3 };
        let set = ReplicaSet::new("s").projection(recorder).lanes(lanes);
        let caught_up = set.catch_up(&log).await;
        assert_eq!(caught_up.is_err(), keyless > 0, "{name}: {caught_up:?}");
        let proof = proven(&log, name).await;
        assert_eq!((proof.proven.handed, proof.proven.aside), (60 - keyless, keyless), "{name}");
        let again = proven(&log, name).await;
        assert_eq!((again.proven.handed, again.proven.aside), (0, keyless), "{name}");
    }
}

/// Slots are split and merged with every worker that comes and goes, while others append, and each audit prunes.
async fn lanes_and_workers_come_and_go(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders").settings(Settings::default().audit(true).batch_size(16));
    let set = |lanes| ReplicaSet::new("s").projection(recorder.clone()).lanes(lanes);
    let mut proven_events = 0;
    let mut running = vec![start(&log, set(2))];
    for round in 0..6_u64 {
        match round % 3 {
            2 => drop(running.remove(0).stop().await),
            lanes => running.push(start(&db.log().await, set(lanes as usize + 2))),
        }
        fill(&log, 0..STREAMS, round * 10 + 1..=round * 10 + 10).await;
        if round > 0 {
            proven_events += proven(&log, "orders").await.proven.handed;
        }
        handled(&log, &recorder, (round + 1) * 400).await;
    }
    for worker in running {
        worker.stop().await;
    }
    let last = proven(&log, "orders").await;
    assert_eq!(proven_events + last.proven.handed, 2_400, "{last:?}");
    assert_eq!(last.proven.up_to, log.head().await.unwrap());
}

/// 3 → 5 → 2 → 7 partitions, each stopped in another place by an event that it refuses.
async fn partitions_that_stop_in_many_places_are_proven(db: Db) {
    let log = db.log().await;
    let retry = Retry::never().then(anabranch::Failure::Stop);
    let settings = Settings::default().audit(true).batch_size(7).retry(retry);
    let recorder = db.recorder("orders").settings(settings);
    let mut events = 0;
    for (round, total) in [3_u16, 5, 2, 7].into_iter().enumerate() {
        let begin = log.head().await.unwrap().get();
        let round = round as u64;
        fill(&log, 0..STREAMS, round * 10 + 1..=round * 10 + 10).await;
        for index in 0..total {
            let partition = FixedPartition::new(index, total).unwrap();
            let last = begin + u64::from(index + 1) * 40;
            let hook = move |event: &Event| match event.position().get() <= last {
                true => Ok(()),
                false => Err(HandlerError::new("not today")),
            };
            let set = ReplicaSet::new("s").projection(recorder.clone().hook(hook));
            let ended = start(&log, set.partition(partition).fail_fast()).ended().await;
            assert!(matches!(ended, Err(RunError::Stopped { .. })), "{ended:?}");
            events += proven(&log, "orders").await.proven.handed;
        }
    }
    ReplicaSet::new("s").projection(recorder).lanes(3).catch_up(&log).await.unwrap();
    events += proven(&log, "orders").await.proven.handed;
    assert_eq!(events, STREAMS * 40);
}

async fn what_never_matches_is_proven_too(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=5).await;
    let settings = Settings::default().audit(true).scope(Scope::types(["Never"]));
    let recorder = db.recorder("orders").settings(settings);
    ReplicaSet::new("s").projection(recorder).lanes(2).catch_up(&log).await.unwrap();
    let proof = proven(&log, "orders").await;
    assert_eq!((proof.proven.handed, proof.compared), (0, 0));
    assert_eq!(proof.proven.up_to, status(&log, "orders").await.position);
}

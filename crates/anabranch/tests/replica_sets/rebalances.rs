//! Slots move for their load when somebody asks for it, whenever they were moved last.

use crate::crew::*;
use crate::on_both;
use crate::support::*;
use anabranch::errors::{ErrorCode, ErrorKind};
use anabranch::operate::{Consumers, Owner};
use anabranch::prelude::*;
use anabranch::{HashRule, Tuning};
use std::time::Duration;

on_both! {
    slots_move_when_somebody_asks_for_it_and_only_then,
    a_set_that_is_not_there_or_changes_is_refused,
}

fn table_of(log: &Log, name: &str) -> String {
    log.database().dialect().table(name)
}

async fn slots_move_when_somebody_asks_for_it_and_only_then(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let tuning = Tuning::default().rebalance(Duration::from_millis(200)).lease(LONG_LEASE);
    let tuning = tuning.heartbeat(Duration::from_millis(100));
    let join = async || {
        start(&db.log().await, ReplicaSet::new("s").projection(recorder.clone()).tuning(tuning))
    };
    let (one, two) = (join().await, join().await);
    until_shared(&log, "orders", 2).await;
    // As if slots had moved for their load in a year's time: the workers do not do it by themselves.
    let sets = table_of(&log, "replica_sets");
    let year = 365_i64 * 24 * 3600 * 1_000_000;
    let pause =
        format!("UPDATE {sets} SET rates_us = {} + {year}", log.database().dialect().now_us());
    query(&log, &pause, vec![]).await;
    let consumers = Consumers::new(&log);
    let before = generations(&log).await[0].generation;
    let even = consumers.rebalance("s").await.unwrap();
    assert_eq!((even.generation, even.moves.len()), (before, 0), "nothing was measured yet");
    let mut each = 0;
    let preview = until("an uneven load", async || {
        each += 1;
        fill(&log, 1000..1030, each..=each).await;
        fill(&log, 7..8, each * 30 - 29..=each * 30).await;
        let preview = consumers.rebalance_preview("s").await.ok()?;
        (!preview.moves.is_empty()).then_some(preview)
    })
    .await;
    assert_eq!((preview.generation, preview.unmeasured.len()), (before, 0));
    assert_eq!(generations(&log).await[0].generation, before, "a preview changes nothing");
    let made = until("it to be done", async || {
        let made = consumers.rebalance("s").await.ok()?;
        (!made.moves.is_empty()).then_some(made)
    })
    .await;
    assert_eq!(made.generation, before + 1);
    let newest = generations(&log).await.remove(0);
    assert_eq!((newest.generation, newest.reason.as_str()), (before + 1, "uneven load, asked for"));
    let (hot, moved) =
        (HashRule::Fnv1a.slot("7"), made.moves.iter().map(|one| one.slots).sum::<usize>());
    let owner = until("the slots to be with their owners", async || {
        let owned = owned(&log, "orders").await?;
        let cursor = consumers.owner_of("orders", hot).await.ok()?;
        let Owner::Worker(owner) = cursor.owner else { return None };
        (owned[&owner.id] == 2520 - moved).then_some(owner.id)
    })
    .await;
    assert!(made.moves.iter().all(|one| one.from.as_ref() == Some(&owner)), "{made:?}");
    // It is even now, or not measured yet: asked once more, nothing moves.
    let again = consumers.rebalance("s").await.unwrap();
    assert_eq!((again.generation, again.moves.len()), (before + 1, 0), "{again:?}");
    let events = each as i64 * 60;
    until("all", async || (proof(&log, &table).await.handled >= events).then_some(())).await;
    let all = Proof { handled: events, doubled: 0, keys: 31, wrong: 0 };
    assert_eq!(proof(&log, &table).await, all);
    one.stop().await;
    two.stop().await;
}

async fn a_set_that_is_not_there_or_changes_is_refused(db: Db) {
    let log = db.log().await;
    let set = ReplicaSet::new("s").projection(db.recorder("orders")).tuning(quick());
    let running = start(&log, set);
    until_shared(&log, "orders", 1).await;
    let consumers = Consumers::new(&log);
    let refused = consumers.rebalance("t").await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.kind()),
        (ErrorCode::NoSuchReplicaSet, ErrorKind::NotFound)
    );
    let even = consumers.rebalance_preview("s").await.unwrap();
    assert!(even.moves.is_empty());
    assert_eq!(even.unmeasured.len(), 1, "it has not measured anything");
    running.crash();
    query(&log, &format!("UPDATE {} SET lease_us = 0", table_of(&log, "workers")), vec![]).await;
    for refused in [
        consumers.rebalance_preview("s").await.unwrap_err(),
        consumers.rebalance("s").await.unwrap_err(),
    ] {
        assert_eq!((refused.code(), refused.kind()), (ErrorCode::SetChanges, ErrorKind::Conflict));
    }
}

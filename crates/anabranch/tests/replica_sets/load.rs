//! Load-aware assignment: a hot tenant does not drown one worker.

use crate::crew::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::{HashRule, Tuning};
use std::time::Duration;

on_both! {
    slots_move_away_from_a_worker_with_a_hot_key,
}

/// One stream has half of the events: whoever has its slot ends up with few others.
async fn slots_move_away_from_a_worker_with_a_hot_key(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let tuning = Tuning::default().rebalance(Duration::from_millis(300)).lease(LONG_LEASE);
    let tuning = tuning.heartbeat(Duration::from_millis(100));
    let join = async || {
        start(&db.log().await, ReplicaSet::new("s").projection(recorder.clone()).tuning(tuning))
    };
    let (one, two) = (join().await, join().await);
    until_shared(&log, "orders", 2).await;
    let hot = HashRule::Fnv1a.slot("7");
    let owner_of = async || {
        let found = anabranch::Consumers::of(&log).owner_of("orders", hot).await.unwrap();
        match found.owner {
            anabranch::Owner::Worker(worker) => Some(worker.id),
            _ => None,
        }
    };
    let mut each = 0;
    until("its owner to have less than a third of the slots", async || {
        each += 1;
        fill(&log, 1000..1030, each..=each).await;
        fill(&log, 7..8, each * 30 - 29..=each * 30).await;
        let owned = owned(&log, "orders").await?;
        let owner = owner_of().await?;
        (owned[&owner] < 5040 / 3).then_some(())
    })
    .await;
    let reasons: Vec<String> =
        generations(&log).await.into_iter().map(|each| each.reason).collect();
    assert!(reasons.contains(&"uneven load".to_owned()), "{reasons:?}");
    let events = each as i64 * 60;
    until("all", async || (proof(&log, &table).await.handled >= events).then_some(())).await;
    let all = Proof { handled: events, doubled: 0, keys: 31, wrong: 0 };
    assert_eq!(proof(&log, &table).await, all);
    one.stop().await;
    two.stop().await;
}

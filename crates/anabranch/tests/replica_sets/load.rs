//! Load-aware assignment: a hot tenant does not drown one worker.

use crate::crew::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::{HashRule, Tuning};
use std::time::Duration;

on_both! {
    slots_move_away_from_a_worker_with_a_hot_key,
    slots_of_one_consumer_move_and_others_stay,
}

/// One stream has half of the events: the worker that has its slot ends up with few others.
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
        let found = anabranch::operate::Consumers::new(&log).owner_of("orders", hot).await.unwrap();
        match found.owner {
            anabranch::operate::Owner::Worker(worker) => Some(worker.id),
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

/// Two run the busy consumer, a third one something else: only slots of the busy one move, between the two.
async fn slots_of_one_consumer_move_and_others_stay(db: Db) {
    let log = db.log().await;
    let (busy, idle) = (db.recorder("busy"), db.recorder("idle"));
    let idle = idle.partition(Partition::entity("Nothing"));
    let tuning = Tuning::default().rebalance(Duration::from_millis(300)).lease(LONG_LEASE);
    let tuning = tuning.heartbeat(Duration::from_millis(100));
    let set = || ReplicaSet::new("s").tuning(tuning);
    let pair = async || start(&db.log().await, set().projection(busy.clone()));
    let (one, two) = (pair().await, pair().await);
    let pair = until_shared(&log, "busy", 2).await;
    let three = start(&db.log().await, set().projection(idle.clone()));
    let alone = until_shared(&log, "idle", 1).await;
    let epochs = async |name: &str| -> Vec<i64> {
        status(&log, name).await.cursors.iter().map(|cursor| cursor.epoch).collect()
    };
    let before = epochs("idle").await;
    let hot = HashRule::Fnv1a.slot("7");
    let mut each = 0;
    until("its owner to have less than a third of the slots", async || {
        each += 1;
        fill(&log, 1000..1030, each..=each).await;
        fill(&log, 7..8, each * 30 - 29..=each * 30).await;
        let owned = owned(&log, "busy").await?;
        let found = anabranch::operate::Consumers::new(&log).owner_of("busy", hot).await.ok()?;
        let anabranch::operate::Owner::Worker(owner) = found.owner else { return None };
        (owned[&owner.id] < 5040 / 3).then_some(())
    })
    .await;
    let reasons: Vec<String> =
        generations(&log).await.into_iter().map(|each| each.reason).collect();
    assert!(reasons.contains(&"uneven load of `busy`".to_owned()), "{reasons:?}");
    assert!(!reasons.contains(&"uneven load".to_owned()), "{reasons:?}");
    assert_eq!(owned(&log, "busy").await.unwrap().into_keys().collect::<Vec<_>>(), {
        pair.into_iter().collect::<Vec<_>>()
    });
    assert_eq!(owned(&log, "idle").await.unwrap().into_keys().collect::<Vec<_>>(), {
        alone.into_iter().collect::<Vec<_>>()
    });
    assert_eq!(epochs("idle").await, before, "it was never touched");
    let events = each as i64 * 60;
    until("all", async || (proof(&log, &busy.table).await.handled >= events).then_some(())).await;
    let all = Proof { handled: events, doubled: 0, keys: 31, wrong: 0 };
    assert_eq!(proof(&log, &busy.table).await, all);
    for worker in [one, two, three] {
        worker.stop().await;
    }
}

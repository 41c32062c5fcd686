//! Workers that come, go, die and are fenced, and the slots that move with them.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::seen::Seen;
use crate::support::*;
use anabranch::events::{EngineEvent, Happening};
use anabranch::partitioning::SlotSet;
use anabranch::prelude::*;
use std::time::{Duration, Instant};

on_both! {
    a_worker_joins_and_leaves_and_its_slots_with_it,
    a_death_is_seen_by_those_who_live,
    a_worker_that_is_taken_for_dead_says_so,
    a_lane_that_has_lost_its_cursors_says_so,
    a_hand_over_that_takes_too_long_is_said,
}

fn slots(events: &[EngineEvent]) -> SlotSet {
    events.iter().fold(SlotSet::empty(), |sum, event| match &event.what {
        Happening::SlotsClaimed { slots, .. } | Happening::SlotsReleased { slots, .. } => {
            assert!(sum.is_disjoint(slots), "said twice: {event:?}");
            sum.union(slots)
        }
        other => panic!("{other:?}"),
    })
}

async fn a_worker_joins_and_leaves_and_its_slots_with_it(db: Db) {
    let log = db.log().await;
    let (first, second) = (Seen::default(), Seen::default());
    let set = |seen: &Seen| {
        let set = ReplicaSet::new("s").projection(db.recorder("orders")).lanes(2);
        set.tuning(quick()).observer(seen.clone())
    };
    let one = start(&log, set(&first));
    until_shared(&log, "orders", 1).await;
    until("its slots", async || {
        (slots(&first.of("slots_claimed")) == SlotSet::all()).then_some(())
    })
    .await;
    let two = start(&db.log().await, set(&second));
    until_shared(&log, "orders", 2).await;
    until("the second's slots", async || {
        (slots(&second.of("slots_claimed")).len() == 2520).then_some(())
    })
    .await;
    until("the first's release", async || {
        (slots(&first.of("slots_released")) == slots(&second.of("slots_claimed"))).then_some(())
    })
    .await;
    one.stop().await;
    until_shared(&log, "orders", 1).await;
    two.stop().await;

    // Each says the generation that its worker follows, or that it is about: one, in its JSON.
    for event in first.of("slots_released").iter().chain(&second.of("slots_claimed")) {
        assert!(event.generation >= Some(2), "{event:?}");
    }
    for event in first.of("generation_made") {
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(json.matches("\"generation\":").count(), 1, "{json}");
    }
    let joined = first.of("worker_joined").remove(0);
    assert_eq!(joined.set.as_deref(), Some("s"));
    let id = joined.worker.expect("it has an id");
    let left = first.of("worker_left").remove(0);
    assert_eq!(left.worker.as_deref(), Some(&*id));
    assert_eq!(first.of("worker_joined").len() + first.of("worker_left").len(), 2);
    assert!(first.all().iter().all(|event| event.worker.is_none() || event.worker == left.worker));

    // Whoever has made them says so: each once.
    let made = [first.of("generation_made"), second.of("generation_made")].concat();
    let mut numbers: Vec<i64> = made.iter().map(|event| generation(event).0).collect();
    numbers.sort_unstable();
    let known: Vec<i64> =
        generations(&log).await.iter().rev().map(|known| known.generation).collect();
    assert_eq!(numbers, known);
    let given = made.iter().find(|event| generation(event).0 == known[1]).unwrap();
    let Happening::GenerationMade { reason, joined, moves, .. } = &given.what else { panic!() };
    assert!(reason.ends_with("joined"), "{reason}");
    let heir = second.of("worker_joined").remove(0).worker.unwrap();
    assert_eq!(joined.as_slice(), [heir.to_string()]);
    assert_eq!(moves.len(), 1, "{moves:?}");
    assert_eq!((moves[0].from.as_deref(), moves[0].slots), (Some(&*id), 2520));
    assert_eq!(moves[0].to.as_deref(), Some(&*heir));

    let claimed = second.of("slots_claimed").remove(0);
    assert_eq!((claimed.consumer.as_deref(), claimed.lane.is_some()), (Some("orders"), true));
    let Happening::SlotsClaimed { pause, .. } = claimed.what else { panic!() };
    assert!(pause > Duration::ZERO && pause < PATIENCE, "{pause:?}");
}

fn generation(event: &EngineEvent) -> (i64, &str) {
    match &event.what {
        Happening::GenerationMade { generation, reason, .. } => (*generation, reason),
        other => panic!("{other:?}"),
    }
}

async fn a_death_is_seen_by_those_who_live(db: Db) {
    let log = db.log().await;
    let (seen, dead) = (Seen::default(), Seen::default());
    // Heartbeats come within the patience of a test: they mend what two workers that join at once leave half known.
    let lease = PATIENCE;
    let set = |seen: &Seen| {
        let set = ReplicaSet::new("s").projection(db.recorder("orders"));
        set.lease(lease).observer(seen.clone())
    };
    let survivor = start(&log, set(&seen));
    until_shared(&log, "orders", 1).await;
    let victim = start(&db.log().await, set(&dead));
    until_shared(&log, "orders", 2).await;
    let id = dead.first("worker_joined").await.worker.unwrap();
    let crashed = Instant::now();
    victim.crash();
    let event = seen.first("worker_died").await;
    let Happening::WorkerDied { died, .. } = &event.what else { panic!() };
    assert_eq!(**died, *id);
    assert!(crashed.elapsed() < lease, "not by its lease");
    until_shared(&log, "orders", 1).await;
    let made = until("its generation", async || {
        let made = seen.of("generation_made");
        made.into_iter().find(|made| generation(made).1.ends_with("died"))
    })
    .await;
    let Happening::GenerationMade { died, moves, .. } = made.what else { panic!() };
    assert_eq!((died, moves[0].from.clone()), (vec![id.to_string()], Some(id.to_string())));
    assert!(dead.of("worker_left").is_empty());
    survivor.stop().await;
}

async fn a_worker_that_is_taken_for_dead_says_so(db: Db) {
    let log = db.log().await;
    let seen = Seen::default();
    let set = ReplicaSet::new("s").projection(db.recorder("orders")).tuning(quick());
    let running = start(&log, set.observer(seen.clone()));
    until_shared(&log, "orders", 1).await;
    let end = format!("UPDATE {} SET lease_us = 0", table_of(&log, "workers"));
    query(&log, &end, vec![]).await;
    let fenced = seen.first("worker_fenced").await;
    until("it joins anew", async || (seen.of("worker_joined").len() == 2).then_some(())).await;
    let joined = seen.of("worker_joined");
    assert_eq!(fenced.worker, joined[0].worker);
    assert_ne!(joined[1].worker, joined[0].worker);
    fill(&log, 0..3, 1..=1).await;
    until("what it handles", async || (seen.handled("orders") == 3).then_some(())).await;
    let batch = seen.of("batch_handled").remove(0);
    assert_eq!(batch.worker, joined[1].worker, "its lanes are the new one's");
    running.stop().await;
}

/// Heartbeats are a minute apart, so the lane finds out by its commit.
async fn a_lane_that_has_lost_its_cursors_says_so(db: Db) {
    let log = db.log().await;
    let seen = Seen::default();
    let set = ReplicaSet::new("s").projection(db.recorder("orders")).lease(LONG_LEASE);
    let running = start(&log, set.observer(seen.clone()));
    until("its slots", async || (!seen.of("slots_claimed").is_empty()).then_some(())).await;
    raise_epochs(&log, "").await;
    fill(&log, 0..3, 1..=1).await;
    let fenced = seen.first("lane_fenced").await;
    assert_eq!((fenced.consumer.as_deref(), fenced.lane), (Some("orders"), Some(0)));
    until("what it handles then", async || (seen.handled("orders") == 3).then_some(())).await;
    running.stop().await;
}

/// The first owner stands in the middle of an event of slots that are to move.
async fn a_hand_over_that_takes_too_long_is_said(db: Db) {
    let log = db.log().await;
    let (gate, seen) = (Gate::default(), Seen::default());
    let tuning = || quick().coordination_timeout(Duration::from_secs(1));
    let slow = db.recorder("orders").hook(gate.hook());
    let one = start(&log, ReplicaSet::new("s").projection(slow).tuning(tuning()));
    until_shared(&log, "orders", 1).await;
    super::gates::one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    let set = ReplicaSet::new("s").projection(db.recorder("orders")).tuning(tuning());
    let two = start(&db.log().await, set.observer(seen.clone()));
    let late = seen.first("coordination_timed_out").await;
    let Happening::CoordinationTimedOut { timeout, held_by, .. } = &late.what else { panic!() };
    assert_eq!((*timeout, held_by.len()), (Duration::from_secs(1), 1));
    assert_eq!(late.set.as_deref(), Some("s"));
    let awaited = seen.first("slots_awaited").await;
    let Happening::SlotsAwaited { held_by: waits_for, .. } = &awaited.what else { panic!() };
    assert_eq!(waits_for, held_by);
    gate.open();
    until_shared(&log, "orders", 2).await;
    two.stop().await;
    one.stop().await;
}

//! Workers join and leave under load: they share all slots, and nothing is lost, doubled or swapped.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::support::*;
use anabranch::Tuning;
use anabranch::operate::{Owner, Reason};
use anabranch::prelude::*;
use std::time::Duration;

on_both! {
    workers_come_and_go_and_nothing_is_lost,
    all_replaced_one_by_one,
    a_lane_that_is_busy_holds_up_only_its_own_slots,
    a_fixed_partition_takes_its_slots_from_the_others,
    history_says_when_why_and_who,
    slots_that_are_let_go_and_come_back,
    a_view_forgets_the_keys_that_it_lets_go,
}

async fn workers_come_and_go_and_nothing_is_lost(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders").settings(Settings::default().batch_size(50));
    let table = recorder.table.clone();
    let join = async |name: &str| {
        let set = ReplicaSet::new("s").projection(recorder.clone().worker(name)).lanes(2);
        start(&db.log().await, set.lease(LONG_LEASE))
    };
    let appender = Appender::start(&log);
    let one = join("one").await;
    until_shared(&log, "orders", 1).await;
    let two = join("two").await;
    until_shared(&log, "orders", 2).await;
    let (three, four) = (join("three").await, join("four").await);
    until_shared(&log, "orders", 4).await;
    one.stop().await;
    until_shared(&log, "orders", 3).await;
    three.stop().await;
    four.stop().await;
    until_shared(&log, "orders", 1).await;
    let each = appender.finish().await;
    until_proven(&log, &table, Appender::STREAMS, each).await;
    two.stop().await;
    let workers = handlers(&log, &table).await;
    assert_eq!(workers.len(), 4, "{workers:?}");
}

async fn all_replaced_one_by_one(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders").settings(Settings::default().batch_size(20));
    let table = recorder.table.clone();
    let join = async |version: usize| {
        let worker = recorder.clone().worker(version.to_string());
        let set = ReplicaSet::new("s").projection(worker).lease(LONG_LEASE);
        start(&db.log().await, set)
    };
    let appender = Appender::start(&log);
    let mut running = Vec::new();
    for number in 0..4 {
        running.push(join(number).await);
    }
    until_shared(&log, "orders", 4).await;
    for number in 4..8 {
        running.push(join(number).await);
        until_shared(&log, "orders", 5).await;
        running.remove(0).stop().await;
        until_shared(&log, "orders", 4).await;
    }
    let each = appender.finish().await;
    until_proven(&log, &table, Appender::STREAMS, each).await;
    for worker in running {
        worker.stop().await;
    }
    assert_eq!(handlers(&log, &table).await.len(), 8);
}

/// One lane sits in its handler while another worker joins: what the other lane should let go it does,
/// and what stays with it goes on.
async fn a_lane_that_is_busy_holds_up_only_its_own_slots(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let gate = Gate::default();
    let first = recorder.clone().worker("first").hook(gate.hook());
    let set = ReplicaSet::new("s").projection(first).lanes(2).lease(LONG_LEASE);
    let busy = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    let set = ReplicaSet::new("s").projection(recorder.clone().worker("second"));
    let joined = start(&db.log().await, set.lease(LONG_LEASE));
    let slots_of_second = until("some slots of the free lane", async || {
        let cursors = status(&log, "orders").await.cursors;
        let owner = |o: &Owner| matches!(o, Owner::Worker(w) if w.lanes == 1);
        let slots: usize = cursors.iter().filter(|c| owner(&c.owner)).map(|c| c.slot_count).sum();
        (slots > 0).then_some(slots)
    })
    .await;
    assert!((1000..1600).contains(&slots_of_second), "half of one of two lanes: {slots_of_second}");
    // The slots of the busy lane stay with it, and say for whom they are.
    let reasons: Vec<Reason> =
        status(&log, "orders").await.cursors.into_iter().flat_map(|c| c.reasons).collect();
    assert!(reasons.iter().any(|r| matches!(r, Reason::AwaitsRelease { .. })), "{reasons:?}");
    fill(&log, 0..60, 1..=3).await;
    // Both the free lane and the new worker go on: about half of the streams are theirs.
    until("the others' events", async || {
        let by = handlers(&log, &table).await;
        let streams = format!("SELECT count(DISTINCT key) FROM {table}");
        (by.len() == 2 && number(&log, &streams).await > 15).then_some(())
    })
    .await;
    gate.open();
    until_shared(&log, "orders", 2).await;
    until("all", async || (proof(&log, &table).await.handled >= 181).then_some(())).await;
    joined.stop().await;
    busy.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 181, doubled: 0, keys: 61, wrong: 0 });
}

async fn a_fixed_partition_takes_its_slots_from_the_others(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let set = |worker: &str| {
        ReplicaSet::new("s").projection(recorder.clone().worker(worker)).lease(LONG_LEASE)
    };
    let elastic = start(&db.log().await, set("elastic"));
    until_shared(&log, "orders", 1).await;
    let fixed = start(&db.log().await, set("fixed").partition("1/3".parse().unwrap()));
    until("its partition", async || {
        let owned = owned(&log, "orders").await?;
        let mut slots: Vec<usize> = owned.into_values().collect();
        slots.sort_unstable();
        (slots == [1680, 3360]).then_some(())
    })
    .await;
    fill(&log, 0..60, 1..=2).await;
    until_proven(&log, &table, 60, 2).await;
    fixed.stop().await;
    until_shared(&log, "orders", 1).await;
    elastic.stop().await;
    assert_eq!(handlers(&log, &table).await.len(), 2);
}

async fn history_says_when_why_and_who(db: Db) {
    let log = db.log().await;
    let set = || {
        let set = ReplicaSet::new("s").projection(db.recorder("orders"));
        set.tuning(Tuning::default().lease(LONG_LEASE))
    };
    let one = start(&db.log().await, set());
    until_shared(&log, "orders", 1).await;
    let two = start(&db.log().await, set());
    until_shared(&log, "orders", 2).await;
    two.stop().await;
    until_shared(&log, "orders", 1).await;
    one.stop().await;
    let history = generations(&log).await;
    let numbers: Vec<i64> = history.iter().map(|each| each.generation).collect();
    assert_eq!(numbers, [4, 3, 2, 1]);
    let reasons: Vec<&str> =
        history.iter().filter_map(|each| each.reason.split(' ').next_back()).collect();
    assert_eq!(reasons, ["left", "left", "joined", "joined"]);
    assert!(history[2].reason.contains(&std::process::id().to_string()), "{}", history[2].reason);
    let slots: Vec<Vec<usize>> = history
        .iter()
        .map(|each| each.members.iter().map(|member| member.slots).collect())
        .collect();
    assert_eq!(slots, [vec![], vec![5040], vec![2520, 2520], vec![5040]]);
    assert!(history.windows(2).all(|pair| pair[0].at > pair[1].at));
}

/// A slot that a lane has let go comes back to it later, at another place: what it knew of it before
/// must not count.
async fn slots_that_are_let_go_and_come_back(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders").settings(Settings::default().batch_size(30));
    let table = recorder.table.clone();
    let join = async |worker: &str| {
        let set = ReplicaSet::new("s").projection(recorder.clone().worker(worker)).lanes(3);
        start(&db.log().await, set.lease(LONG_LEASE))
    };
    let appender = Appender::start(&log);
    let stays = join("stays").await;
    for _ in 0..6 {
        let guest = join("guest").await;
        until_shared(&log, "orders", 2).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        guest.stop().await;
        until_shared(&log, "orders", 1).await;
    }
    let each = appender.finish().await;
    until_proven(&log, &table, Appender::STREAMS, each).await;
    stays.stop().await;
}

/// A view remembers the states of its keys between batches. While a slot was elsewhere they have changed.
async fn a_view_forgets_the_keys_that_it_lets_go(db: Db) {
    #[derive(Clone)]
    struct Numbers;
    impl View for Numbers {
        type State = Vec<u64>;
        fn name(&self) -> &str {
            "numbers"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn apply(&self, numbers: &mut Vec<u64>, event: &Event) -> HandlerResult {
            numbers.push(event.data()?);
            Ok(())
        }
    }
    let log = db.log().await;
    let join =
        async || start(&db.log().await, ReplicaSet::new("s").view(Numbers).lease(LONG_LEASE));
    let until_done = async || {
        until("no lag", async || (status(&log, "numbers").await.lag == 0).then_some(())).await;
    };
    let stays = join().await;
    until_shared(&log, "numbers", 1).await;
    for round in 0..2 {
        fill(&log, 0..40, round * 2 + 1..=round * 2 + 1).await;
        until_done().await;
        let guest = join().await;
        until_shared(&log, "numbers", 2).await;
        fill(&log, 0..40, round * 2 + 2..=round * 2 + 2).await;
        until_done().await;
        guest.stop().await;
        until_shared(&log, "numbers", 1).await;
    }
    fill(&log, 0..40, 5..=5).await;
    until_done().await;
    stays.stop().await;
    let reader = anabranch::ViewReader::new(&log, &Numbers);
    for stream in 0..40 {
        let found = reader.get(&stream.to_string()).await.unwrap();
        assert_eq!(found, Some(vec![1, 2, 3, 4, 5]), "stream {stream}");
    }
}

//! How far each partition is, and what going to another number of them moves: nothing but owners.

use crate::on_both;
use crate::support::{Db, fill, start, until};
use anabranch::operate::{Consumers, CursorStatus, Import, Owner};
use anabranch::prelude::*;
use anabranch::{FixedPartition, HandlerError};

on_both! {
    each_partition_has_its_own_positions,
    an_event_that_one_partition_has_set_aside_is_counted_once,
    a_rescale_says_what_moves_and_who_still_runs,
    odd_numbers_and_names_are_refused,
}

/// A consumer whose three partitions stand at 10, 70 and 40 of 100.
async fn three(db: &Db) -> (Log, Consumers) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=5).await;
    let import = Import::new("orders").partitions(3);
    import.checkpoint(0, 10).checkpoint(1, 70).checkpoint(2, 40).apply(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    (log, consumers)
}

fn at(position: u64) -> Option<Position> {
    Some(Position::new(position))
}

async fn each_partition_has_its_own_positions(db: Db) {
    let (log, consumers) = three(&db).await;
    let offsets = consumers.offsets("orders", Some(3)).await.unwrap();
    let parts: Vec<_> = offsets.parts.iter().map(|p| (p.part.as_str(), p.lag)).collect();
    let expected = [("partition 0 of 3", 90), ("partition 1 of 3", 30), ("partition 2 of 3", 60)];
    assert_eq!(parts, expected);
    assert_eq!((offsets.minimum.get(), offsets.head.get(), offsets.lag), (10, 100, 90));
    assert!(offsets.parts.iter().all(|part| part.owners == [Owner::Unassigned]));
    let by_cursor = consumers.offsets("orders", None).await.unwrap();
    assert_eq!((by_cursor.parts.len(), by_cursor.minimum, by_cursor.lag), (3, offsets.minimum, 90));
    let halves = consumers.offsets("orders", Some(2)).await.unwrap();
    for half in &halves.parts {
        assert_eq!(
            (half.extent.slots, half.extent.lowest, half.extent.highest),
            (2520, at(10), at(70))
        );
    }
    let table = db.recorder("orders");
    ReplicaSet::new("s").projection(table).lanes(2).catch_up(&log).await.unwrap();
    let done = consumers.offsets("orders", Some(3)).await.unwrap();
    assert_eq!((done.minimum.get(), done.lag), (100, 0));
}

/// One partition is at the end with keys that are retrying, one has not begun.
async fn an_event_that_one_partition_has_set_aside_is_counted_once(db: Db) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=5).await;
    let later = std::time::Duration::from_secs(3_600);
    let fails = db.recorder("orders").hook(move |_| Err(HandlerError::try_after(later, "not now")));
    let set = ReplicaSet::new("s").projection(fails);
    let worker = start(&log, set.partition(FixedPartition::new(0, 2).unwrap()));
    let now = until("keys that are set aside", async || {
        let now = Consumers::new(&log).status("orders").await.ok()?;
        let is_done = |cursor: &CursorStatus| cursor.position == now.head;
        (now.retrying_events > 0 && now.cursors.iter().any(is_done)).then_some(now)
    })
    .await;
    assert_eq!((now.head.get(), now.position.get(), now.lag, now.lag_ready), (100, 0, 100, 100));
    let offsets = Consumers::new(&log).offsets("orders", Some(1)).await.unwrap();
    assert_eq!((offsets.lag, offsets.parts[0].lag), (100, 100));
    let halves = Consumers::new(&log).offsets("orders", Some(2)).await.unwrap();
    assert_eq!((halves.parts[0].lag, halves.parts[1].lag), (now.retrying_events, 100));
    worker.stop().await;
}

async fn a_rescale_says_what_moves_and_who_still_runs(db: Db) {
    let (log, consumers) = three(&db).await;
    let plan = consumers.rescale("orders", 3, 5).await.unwrap();
    assert_eq!((plan.moves.len(), plan.staying(), plan.moving()), (15, 1008, 4032));
    assert_eq!((plan.before.minimum, plan.before.lag), (plan.after.minimum, plan.after.lag));
    assert_eq!((plan.before.parts.len(), plan.after.parts.len()), (3, 5));
    for one in &plan.moves {
        assert_eq!(one.extent.lowest, at([10, 70, 40][usize::from(one.from)]), "{one:?}");
        assert_eq!(one.extent.lowest, one.extent.highest);
    }
    assert!(plan.running.is_empty());

    let run = |index, total| {
        let partition = FixedPartition::new(index, total).unwrap();
        start(&log, ReplicaSet::new("s").projection(db.recorder("orders")).partition(partition))
    };
    let workers = [run(1, 3), run(1, 3), run(0, 5)];
    until("three workers, of whom one waits for another", async || {
        let alive = consumers.workers().await.unwrap().len() == 3;
        let offsets = consumers.offsets("orders", Some(3)).await.unwrap();
        let owner = &offsets.parts[1].owners[..];
        let owned =
            owner.iter().any(|owner| matches!(owner, Owner::Worker(w) if w.runs.ends_with("of 3")));
        (alive && owned).then_some(())
    })
    .await;
    let running = async |from, to| {
        let plan = consumers.rescale("orders", from, to).await.unwrap();
        plan.running.into_iter().map(|worker| worker.runs).collect::<Vec<_>>()
    };
    assert_eq!(running(3, 5).await, ["partition 1 of 3", "partition 1 of 3"]);
    assert_eq!(running(5, 3).await, ["partition 0 of 5"]);
    assert!(running(4, 3).await.is_empty());
    assert!(running(3, 3).await.is_empty(), "nobody has to stop");
    for worker in workers {
        worker.stop().await;
    }
}

async fn odd_numbers_and_names_are_refused(db: Db) {
    let (_, consumers) = three(&db).await;
    for total in [0, 5041] {
        let error = consumers.offsets("orders", Some(total)).await.unwrap_err();
        assert!(error.to_string().contains("use 1 to 5040"), "{error}");
        assert!(consumers.rescale("orders", 3, total).await.is_err());
        assert!(consumers.rescale("orders", total, 3).await.is_err());
    }
    let error = consumers.offsets("nobody", None).await.unwrap_err();
    assert!(error.to_string().contains("there is no consumer `nobody`"), "{error}");
    assert!(consumers.rescale("nobody", 1, 2).await.is_err());
    assert_eq!(consumers.offsets("orders", Some(11)).await.unwrap().parts.len(), 11);
}

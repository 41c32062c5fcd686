//! How much one transaction appends: what is more is done in several, or fails the event that wants it.

use crate::appended_events::{InBatches, copies};
use crate::on_both;
use crate::support::{Db, end_of, fill, left_by, start};
use anabranch::Retry;
use anabranch::backend::RawTx;
use anabranch::backend::database::Statement;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Pool, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use std::time::Duration;

on_both! {
    an_event_that_appends_too_much_fails_alone,
    a_batch_that_appends_too_much_is_done_in_parts,
    a_task_that_appends_too_much_fails_alone,
    what_was_taken_back_does_not_count,
}

/// More than one transaction takes.
const TOO_MUCH: usize = 60_000;

fn many(count: usize) -> impl Iterator<Item = NewEvent> {
    (0..count).map(|number| NewEvent::new("Copied", number as u64))
}

async fn copied(log: &Log) -> usize {
    log.read(Query::types(["Copied"])).collect().await.unwrap().len()
}

/// Appends so many events for order 3, and so many for each other.
fn own(of_third: usize, of_others: usize) -> InBatches {
    InBatches::new("own", move |events, tx| {
        for (number, event) in events.iter().enumerate() {
            tx.for_event(number);
            let mut left = if event.stream_id() == "3" { of_third } else { of_others };
            while left > 0 {
                let some = left.min(5_000);
                tx.append(&copies(event), Expected::Any, many(some))?;
                left -= some;
            }
        }
        Ok(())
    })
}

async fn an_event_that_appends_too_much_fails_alone(db: Db) {
    let log = db.log().await;
    fill(&log, 0..6, 1..=1).await;
    let set = ReplicaSet::new("s").lanes(1).projection(own(TOO_MUCH, 1));
    assert_eq!(left_by(set, &log).await.parked_keys, 1);
    let parked = Consumers::new(&log).parked("own").await.unwrap();
    assert_eq!(parked[0].key, "Order:3");
    assert!(parked[0].error.contains("50000 events"), "{}", parked[0].error);
    assert_eq!(copied(&log).await, 5);
}

async fn a_batch_that_appends_too_much_is_done_in_parts(db: Db) {
    let log = db.log().await;
    fill(&log, 0..6, 1..=1).await;
    let own = own(10_000, 10_000);
    ReplicaSet::new("s").lanes(1).projection(own).catch_up(&log).await.unwrap();
    assert_eq!(copied(&log).await, 60_000);
}

async fn a_task_that_appends_too_much_fails_alone(db: Db) {
    struct Copies;
    impl Pool for Copies {
        type Output = ();
        fn name(&self) -> &str {
            "copies"
        }
        fn settings(&self) -> PoolSettings {
            PoolSettings::default().retry(Retry::never())
        }
        async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
            let stream = StreamId::new("Copy", task.key())?;
            for _ in 0..task.payload::<usize>()?.div_ceil(5_000) {
                let count = task.payload::<usize>()?.min(5_000);
                tx.append(&stream, Expected::Any, many(count))?;
            }
            Ok(())
        }
    }
    let log = db.log().await;
    let tasks = Tasks::new(&log, "copies");
    let all = [1, TOO_MUCH, 1].into_iter().enumerate();
    let all = all.map(|(key, count)| NewTask::new(format!("key-{key}"), &count));
    let ids = tasks.enqueue_all(all.collect()).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").lanes(1).pool(Copies));
    for (id, state) in ids.iter().zip([TaskState::Done, TaskState::Dead, TaskState::Done]) {
        let task = end_of(&tasks, id.id).await;
        assert_eq!(task.state, state, "{task:?}");
    }
    worker.stop().await;
    assert_eq!(copied(&log).await, 2);
}

async fn what_was_taken_back_does_not_count(db: Db) {
    let log = db.log().await;
    let mut tx = Tx::on(&log.store().database(), Duration::from_secs(10));
    let (stream, large) = (StreamId::new("Copy", "1").unwrap(), "x".repeat(1_000_000));
    for number in 0..100 {
        let mark = tx.mark();
        let row = Statement::query("SELECT $1 AS row", vec![large.clone().into()]);
        tx.push(row).await.unwrap();
        let event = NewEvent::new("Copied", large.clone());
        tx.append(&stream, Expected::Any, [event]).unwrap();
        assert!(tx.undo(mark), "nothing was sent, the {number}th time");
    }
}

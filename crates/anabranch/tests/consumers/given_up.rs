//! A statement that the server gives up each time, for its time limit or a lock: waited for now and then, and in the
//! end the failure of its event. It used to hold up its lane for ever, with nothing in the status.

use crate::gates::never;
use crate::on_postgres;
use crate::support::{Db, fill, left_by, until};
use anabranch::Retry;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::workpool::TaskState;
use anabranch::workpool::{NewTask, Pool, PoolSettings, Task, Tasks};
use std::time::Duration;

on_postgres! {
    an_event_that_takes_too_long_each_time_is_parked_alone,
    a_task_that_takes_too_long_each_time_dies_alone,
}

/// Waits for longer than the server lets it.
async fn too_long(tx: &mut Tx) -> HandlerResult {
    tx.query("SELECT set_config('statement_timeout', '20ms', true)", vec![]).await?;
    tx.query("SELECT pg_sleep(30)", vec![]).await.map(drop)
}

struct Slow;

impl Projection for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        if event.stream_id() == "3" && event.version() == 2 { too_long(tx).await } else { Ok(()) }
    }
}

async fn an_event_that_takes_too_long_each_time_is_parked_alone(db: Db) {
    let log = db.log().await;
    fill(&log, 0..12, 1..=3).await;
    let left = left_by(ReplicaSet::new("s").lanes(2).projection(Slow), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 2), "that event, and the one behind it");
    let parked = Consumers::new(&log).parked("slow").await.unwrap();
    let error = &parked[0].error;
    assert_eq!(parked[0].key, "Order:3");
    assert!(error.contains("statement timeout") && error.contains("statement_timeout"), "{error}");
}

struct SlowPool;

impl Pool for SlowPool {
    type Output = ();
    fn name(&self) -> &str {
        "slow"
    }
    fn settings(&self) -> PoolSettings {
        PoolSettings::default().retry(Retry::never())
    }
    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
        if task.key() == "3" { too_long(tx).await } else { Ok(()) }
    }
}

async fn a_task_that_takes_too_long_each_time_dies_alone(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "slow");
    let all = (0..6).map(|key| NewTask::new(key.to_string(), &key)).collect();
    let ids = tasks.enqueue_all(all).await.unwrap();
    let worker = crate::support::start(&log, ReplicaSet::new("s").pool(SlowPool));
    for (number, id) in ids.iter().enumerate() {
        let wanted = if number == 3 { TaskState::Dead } else { TaskState::Done };
        until("its end", async || {
            let task = tasks.status(id.id).await.unwrap()?;
            (task.state == wanted).then_some(())
        })
        .await;
    }
    let dead = tasks.list(TaskState::Dead, 9).await.unwrap();
    let error = dead[0].error.clone().unwrap_or_default();
    assert!(error.contains("statement_timeout"), "{error}");
    tokio::time::timeout(Duration::from_secs(30), worker.stop()).await.unwrap();
}

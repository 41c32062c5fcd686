//! A task that is enqueued again is one task, whoever chose its id.

use crate::ledger::Ledger;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, TaskState, Tasks};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

on_both!(a_task_that_is_cloned_is_one, tasks_of_every_shape_are_enqueued_together);

async fn a_task_that_is_cloned_is_one(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let (first, second) = (NewTask::new("a", &1), NewTask::new("b", &1));
    tasks.enqueue(first.clone()).await.unwrap();
    // As a caller does who has not heard the answer; beside one that is new, and twice in one call.
    let all = vec![first.clone(), second.clone(), second.clone()];
    tasks.enqueue_all(all).await.unwrap();
    tasks.enqueue(second.clone()).await.unwrap();
    assert_eq!(tasks.list(TaskState::Ready, 10).await.unwrap().len(), 2);
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    for task in [&first, &second] {
        assert_eq!(tasks.wait(task.id(), LONG).await.unwrap().state, TaskState::Done);
    }
    tasks.enqueue(first).await.unwrap();
    assert_eq!(tasks.list(TaskState::Ready, 10).await.unwrap().len(), 0);
    assert_eq!(ledger.proof(&log).await, (2, 0));
    worker.stop().await;
}

async fn tasks_of_every_shape_are_enqueued_together(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "shapes");
    let plain = || NewTask::new("a", &1);
    let far = jiff::Timestamp::now() + Duration::from_secs(86_400);
    let shapes = [
        plain(),
        plain().run_after(Duration::from_secs(86_400)),
        plain().run_at(far),
        plain().run_at(jiff::Timestamp::UNIX_EPOCH + Duration::from_secs(1)),
        plain().unique("u"),
        plain().on_complete("next", "k", &2),
    ];
    let ids: Vec<_> = shapes.iter().map(NewTask::id).collect();
    tasks.enqueue_all(shapes.to_vec()).await.unwrap();
    let mut found = Vec::new();
    for id in ids {
        let task = tasks.details(id).await.unwrap().unwrap();
        let status = &task.status;
        assert!(status.enqueued_at > jiff::Timestamp::now() - Duration::from_secs(3_600));
        let has = (task.unique_key.is_some(), task.on_complete.is_some());
        found.push((status.state, status.run_at.is_some(), has));
    }
    use TaskState::{Ready, Scheduled};
    let wanted = [
        (Ready, false, (false, false)),
        (Scheduled, true, (false, false)),
        (Scheduled, true, (false, false)),
        (Ready, true, (false, false)),
        (Ready, false, (true, false)),
        (Ready, false, (false, true)),
    ];
    assert_eq!(found, wanted);
}

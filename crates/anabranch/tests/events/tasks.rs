//! Tasks of pools: done, failed, dead.

use crate::on_both;
use crate::script::Script;
use crate::seen::Seen;
use crate::support::*;
use anabranch::Retry;
use anabranch::events::{EngineEvent, Happening};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, PoolSettings, Tasks};
use std::time::Duration;

on_both! {
    tasks_inside_are_done_fail_and_die,
    tasks_outside_are_done_fail_and_die,
    a_pool_that_nobody_runs_is_said_to_the_log,
}

async fn tasks_inside_are_done_fail_and_die(db: Db) {
    tasks(db, |set, pool| set.pool(pool)).await;
}

async fn tasks_outside_are_done_fail_and_die(db: Db) {
    tasks(db, |set, pool| set.outside_pool(pool)).await;
}

async fn tasks(db: Db, add: impl Fn(ReplicaSet, Script) -> ReplicaSet) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "mail");
    for number in 0..20 {
        tasks.enqueue(NewTask::new(format!("k{number}"), &number)).await.unwrap();
    }
    let bad = tasks.enqueue(NewTask::new("bad", &0)).await.unwrap().id;
    let retry = Retry::default().attempts(2).first(Duration::from_millis(1));
    let pool = Script::new("mail", |task| match task.key() {
        "bad" => Err(HandlerError::new("no address")),
        _ => Ok(()),
    });
    let pool = pool.settings(PoolSettings::default().retry(retry));
    let seen = Seen::default();
    let running = start(&log, add(ReplicaSet::new("s"), pool).observer(seen.clone()));
    let dead = seen.first("task_died").await;
    let Happening::TaskDied { key, task, error, is_held, .. } = &dead.what else { panic!() };
    assert_eq!((key.as_str(), error.as_str()), ("bad", "no address"));
    assert_eq!((*task, *is_held, dead.consumer.as_deref()), (bad, true, Some("mail")));
    let count = |event: &EngineEvent| match event.what {
        Happening::TasksDone { tasks, .. } => tasks,
        _ => 0,
    };
    until("all of them", async || {
        (seen.all().iter().map(count).sum::<usize>() == 20).then_some(())
    })
    .await;
    running.stop().await;
    let failed = seen.of("task_failed");
    let again = |event: &EngineEvent| match &event.what {
        Happening::TaskFailed { attempts, retry_in, .. } => (*attempts, retry_in.is_some()),
        other => panic!("{other:?}"),
    };
    assert_eq!(failed.iter().map(again).collect::<Vec<_>>(), [(1, true), (2, false)]);
    assert_eq!(seen.all().iter().map(count).sum::<usize>(), 20);
}

async fn a_pool_that_nobody_runs_is_said_to_the_log(db: Db) {
    let seen = Seen::default();
    let log = db.log().await.with_observer(seen.clone());
    Tasks::new(&log, "nobody").enqueue(NewTask::new("k", &1)).await.unwrap();
    let notice = seen.first("notice").await;
    let json = serde_json::to_value(&notice).unwrap();
    assert_eq!((&json["kind"], &json["consumer"]), (&"pool_never_run".into(), &"nobody".into()));
}

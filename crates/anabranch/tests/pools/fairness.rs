//! Nobody is kept waiting by keys that are blocked, slow, or have very many tasks.

use crate::ledger::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, OutsidePool, Pool, Run, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{HandlerError, Retry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both!(
    keys_that_wait_keep_out_nobody_whatever_stands_behind_them,
    a_dead_task_with_thousands_behind_it_keeps_out_nobody,
    slow_keys_with_many_tasks_keep_out_nobody,
    whoever_was_not_run_in_time_comes_next,
    lanes_do_not_keep_each_other_from_reading,
);

const LONG: Duration = Duration::from_secs(60);

fn refuse(task: &Task, is_refused: impl Fn(&str, i64) -> bool) -> HandlerResult {
    match is_refused(task.key(), task.payload()?) {
        true => Err(HandlerError::new("not now")),
        false => Ok(()),
    }
}

fn patient() -> PoolSettings {
    let hour = Duration::from_secs(3_600);
    PoolSettings::default().retry(Retry::default().attempts(100).first(hour).longest(hour))
}

async fn keys_that_wait_keep_out_nobody_whatever_stands_behind_them(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(patient());
    let ledger = ledger.hook(|task| refuse(task, |key, _| key.starts_with("key-")));
    let tasks = Tasks::new(&log, "ledger");
    tasks.enqueue_all(counted(60, 100)).await.unwrap();
    let free = tasks.enqueue(NewTask::new("free", &1)).await.unwrap().id;
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    let status = tasks.wait(free, LONG).await.unwrap();
    assert_eq!(status.state, TaskState::Done);
    // Nor when they are known to wait, and more comes behind them.
    tasks.enqueue_all(counted(60, 50)).await.unwrap();
    let free = tasks.enqueue(NewTask::new("free", &2)).await.unwrap().id;
    let status = tasks.wait(free, LONG).await.unwrap();
    assert_eq!(status.state, TaskState::Done);
    worker.stop().await;
    // Nor for whoever comes next, and finds them waiting. Timers of theirs do not, either.
    let timers: Vec<NewTask> =
        counted(60, 50).into_iter().map(|task| task.run_after(Duration::from_millis(1))).collect();
    tasks.enqueue_all(timers).await.unwrap();
    let timer = NewTask::new("free", &4).run_after(Duration::from_millis(2));
    let free = tasks.enqueue_all(vec![NewTask::new("free", &3), timer]).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    for free in free {
        assert_eq!(tasks.wait(free.id, LONG).await.unwrap().state, TaskState::Done);
    }
    assert_eq!(ledger.of_key(&log, "free").await, [1, 2, 3, 4]);
    assert_eq!(ledger.proof(&log).await, (4, 0));
    worker.stop().await;
}

async fn a_dead_task_with_thousands_behind_it_keeps_out_nobody(db: Db) {
    let log = db.log().await;
    let settings = PoolSettings::default().retry(Retry::never());
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let ledger = ledger.hook(|task| refuse(task, |key, number| key == "key-0" && number == 1));
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(1, 5_000)).await.unwrap();
    let free = tasks.enqueue(NewTask::new("free", &1)).await.unwrap().id;
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()).lanes(2));
    assert_eq!(tasks.wait(free, LONG).await.unwrap().state, TaskState::Done);
    let behind = async || tasks.list(TaskState::Held, 10_000).await.unwrap().len();
    until("those behind it", async || (behind().await == 4_999).then_some(())).await;
    // More come while it is let go, at any moment of that.
    let more: Vec<NewTask> = (5_001..=5_050).map(|n| NewTask::new("key-0", &n)).collect();
    let last = more.last().unwrap().id();
    let (discarded, enqueued) = tokio::join!(tasks.discard(ids[0].id), async {
        for task in more {
            tasks.enqueue(task).await?;
        }
        Ok::<(), anabranch::workpool::TaskError>(())
    });
    discarded.unwrap();
    enqueued.unwrap();
    assert_eq!(tasks.wait(last, LONG).await.unwrap().state, TaskState::Done);
    assert_eq!(ledger.of_key(&log, "key-0").await.len(), 5_049);
    // Without its first one, the second is out of order, and no other.
    assert_eq!(ledger.proof(&log).await, (5_050, 1));
    worker.stop().await;
}

/// Tasks of some keys take for ever.
#[derive(Clone, Default)]
struct Slow(Arc<AtomicBool>);

impl OutsidePool for Slow {
    type Output = ();

    fn name(&self) -> &str {
        "slow"
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult {
        while task.key() != "free" && !self.0.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

async fn slow_keys_with_many_tasks_keep_out_nobody(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "slow");
    tasks.enqueue_all(counted(12, 1_000)).await.unwrap();
    let free = tasks.enqueue(NewTask::new("free", &1)).await.unwrap().id;
    let slow = Slow::default();
    let set = ReplicaSet::new("work").outside_pool(slow.clone()).grace(Duration::ZERO);
    let worker = start(&log, set);
    assert_eq!(tasks.wait(free, LONG).await.unwrap().state, TaskState::Done);
    worker.stop().await;
}

/// A task of this pool takes longer than a transaction does.
struct Sluggish;

impl Pool for Sluggish {
    type Output = ();

    fn name(&self) -> &str {
        "sluggish"
    }

    async fn run(&self, _: &Task, _: &mut Tx) -> HandlerResult {
        tokio::time::sleep(Duration::from_millis(510)).await;
        Ok(())
    }
}

async fn whoever_was_not_run_in_time_comes_next(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "sluggish");
    let mut all = counted(1, 50);
    all.extend((0..3).map(|n| NewTask::new(format!("other-{n}"), &1)));
    let ids = tasks.enqueue_all(all).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(Sluggish).lanes(1));
    for id in &ids[50..] {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
    let done = tasks.list(TaskState::Done, 100).await.unwrap().len();
    assert!(done <= 6, "each key has had its turn, and not {done} of one");
    worker.stop().await;
}

/// One lane has thousands of tasks that wait, the other nothing but one behind them.
async fn lanes_do_not_keep_each_other_from_reading(db: Db) {
    let log = db.log().await;
    let rule = log.hash_rule();
    let is_even = |key: &str| rule.slot(key).get() % 2 == 0;
    let blocked: Vec<String> =
        (0..).map(|n| format!("key-{n}")).filter(|key| is_even(key)).take(30).collect();
    let free = (0..).map(|n| format!("free-{n}")).find(|key| !is_even(key)).unwrap();
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(patient());
    let ledger = ledger.hook(|task| refuse(task, |key, _| key.starts_with("key-")));
    let tasks = Tasks::new(&log, "ledger");
    let all = (1..=100).flat_map(|n| blocked.iter().map(move |key| NewTask::new(key, &n)));
    tasks.enqueue_all(all.collect()).await.unwrap();
    let id = tasks.enqueue(NewTask::new(&free, &1)).await.unwrap().id;
    let worker = start(&log, ReplicaSet::new("work").pool(ledger).lanes(2));
    assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Done);
    worker.stop().await;
}

//! Tasks whose time comes: while nobody runs, many at once, behind others.

use crate::ledger::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Pool, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{HandlerError, Retry};
use std::time::{Duration, Instant};

on_both!(
    what_was_due_while_nobody_ran_is_run_by_the_next,
    ten_thousand_that_are_due_at_once_are_run_once,
    a_timer_of_a_held_key_waits_for_it,
    a_timer_of_a_key_with_a_long_line_is_run,
);

const LONG: Duration = Duration::from_secs(60);

async fn what_was_due_while_nobody_ran_is_run_by_the_next(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let past = jiff::Timestamp::now() - Duration::from_secs(3_600);
    let soon = NewTask::new("a", &2).run_after(Duration::from_millis(50));
    let ids = tasks.enqueue_all(vec![NewTask::new("a", &1).run_at(past), soon]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    let start = || start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    let (one, two) = (start(), start());
    for id in ids {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
    assert_eq!(ledger.proof(&log).await, (2, 0));
    one.stop().await;
    two.stop().await;
}

/// Counts in memory: ten thousand rows would be counted ten thousand times.
#[derive(Clone, Default)]
struct Once(std::sync::Arc<std::sync::Mutex<std::collections::HashMap<uuid::Uuid, u32>>>);

impl Pool for Once {
    type Output = ();

    fn name(&self) -> &str {
        "once"
    }

    async fn run(&self, task: &Task, _: &mut Tx) -> HandlerResult {
        *self.0.lock().unwrap().entry(task.id()).or_default() += 1;
        Ok(())
    }
}

async fn ten_thousand_that_are_due_at_once_are_run_once(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "once");
    let at = jiff::Timestamp::now() + Duration::from_secs(3);
    let all = (0..10_000).map(|n| NewTask::new(format!("key-{}", n % 500), &n).run_at(at));
    tasks.enqueue_all(all.collect()).await.unwrap();
    let once = Once::default();
    let set = || ReplicaSet::new("work").pool(once.clone()).lanes(2);
    let (one, two) = (start(&log, set()), start(&log, set()));
    crate::crew::until_shared(&log, "once", 2).await;
    let open = async || {
        let counts = Tasks::counts(&log).await.unwrap();
        let of = counts.iter().flat_map(|pool| &pool.tasks);
        of.filter(|(state, _)| state.is_open()).map(|(_, tasks)| tasks).sum::<u64>()
    };
    until("the time", async || (jiff::Timestamp::now() >= at).then_some(())).await;
    let started = Instant::now();
    until("all of them", async || (open().await == 0).then_some(())).await;
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    let ran = once.0.lock().unwrap().clone();
    assert_eq!((ran.len(), ran.values().all(|times| *times == 1)), (10_000, true));
    one.stop().await;
    two.stop().await;
}

async fn a_timer_of_a_held_key_waits_for_it(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    tasks.pause_key("a").await.unwrap();
    let timer = NewTask::new("a", &1).run_after(Duration::from_millis(300));
    let id = tasks.enqueue(timer).await.unwrap().id;
    let held = async || tasks.status(id).await.unwrap().unwrap().state == TaskState::Held;
    until("it waits behind its key", async || held().await.then_some(())).await;
    tasks.resume_key("a").await.unwrap();
    assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Done);
    worker.stop().await;
}

/// It stands behind more tasks than a lane keeps of a key, the first of which waits for its time; the
/// key goes on when that has come, and the timer with it.
async fn a_timer_of_a_key_with_a_long_line_is_run(db: Db) {
    let log = db.log().await;
    let retry = Retry::default().attempts(3).first(Duration::from_secs(1));
    let settings = PoolSettings::default().retry(retry);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let ledger = ledger.hook(|task| match task.attempt() == 1 && task.payload::<i64>()? == 1 {
        true => Err(HandlerError::new("not yet")),
        false => Ok(()),
    });
    let tasks = Tasks::new(&log, "ledger");
    let mut all = counted(1, 1_500);
    all.push(NewTask::new("key-0", &1_501).run_after(Duration::from_millis(1)));
    let ids = tasks.enqueue_all(all).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    for id in [&ids[1_499], &ids[1_500]] {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
    assert_eq!(ledger.proof(&log).await, (1_501, 0));
    worker.stop().await;
}

//! Bad moments: transactions that commit late, zombies, keys held and released while they run, races.

use crate::crew::until_shared;
use crate::ledger::*;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::backend::database::End;
use anabranch::prelude::*;
use anabranch::workpool::{Completed, Outcome, PoolSettings, TaskState};
use anabranch::workpool::{NewTask, OutsidePool, Run, Task, Tasks};
use anabranch::{HandlerError, Retry};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

on_both!(
    a_zombie_stores_nothing,
    a_zombie_does_not_end_what_its_heir_has_yet_to_do,
    a_key_is_paused_and_resumed_while_it_runs,
    dead_tasks_are_retried_while_others_come,
    one_of_many_at_once_is_new,
    a_unique_task_that_ends_meanwhile_is_not_taken_for_a_new_one,
    a_task_is_cancelled_in_every_state,
    a_cancelled_one_does_not_keep_the_others_from_ending,
);

on_postgres!(a_task_that_becomes_visible_late_is_found);

const LONG: Duration = Duration::from_secs(60);

async fn a_task_that_becomes_visible_late_is_found(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    let late = NewTask::new("late", &1);
    let id = late.id();
    let other = db.log().await;
    let mut session = other.store().database().begin();
    let open = End::Open { idle: LONG };
    session.run(tasks.statements(&[late]).unwrap(), open).await.unwrap();
    // Later ones are read and run, so that the lane is beyond it; and there is always more to do.
    let first = tasks.enqueue_all(counted(3, 10)).await.unwrap();
    tasks.wait(first.last().unwrap().id, LONG).await.unwrap();
    let is_found = Arc::new(AtomicBool::new(false));
    let (until_found, busy) = (Arc::clone(&is_found), tasks.clone());
    let load = tokio::spawn(async move {
        let mut number = 10;
        while !until_found.load(Ordering::SeqCst) {
            number += 1;
            let more = (0..3).map(|key| NewTask::new(format!("key-{key}"), &number)).collect();
            busy.enqueue_all(more).await.unwrap();
        }
        number
    });
    let committed = Instant::now();
    session.run(Vec::new(), End::Commit).await.unwrap();
    assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Done);
    let took = committed.elapsed();
    is_found.store(true, Ordering::SeqCst);
    assert!(took < Duration::from_secs(4), "{took:?}");
    let all = 3 * load.await.unwrap() + 1;
    until("all", async || (ledger.proof(&log).await.0 >= all).then_some(())).await;
    assert_eq!(ledger.proof(&log).await, (all, 0));
    worker.stop().await;
}

/// Its whole process stands still in the middle of a task, until its lease is over and its heir has run
/// that task.
async fn a_zombie_stores_nothing(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let heir = ledger.clone();
    with_a_zombie(&db, &ledger, heir, async |tasks, id| {
        assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Done);
    })
    .await;
    assert_eq!(ledger.proof(&log).await, (9, 0));
}

/// The same where the heir has failed to run them and waits: they are open, and still not the zombie's.
async fn a_zombie_does_not_end_what_its_heir_has_yet_to_do(db: Db) {
    let log = db.log().await;
    let hour = Duration::from_secs(3_600);
    let retry = Retry::default().attempts(9).first(hour).longest(hour);
    let settings = PoolSettings::default().retry(retry).batch_size(1);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let heir = ledger.clone().hook(|_| Err(HandlerError::new("not now")));
    with_a_zombie(&db, &ledger, heir, async |tasks, id| {
        let status = async || tasks.status(id).await.unwrap().unwrap();
        if status().await.error.is_none() {
            let failed = async || tasks.list(TaskState::Ready, 9).await.unwrap();
            let count = async || failed().await.iter().filter(|task| task.attempts == 1).count();
            until("three that failed", async || (count().await == 3).then_some(())).await;
        }
    })
    .await;
    assert_eq!(ledger.proof(&log).await, (0, 0));
}

async fn with_a_zombie(
    db: &Db,
    ledger: &Ledger,
    heir: Ledger,
    mut check: impl AsyncFnMut(&Tasks, uuid::Uuid),
) {
    let log = db.log().await;
    let (inside, wake) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (met, woken) = (Arc::clone(&inside), Arc::clone(&wake));
    let blocked = ledger.clone().hook(move |_| {
        met.store(true, Ordering::SeqCst);
        while !woken.load(Ordering::SeqCst) {
            // Not `await`: nothing else of this process runs.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    let set = || ReplicaSet::new("work").lease(Duration::from_secs(2));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (url, options, zombie) = (db.url.clone(), db.options.clone(), set().pool(blocked));
    let zombie = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let log = anabranch::connect_with(&url, &options).await.unwrap();
            zombie.run_until(&log, async { drop(stopped.await) }).await.unwrap();
        });
    });
    until_shared(&log, "ledger", 1).await;
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(3, 3)).await.unwrap();
    until("the zombie", async || inside.load(Ordering::SeqCst).then_some(())).await;
    let heir = start(&db.log().await, set().pool(heir));
    for id in &ids {
        check(&tasks, id.id).await;
    }
    wake.store(true, Ordering::SeqCst);
    until_shared(&log, "ledger", 2).await;
    let _ = stop.send(());
    tokio::task::spawn_blocking(move || zombie.join().unwrap()).await.unwrap();
    heir.stop().await;
}

async fn a_key_is_paused_and_resumed_while_it_runs(db: Db) {
    let log = db.log().await;
    let settings = PoolSettings::default().batch_size(7);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let tasks = Tasks::new(&log, "ledger");
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()).lanes(2));
    let pauses = async {
        for round in 0..60_u64 {
            let key = format!("key-{}", round % 3);
            tasks.pause_key(&key).await.unwrap();
            tokio::time::sleep(Duration::from_millis(round % 7)).await;
            tasks.resume_key(&key).await.unwrap();
        }
    };
    let load = async {
        for number in 1..=120 {
            let more = (0..3).map(|key| NewTask::new(format!("key-{key}"), &number)).collect();
            tasks.enqueue_all(more).await.unwrap();
        }
    };
    tokio::join!(pauses, load);
    until("all", async || (ledger.proof(&log).await.0 >= 360).then_some(())).await;
    assert_eq!(ledger.proof(&log).await, (360, 0));
    worker.stop().await;
}

async fn dead_tasks_are_retried_while_others_come(db: Db) {
    let log = db.log().await;
    let failed: Arc<Mutex<HashSet<uuid::Uuid>>> = Arc::default();
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let settings = PoolSettings::default().retry(Retry::never()).batch_size(9);
    let ledger = ledger.settings(settings).hook(move |task| {
        let fails = task.payload::<i64>()? % 5 == 0 && failed.lock().unwrap().insert(task.id());
        if fails { Err(HandlerError::new("the first time")) } else { Ok(()) }
    });
    let tasks = Tasks::new(&log, "ledger");
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()).lanes(2));
    let load = async {
        for number in 1..=60 {
            let more = (0..4).map(|key| NewTask::new(format!("key-{key}"), &number)).collect();
            tasks.enqueue_all(more).await.unwrap();
        }
    };
    let retries = until("all", async || {
        for dead in tasks.list(TaskState::Dead, 100).await.unwrap() {
            tasks.retry(dead.id).await.unwrap();
        }
        (ledger.proof(&log).await.0 >= 240).then_some(())
    });
    tokio::join!(load, retries);
    assert_eq!(ledger.proof(&log).await, (240, 0));
    worker.stop().await;
}

async fn one_of_many_at_once_is_new(db: Db) {
    let log = db.log().await;
    let logs = [db.log().await, db.log().await, log.clone()];
    for round in 0..10 {
        let id = uuid::Uuid::now_v7();
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..16 {
            let tasks = Tasks::new(&logs[caller % 3], "ledger");
            callers.spawn(async move {
                let task = NewTask::new("a", &round);
                let task = match round % 2 {
                    0 => task.unique(format!("only-{round}")),
                    _ => task.with_id(id),
                };
                tasks.enqueue(task).await.unwrap()
            });
        }
        let all = callers.join_all().await;
        assert_eq!(all.iter().filter(|enqueued| enqueued.is_new).count(), 1, "{all:?}");
        let ids: HashSet<_> = all.iter().map(|enqueued| enqueued.id).collect();
        assert_eq!(ids.len(), 1);
    }
}

/// Whoever is told that its task is new finds it, however soon the one before it has ended.
async fn a_unique_task_that_ends_meanwhile_is_not_taken_for_a_new_one(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let tasks = Tasks::new(&db.log().await, "ledger");
        callers.spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..100 {
                let task = NewTask::new("a", &1).unique("only");
                ids.push(tasks.enqueue(task).await.unwrap());
            }
            ids
        });
    }
    let all: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
    let tasks = Tasks::new(&log, "ledger");
    let mut new = HashSet::new();
    for enqueued in all {
        let status = tasks.wait(enqueued.id, LONG).await.unwrap();
        assert_eq!(status.state, TaskState::Done);
        assert!(!enqueued.is_new || new.insert(enqueued.id), "new twice");
    }
    assert_eq!(ledger.proof(&log).await.0, new.len() as i64);
    worker.stop().await;
}

/// Tells how tasks ended.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(i64, Outcome)>>>);

impl OutsidePool for Told {
    type Output = ();

    fn name(&self) -> &str {
        "told"
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult {
        let told: Completed<i64> = task.payload()?;
        self.0.lock().unwrap().push((told.payload, told.outcome));
        Ok(())
    }
}

async fn a_task_is_cancelled_in_every_state(db: Db) {
    let log = db.log().await;
    let hour = Duration::from_secs(3_600);
    let retry = Retry::default().attempts(2).first(hour);
    let settings = PoolSettings::default().retry(retry);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings).hook(|task| {
        let fails = task.payload::<i64>()? == 1;
        if fails { Err(HandlerError::new("one")) } else { Ok(()) }
    });
    let tasks = Tasks::new(&log, "ledger");
    let new = |key: &str, number: i64| {
        NewTask::new(key, &number).on_complete("told", "t", &(number * 10))
    };
    let told = Told::default();
    let set = ReplicaSet::new("work").pool(ledger.clone()).outside_pool(told.clone());
    let worker = start(&log, set);
    // One that waits for its next attempt, with one behind it that then goes on.
    let ids = tasks.enqueue_all(vec![new("a", 1), new("a", 2)]).await.unwrap();
    let failed = async || tasks.status(ids[0].id).await.unwrap().unwrap().attempts == 1;
    until("a failure", async || failed().await.then_some(())).await;
    assert!(tasks.cancel(ids[0].id).await.unwrap());
    // Whoever waits for it learns of it when its time comes, or somebody else takes over.
    worker.stop().await;
    let set = ReplicaSet::new("work").pool(ledger.clone()).outside_pool(told.clone());
    let worker = start(&log, set);
    assert_eq!(tasks.wait(ids[1].id, LONG).await.unwrap().state, TaskState::Done);
    // A timer, and one behind a paused key.
    let timer = tasks.enqueue(new("b", 3).run_after(hour)).await.unwrap().id;
    assert!(tasks.cancel(timer).await.unwrap());
    tasks.pause_key("c").await.unwrap();
    let held = tasks.enqueue(new("c", 4)).await.unwrap().id;
    let is_held = async || tasks.status(held).await.unwrap().unwrap().state == TaskState::Held;
    until("it is held", async || is_held().await.then_some(())).await;
    assert!(tasks.cancel(held).await.unwrap());
    tasks.resume_key("c").await.unwrap();
    until("four", async || (told.0.lock().unwrap().len() == 4).then_some(())).await;
    let mut told = told.0.lock().unwrap().clone();
    told.sort_by_key(|(number, _)| *number);
    let cancelled = Outcome::Cancelled;
    assert_eq!(told, [(10, cancelled), (20, Outcome::Done), (30, cancelled), (40, cancelled)]);
    worker.stop().await;
}

/// All of them end at the same time, and are stored together.
#[derive(Clone)]
struct Together(Arc<tokio::sync::Barrier>, Arc<AtomicBool>);

impl OutsidePool for Together {
    type Output = ();

    fn name(&self) -> &str {
        "together"
    }

    async fn run(&self, _: &Task, _: &mut Run) -> HandlerResult {
        self.0.wait().await;
        while !self.1.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

async fn a_cancelled_one_does_not_keep_the_others_from_ending(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "together");
    let (barrier, go) = (Arc::new(tokio::sync::Barrier::new(21)), Arc::new(AtomicBool::new(false)));
    let pool = Together(Arc::clone(&barrier), Arc::clone(&go));
    let worker = start(&log, ReplicaSet::new("work").outside_pool(pool).lanes(1));
    let ids = tasks.enqueue_all(counted(20, 1)).await.unwrap();
    barrier.wait().await;
    for id in &ids[5..8] {
        assert!(tasks.cancel(id.id).await.unwrap());
    }
    go.store(true, Ordering::SeqCst);
    for (number, id) in ids.iter().enumerate() {
        let status = tasks.wait(id.id, LONG).await.unwrap();
        let is_cancelled = (5..8).contains(&number);
        let expected = if is_cancelled { TaskState::Cancelled } else { TaskState::Done };
        assert_eq!((status.state, status.attempts), (expected, 0));
    }
    // Nor later ones of their keys.
    let again = tasks.enqueue(NewTask::new("key-6", &2)).await.unwrap().id;
    tasks.cancel(again).await.unwrap();
    worker.stop().await;
}

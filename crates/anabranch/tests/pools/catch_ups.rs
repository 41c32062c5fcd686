//! Catching up with a pool: dead and waiting tasks are no success.

use crate::ledger::*;
use crate::on_both;
use crate::support::*;
use anabranch::operate::Reason;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, OutsidePool, Run, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{HandlerError, Retry, RunError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

on_both!(
    a_dead_task_is_no_success,
    it_waits_for_the_next_attempt_of_a_task,
    a_task_that_waits_for_its_next_attempt_is_not_parked,
    a_standby_waits_for_what_its_partition_has_to_do,
    what_cannot_run_is_never_caught_up,
);

/// Fails for the second task of one key.
fn fails(task: &Task) -> HandlerResult {
    match (task.key(), task.payload::<i64>()?) {
        ("key-1", 2) => Err(HandlerError::new("two is broken")),
        _ => Ok(()),
    }
}

async fn a_dead_task_is_no_success(db: Db) {
    let log = db.log().await;
    let settings = PoolSettings::default().retry(Retry::never());
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings).hook(fails);
    let tasks = Tasks::new(&log, "ledger");
    tasks.enqueue_all(counted(3, 4)).await.unwrap();
    let set = || ReplicaSet::new("work").pool(ledger.clone()).lanes(2);
    let error = set().catch_up(&log).await.unwrap_err();
    let RunError::Incomplete(left) = &error else { panic!("{error}") };
    assert_eq!(left.progress.consumers[0].parked, 1);
    assert_eq!(left.progress.consumers[0].handled, 9);
    let words = error.to_string();
    for part in ["pool `ledger`", "3 tasks of 1 key parked", "two is broken", "tasks list ledger"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let now = status(&log, "ledger").await;
    assert_eq!((now.lag, now.lag_ready), (3, 0), "they wait for somebody");
    // The next run finds it as it was.
    assert_eq!(left_by(set(), &log).await.parked_events, 3);
    let dead = tasks.list(TaskState::Dead, 2).await.unwrap();
    tasks.discard(dead[0].id).await.unwrap();
    assert_eq!(status(&log, "ledger").await.lag_ready, 2);
    set().catch_up(&log).await.unwrap();
    assert_eq!(ledger.proof(&log).await.0, 11);
    assert_eq!(status(&log, "ledger").await.lag, 0);
    // A key that is paused, and has nothing to do, leaves nothing.
    tasks.pause_key("key-2").await.unwrap();
    set().catch_up(&log).await.unwrap();
    tasks.enqueue(NewTask::new("key-2", &5)).await.unwrap();
    let left = left_by(set(), &log).await;
    assert_eq!((left.parked_events, left.first_error.as_deref()), (1, Some("paused")));
}

async fn it_waits_for_the_next_attempt_of_a_task(db: Db) {
    let log = db.log().await;
    let calls = Arc::new(AtomicU32::new(0));
    let hook = move |task: &Task| match calls.fetch_add(1, Ordering::SeqCst) < 2 {
        true => fails(task),
        false => Ok(()),
    };
    let retry = Retry::default().first(Duration::from_millis(5));
    let settings = PoolSettings::default().retry(retry);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings).hook(hook);
    Tasks::new(&log, "ledger").enqueue_all(counted(2, 3)).await.unwrap();
    ReplicaSet::new("work").pool(ledger.clone()).catch_up(&log).await.unwrap();
    assert_eq!(ledger.proof(&log).await, (6, 0));
}

/// The next attempt is an hour away.
async fn a_task_that_waits_for_its_next_attempt_is_not_parked(db: Db) {
    let log = db.log().await;
    let hour = Duration::from_secs(3600);
    let settings = PoolSettings::default().retry(Retry::default().first(hour).longest(hour));
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings).hook(fails);
    Tasks::new(&log, "ledger").enqueue_all(counted(3, 4)).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn({
        let (log, set) = (log.clone(), ReplicaSet::new("work").pool(ledger.clone()));
        async move { set.catch_up_until(&log, async { drop(stopped.await) }).await }
    });
    until("the others", async || (ledger.proof(&log).await.0 == 9).then_some(())).await;
    let now = until("it waits", async || {
        let now = status(&log, "ledger").await;
        (now.retrying_keys == 1).then_some(now)
    })
    .await;
    assert_eq!((now.parked_keys, now.parked_events), (0, 0));
    assert_eq!((now.retrying_events, now.lag, now.lag_ready), (3, 3, 3));
    let reasons = &now.cursors[0].reasons;
    assert!(reasons.contains(&Reason::RetryingKeys { keys: 1 }), "{reasons:?}");
    stop.send(()).unwrap();
    let error = run.await.unwrap().unwrap_err();
    let RunError::Incomplete(left) = &error else { panic!("{error}") };
    assert!(left.was_stopped, "{left:?}");
    assert_eq!((left.left[0].unseen, left.left[0].retrying_events), (0, 3));
    let last = &left.progress.consumers[0];
    assert_eq!((last.parked, last.retrying), (0, 1));
}

/// It holds no slots itself, so its lanes cannot say that nothing is left.
async fn a_standby_waits_for_what_its_partition_has_to_do(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let open = Arc::new(AtomicU32::new(0));
    let gate = Arc::clone(&open);
    let hook = move |_: &Task| {
        tokio::task::block_in_place(|| {
            while gate.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Ok(())
    };
    let ledger = Ledger::new(&db, &log, "ledger").await.hook(hook);
    Tasks::new(&log, "ledger").enqueue_all(counted(2, 3)).await.unwrap();
    let set = || {
        let partition = anabranch::FixedPartition::new(0, 1).unwrap();
        ReplicaSet::new("work").pool(ledger.clone()).partition(partition)
    };
    let owner = start(&log, set());
    until("an owner", async || {
        let cursors = anabranch::operate::Consumers::new(&log).status("ledger").await.ok()?.cursors;
        cursors.iter().any(|one| one.owner != anabranch::operate::Owner::Unassigned).then_some(())
    })
    .await;
    let looks = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&looks);
    let standby = set().on_progress(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
    });
    let standby = tokio::spawn(async move { standby.catch_up(&other).await });
    until("it to have looked", async || {
        (looks.load(Ordering::SeqCst) > 5 || standby.is_finished()).then_some(())
    })
    .await;
    assert!(!standby.is_finished(), "the tasks of its partition are open");
    open.store(1, Ordering::SeqCst);
    standby.await.unwrap().unwrap();
    assert_eq!(ledger.proof(&log).await.0, 6);
    owner.stop().await;
}

struct Unable;

impl OutsidePool for Unable {
    type Output = ();

    fn name(&self) -> &str {
        "unable"
    }

    async fn run(&self, _: &Task, _: &mut Run) -> HandlerResult {
        Err(HandlerError::unable("the printer is not installed"))
    }
}

/// Its lane sees nothing that it could do, and the worker may learn only later why. So often that both come first.
async fn what_cannot_run_is_never_caught_up(db: Db) {
    let log = db.log().await;
    Tasks::new(&log, "unable").enqueue(NewTask::new("k", &1)).await.unwrap();
    for _ in 0..10 {
        let error = ReplicaSet::new("work").outside_pool(Unable).catch_up(&log).await.unwrap_err();
        assert!(error.to_string().contains("the printer is not installed"), "{error}");
    }
    assert_eq!(status(&log, "unable").await.lag, 1);
}

//! How often a task is tried: by where its effects are, and by what its error says.

use crate::script::Script;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Pool, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{HandlerError, Retry};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both!(
    without_a_choice_the_kind_of_pool_decides,
    an_endpoint_that_is_down_kills_no_task,
    an_error_for_good_is_not_tried_again,
    an_error_that_says_when_is_not_tried_before,
    a_task_that_waits_for_its_next_attempt_is_tried_at_once_if_somebody_says_so,
    nothing_overtakes_a_task_that_is_tried_at_once,
);

on_postgres!(a_task_that_reads_and_fails_returns_its_session_first);

const LONG: Duration = Duration::from_secs(60);

async fn without_a_choice_the_kind_of_pool_decides(db: Db) {
    let log = db.log().await;
    let fails = |_: &Task| Err(HandlerError::new("no"));
    let set = ReplicaSet::new("work").pool(Script::new("inside", fails));
    let worker = start(&log, set.outside_pool(Script::new("outside", fails)));
    let (inside, outside) = (Tasks::new(&log, "inside"), Tasks::new(&log, "outside"));
    let first = inside.enqueue(NewTask::new("a", &1)).await.unwrap().id;
    let second = outside.enqueue(NewTask::new("a", &1)).await.unwrap().id;
    let dead = inside.wait(first, LONG).await.unwrap();
    assert_eq!((dead.state, dead.attempts), (TaskState::Dead, 5));
    let goes_on = until("more than five attempts outside", async || {
        outside.status(second).await.unwrap().filter(|task| task.attempts > 5)
    })
    .await;
    assert_eq!(goes_on.state, TaskState::Ready);
    worker.stop().await;
}

/// An hour of outage, at a thousandth of the time: the schedule of the default, faster.
async fn an_endpoint_that_is_down_kills_no_task(db: Db) {
    let log = db.log().await;
    let (up, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (is_up, called) = (Arc::clone(&up), Arc::clone(&calls));
    let default = Retry::outside();
    let fast = default.first(default.first / 1_000).longest(default.longest / 1_000);
    let script = Script::new("outside", move |_| {
        called.fetch_add(1, Ordering::SeqCst);
        match is_up.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(HandlerError::new("connection refused")),
        }
    });
    let script = script.settings(PoolSettings::default().retry(fast));
    let tasks = Tasks::new(&log, "outside");
    let new: Vec<_> = (0..10).map(|key| NewTask::new(format!("key-{key}"), &key)).collect();
    let ids = tasks.enqueue_all(new).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").outside_pool(script));
    until("many attempts", async || (calls.load(Ordering::SeqCst) >= 200).then_some(())).await;
    let counts = Tasks::open_counts(&log).await.unwrap();
    assert_eq!(counts[0].tasks, [(TaskState::Ready, 10)], "none has died");
    up.store(true, Ordering::SeqCst);
    for id in ids {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
    worker.stop().await;
}

async fn an_error_for_good_is_not_tried_again(db: Db) {
    let log = db.log().await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let called = Arc::clone(&calls);
    let act = move |pool: &'static str| {
        let called = Arc::clone(&called);
        move |task: &Task| {
            called.lock().unwrap().push((pool, task.key().to_owned()));
            match task.key() {
                "bad" => Err(HandlerError::for_good("no such account")),
                _ => Ok(()),
            }
        }
    };
    let set = ReplicaSet::new("work").pool(Script::new("inside", act("inside")));
    let worker = start(&log, set.outside_pool(Script::new("outside", act("outside"))));
    for pool in ["inside", "outside"] {
        let tasks = Tasks::new(&log, pool);
        let new = ["good", "bad", "good"].map(|key| NewTask::new(key, &1));
        let ids = tasks.enqueue_all(new.to_vec()).await.unwrap();
        let dead = tasks.wait(ids[1].id, LONG).await.unwrap();
        assert_eq!((dead.state, dead.attempts), (TaskState::Dead, 1));
        assert_eq!(dead.error.as_deref(), Some("no such account"));
        assert_eq!(tasks.wait(ids[2].id, LONG).await.unwrap().state, TaskState::Done);
    }
    worker.stop().await;
    let calls = calls.lock().unwrap().clone();
    let bad = |of: &str| calls.iter().filter(|(pool, key)| *pool == of && key == "bad").count();
    assert_eq!(bad("outside"), 1);
    assert!(bad("inside") <= 2, "once more if it was not the first of its transaction");
}

async fn an_error_that_says_when_is_not_tried_before(db: Db) {
    let log = db.log().await;
    let hour = Duration::from_secs(3_600);
    let act = move |task: &Task| match (task.key(), task.attempt()) {
        // A century is a year at most, and the clock of no database overflows.
        ("never", _) => Err(HandlerError::try_after(Duration::MAX, "429")),
        (_, 1) => Err(HandlerError::try_after(Duration::from_millis(300), "429")),
        _ => Err(HandlerError::try_after(hour, "503")),
    };
    let retry = Retry::default().attempts(3).first(Duration::from_millis(1));
    let settings = PoolSettings::default().retry(retry);
    let (inside, outside) = (Script::new("inside", act), Script::new("outside", act));
    let set = ReplicaSet::new("work").pool(inside.settings(settings));
    let worker = start(&log, set.outside_pool(outside.settings(settings)));
    for pool in ["inside", "outside"] {
        let tasks = Tasks::new(&log, pool);
        let new = ["busy", "never"].map(|key| NewTask::new(key, &1));
        let ids = tasks.enqueue_all(new.to_vec()).await.unwrap();
        let twice = until("the second attempt", async || {
            tasks.status(ids[0].id).await.unwrap().filter(|task| task.attempts == 2)
        })
        .await;
        let waited = jiff::Timestamp::now().duration_since(twice.enqueued_at);
        assert!(waited.as_millis() >= 300, "{waited:?}");
        let ahead = twice.run_at.unwrap().duration_since(twice.enqueued_at);
        assert_eq!((twice.state, twice.error.as_deref()), (TaskState::Ready, Some("503")));
        assert!(ahead >= hour.try_into().unwrap(), "{ahead:?}");
        let far = until("the one that waits for long", async || {
            tasks.status(ids[1].id).await.unwrap().filter(|task| task.attempts == 1)
        })
        .await;
        let ahead = far.run_at.unwrap().duration_since(far.enqueued_at);
        assert!((8_700..8_800).contains(&ahead.as_hours()), "{ahead:?}");
    }
    worker.stop().await;
}

/// Looks into the database, and then fails.
struct Looker;

impl Pool for Looker {
    type Output = ();

    fn name(&self) -> &str {
        "looker"
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
        tx.query("SELECT 1 AS one", vec![]).await?;
        match task.key() {
            "good" => Ok(()),
            _ => Err(HandlerError::new("it does not like what it sees")),
        }
    }
}

/// That it has failed is stored on another session: with only one, it waited for itself.
async fn a_task_that_reads_and_fails_returns_its_session_first(mut db: Db) {
    db.options.sessions = 1;
    let log = db.log().await;
    let worker = start(&log, ReplicaSet::new("work").pool(Looker).lanes(2));
    let tasks = Tasks::new(&log, "looker");
    let bad: Vec<_> = (0..4).map(|key| NewTask::new(format!("bad-{key}"), &key)).collect();
    for id in tasks.enqueue_all(bad).await.unwrap() {
        let dead = tasks.wait(id.id, LONG / 2).await.unwrap();
        assert_eq!((dead.state, dead.attempts), (TaskState::Dead, 5));
    }
    let good = tasks.enqueue(NewTask::new("good", &1)).await.unwrap().id;
    assert_eq!(tasks.wait(good, LONG).await.unwrap().state, TaskState::Done);
    worker.stop().await;
}

/// Fails until it is up, and is not tried again for an hour; says what it has run.
fn away(up: &Arc<AtomicBool>, ran: &Arc<Mutex<Vec<u32>>>) -> Script {
    let (is_up, ran) = (Arc::clone(up), Arc::clone(ran));
    let hour = Duration::from_secs(3600);
    let settings = PoolSettings::default().retry(Retry::outside().first(hour).longest(hour));
    let script = Script::new("calls", move |task| {
        ran.lock().unwrap().push(task.payload()?);
        match is_up.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(HandlerError::new("connection refused")),
        }
    });
    script.settings(settings)
}

async fn until_waiting(tasks: &Tasks, id: uuid::Uuid) -> anabranch::workpool::TaskStatus {
    until("a task that waits", async || {
        let status = tasks.status(id).await.unwrap()?;
        (status.attempts == 1 && status.run_at.is_some()).then_some(status)
    })
    .await
}

async fn a_task_that_waits_for_its_next_attempt_is_tried_at_once_if_somebody_says_so(db: Db) {
    let log = db.log().await;
    let (up, ran) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let set = ReplicaSet::new("work").lanes(2);
    let worker = start(&log, set.outside_pool(away(&up, &ran)));
    let tasks = Tasks::new(&log, "calls");
    let new = vec![NewTask::new("a", &1), NewTask::new("a", &2), NewTask::new("b", &3)];
    let ids = tasks.enqueue_all(new).await.unwrap();
    until_waiting(&tasks, ids[0].id).await;
    until_waiting(&tasks, ids[2].id).await;
    // It fails again, as if it never had, and waits again.
    tasks.retry(ids[0].id).await.unwrap();
    let again = until_waiting(&tasks, ids[0].id).await;
    assert_eq!(again.state, TaskState::Ready);
    up.store(true, Ordering::SeqCst);
    tasks.retry(ids[0].id).await.unwrap();
    for id in &ids[..2] {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
    let (first, second): (Vec<u32>, Vec<u32>) =
        ran.lock().unwrap().iter().partition(|number| **number < 3);
    assert_eq!((first, second), (vec![1, 1, 1, 2], vec![3]), "nobody spoke of the other");
    let refused = tasks.retry(ids[0].id).await.unwrap_err().to_string();
    assert!(refused.contains("it is done; only a dead one, or one that waits"), "{refused}");
    worker.stop().await;
}

/// Nobody runs it when it is asked for: those who begin find it before what stands behind it.
async fn nothing_overtakes_a_task_that_is_tried_at_once(db: Db) {
    let log = db.log().await;
    let (up, ran) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let set = || ReplicaSet::new("work").outside_pool(away(&up, &ran));
    let worker = start(&log, set());
    let tasks = Tasks::new(&log, "calls");
    let first = tasks.enqueue(NewTask::new("a", &1)).await.unwrap().id;
    until_waiting(&tasks, first).await;
    worker.stop().await;
    let behind = tasks.enqueue(NewTask::new("a", &2)).await.unwrap().id;
    let refused = tasks.retry(behind).await.unwrap_err().to_string();
    assert!(refused.contains("it is ready; only a dead one, or one that waits"), "{refused}");
    tasks.retry(first).await.unwrap();
    // It is shown as what it is, and asked for once.
    let status = tasks.status(first).await.unwrap().unwrap();
    assert_eq!((status.state, status.run_at), (TaskState::Ready, None));
    assert_eq!(tasks.list(TaskState::Ready, 9).await.unwrap().len(), 2);
    assert_eq!(Tasks::open_counts(&log).await.unwrap()[0].tasks, [(TaskState::Ready, 2)]);
    assert!(tasks.retry(first).await.unwrap_err().to_string().contains("it is ready"));
    up.store(true, Ordering::SeqCst);
    let worker = start(&log, set());
    assert_eq!(tasks.wait(behind, LONG).await.unwrap().state, TaskState::Done);
    assert_eq!(*ran.lock().unwrap(), [1, 1, 2]);
    worker.stop().await;
}

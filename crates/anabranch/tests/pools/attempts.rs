//! How often a task is tried: by where its effects are, and by what its error says.

use crate::script::Script;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::prelude::*;
use anabranch::{HandlerError, PoolSettings, Retry, TaskState};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both!(
    without_a_choice_the_kind_of_pool_decides,
    an_endpoint_that_is_down_kills_no_task,
    an_error_for_good_is_not_tried_again,
    an_error_that_says_when_is_not_tried_before,
);

on_postgres!(a_task_that_reads_and_fails_returns_its_session_first);

const LONG: Duration = Duration::from_secs(60);

async fn without_a_choice_the_kind_of_pool_decides(db: Db) {
    let log = db.log().await;
    let fails = |_: &Task| Err(HandlerError::new("no"));
    let set = ReplicaSet::new("work").pool(Script::new("inside", fails));
    let worker = start(&log, set.outside_pool(Script::new("outside", fails)));
    let (inside, outside) = (Tasks::of(&log, "inside"), Tasks::of(&log, "outside"));
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
    let tasks = Tasks::of(&log, "outside");
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
        let tasks = Tasks::of(&log, pool);
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
        let tasks = Tasks::of(&log, pool);
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

    async fn run(&self, task: &Task, tx: &mut Tx<'_>) -> Result<()> {
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
    let tasks = Tasks::of(&log, "looker");
    let bad: Vec<_> = (0..4).map(|key| NewTask::new(format!("bad-{key}"), &key)).collect();
    for id in tasks.enqueue_all(bad).await.unwrap() {
        let dead = tasks.wait(id.id, LONG / 2).await.unwrap();
        assert_eq!((dead.state, dead.attempts), (TaskState::Dead, 5));
    }
    let good = tasks.enqueue(NewTask::new("good", &1)).await.unwrap().id;
    assert_eq!(tasks.wait(good, LONG).await.unwrap().state, TaskState::Done);
    worker.stop().await;
}

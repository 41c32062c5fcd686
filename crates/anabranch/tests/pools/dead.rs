//! Tasks whose attempts are used up: they wait for somebody, or were compensated, or skipped.

use crate::on_both;
use crate::script::Script;
use crate::support::*;
use anabranch::errors::{ErrorCode, ErrorKind};
use anabranch::operate::Consumers;
use anabranch::operate::{Obstacle, OperateError};
use anabranch::prelude::*;
use anabranch::workpool::TaskGaveUp;
use anabranch::workpool::{NewTask, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskError, TaskFilter, TaskState};
use anabranch::{Failure, HandlerError, Namespace, Options, Retry};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    a_compensated_task_is_retried_only_if_both_are_meant,
    what_follows_a_task_compensates_it_and_follows_once,
    a_skipped_task_is_retried_and_its_key_stays_held_for_another,
    dead_tasks_are_retried_by_what_is_true_of_them,
    an_older_log_has_dead_tasks_all_the_same,
    a_task_that_is_not_there_or_not_dead_is_told_apart,
);

const LONG: Duration = Duration::from_secs(60);

fn never(then: Failure) -> PoolSettings {
    PoolSettings::default().retry(Retry::never().then(then))
}

async fn state(tasks: &Tasks, id: Uuid) -> TaskState {
    tasks.status(id).await.unwrap().unwrap().state
}

async fn until_it_is(tasks: &Tasks, id: Uuid, wanted: TaskState) {
    until(&format!("{id} is {wanted}"), async || (state(tasks, id).await == wanted).then_some(()))
        .await;
}

fn number(counts: &[anabranch::workpool::PoolCounts], pool: &str, state: TaskState) -> u64 {
    let of = counts.iter().find(|counts| counts.pool == pool).map(|counts| &counts.tasks);
    of.into_iter().flatten().find(|(of, _)| *of == state).map_or(0, |(_, number)| *number)
}

async fn a_compensated_task_is_retried_only_if_both_are_meant(db: Db) {
    let log = db.log().await;
    let works = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&works);
    let charge = Script::new("charge", move |task| match is_well.load(Ordering::SeqCst) {
        false if task.key() == "a" => Err(HandlerError::new("no money")),
        _ => Ok(()),
    });
    let charge = charge.settings(never(Failure::Park)).gave_up(|task| {
        let refund = NewTask::new(task.key(), &"refund").with_id(Uuid::from_u128(7));
        TaskGaveUp::GoOn(vec![("refunds".to_owned(), refund)])
    });
    let refunds = Script::new("refunds", |_| Ok(()));
    let set = ReplicaSet::new("work").outside_pool(charge).pool(refunds);
    let worker = start(&log, set.lanes(2));
    let tasks = Tasks::new(&log, "charge");
    let new = vec![NewTask::new("a", &1), NewTask::new("b", &2)];
    let ids = tasks.enqueue_all(new).await.unwrap();
    let ended = tasks.wait(ids[0].id, LONG).await.unwrap();
    assert_eq!((ended.state, ended.attempts), (TaskState::Compensated, 1));
    Tasks::new(&log, "refunds").wait(Uuid::from_u128(7), LONG).await.unwrap();
    tasks.wait(ids[1].id, LONG).await.unwrap();

    // It is counted and listed as what it is, and is nothing that is left to do.
    let counts = Tasks::open_counts(&log).await.unwrap();
    assert_eq!(number(&counts, "charge", TaskState::Compensated), 1);
    assert_eq!(number(&counts, "charge", TaskState::Dead), 0);
    assert_eq!(tasks.list(TaskState::Dead, 9).await.unwrap().len(), 0);
    assert_eq!(tasks.list(TaskState::Compensated, 9).await.unwrap()[0].id, ids[0].id);
    let status = Consumers::new(&log).status("charge").await.unwrap();
    assert_eq!((status.parked_keys, status.lag), (0, 0));
    let details = tasks.details(ids[0].id).await.unwrap().unwrap();
    assert_eq!(details.payload.get(), "1");
    assert_eq!(details.compensated_by.len(), 1);
    assert_eq!(details.compensated_by[0].state, Some(TaskState::Done));

    let refused = tasks.retry(ids[0].id).await.unwrap_err();
    assert!(matches!(refused, TaskError::Compensated { .. }), "{refused}");
    assert_eq!((refused.code(), refused.kind()), (ErrorCode::TaskCompensated, ErrorKind::Conflict));
    let refused = refused.to_string();
    let refund = format!("{} of pool `refunds`, key `a` (done)", Uuid::from_u128(7));
    assert!(refused.contains(&refund) && refused.contains("--force"), "{refused}");
    let all = TaskFilter::dead();
    assert_eq!(Tasks::count_where(&log, &all).await.unwrap(), []);
    assert_eq!(Tasks::retry_where(&log, &all, |_| ()).await.unwrap(), 0);
    assert_eq!(state(&tasks, ids[0].id).await, TaskState::Compensated);

    works.store(true, Ordering::SeqCst);
    let repeated = tasks.retry_anyway(ids[0].id).await.unwrap();
    assert_eq!(repeated[0].task.id, Uuid::from_u128(7));
    assert_eq!(tasks.wait(ids[0].id, LONG).await.unwrap().state, TaskState::Done);
    let again = tasks.retry_anyway(ids[0].id).await.unwrap_err().to_string();
    assert!(again.contains("it is done; only a dead one"), "{again}");
    let nobody = tasks.retry_anyway(Uuid::nil()).await.unwrap_err().to_string();
    assert!(nobody.contains("there is none with this id"), "{nobody}");
    worker.stop().await;
}

async fn what_follows_a_task_compensates_it_and_follows_once(db: Db) {
    let log = db.log().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let listener = Script::new("listener", move |task| {
        tells.lock().unwrap().push(task.payload_json().to_owned());
        Ok(())
    });
    let broken = Script::new("broken", |_| Err(HandlerError::new("no")));
    let set = ReplicaSet::new("work").pool(broken.settings(never(Failure::Skip))).pool(listener);
    let worker = start(&log, set);
    let tasks = Tasks::new(&log, "broken");
    let new = NewTask::new("a", &1).unique("u").on_complete("listener", "l", &"told");
    let id = tasks.enqueue(new).await.unwrap().id;
    assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Compensated);
    let details = tasks.details(id).await.unwrap().unwrap();
    assert_eq!(details.unique_key.as_deref(), Some("u"));
    assert_eq!(details.on_complete.unwrap().payload, "told");
    assert_eq!(details.compensated_by[0].task.pool, "listener");
    assert!(tasks.retry(id).await.is_err());
    // Discarding it tells nobody a second time.
    tasks.discard(id).await.unwrap();
    assert_eq!(state(&tasks, id).await, TaskState::Cancelled);
    let last = Tasks::new(&log, "listener").enqueue(NewTask::new("l", &"last")).await.unwrap();
    Tasks::new(&log, "listener").wait(last.id, LONG).await.unwrap();
    worker.stop().await;
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("\"dead\"") && told[1].contains("last"), "{told:?}");
}

/// A task that was skipped holds nothing, so neither to retry nor to discard it releases what another holds.
async fn a_skipped_task_is_retried_and_its_key_stays_held_for_another(db: Db) {
    let log = db.log().await;
    let works = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&works);
    let script = Script::new("steps", move |task| match is_well.load(Ordering::SeqCst) {
        false if task.payload::<i64>()? < 9 => Err(HandlerError::new("no")),
        _ => Ok(()),
    });
    let script = script.settings(never(Failure::Park)).gave_up(|task| match task.payload() {
        Ok(1 | 2) => TaskGaveUp::GoOn(Vec::new()),
        _ => TaskGaveUp::AsSet,
    });
    let worker = start(&log, ReplicaSet::new("work").pool(script));
    let tasks = Tasks::new(&log, "steps");
    let new = [1, 2, 3, 9].map(|number: i64| NewTask::new("a", &number));
    let ids: Vec<Uuid> =
        tasks.enqueue_all(new.to_vec()).await.unwrap().iter().map(|task| task.id).collect();
    until_it_is(&tasks, ids[3], TaskState::Held).await;
    let skipped = TaskState::Skipped;
    let dead = [state(&tasks, ids[0]).await, state(&tasks, ids[1]).await];
    assert_eq!(dead, [skipped, skipped]);
    assert_eq!(state(&tasks, ids[2]).await, TaskState::Dead);
    let counts = Tasks::counts(&log).await.unwrap();
    let numbers = [TaskState::Dead, TaskState::Skipped, TaskState::Compensated];
    assert_eq!(numbers.map(|state| number(&counts, "steps", state)), [1, 2, 0]);
    let status = Consumers::new(&log).status("steps").await.unwrap();
    assert_eq!((status.parked_keys, status.retrying_keys), (1, 0));

    tasks.discard(ids[0]).await.unwrap();
    tasks.retry(ids[1]).await.unwrap();
    until_it_is(&tasks, ids[1], TaskState::Held).await;
    assert_eq!(state(&tasks, ids[3]).await, TaskState::Held, "the third still holds the key");
    works.store(true, Ordering::SeqCst);
    tasks.retry(ids[2]).await.unwrap();
    for id in &ids[1..] {
        assert_eq!(tasks.wait(*id, LONG).await.unwrap().state, TaskState::Done);
    }
    assert_eq!(state(&tasks, ids[0]).await, TaskState::Cancelled);
    worker.stop().await;
}

async fn dead_tasks_are_retried_by_what_is_true_of_them(db: Db) {
    const MANY: u64 = 1_100;
    let log = db.log().await;
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let act = move |task: &Task| match (is_broken.load(Ordering::SeqCst), task.key()) {
        // For good, and now and then one works, so that it is the tasks that are to blame and not the pool.
        (true, "odd") => Err(HandlerError::for_good("it's 100% odd")),
        (true, key) if !key.starts_with("good") => Err(HandlerError::for_good("Timed out")),
        _ => Ok(()),
    };
    let (many, few) = (Script::new("many", act.clone()), Script::new("few", act));
    let (park, skip) = (never(Failure::Park), never(Failure::Skip));
    let set = ReplicaSet::new("work").outside_pool(many.settings(park)).pool(few.settings(skip));
    let worker = start(&log, set);
    let (many, few) = (Tasks::new(&log, "many"), Tasks::new(&log, "few"));
    let new = (0..MANY).flat_map(|key| {
        let good = (key % 2 == 0).then(|| NewTask::new(format!("good-{key}"), &key));
        [NewTask::new(format!("key-{key}"), &key)].into_iter().chain(good)
    });
    many.enqueue_all(new.chain([NewTask::new("odd", &0)]).collect()).await.unwrap();
    few.enqueue_all(vec![NewTask::new("odd", &0), NewTask::new("x", &0)]).await.unwrap();
    let counted = |pool: &'static str, state| {
        let log = log.clone();
        async move { number(&Tasks::open_counts(&log).await.unwrap(), pool, state) }
    };
    until("all are dead", async || {
        let dead = counted("many", TaskState::Dead).await == MANY + 1;
        (dead && counted("few", TaskState::Skipped).await == 2).then_some(())
    })
    .await;

    let dead = |conditions: &[&str]| {
        let condition = |text: &&str| text.parse().unwrap();
        conditions.iter().map(condition).fold(TaskFilter::dead(), TaskFilter::and)
    };
    let count = async |filter: &TaskFilter| Tasks::count_where(&log, filter).await.unwrap();
    let of = |pool: &str, tasks: u64| vec![(pool.to_owned(), tasks)];
    assert_eq!(count(&dead(&[])).await, of("many", MANY + 1));
    assert_eq!(count(&dead(&["error~timed"])).await, [], "upper and lower case differ");
    assert_eq!(count(&dead(&["error~100%"])).await, of("many", 1));
    assert_eq!(count(&dead(&["error=Timed out", "key=key-7"])).await, of("many", 1));
    assert_eq!(count(&dead(&["key~key-10", "pool=many"])).await, of("many", 111));
    assert_eq!(count(&dead(&["pool=few"])).await, []);
    assert_eq!(count(&TaskFilter::skipped()).await, of("few", 2));
    assert_eq!(count(&TaskFilter::compensated()).await, []);

    broken.store(false, Ordering::SeqCst);
    let mut told = Vec::new();
    let timed_out = dead(&["error~Timed out"]);
    let retried = Tasks::retry_where(&log, &timed_out, |so_far| told.push(so_far)).await.unwrap();
    assert_eq!((retried, told), (MANY, vec![500, 1_000, MANY]));
    until("those are done", async || {
        let done = number(&Tasks::counts(&log).await.unwrap(), "many", TaskState::Done);
        (done == MANY + MANY / 2).then_some(())
    })
    .await;
    assert_eq!(counted("many", TaskState::Dead).await, 1, "the odd one was not meant");
    assert_eq!(Tasks::retry_where(&log, &TaskFilter::skipped(), |_| ()).await.unwrap(), 2);
    until("the few", async || {
        let done = number(&Tasks::counts(&log).await.unwrap(), "few", TaskState::Done);
        (done == 2).then_some(())
    })
    .await;
    worker.stop().await;
}

/// A program that only operates takes a log of the last version as it is. There nobody has written down that a
/// key went on; it is seen by that it is not held.
async fn an_older_log_has_dead_tasks_all_the_same(db: Db) {
    let log = db.log().await;
    let script =
        Script::new("old", |_| Err(HandlerError::new("no"))).settings(never(Failure::Park));
    let script = script.gave_up(|task| match task.key() {
        "a" => TaskGaveUp::GoOn(Vec::new()),
        _ => TaskGaveUp::AsSet,
    });
    let worker = start(&log, ReplicaSet::new("work").pool(script));
    let tasks = Tasks::new(&log, "old");
    let ids = tasks.enqueue_all(vec![NewTask::new("a", &1), NewTask::new("b", &1)]).await.unwrap();
    assert_eq!(tasks.wait(ids[0].id, LONG).await.unwrap().state, TaskState::Skipped);
    assert_eq!(tasks.wait(ids[1].id, LONG).await.unwrap().state, TaskState::Dead);
    worker.stop().await;
    let database = log.store().database();
    let dialect = database.dialect();
    let (table, migrations) = (dialect.table("tasks"), dialect.table("migrations"));
    // It came later, and reads the column.
    query(&log, &format!("DROP VIEW {}", dialect.table("lag")), vec![]).await;
    query(&log, &format!("ALTER TABLE {table} DROP COLUMN compensated"), vec![]).await;
    query(&log, &format!("DELETE FROM {migrations} WHERE version > 5"), vec![]).await;
    let namespace: Namespace = db.options.namespace.clone();
    let options = Options { namespace, migrate: false, take_older: true, ..Options::default() };
    let old = anabranch::connect_with(&db.url, &options).await.unwrap();
    let tasks = Tasks::new(&old, "old");
    assert_eq!(tasks.list(TaskState::Dead, 9).await.unwrap().len(), 2);
    assert_eq!(tasks.list(TaskState::Skipped, 9).await.unwrap().len(), 0);
    assert_eq!(number(&Tasks::counts(&old).await.unwrap(), "old", TaskState::Dead), 2);
    assert_eq!(Consumers::new(&old).parked("old").await.unwrap().len(), 0);
    assert!(tasks.details(ids[0].id).await.unwrap().unwrap().compensated_by.is_empty());
    let refused = tasks.retry(ids[0].id).await.unwrap_err().to_string();
    assert!(refused.contains("its key has gone on") && refused.contains("--force"), "{refused}");
    let dead = TaskFilter::dead();
    assert_eq!(Tasks::count_where(&old, &dead).await.unwrap(), [("old".to_owned(), 1)]);
    assert_eq!(Tasks::retry_where(&old, &dead, |_| ()).await.unwrap(), 1);
    assert_eq!(state(&tasks, ids[0].id).await, TaskState::Dead);
    assert_eq!(state(&tasks, ids[1].id).await, TaskState::Ready);
    tasks.retry_anyway(ids[0].id).await.unwrap();
    assert_eq!(state(&tasks, ids[0].id).await, TaskState::Ready);
}

async fn a_task_that_is_not_there_or_not_dead_is_told_apart(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "mails");
    let nobody = Uuid::now_v7();
    for error in [
        tasks.retry(nobody).await.unwrap_err(),
        tasks.retry_anyway(nobody).await.map(drop).unwrap_err(),
        tasks.discard(nobody).await.unwrap_err(),
        tasks.wait(nobody, LONG).await.map(drop).unwrap_err(),
    ] {
        let TaskError::NoSuchTask { task } = error else { panic!("{error}") };
        assert_eq!((task, error.code()), (nobody, ErrorCode::NoSuchTask));
        assert_eq!(error.kind().http_status(), 404);
    }
    let waits = tasks.enqueue(NewTask::new("a", &1)).await.unwrap().id;
    let (retry, discard) = (tasks.retry(waits).await, tasks.discard(waits).await);
    for error in [retry.unwrap_err(), discard.unwrap_err()] {
        let TaskError::WrongState { task, state, .. } = error else { panic!("{error}") };
        assert_eq!((task, state), (waits, TaskState::Ready));
        assert_eq!((error.code(), error.kind()), (ErrorCode::WrongTaskState, ErrorKind::Conflict));
    }
    // A pool has no position, so what goes by positions is not possible with it.
    let worker = start(&log, ReplicaSet::new("work").pool(Script::new("mails", |_| Ok(()))));
    assert_eq!(tasks.wait(waits, LONG).await.unwrap().state, TaskState::Done);
    worker.stop().await;
    let error = Consumers::new(&log).skip_to_head("mails").await.unwrap_err();
    let OperateError::NotPossible { because: Obstacle::NoPosition { kind }, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((kind.as_str(), error.code()), ("pool", ErrorCode::NoPosition));
}

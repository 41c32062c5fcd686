//! Tasks that are enqueued in a transaction of the caller's, and tasks that cannot be.

use crate::ledger::Ledger;
use crate::on_both;
use crate::support::*;
use anabranch::postgres::{Postgres, tokio_postgres};
use anabranch::prelude::*;
use anabranch::sqlite::{Sqlite, rusqlite};
use anabranch::workpool::{NewTask, Pool, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{HandlerError, Retry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both!(
    a_task_is_there_if_and_when_its_transaction_commits,
    what_a_task_appends_is_there_once_with_its_end,
    tasks_whose_appends_conflict_stop_no_pool,
    what_no_database_should_see_is_refused_by_name
);

async fn a_task_is_there_if_and_when_its_transaction_commits(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    let task = |number: i64| NewTask::new("a", &number);
    let (lost, kept) = (task(7), [task(1), task(2)]);
    let (lost_id, last) = (lost.id(), kept[1].id());
    let (lost, kept) = (tasks.statements(&[lost]).unwrap(), tasks.statements(&kept).unwrap());
    if let Some(sqlite) = log.backend::<Sqlite>() {
        let path = db.url.strip_prefix("sqlite:").unwrap();
        let mut connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        let immediate = rusqlite::TransactionBehavior::Immediate;
        let tx = connection.transaction_with_behavior(immediate).unwrap();
        sqlite.run_in(&tx, &lost).unwrap();
        tx.rollback().unwrap();
        let tx = connection.transaction_with_behavior(immediate).unwrap();
        sqlite.run_in(&tx, &kept).unwrap();
        tx.commit().unwrap();
    }
    if let Some(postgres) = log.backend::<Postgres>() {
        let connected = tokio_postgres::connect(&db.url, tokio_postgres::NoTls).await;
        let (mut client, connection) = connected.unwrap();
        let driver = tokio::spawn(connection);
        let tx = client.transaction().await.unwrap();
        postgres.run_in(&tx, lost).await.unwrap();
        tx.rollback().await.unwrap();
        let tx = client.transaction().await.unwrap();
        postgres.run_in(&tx, kept).await.unwrap();
        assert!(tasks.status(last).await.unwrap().is_none(), "not yet");
        tx.commit().await.unwrap();
        drop(client);
        driver.await.unwrap().unwrap();
    }
    tasks.wait(last, Duration::from_secs(60)).await.unwrap();
    assert_eq!(ledger.of_key(&log, "a").await, [1, 2]);
    assert!(tasks.status(lost_id).await.unwrap().is_none());
    worker.stop().await;
}

/// Records what it was paid, and fails the first time after it has said so.
#[derive(Clone, Default)]
struct Payments {
    failed: Arc<AtomicBool>,
}

impl Pool for Payments {
    type Output = ();

    fn name(&self) -> &str {
        "payments"
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
        let stream = StreamId::new("Account", task.key())?;
        let expected = if task.key() == "taken" { Expected::NoStream } else { Expected::Any };
        tx.append(&stream, expected, [NewEvent::new("Paid", task.payload::<i64>()?)])?;
        match task.key() == "b" && !self.failed.swap(true, Ordering::SeqCst) {
            true => Err(HandlerError::new("not yet")),
            false => Ok(()),
        }
    }
}

async fn what_a_task_appends_is_there_once_with_its_end(db: Db) {
    let log = db.log().await;
    let taken = StreamId::new("Account", "taken").unwrap();
    log.append(&taken, Expected::Any, [NewEvent::new("Paid", 0)]).await.unwrap();
    let tasks = Tasks::new(&log, "payments");
    let enqueue = |key: &str, number: i64| NewTask::new(key, &number);
    let all = vec![enqueue("a", 1), enqueue("b", 2), enqueue("taken", 3), enqueue("c", 4)];
    let ids = tasks.enqueue_all(all).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(Payments::default()));
    for (id, state) in
        ids.iter().zip([TaskState::Done, TaskState::Done, TaskState::Dead, TaskState::Done])
    {
        let task = end_of(&tasks, id.id).await;
        assert_eq!(task.state, state, "{task:?}");
    }
    worker.stop().await;
    let events = log.read(Query::types(["Paid"])).collect().await.unwrap();
    let mut paid: Vec<i64> = events.iter().map(|event| event.data().unwrap()).collect();
    paid.sort_unstable();
    assert_eq!(paid, [0, 1, 2, 4]);
    let dead = tasks.status(ids[2].id).await.unwrap().unwrap();
    let error = dead.error.unwrap_or_default();
    assert!(error.contains("conflict on stream Account:taken"), "{error}");
}

/// However many keys conflict, and though nothing works in between.
async fn tasks_whose_appends_conflict_stop_no_pool(db: Db) {
    #[derive(Clone)]
    struct Openings;
    impl Pool for Openings {
        type Output = ();
        fn name(&self) -> &str {
            "openings"
        }
        fn settings(&self) -> PoolSettings {
            PoolSettings::default().retry(Retry::never())
        }
        async fn run(&self, _: &Task, tx: &mut Tx) -> HandlerResult {
            let opened = [NewEvent::new("Opened", ())];
            tx.append(&StreamId::new("Account", "taken")?, Expected::NoStream, opened)
        }
    }
    let log = db.log().await;
    let taken = StreamId::new("Account", "taken").unwrap();
    log.append(&taken, Expected::Any, [NewEvent::new("Opened", ())]).await.unwrap();
    let tasks = Tasks::new(&log, "openings");
    let all = (0..120).map(|key| NewTask::new(format!("key-{key}"), &()));
    tasks.enqueue_all(all.collect()).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(Openings));
    until("their ends", async || {
        // There is none before it has been registered.
        let status = anabranch::operate::Consumers::new(&log).status("openings").await.ok()?;
        assert!(status.outage.is_none());
        (tasks.list(TaskState::Dead, 200).await.unwrap().len() == 120).then_some(())
    })
    .await;
    worker.stop().await;
}

async fn what_no_database_should_see_is_refused_by_name(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "ledger");
    let refused = async |task: NewTask| tasks.enqueue(task).await.unwrap_err().to_string();
    assert!(refused(NewTask::new("", &1)).await.contains("key of a task of pool `ledger`"));
    assert!(refused(NewTask::new("a\0", &1)).await.contains("control character"));
    assert!(refused(NewTask::new("a", &1).unique("")).await.contains("unique key"));
    let error = refused(NewTask::new("a", &"a\0b")).await;
    assert!(error.contains("payload") && error.contains("NUL"), "{error}");
    let error = refused(NewTask::new("a", &"x".repeat(2 << 20))).await;
    assert!(error.contains("payload of a task"), "{error}");
    let error = Tasks::new(&log, "").enqueue(NewTask::new("a", &1)).await.unwrap_err();
    assert!(error.to_string().contains("name of a pool"), "{error}");
    // All or none.
    let some = vec![NewTask::new("a", &1), NewTask::new("", &1)];
    assert!(tasks.enqueue_all(some).await.is_err());
    assert!(tasks.list(anabranch::workpool::TaskState::Ready, 10).await.unwrap().is_empty());
    assert!(tasks.enqueue_all(Vec::new()).await.unwrap().is_empty());
}

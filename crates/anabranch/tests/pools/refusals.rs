//! What cannot be done: bad results, bad followers, statements that the database refuses.

use crate::ledger::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::workpool::TaskGaveUp;
use anabranch::workpool::{NewTask, OutsidePool, Pool, Run, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{HandlerError, Retry};
use serde::{Serialize, Serializer};
use std::time::Duration;

on_both!(
    only_a_dead_task_is_discarded,
    what_follows_is_checked_before_it_is_too_late,
    a_result_that_cannot_be_json_fails_its_task,
    one_refused_statement_among_a_thousand_fails_its_task_only,
    a_task_that_reads_and_fails_has_written_nothing,
    held_keys_are_shown_as_parked,
);

const LONG: Duration = Duration::from_secs(60);

fn never() -> PoolSettings {
    PoolSettings::default().retry(Retry::never())
}

async fn only_a_dead_task_is_discarded(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(never());
    let ledger = ledger.hook(|task| match task.payload::<i64>()? {
        1 => Err(HandlerError::new("one")),
        _ => Ok(()),
    });
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(1, 3)).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    let held = async || tasks.list(TaskState::Held, 10).await.unwrap().len() == 2;
    until("two behind it", async || held().await.then_some(())).await;
    // The one behind it is not dead, and its key is not released by it.
    assert!(tasks.discard(ids[1].id).await.is_err());
    let free = tasks.enqueue(NewTask::new("free", &2)).await.unwrap().id;
    tasks.wait(free, LONG).await.unwrap();
    assert!(held().await);
    tasks.discard(ids[0].id).await.unwrap();
    tasks.wait(ids[2].id, LONG).await.unwrap();
    assert_eq!(ledger.of_key(&log, "key-0").await, [2, 3]);
    worker.stop().await;
}

/// Wants something to follow that cannot be.
struct BadFollower;

impl OutsidePool for BadFollower {
    type Output = ();

    fn name(&self) -> &str {
        "bad"
    }

    fn settings(&self) -> PoolSettings {
        never()
    }

    async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult {
        match task.key() {
            "run" => run.then("bad", NewTask::new("\0", &1)),
            _ => return Err(HandlerError::new("no")),
        }
        Ok(())
    }

    fn gave_up(&self, task: &Task, _: &str) -> TaskGaveUp {
        match task.key() {
            "gave-up" => TaskGaveUp::GoOn(vec![("bad".to_owned(), NewTask::new("k", &Broken(0)))]),
            _ => TaskGaveUp::Park,
        }
    }
}

async fn what_follows_is_checked_before_it_is_too_late(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "bad");
    let new = |key: &str| NewTask::new(key, &1);
    assert!(tasks.enqueue(new("a").on_complete("bad", "\0", &1)).await.is_err());
    assert!(tasks.enqueue(new("a").on_complete("", "b", &1)).await.is_err());
    let ids = tasks.enqueue_all(vec![new("run"), new("gave-up")]).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").outside_pool(BadFollower));
    for id in ids {
        let status = tasks.wait(id.id, LONG).await.unwrap();
        assert_eq!((status.state, status.attempts), (TaskState::Dead, 1), "{status:?}");
    }
    worker.stop().await;
}

/// Cannot be JSON: 0 says so, 1 panics.
struct Broken(i64);

impl Serialize for Broken {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0 => Err(serde::ser::Error::custom("it is broken")),
            _ => panic!("it is very broken"),
        }
    }
}

struct BadResult;

impl Pool for BadResult {
    type Output = Broken;

    fn name(&self) -> &str {
        "bad-in"
    }

    fn settings(&self) -> PoolSettings {
        never()
    }

    async fn run(&self, task: &Task, _: &mut Tx) -> HandlerResult<Broken> {
        Ok(Broken(task.payload()?))
    }
}

impl OutsidePool for BadResult {
    type Output = Broken;

    fn name(&self) -> &str {
        "bad-out"
    }

    fn settings(&self) -> PoolSettings {
        never()
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult<Broken> {
        Ok(Broken(task.payload()?))
    }
}

async fn a_result_that_cannot_be_json_fails_its_task(db: Db) {
    let log = db.log().await;
    let set = ReplicaSet::new("work").pool(BadResult).outside_pool(BadResult);
    let worker = start(&log, set);
    for pool in ["bad-in", "bad-out"] {
        let tasks = Tasks::new(&log, pool);
        for (number, error) in [(0, "it is broken"), (1, "it is very broken")] {
            let task = NewTask::new(format!("key-{number}"), &number);
            let id = tasks.enqueue(task).await.unwrap().id;
            let status = tasks.wait(id, LONG).await.unwrap();
            assert_eq!((status.state, status.attempts), (TaskState::Dead, 1));
            assert!(status.error.as_deref().unwrap().contains(error), "{status:?}");
        }
    }
    worker.stop().await;
}

/// Writes its number, which the table may refuse.
struct Checked(String);

impl Pool for Checked {
    type Output = ();

    fn name(&self) -> &str {
        "checked"
    }

    fn settings(&self) -> PoolSettings {
        never()
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
        let number: i64 = task.payload()?;
        tx.execute(format!("INSERT INTO {} VALUES ($1)", self.0), params![number]).await
    }
}

async fn one_refused_statement_among_a_thousand_fails_its_task_only(db: Db) {
    let log = db.log().await;
    let table = db.table("checked");
    let create = format!("CREATE TABLE {table} (number BIGINT PRIMARY KEY CHECK (number <> 700))");
    query(&log, &create, vec![]).await;
    let tasks = Tasks::new(&log, "checked");
    let all = (1..=1_000).map(|n| NewTask::new(format!("key-{}", n % 400), &n)).collect();
    let ids = tasks.enqueue_all(all).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(Checked(table.clone())));
    for (number, id) in ids.iter().enumerate() {
        let status = tasks.wait(id.id, LONG).await.unwrap();
        let expected = match number + 1 {
            700 => (TaskState::Dead, 1),
            _ => (TaskState::Done, 0),
        };
        assert_eq!((status.state, status.attempts), expected, "{status:?}");
    }
    assert_eq!(number(&log, &format!("SELECT count(*) FROM {table}")).await, 999);
    worker.stop().await;
}

/// Writes, reads, and fails the first time.
struct Reads(Ledger);

impl Pool for Reads {
    type Output = i64;

    fn name(&self) -> &str {
        "reads"
    }

    fn settings(&self) -> PoolSettings {
        let retry = Retry::default().attempts(3).first(Duration::from_millis(10));
        PoolSettings::default().retry(retry)
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult<i64> {
        let number = Pool::run(&self.0, task, tx).await?;
        let count = format!("SELECT count(*) FROM {}", self.0.table);
        let rows = tx.query(count, vec![]).await?;
        match task.attempt() == 1 && number % 20 == 0 {
            true => Err(HandlerError::new("the first time")),
            false => Ok(rows[0].get(0)?),
        }
    }
}

async fn a_task_that_reads_and_fails_has_written_nothing(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "reads").await;
    let tasks = Tasks::new(&log, "reads");
    let ids = tasks.enqueue_all(counted(3, 6)).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(Reads(ledger.clone())));
    for id in &ids {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
    assert_eq!(ledger.proof(&log).await, (18, 0));
    worker.stop().await;
}

async fn held_keys_are_shown_as_parked(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(never());
    let ledger = ledger.hook(|task| match task.payload::<i64>()? {
        1 => Err(HandlerError::new("one")),
        _ => Ok(()),
    });
    let tasks = Tasks::new(&log, "ledger");
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()).lanes(2));
    let ids = tasks.enqueue_all(counted(4, 3)).await.unwrap();
    let held = async || tasks.list(TaskState::Held, 20).await.unwrap().len() == 8;
    until("those behind them", async || held().await.then_some(())).await;
    let shown = status(&log, "ledger").await;
    assert_eq!((shown.parked_keys, shown.parked_events), (4, 12));
    let reasons = shown.cursors.iter().flat_map(|cursor| &cursor.reasons);
    let keys = reasons.map(|reason| match reason {
        anabranch::operate::Reason::ParkedKeys { keys } => *keys,
        _ => 0,
    });
    assert_eq!(keys.sum::<usize>(), 4);
    for id in &ids[..4] {
        tasks.discard(id.id).await.unwrap();
    }
    for id in &ids[8..] {
        tasks.wait(id.id, LONG).await.unwrap();
    }
    assert_eq!(status(&log, "ledger").await.parked_keys, 0);
    worker.stop().await;
}

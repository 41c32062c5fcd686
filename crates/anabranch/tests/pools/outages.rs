//! Answers that are lost, connections that are cut: what was stored is not stored again, and what was
//! not is.

use crate::ledger::*;
use crate::on_postgres;
use crate::proxy::Proxy;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{HandlerError, Retry};
use std::time::Duration;

on_postgres!(
    tasks_whose_commit_was_not_answered_are_not_run_again,
    a_key_whose_parking_was_not_answered_is_held,
    sessions_are_cut_while_tasks_flow,
    a_server_that_is_away_is_waited_for_and_then_nothing_is_said_of_it,
);

const LONG: Duration = Duration::from_secs(60);

async fn tasks_whose_commit_was_not_answered_are_not_run_again(db: Db) {
    let log = db.log().await;
    let way = Proxy::before(&db.url).await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let far = anabranch::connect_with(&way.url, &db.options).await.unwrap();
    let worker = start(&far, ReplicaSet::new("work").pool(ledger.clone()));
    let tasks = Tasks::new(&log, "ledger");
    let first = tasks.enqueue(NewTask::new("first", &1)).await.unwrap().id;
    tasks.wait(first, LONG).await.unwrap();
    // In the ledger's own statement, which is sent together with the commit.
    way.lose_answer_to("a-lost-answer");
    let mut all = counted(5, 4);
    all.push(NewTask::new("a-lost-answer", &1));
    let ids = tasks.enqueue_all(all).await.unwrap();
    for id in &ids {
        let status = tasks.wait(id.id, LONG).await.unwrap();
        assert_eq!((status.state, status.attempts), (TaskState::Done, 0));
    }
    until("the loss", async || way.has_lost_answer().then_some(())).await;
    assert_eq!(ledger.proof(&log).await, (22, 0));
    let more = tasks.enqueue(NewTask::new("a-lost-answer", &2)).await.unwrap().id;
    tasks.wait(more, LONG).await.unwrap();
    assert_eq!(ledger.proof(&log).await, (23, 0));
    worker.stop().await;
}

async fn a_key_whose_parking_was_not_answered_is_held(db: Db) {
    let log = db.log().await;
    let way = Proxy::before(&db.url).await;
    let settings = PoolSettings::default().retry(Retry::never());
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let failing = ledger.clone().hook(|task| match task.payload::<i64>()? {
        2 => Err(HandlerError::new("a-lost-parking")),
        _ => Ok(()),
    });
    let far = anabranch::connect_with(&way.url, &db.options).await.unwrap();
    let worker = start(&far, ReplicaSet::new("work").pool(failing));
    let tasks = Tasks::new(&log, "ledger");
    way.lose_answer_to("a-lost-parking");
    let ids = tasks.enqueue_all(counted(1, 5)).await.unwrap();
    let other = tasks.enqueue(NewTask::new("other", &1)).await.unwrap().id;
    until("the loss", async || way.has_lost_answer().then_some(())).await;
    let held = async || tasks.list(TaskState::Held, 10).await.unwrap().len() == 3;
    until("those behind it", async || held().await.then_some(())).await;
    assert_eq!(tasks.wait(other, LONG).await.unwrap().state, TaskState::Done);
    assert_eq!(ledger.of_key(&log, "key-0").await, [1]);
    worker.stop().await;
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    tasks.retry(ids[1].id).await.unwrap();
    tasks.wait(ids[4].id, LONG).await.unwrap();
    assert_eq!(ledger.proof(&log).await, (6, 0));
    worker.stop().await;
}

async fn sessions_are_cut_while_tasks_flow(db: Db) {
    let log = db.log().await;
    let settings = PoolSettings::default().batch_size(20);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let tasks = Tasks::new(&log, "ledger");
    let start = async |name: &str| {
        let set = ReplicaSet::new("work").pool(ledger.clone()).lanes(2);
        start(&db.log_named(name).await, set)
    };
    let (one, two) = (start("cut").await, start("cut").await);
    let cut = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE pid <> pg_backend_pid() AND query LIKE '%ledger_{}%' AND state <> 'idle'",
        db.own
    );
    let any = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE application_name LIKE '{}_cut%'",
        db.own
    );
    for count in 1..=100 {
        let more = (0..10).map(|key| NewTask::new(format!("key-{key}"), &count)).collect();
        tasks.enqueue_all(more).await.unwrap();
        // By chance in the middle of a transaction; now and then whoever it hits.
        number(&log, &cut).await;
        if count % 20 == 0 {
            number(&log, &any).await;
        }
    }
    until("all", async || (ledger.proof(&log).await.0 >= 1_000).then_some(())).await;
    assert_eq!(ledger.proof(&log).await, (1_000, 0));
    one.stop().await;
    two.stop().await;
}

async fn a_server_that_is_away_is_waited_for_and_then_nothing_is_said_of_it(db: Db) {
    let log = db.log().await;
    let way = Proxy::before(&db.url).await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let far = anabranch::connect_with(&way.url, &db.options).await.unwrap();
    let set = ReplicaSet::new("work").pool(ledger.clone()).tuning(crate::crew::quick());
    let worker = start(&far, set);
    crate::crew::until_shared(&log, "ledger", 1).await;
    way.refuse();
    tokio::time::sleep(Duration::from_secs(3)).await;
    way.pass();
    // An idle pool stores nothing; what it says of itself has to end all the same.
    let is_well = |reason: &anabranch::operate::Reason| {
        !matches!(reason, anabranch::operate::Reason::Waiting { .. })
    };
    until("a worker that is well", async || {
        let cursors = status(&log, "ledger").await.cursors;
        let is_owned = |owner: &anabranch::operate::Owner| {
            matches!(owner, anabranch::operate::Owner::Worker(_))
        };
        let all = cursors.iter().all(|cursor| is_owned(&cursor.owner));
        (all && cursors.iter().flat_map(|cursor| &cursor.reasons).all(is_well)).then_some(())
    })
    .await;
    let id = Tasks::new(&log, "ledger").enqueue(NewTask::new("a", &1)).await.unwrap().id;
    assert_eq!(Tasks::new(&log, "ledger").wait(id, LONG).await.unwrap().state, TaskState::Done);
    worker.stop().await;
}

//! Counters of tasks by pool and state: what a count of the rows says, whoever changes them.

use crate::recorded::recorded;
use crate::script::Script;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::backend::database::{End, Statement};
use anabranch::operate::{Consumers, GaugesOf};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, PoolSettings, TaskState, Tasks};
use anabranch::{HandlerError, Retry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both!(
    counters_follow_tasks_through_their_lives,
    transactions_side_by_side_and_those_that_roll_back,
    an_older_program_is_counted_too,
    a_scrape_is_one_statement,
);

on_postgres!(a_worker_folds_what_was_added_up);

fn table(log: &Log, name: &str) -> String {
    log.store().database().dialect().table(name)
}

type Counts = Vec<(String, i64, i64)>;

async fn counts(log: &Log, sql: String) -> Counts {
    let rows = query(log, &sql, vec![]).await;
    let count =
        |row: &anabranch::Row| (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
    rows.iter().map(count).collect()
}

/// What the counters and the rows say, in one statement, so that nobody is between.
async fn agreed(log: &Log) -> Counts {
    let (counters, tasks) = (table(log, "task_counts"), table(log, "tasks"));
    let differ = format!(
        "SELECT pool, state, CAST(sum(n) AS BIGINT) FROM (SELECT pool, state, delta AS n FROM {counters} \
         UNION ALL SELECT pool, state, -1 FROM {tasks}) AS both_of_them \
         GROUP BY pool, state HAVING sum(n) <> 0"
    );
    assert_eq!(counts(log, differ).await, [], "counters that are wrong");
    let rows = format!("SELECT pool, state, count(*) FROM {tasks} GROUP BY pool, state");
    let mut rows = counts(log, rows).await;
    rows.sort();
    rows
}

async fn counters_follow_tasks_through_their_lives(db: Db) {
    let log = db.log().await;
    let works = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&works);
    let script = Script::new("mail", move |task| match is_well.load(Ordering::SeqCst) {
        false if task.key() == "bad" => Err(HandlerError::new("bad")),
        _ => Ok(()),
    });
    let script = script.settings(PoolSettings::default().retry(Retry::never()));
    let worker = start(&log, ReplicaSet::new("work").pool(script));
    let tasks = Tasks::new(&log, "mail");
    let mut new = vec![NewTask::new("bad", &1), NewTask::new("bad", &2), NewTask::new("bad", &3)];
    new.extend((0..20).map(|n| NewTask::new(format!("good {n}"), &n)));
    new.push(NewTask::new("later", &1).run_after(Duration::from_secs(3_600)));
    let ids = tasks.enqueue_all(new).await.unwrap();
    let is = async |count: usize, state| {
        let what = format!("{count} are {state}");
        let enough = async || (tasks.list(state, 99).await.unwrap().len() == count).then_some(());
        until(&what, enough).await;
        agreed(&log).await
    };
    is(20, TaskState::Done).await;
    is(1, TaskState::Dead).await;
    is(2, TaskState::Held).await;
    // The view says of the pool what its status says.
    let status = status(&log, "mail").await;
    let lag = table(&log, "lag");
    let seen = query(&log, &format!("SELECT events, ready_events FROM {lag}"), vec![]).await;
    let seen: (u64, u64) = (seen[0].get(0).unwrap(), seen[0].get(1).unwrap());
    assert_eq!(seen, (status.lag, status.lag_ready));
    assert_eq!(seen, (3, 0));
    assert!(tasks.cancel(ids[23].id).await.unwrap());
    is(1, TaskState::Cancelled).await;
    works.store(true, Ordering::SeqCst);
    tasks.retry(ids[0].id).await.unwrap();
    is(23, TaskState::Done).await;
    worker.stop().await;
    let found = Consumers::new(&log).gauges(GaugesOf::All).await.unwrap().tasks;
    let found: Vec<_> =
        found.iter().map(|t| (t.pool.as_str(), t.state.as_str(), t.tasks)).collect();
    assert_eq!(found, [("mail", "done", 23), ("mail", "cancelled", 1)]);
}

async fn transactions_side_by_side_and_those_that_roll_back(db: Db) {
    let log = db.log().await;
    let insert = |n: i64| async move {
        (0..25).map(|i| NewTask::new(format!("{n} {i}"), &i)).collect::<Vec<_>>()
    };
    let mut running = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (log, new) = (log.clone(), insert(n).await);
        running.spawn(async move {
            let tasks = Tasks::new(&log, "mail");
            let ids = tasks.enqueue_all(new).await.unwrap();
            // Half of them are cancelled, and a change of all is taken back.
            for id in ids.iter().step_by(2) {
                tasks.cancel(id.id).await.unwrap();
            }
            let change =
                format!("UPDATE {} SET state = 3 WHERE pool = 'mail'", table(&log, "tasks"));
            let nothing = format!("UPDATE {} SET state = 3 WHERE pool = ''", table(&log, "tasks"));
            let both = vec![Statement::new(change, vec![]), Statement::fence(nothing, vec![], 1)];
            assert!(log.database().begin().run(both, End::Commit).await.is_err());
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    let wanted = [("mail".to_owned(), 0, 8 * 12), ("mail".to_owned(), 5, 8 * 13)];
    assert_eq!(agreed(&log).await, wanted);
}

async fn an_older_program_is_counted_too(db: Db) {
    let log = db.log().await;
    let tasks = table(&log, "tasks");
    let id = match log.store().database().dialect().name() {
        "postgres" => "gen_random_uuid()",
        _ => "lower(hex(randomblob(16)))",
    };
    let run = async |sql: String| drop(query(&log, &sql, vec![]).await);
    for pool in ["a", "a", "b"] {
        run(format!(
            "INSERT INTO {tasks} (id, pool, key, slot, state, due_us, payload, enqueued_us) \
             VALUES ({id}, '{pool}', 'k', 7, 0, 0, 'null', 1), ({id}, '{pool}', 'k', 7, 1, 9, 'null', 1) \
             ON CONFLICT DO NOTHING RETURNING 1"
        ))
        .await;
    }
    assert_eq!(agreed(&log).await.iter().map(|(.., n)| n).sum::<i64>(), 6);
    run(format!("UPDATE {tasks} SET state = 4, finished_us = 1 WHERE pool = 'a' RETURNING 1"))
        .await;
    run(format!("UPDATE {tasks} SET pool = 'c' WHERE pool = 'b' RETURNING 1")).await;
    run(format!("UPDATE {tasks} SET checkpoint = 'null' RETURNING 1")).await;
    agreed(&log).await;
    run(format!("DELETE FROM {tasks} WHERE pool = 'a' RETURNING 1")).await;
    let left = [("c".to_owned(), 0, 1), ("c".to_owned(), 1, 1)];
    assert_eq!(agreed(&log).await, left);
}

async fn a_scrape_is_one_statement(db: Db) {
    let plain = db.log().await;
    let (log, statements) = recorded(&plain);
    Tasks::new(&plain, "mail").enqueue(NewTask::new("a", &1)).await.unwrap();
    let consumers = Consumers::new(&log);
    statements.lock().unwrap().clear();
    let found = consumers.gauges(GaugesOf::All).await.unwrap();
    assert_eq!(found.tasks.len(), 1);
    // A setting of the transaction may go before it.
    let reads = |statement: &&String| statement.contains(" FROM ");
    assert_eq!(statements.lock().unwrap().keys().filter(reads).count(), 1);
}

/// Where many write at a time each change is a row of its own.
async fn a_worker_folds_what_was_added_up(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "mail");
    for n in 0..250 {
        let new = NewTask::new(n.to_string(), &n).run_after(Duration::from_secs(3_600));
        tasks.enqueue(new).await.unwrap();
    }
    let rows = format!("SELECT count(*) FROM {}", table(&log, "task_counts"));
    assert!(number(&log, &rows).await >= 200);
    let worker = start(&log, ReplicaSet::new("work").pool(Script::new("mail", |_| Ok(()))));
    until("few rows are left", async || (number(&log, &rows).await < 50).then_some(())).await;
    assert_eq!(agreed(&log).await, [("mail".to_owned(), 1, 250)]);
    worker.stop().await;
}

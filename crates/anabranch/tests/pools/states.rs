//! How tasks stand, as statements write it: by indexes that serve, and never by a guess.

use crate::ledger::{Ledger, counted};
use crate::on_both;
use crate::recorded::recorded;
use crate::support::*;
use anabranch::backend::database::{End, Statement};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, Pool, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskFilter, TaskState};
use anabranch::{HandlerError, Retry};
use std::time::Duration;

on_both!(statements_about_states_use_the_indexes, a_state_of_a_newer_program_is_an_error);

const LONG: Duration = Duration::from_secs(60);

/// A part of each statement that finds tasks by how they stand, and the index that finds them.
const PLANS: [(&str, &str); 15] = [
    ("seq <= $3", "tasks_ready"),
    ("max(seq)", "tasks_ready"),
    ("ORDER BY due_us LIMIT $2", "tasks_scheduled"),
    ("wait_us", "tasks_scheduled"),
    ("AND state < 4 AND (state = 0 OR (state = 1 AND due_us <= {now})) ORDER", "tasks_open"),
    ("SELECT 1 AS one", "tasks_open"),
    ("AS instead, count(*) AS tasks", "tasks_open"),
    ("SELECT pool, count(*) AS tasks", "tasks_open"),
    ("min(since_us)", "tasks_open"),
    ("SET state = 2", "tasks_open"),
    ("SET state = 0 WHERE", "tasks_open"),
    ("SET state = 5, finished_us = {now} WHERE pool = $1 AND key = $2", "tasks_open"),
    ("SET state = 5, finished_us = {now} WHERE pool = $1 AND unique_key", "tasks_unique"),
    ("UNION ALL SELECT id, unique_key", "tasks_unique"),
    ("DELETE FROM {tasks}", "tasks_finished"),
];

/// Cancels what else is open of its key, or under a unique key, as workflows do.
#[derive(Clone)]
struct Canceller(Log);

impl Pool for Canceller {
    type Output = ();

    fn name(&self) -> &str {
        "canceller"
    }

    async fn run(&self, _: &Task, tx: &mut Tx) -> HandlerResult {
        let others = Tasks::new(&self.0, "ledger");
        others.cancel_unique_in(tx, "one").await?;
        others.cancel_key_in(tx, "gone").await
    }
}

async fn statements_about_states_use_the_indexes(db: Db) {
    let plain = db.log().await;
    let (log, statements) = recorded(&plain);
    many_done(&plain).await;
    let settings = PoolSettings::default().retry(Retry::never()).keep(Duration::ZERO);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let ledger = ledger.hook(|task| match task.key() {
        "bad" => Err(HandlerError::new("bad")),
        _ => Ok(()),
    });
    let tasks = Tasks::new(&log, "ledger");
    let canceller = Canceller(log.clone());
    let set = ReplicaSet::new("work").pool(ledger.clone()).pool(canceller);
    // More of one key than a lane keeps in memory, one that holds its key, one whose time comes.
    let mut wanted = counted(1, 3_000);
    wanted.extend([1, 2].map(|number: i64| NewTask::new("bad", &number)));
    wanted.push(NewTask::new("later", &1).run_after(Duration::from_millis(200)));
    wanted.push(NewTask::new("much later", &1).run_after(LONG * 60));
    wanted.push(NewTask::new("gone", &1).run_after(LONG * 60).unique("one"));
    let ids = tasks.enqueue_all(wanted).await.unwrap();
    let worker = start(&log, set);
    let held = async || tasks.list(TaskState::Held, 10).await.unwrap().pop();
    until("one behind the dead one", held).await;
    let _ = Tasks::open_counts(&log).await.unwrap();
    let _ = Tasks::count_where(&log, &TaskFilter::dead()).await.unwrap();
    let _ = anabranch::operate::Consumers::new(&log).status("ledger").await.unwrap();
    tasks.retry(tasks.list(TaskState::Dead, 1).await.unwrap()[0].id).await.unwrap();
    assert!(tasks.is_open("much later").await.unwrap());
    let cancel = Tasks::new(&log, "canceller").enqueue(NewTask::new("a", &())).await.unwrap();
    Tasks::new(&log, "canceller").wait(cancel.id, LONG).await.unwrap();
    // Those that have ended are forgotten, which the last statement does.
    let forgotten = async || tasks.status(ids[0].id).await.unwrap().is_none().then_some(());
    until("what is done is forgotten", forgotten).await;
    worker.stop().await;

    let recorded = statements.lock().unwrap().clone();
    let database = plain.store().database();
    let dialect = database.dialect();
    let (table, now) = (dialect.table("tasks"), dialect.now_us());
    for (part, index) in PLANS {
        let part = part.replace("{now}", now).replace("{tasks}", &table);
        let has_part = |sql: &&String| sql.contains(&table) && sql.contains(&part);
        let found: Vec<&String> = recorded.keys().filter(has_part).collect();
        assert!(!found.is_empty(), "no statement has {part}");
        for sql in found {
            let plan = explain(&plain, dialect.name(), sql, recorded[sql].clone()).await;
            assert!(plan.contains(index), "not by {index}, but by {plan}: {sql}");
        }
    }
}

/// Tasks that are done: without them every plan is as good as the other.
async fn many_done(log: &Log) {
    let database = log.store().database();
    let dialect = database.dialect();
    let (table, done) = (dialect.table("tasks"), TaskState::Done.code());
    let (id, numbers) = match dialect.name() {
        "postgres" => ("gen_random_uuid()", "generate_series(1, 5000)"),
        _ => ("lower(hex(randomblob(16)))", "numbers"),
    };
    let insert = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 5000) \
         INSERT INTO {table} (id, pool, key, slot, state, due_us, payload, enqueued_us, finished_us) \
         SELECT {id}, 'other', 'key', 7, {done}, 0, 'null', 1, 1 FROM {numbers} RETURNING 1"
    );
    assert_eq!(query(log, &insert, vec![]).await.len(), 5_000);
    if dialect.name() == "postgres" {
        let analyze = vec![Statement::new(format!("ANALYZE {table}"), vec![])];
        log.store().database().begin().run(analyze, End::Commit).await.unwrap();
    }
}

async fn explain(log: &Log, kind: &str, sql: &str, values: Vec<anabranch::Value>) -> String {
    // As lanes read, so that the size of the table does not matter.
    let off = ["enable_seqscan", "enable_sort", "enable_bitmapscan"]
        .map(|name| format!("set_config('{name}', 'off', true)"));
    let (explain, before) = match kind {
        "postgres" => ("EXPLAIN", format!("SELECT {}", off.join(", "))),
        _ => ("EXPLAIN QUERY PLAN", "SELECT 1".to_owned()),
    };
    let statements =
        vec![Statement::new(before, vec![]), Statement::query(format!("{explain} {sql}"), values)];
    let answers = log.store().database().begin().run(statements, End::Commit).await.unwrap();
    let column = if kind == "postgres" { "QUERY PLAN" } else { "detail" };
    let lines = answers[1].rows.iter().map(|row| row.get::<String>(column).unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

async fn a_state_of_a_newer_program_is_an_error(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "ledger");
    let id = tasks.enqueue(NewTask::new("a", &1)).await.unwrap().id;
    let table = log.store().database().dialect().table("tasks");
    query(&log, &format!("UPDATE {table} SET state = 77 RETURNING 1"), vec![]).await;
    let says = |error: String| {
        assert!(error.contains("state 77, which this program does not know"), "{error}");
        assert!(error.contains("a newer program wrote it: upgrade this one"), "{error}");
        assert!(!error.contains("by hand"), "{error}");
    };
    says(tasks.status(id).await.unwrap_err().to_string());
    says(tasks.wait(id, LONG).await.unwrap_err().to_string());
    says(Tasks::counts(&log).await.unwrap_err().to_string());
}

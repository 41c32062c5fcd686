//! Tasks that programs run.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, end_of, number, start};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, PoolSet, PoolSettings, TaskState, Tasks};
use anabranch::{Query, Retry, StreamId, Tuning};
use anabranch_file::program::{OutsideProgramPool, ProgramPool};
use serde_json::json;
use std::time::Duration;

on_both! {
    effects_in_the_database_are_stored_with_the_end_of_the_task,
    tasks_outside_save_enqueue_and_fail,
    a_task_whose_program_dies_is_tried_again,
    a_task_has_its_own_time_until_its_first_query,
    what_a_pool_must_not_say,
}

fn settings() -> PoolSettings {
    let retry = Retry::default().attempts(3).first(Duration::from_millis(1));
    PoolSettings::default().retry(retry).in_flight_per_process(3)
}

const INSIDE: &str = r#"
greet()
while True:
    batch = read()
    task = batch["tasks"][0]
    note("task", json.dumps(task))
    try:
        execute(f"INSERT INTO {TABLE} VALUES ($1, $2)", [task["key"], task["payload"]], 0)
        count = query(f"SELECT count(*) FROM {TABLE} WHERE key = $1", [task["key"]], 0)[0][0]
        say(append={"stream": "Paid:" + task["key"], "type": "Paid", "data": task["payload"]}, event=0)
        say(enqueue={"pool": "mail", "key": task["key"], "payload": None}, event=0)
        if task["payload"] == 13 and task["attempt"] < 3:
            say(failed=batch["batch"], error="unlucky")
        elif task["payload"] == 14:
            say(failed=batch["batch"], error="for good", again="never")
        else:
            say(done=batch["batch"], result={"count": count})
        sys.stdout.flush()
    except Abandoned:
        pass
"#;

async fn effects_in_the_database_are_stored_with_the_end_of_the_task(db: Db) {
    let (log, script, table) = (db.log().await, Script::new(INSIDE), db.table("paid"));
    crate::support::query(&log, &format!("CREATE TABLE {table} (key TEXT, cents BIGINT)"), vec![])
        .await;
    let mut command = script.command();
    command.env.push(("TABLE".to_owned(), table.clone()));
    let pool = ProgramPool::new(&script.programs, &log, "payouts", settings(), command);
    let worker = start(&log, ReplicaSet::new("s").pool(pool).lanes(2));
    let payouts = Tasks::new(&log, "payouts");
    let mut ids = Vec::new();
    for (key, cents) in [("a", 1), ("a", 13), ("b", 2), ("c", 14), ("a", 3)] {
        ids.push(payouts.enqueue(NewTask::new(key, &cents)).await.unwrap().id);
    }
    let mut ends = Vec::new();
    for id in ids {
        let task = end_of(&payouts, id).await;
        if let Some(error) = task.error {
            assert_eq!(error, "for good");
        }
        ends.push((task.state, task.result, task.attempts));
    }
    let done = |count, failed| (TaskState::Done, Some(json!({ "count": count })), failed);
    let dead = (TaskState::Dead, None, 1);
    assert_eq!(ends, [done(1, 0), done(2, 2), done(1, 0), dead, done(3, 0)]);
    worker.stop().await;
    assert_eq!(number(&log, &format!("SELECT sum(cents) FROM {table}")).await, 19);
    let paid = log.read(Query::types(["Paid"])).collect().await.unwrap();
    assert_eq!(paid.len(), 4);
    let of_a = log.read_stream(&StreamId::new("Paid", "a").unwrap()).collect().await.unwrap();
    assert_eq!(of_a.iter().map(|event| event.data_json()).collect::<Vec<_>>(), ["1", "13", "3"]);
    let mails = Tasks::new(&log, "mail").list(TaskState::Ready, 10).await.unwrap();
    assert_eq!(mails.len(), 4);
}

const OUTSIDE: &str = r#"
greet()
while True:
    batch = read()
    task = batch["tasks"][0]
    page = task["checkpoint"] or 0
    with open("pages", "a") as file:
        while page < task["payload"]:
            page += 1
            file.write(f"{task['key']}{page} ")
            say(save=page)
            sys.stdout.flush()
            assert read() == {"saved": True}
            if page == 2 and once("died"):
                file.flush()
                os.kill(os.getpid(), 9)
    assert task["idempotency_key"] == "task:" + task["id"]
    say(enqueue={"pool": "mail", "key": task["key"], "payload": page, "after": 3600, "unique": "m" + task["key"]})
    say(done=batch["batch"], result=page)
    sys.stdout.flush()
"#;

async fn tasks_outside_save_enqueue_and_fail(db: Db) {
    let (log, script) = (db.log().await, Script::new(OUTSIDE));
    let pool =
        OutsideProgramPool::new(&script.programs, &log, "print", settings(), script.command());
    let worker = start(&log, ReplicaSet::new("s").outside_pool(pool));
    let print = Tasks::new(&log, "print");
    let id = print.enqueue(NewTask::new("a", &4)).await.unwrap().id;
    let task = end_of(&print, id).await;
    assert_eq!((task.state, task.result, task.attempts), (TaskState::Done, Some(json!(4)), 1));
    // The second attempt begins where the first one came to.
    assert_eq!(script.note("pages").unwrap(), "a1 a2 a3 a4 ");
    worker.stop().await;
    let mails = Tasks::new(&log, "mail").list(TaskState::Scheduled, 10).await.unwrap();
    assert_eq!(mails.len(), 1);
}

async fn a_task_whose_program_dies_is_tried_again(db: Db) {
    let body = "if once('died'):\n    greet()\n    read()\n    sys.exit('no')\ngreet()\nwhile True:\n    \
                say(done=read()['batch'])\n    sys.stdout.flush()";
    let (log, script) = (db.log().await, Script::new(body));
    let pool = ProgramPool::new(&script.programs, &log, "p", settings(), script.command());
    let worker = start(&log, ReplicaSet::new("s").pool(pool).lanes(1));
    let tasks = Tasks::new(&log, "p");
    let mut ids = Vec::new();
    for key in ["a", "b", "c"] {
        ids.push(tasks.enqueue(NewTask::new(key, &1)).await.unwrap().id);
    }
    let mut failed = 0;
    for id in ids {
        let task = end_of(&tasks, id).await;
        assert_eq!(task.state, TaskState::Done);
        failed += task.attempts;
    }
    assert_eq!(failed, 1, "one of them, and no other");
    worker.stop().await;
}

/// What the task before it has queried leaves a transaction open, in which there is little time.
async fn a_task_has_its_own_time_until_its_first_query(db: Db) {
    let body = "greet()\nwhile True:\n    batch = read()\n    \
                open('runs', 'a').write(batch['tasks'][0]['key'] + ' ')\n    \
                if batch['tasks'][0]['payload'] == 'slow':\n        time.sleep(1.5)\n    \
                query('SELECT 1', [], 0)\n    say(done=batch['batch'])\n    sys.stdout.flush()";
    let (log, script) = (db.log().await, Script::new(body));
    let tasks = Tasks::new(&log, "p");
    let mut ids = Vec::new();
    for (key, payload) in [("a", "quick"), ("b", "slow"), ("c", "quick")] {
        ids.push(tasks.enqueue(NewTask::new(key, &payload)).await.unwrap().id);
    }
    let pool = ProgramPool::new(&script.programs, &log, "p", settings(), script.command());
    let half_a_second =
        Tuning::default().lease(Duration::from_secs(1)).heartbeat(Duration::from_millis(100));
    let worker = start(&log, ReplicaSet::new("s").pool(pool).lanes(1).tuning(half_a_second));
    for id in ids {
        assert_eq!(end_of(&tasks, id).await.state, TaskState::Done);
    }
    worker.stop().await;
    assert_eq!(script.note("runs").unwrap(), "a b c ", "each ran once");
}

async fn what_a_pool_must_not_say(db: Db) {
    let body =
        "greet()\nbatch = read()\nexec(batch['tasks'][0]['payload'])\nsys.stdout.flush()\nread()";
    let (log, script) = (db.log().await, Script::new(body));
    let settings = PoolSettings::default().retry(Retry::never());
    let inside = ProgramPool::new(&script.programs, &log, "inside", settings, script.command());
    let outside =
        OutsideProgramPool::new(&script.programs, &log, "outside", settings, script.command());
    let worker = start(&log, ReplicaSet::new("s").pool(inside).outside_pool(outside));
    for (pool, act, said) in [
        ("inside", "say(save=1)", "has answered `save`, which only a pool"),
        ("inside", "say(execute='SELECT 1', event=1)", "has named event 1 of a batch of 1"),
        ("outside", "say(execute='SELECT 1')", "which only a pool with `effects = \"database\"`"),
        ("outside", "say(done=7)", "and the batch that it handles is"),
        ("outside", "say(enqueue={'pool': 'x', 'key': 'y'}, event=1)", "another event than 0"),
        ("outside", "say(done=BATCH); print('more')", "after the end of a batch"),
    ] {
        let tasks = Tasks::new(&log, pool);
        let id = tasks.enqueue(NewTask::new(act, &act)).await.unwrap().id;
        let task = end_of(&tasks, id).await;
        let error = task.error.unwrap_or_default();
        assert!(task.state == TaskState::Dead && error.contains(said), "{act}: {error}");
    }
    worker.stop().await;
}

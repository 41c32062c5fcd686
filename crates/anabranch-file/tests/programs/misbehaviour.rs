//! What a program must not do: it is restarted, one event has failed, and nothing is lost or stored twice.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, Proof, fill, left_by, proof};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Retry, Settings};
use std::time::Duration;

on_both! {
    it_is_killed,
    it_ends,
    it_hangs_before_a_query,
    it_hangs_after_a_query,
    it_thinks_too_long_between_queries,
    it_prints_something_else,
    it_prints_no_text,
    it_prints_a_line_without_end,
    it_floods_standard_output,
    it_answers_twice,
    it_answers_another_batch,
    it_names_an_event_that_is_not_there,
    it_appends_for_no_event,
    it_says_what_is_no_message,
    it_closes_its_output,
}

const TIMEOUT: Duration = Duration::from_secs(3);

/// Runs a program that does this at one event, after it has recorded it: once, and then always.
async fn does(db: Db, act: &str, said: &[&str]) {
    does_by(db, "record", act, said).await;
}

async fn does_by(db: Db, record: &str, act: &str, said: &[&str]) {
    let log = db.log().await;
    fill(&log, 0..6, 1..=6).await;
    let body = |when: &str| {
        format!(
            r#"
def act(n, event):
{act}
def handle(n, event):
    {record}(n, event)
    if key_of(event) == "4" and event["data"] == 4 and {when}:
        act(n, event)
serve(handle)
"#
        )
    };
    let run = |script: &Script, name: &str| {
        let mut command = script.command();
        command.timeout = TIMEOUT;
        let settings = Settings::default().batch_size(4).retry(Retry::never());
        let projection = script.projection_by(&db, &log, name, command).with_settings(settings);
        ReplicaSet::new(name).projection(projection).lanes(2)
    };
    // The batch is halved, and then it works.
    let script = Script::new(&body("once('acted')"));
    run(&script, "once").catch_up(&log).await.unwrap();
    let all = Proof { handled: 36, doubled: 0, keys: 6, wrong: 0 };
    assert_eq!(proof(&log, &db.table("once")).await, all);
    assert!(script.note("acted").is_some());
    // The event is found.
    let script = Script::new(&body("True"));
    let left = left_by(run(&script, "always"), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 3), "{left:?}");
    let all = Proof { handled: 33, doubled: 0, keys: 6, wrong: 0 };
    assert_eq!(proof(&log, &db.table("always")).await, all);
    let parked = Consumers::new(&log).parked("always").await.unwrap().remove(0);
    assert_eq!(parked.key, "Order:4");
    for said in said.iter().chain(&["program `python3 program.py`", "it is restarted"]) {
        assert!(parked.error.contains(said), "{said} in: {}", parked.error);
    }
}

async fn it_is_killed(db: Db) {
    does(db, "    os.kill(os.getpid(), 9)", &["has ended (signal: 9"]).await;
}

async fn it_ends(db: Db) {
    let act = "    sys.exit('the disk is full')";
    does(db, act, &["has ended (exit status: 1)", "it said last: the disk is full"]).await;
}

async fn it_hangs_before_a_query(db: Db) {
    let said = ["did not finish its answer within 3.0s", "`batch_size`", "`timeout`"];
    does_by(db, "upsert", "    time.sleep(1000)", &said).await;
}

async fn it_hangs_after_a_query(db: Db) {
    does(
        db,
        "    time.sleep(1000)",
        &["took more than 2.4s since its first query", "`batch_size`"],
    )
    .await;
}

async fn it_thinks_too_long_between_queries(db: Db) {
    let act = "    while True:\n        time.sleep(0.1)\n        query('SELECT 1')";
    does(db, act, &["took more than 2.4s since its first query", "`batch_size`"]).await;
}

async fn it_prints_something_else(db: Db) {
    does(db, "    print('order', n)", &["wrote `order ", "standard output is for answers only"])
        .await;
}

async fn it_prints_no_text(db: Db) {
    let act = "    sys.stdout.flush()\n    sys.stdout.buffer.write(b'\\xff\\xfe\\n')";
    does(db, act, &["it is not UTF-8"]).await;
}

async fn it_prints_a_line_without_end(db: Db) {
    let act = "    while True:\n        sys.stdout.write('x' * 100_000)";
    does(db, act, &["more than 64 MiB", "`xxx"]).await;
}

async fn it_floods_standard_output(db: Db) {
    let act = "    while True:\n        execute('DELETE FROM ' + TABLE + ' WHERE worker = $1', ['x' * 1_000_000], n)";
    does(db, act, &["more than 64 MiB"]).await;
}

async fn it_answers_twice(db: Db) {
    let act = "    global say\n    say_once = say\n    def say(**message):\n        say_once(**message)\n        \
               if 'done' in message:\n            say_once(**message)";
    does(db, act, &["wrote `{\"done\"", "after the end of a batch"]).await;
}

async fn it_answers_another_batch(db: Db) {
    does(
        db,
        "    say(done=1000)\n    sys.stdout.flush()\n    read()",
        &["wrote `{\"done\": 1000}`", "and the batch that it handles is"],
    )
    .await;
}

async fn it_names_an_event_that_is_not_there(db: Db) {
    does(db, "    execute('SELECT 1', [], 4)", &["has named event 4 of a batch of"]).await;
}

async fn it_appends_for_no_event(db: Db) {
    let act = "    say(append={'stream': 'A:1', 'type': 'T', 'data': 1})";
    does(db, act, &["`append` without `event`"]).await;
}

async fn it_says_what_is_no_message(db: Db) {
    does(db, "    say(excute='SELECT 1')", &["unknown field `excute`", "`execute`"]).await;
}

async fn it_closes_its_output(db: Db) {
    let act = "    sys.stdout.flush()\n    os.close(1)\n    time.sleep(1000)";
    does(db, act, &["has closed its standard output"]).await;
}

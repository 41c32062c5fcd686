//! Programs that cannot be started, or do not greet as they should.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, Proof, fill, proof, start, status, until};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Retry, Settings};
use anabranch_file::program::{Command, greets};
use std::time::Duration;

on_both! {
    it_does_not_exist,
    it_greets_with_another_version,
    it_never_greets,
    it_ends_at_once,
    it_says_something_else_first,
    the_greeting_says_who_speaks,
    it_forgets_to_run,
    one_that_is_mended_goes_on_by_itself,
    greetings_end_with_their_program,
}

/// Runs a program that has seen no event: no event is to blame. Then one that works, and nothing is to be retried.
async fn refused(db: Db, script: Script, command: Command, said: &[&str]) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=3).await;
    let set = |command| {
        let settings = Settings::default().retry(Retry::never());
        let projection = script.projection_by(&db, &log, "p", command).with_settings(settings);
        ReplicaSet::new("s").projection(projection)
    };
    let greeted = greets(&script.programs, "sqlite", "p", "program", &command).await.unwrap_err();
    let error = set(command).catch_up(&log).await.unwrap_err().to_string();
    let said = said.iter().chain(&["its handler cannot run, whatever the event is"]);
    for said in said {
        assert!(error.contains(said), "{said} in: {error}");
    }
    assert!(error.contains(&greeted), "{greeted} in: {error}");
    let left = status(&log, "p").await;
    assert_eq!((left.parked_keys, left.retrying_keys), (0, 0), "{left:?}");
    assert_eq!(proof(&log, &db.table("p")).await.handled, 0);
    script.becomes("serve(record)");
    greets(&script.programs, "sqlite", "p", "program", &script.command()).await.unwrap();
    set(script.command()).catch_up(&log).await.unwrap();
    let all = Proof { handled: 9, doubled: 0, keys: 3, wrong: 0 };
    assert_eq!(proof(&log, &db.table("p")).await, all);
}

/// As above, in a process that runs on: it goes on by itself when the program is there, and what was tried meanwhile
/// counts against no event.
async fn one_that_is_mended_goes_on_by_itself(db: Db) {
    let (log, script) = (db.log().await, Script::new("import no_such_module"));
    fill(&log, 0..3, 1..=3).await;
    let settings = Settings::default().retry(Retry::never());
    let projection = script.projection(&db, &log, "p").with_settings(settings);
    let worker = start(&log, ReplicaSet::new("s").projection(projection));
    let outage =
        until("the outage", async || Consumers::new(&log).status("p").await.ok()?.outage).await;
    assert!(outage.error.contains("No module named 'no_such_module'"), "{outage:?}");
    until("a try in vain", async || (status(&log, "p").await.outage?.probes > 1).then_some(()))
        .await;
    let left = status(&log, "p").await;
    assert_eq!((left.parked_keys, left.retrying_keys), (0, 0), "{left:?}");
    script.becomes("serve(record)");
    until("the events", async || (proof(&log, &db.table("p")).await.handled == 9).then_some(()))
        .await;
    worker.stop().await;
    let all = Proof { handled: 9, doubled: 0, keys: 3, wrong: 0 };
    assert_eq!(proof(&log, &db.table("p")).await, all);
}

/// It is closed in time, and says what it must.
async fn greetings_end_with_their_program(_: Db) {
    let script = Script::new("note('hello', json.dumps(greet()))\nread()");
    greets(&script.programs, "postgres", "mail", "pool", &script.command()).await.unwrap();
    script.programs.ended().await;
    let hello: serde_json::Value = serde_json::from_str(&script.note("hello").unwrap()).unwrap();
    assert_eq!((&hello["consumer"], &hello["kind"]), (&"mail".into(), &"pool".into()));
    assert_eq!(hello["database"], "postgres");
}

async fn it_does_not_exist(db: Db) {
    let script = Script::new("");
    let command = Command::new(["no-such-program", "x"], script.file(""));
    let said =
        ["program `no-such-program x` cannot be started", "no-such-program` in PATH; install it"];
    refused(db, script, command, &said).await;
}

async fn it_greets_with_another_version(db: Db) {
    let script = Script::new("greet(2)\nread()");
    let command = script.command();
    let said =
        ["`python3 program.py` speaks version 2 of the protocol", "this is version 1", "install"];
    refused(db, script, command, &said).await;
}

async fn it_never_greets(db: Db) {
    let script = Script::new("time.sleep(1000)");
    let mut command = script.command();
    command.timeout = Duration::from_millis(300);
    let said = ["did not greet within 300.0ms", "does it flush its output?"];
    refused(db, script, command, &said).await;
}

async fn it_forgets_to_run(db: Db) {
    let script = Script::new("");
    let command = script.command();
    let said = ["has ended (exit status: 0) before its greeting (does it call run(handle)?)"];
    refused(db, script, command, &said).await;
}

async fn it_ends_at_once(db: Db) {
    let script = Script::new("import no_such_module");
    let command = script.command();
    let said = [
        "has ended (exit status: 1) before its greeting",
        "No module named 'no_such_module' (File \"",
    ];
    refused(db, script, command, &said).await;
}

async fn it_says_something_else_first(db: Db) {
    let script = Script::new("read()\nsay(done=1)\nsys.stdout.flush()\nread()");
    let command = script.command();
    refused(db, script, command, &["has not greeted: its first line is {\"hello\""]).await;
}

async fn the_greeting_says_who_speaks(db: Db) {
    let body = "note('hello', json.dumps(greet()))\nbatch = read()\nnote('batch', json.dumps(batch))\n\
                say(done=BATCH)\nsys.stdout.flush()\nread()";
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 0..1, 1..=1).await;
    let set = ReplicaSet::new("s").projection(script.projection(&db, &log, "p"));
    set.catch_up(&log).await.unwrap();
    let json =
        |name| serde_json::from_str::<serde_json::Value>(&script.note(name).unwrap()).unwrap();
    let hello = serde_json::json!({
        "protocol": 1,
        "anabranch": env!("CARGO_PKG_VERSION"),
        "consumer": "p",
        "kind": "program",
        "database": log.database().dialect().name(),
    });
    assert_eq!(json("hello"), hello);
    let event = log.read(anabranch::Query::all()).collect().await.unwrap().remove(0);
    let mut batch = json("batch");
    // A number that every language has exactly.
    assert!(batch["batch"].take().as_u64().unwrap() < 1 << 53);
    assert_eq!(batch, serde_json::json!({ "batch": null, "events": [event] }));
}

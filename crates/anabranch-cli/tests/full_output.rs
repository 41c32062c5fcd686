//! What a command says when its standard output cannot be written, to a full disk for instance: that the work is
//! done, so that nobody repeats it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod process;

use anabranch::backend::database::{End, Statement};
use process::{anabranch, run, stdout};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// What it says on standard error.
fn on_full(here: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = anabranch(here);
    command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped());
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output could not be written: No space left"), "{said}");
    said
}

fn events(here: &Path) -> usize {
    stdout(&run(here, &["tail", "--after", "0"])).lines().count()
}

#[test]
fn an_event_is_appended_though_nobody_learns_of_it() {
    let here = tempfile::tempdir().unwrap();
    let said = on_full(here.path(), &["append", "Order:1", "OrderPlaced"], "");
    assert!(said.contains("the event was appended at position 1"), "{said}");
    assert_eq!(events(here.path()), 1);
    let lines = r#"{"stream": "Order:2", "type": "OrderPlaced"}"#;
    let lines = format!("{lines}\n{lines}\n{lines}\n");
    let said = on_full(here.path(), &["append", "--lines", "--batch", "2"], &lines);
    assert!(said.contains("the lines up to 2 were appended, the last at position 3"), "{said}");
    assert!(said.contains("nothing behind them was"), "{said}");
    assert_eq!(events(here.path()), 3);
}

#[test]
fn what_only_looks_says_why_it_failed() {
    let here = tempfile::tempdir().unwrap();
    stdout(&run(here.path(), &["append", "Order:1", "OrderPlaced"]));
    let said = on_full(here.path(), &["tail", "--after", "0"], "");
    assert!(said.ends_with("(os error 28)\n"), "{said}");
}

#[test]
fn a_task_is_enqueued() {
    let here = tempfile::tempdir().unwrap();
    stdout(&run(here.path(), &["append", "Order:1", "OrderPlaced"]));
    let said = on_full(here.path(), &["tasks", "enqueue", "mails", "a", "1"], "");
    assert!(said.contains("the task was enqueued as "), "{said}");
    let tasks = stdout(&run(here.path(), &["tasks", "list", "mails", "--json"]));
    assert_eq!(tasks.lines().count(), 1, "{tasks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_and_an_import_say_that_they_ended() {
    let here = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", here.path().join("anabranch.db").display());
    let log = anabranch::connect(&url).await.unwrap();
    for sql in ["CREATE TABLE rows (id INTEGER PRIMARY KEY)", "INSERT INTO rows VALUES (1), (2)"] {
        let run = vec![Statement::new(sql, vec![])];
        log.store().database().begin().run(run, End::Commit).await.unwrap();
    }
    let of = |job| ["--source", "rows", "--key", "id", "--job", job];
    let said = on_full(
        here.path(),
        &[&["batch", "run", "--command", "true"], &of("copy")[..]].concat(),
        "",
    );
    assert!(said.contains("the batch has ended: 2 rows, 0 failed"), "{said}");
    let from = ["batch", "import", "--from", "rows", "--where", "true"];
    let said = on_full(here.path(), &[&from, &of("taken")[..]].concat(), "");
    assert!(said.contains("the import was done: 2 rows imported"), "{said}");
}

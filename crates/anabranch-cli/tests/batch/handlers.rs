//! Statements, programs and webhooks.

use crate::process::{anabranch, stdout};
use crate::table::Rows;
use anabranch::sqlite::rusqlite;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

on_both! {
    rows_that_fail_are_listed_and_retried,
    a_program_handles_rows,
    a_program_ends_though_it_has_left_something_behind,
    a_webhook_handles_rows,
    a_webhook_that_asks_to_wait_is_tried_again,
}

fn failed(rows: &Rows) -> Vec<Value> {
    let output = rows.batch("failed", &["--json"]);
    let mut lines: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["key"].as_str().map(|key| key.parse::<i64>().unwrap()));
    lines
}

async fn with_bad(rows: &Rows) {
    rows.add(1..=30).await;
    let source = rows.table("source");
    rows.sql(&format!("UPDATE {source} SET name = 'bad' WHERE id IN (7, 8)")).await;
}

async fn mend(rows: &Rows) {
    rows.sql(&format!("UPDATE {} SET name = 'good' WHERE name = 'bad'", rows.table("source")))
        .await;
}

async fn rows_that_fail_are_listed_and_retried(rows: Rows) {
    with_bad(&rows).await;
    let copy = rows.copy();
    let summary = rows.run(&["--sql", &copy]);
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&28.into(), &2.into()));
    assert_eq!((&summary["rows"], &summary["part"]), (&30.into(), &"elastic".into()));
    let listed = failed(&rows);
    assert_eq!((&listed[0]["key"], &listed[1]["key"]), (&"7".into(), &"8".into()));
    assert_eq!(listed[0]["attempts"], 1);
    assert!(listed[0]["error"].as_str().unwrap().to_lowercase().contains("check"), "{listed:?}");
    assert!(listed[0]["time"].as_str().unwrap().starts_with("20"));
    let table = stdout(&rows.batch("failed", &["-n", "1"]));
    assert_eq!(table.lines().count(), 2, "{table}");

    assert_eq!(rows.run(&["--sql", &copy])["rows"], 0, "they wait for somebody");
    assert_eq!(rows.run(&["--retry-failed", "--sql", &copy])["failed"], 2);
    assert_eq!(failed(&rows)[1]["attempts"], 2);
    mend(&rows).await;
    // Whichever instance failed them, they belong to the part that their key says.
    let part = ["--instance-count", "2", "--retry-failed", "--sql", &copy, "--instance-id"];
    for id in ["0", "1"] {
        assert_eq!(rows.run(&[&part[..], &[id]].concat())["succeeded"], 1);
    }
    rows.are_done().await;
    let none = rows.batch("failed", &[]);
    assert!(stdout(&none).is_empty() && String::from_utf8_lossy(&none.stderr).contains("no row"));
    rows.drop().await;
}

async fn a_program_handles_rows(rows: Rows) {
    with_bad(&rows).await;
    let command = "sh -c 'read row; case $row in *bad*) echo one >&2; echo no name: $IDEMPOTENCY_KEY \
                   >&2; exit 3;; esac; echo \"$row\" >> rows'";
    let summary = rows.run(&["--command", command]);
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&28.into(), &2.into()));
    assert_eq!(failed(&rows)[0]["error"], "no name: job:7");
    let text = std::fs::read_to_string(rows.directory.path().join("rows")).unwrap();
    let mut seen: Vec<Value> = text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    seen.sort_by_key(|row| row["id"].as_i64());
    assert_eq!(seen.len(), 28);
    assert_eq!(seen[0], serde_json::json!({ "id": 1, "name": "n1" }));

    let again = |command: &str, more: &[&str]| {
        rows.run(&[&["--retry-failed", "--command", command], more].concat());
        failed(&rows)
            .iter()
            .map(|row| row["error"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(again("sh -c 'exit 4'", &[]), ["exit code 4"; 2]);
    assert_eq!(again("sleep 600", &["--timeout", "0.2"]), ["it took longer than 200ms"; 2]);
    let per_page = ["--per-page"];
    assert!(again("echo hello", &per_page)[0].contains("no JSON array"));
    // As many answers as there are rows.
    let page = "sh -c 'tr -cd { | sed s/{/null,/g | sed s/^/[/ | sed s/,$/]/'";
    assert!(again(page, &per_page).is_empty());
    assert!(rows.verify(&["--complete"]).1);
    rows.drop().await;
}

/// What it has left in the background holds its output, and may do so for long.
async fn a_program_ends_though_it_has_left_something_behind(rows: Rows) {
    rows.add(1..=2).await;
    let left = |program: &str| format!("sh -c '{program}'");
    let short = ["--timeout", "20"];
    let run = |program: &str, more: &[&str]| {
        let started = std::time::Instant::now();
        let arguments = ["--retry-failed", "--command", &left(program)];
        let summary = rows.run(&[&arguments[..], &short, more].concat());
        assert!(started.elapsed().as_secs() < 15, "it has waited: {summary}");
        summary
    };
    let said = "cat >/dev/null; sleep 60 & echo $! >> left; echo no name >&2; exit 3";
    assert_eq!(run(said, &[])["failed"], 2);
    assert_eq!(failed(&rows)[0]["error"], "no name");
    let page = "sleep 60 & echo $! >> left; tr -cd { | sed s/{/null,/g | sed s/^/[/ | sed s/,$/]/";
    assert_eq!(run(page, &["--per-page", "--workers", "1"])["succeeded"], 2);
    rows.add(3..=4).await;
    // Nor need anybody read what it is told.
    rows.sql(&format!("UPDATE {} SET name = '{}'", rows.table("source"), "x".repeat(200_000)))
        .await;
    let unread = "sleep 60 <&0 & echo $! >> left; exit 0";
    assert_eq!(run(unread, &[])["succeeded"], 2);
    assert!(rows.verify(&["--complete"]).1);
    rows.shell("kill $(cat left)");
    rows.drop().await;
}

/// A request: its idempotency key and its body.
type Requests = Arc<Mutex<Vec<(Option<String>, Value)>>>;

/// Answers 422 for a bad row, and for a page with an array; hangs for a row called `slow`, and is busy for one
/// called `busy` the first time.
fn listen() -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/rows", listener.local_addr().unwrap());
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || answer(stream.unwrap(), &seen));
        }
    });
    (url, requests)
}

fn answer(stream: TcpStream, seen: &Requests) {
    let mut reader = BufReader::new(stream);
    let (mut length, mut key) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else {
            if line.trim().is_empty() {
                break;
            }
            assert!(line.starts_with("POST /rows "), "{line}");
            continue;
        };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "idempotency-key" => key = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let is_bad = |row: &Value| row["name"] == "bad";
    let is_new = !seen.lock().unwrap().iter().any(|(_, before)| *before == body);
    let (status, answer) = match &body {
        Value::Array(page) => {
            let errors = page.iter().map(|row| is_bad(row).then_some("no name"));
            ("200 OK", serde_json::to_string(&errors.collect::<Vec<_>>()).unwrap())
        }
        row if is_bad(row) => ("422 Unprocessable Entity", "no name".to_owned()),
        row if row["name"] == "busy" && is_new => {
            ("503 Service Unavailable\r\nRetry-After: 1", "later".to_owned())
        }
        row if row["name"] == "slow" => {
            // Until the other side has had enough.
            let _ = reader.read_to_end(&mut Vec::new());
            return;
        }
        _ => ("204 No Content", String::new()),
    };
    seen.lock().unwrap().push((key, body));
    let length = answer.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    reader.get_mut().write_all(format!("{head}{answer}").as_bytes()).unwrap();
}

async fn a_webhook_handles_rows(rows: Rows) {
    with_bad(&rows).await;
    let (url, requests) = listen();
    let summary = rows.run(&["--webhook", &url]);
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&28.into(), &2.into()));
    assert_eq!(failed(&rows)[0]["error"], "422 Unprocessable Entity no name");
    let mut seen = std::mem::take(&mut *requests.lock().unwrap());
    seen.sort_by_key(|(_, row)| row["id"].as_i64());
    assert_eq!(seen.len(), 30);
    assert_eq!(seen[6], (Some("job:7".to_owned()), serde_json::json!({ "id": 7, "name": "bad" })));

    rows.sql(&format!("UPDATE {} SET name = 'slow' WHERE id = 7", rows.table("source"))).await;
    let again = |more: &[&str]| rows.run(&[&["--retry-failed", "--webhook", &url], more].concat());
    again(&["--timeout", "0.3", "--retry-for", "0"]);
    let said = failed(&rows)[0]["error"].to_string();
    assert!(said.contains("no answer within 300ms"), "{said}");
    assert_eq!(again(&["--per-page"])["succeeded"], 1, "a page has the slow one in it");
    assert_eq!(failed(&rows)[0]["error"], "no name");
    mend(&rows).await;
    again(&["--per-page"]);
    assert!(rows.verify(&["--complete"]).1);
    let nobody = ["--webhook", "http://127.0.0.1:1/", "--limit", "1", "--retry-for", "0"];
    rows.add([31]).await;
    assert_eq!(rows.run(&nobody)["failed"], 1);
    rows.drop().await;
}

async fn a_webhook_that_asks_to_wait_is_tried_again(rows: Rows) {
    rows.add(1..=10).await;
    let busy = format!("UPDATE {} SET name = 'busy' WHERE id = 7", rows.table("source"));
    rows.sql(&busy).await;
    let (url, requests) = listen();
    let began = std::time::Instant::now();
    let summary = rows.run(&["--webhook", &url]);
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&10.into(), &0.into()));
    assert!(began.elapsed() >= std::time::Duration::from_secs(1), "{:?}", began.elapsed());
    let seen = requests.lock().unwrap().clone();
    let keys = seen.iter().filter(|(_, row)| row["name"] == "busy").map(|(key, _)| key.clone());
    assert_eq!(keys.collect::<Vec<_>>(), [Some("job:7".to_owned()), Some("job:7".to_owned())]);
    assert_eq!(seen.len(), 11);
    // Not at all, if that is wanted.
    rows.add([11]).await;
    rows.sql(&format!("UPDATE {} SET name = 'busy' WHERE id = 11", rows.table("source"))).await;
    assert_eq!(rows.run(&["--webhook", &url, "--retry-for", "0"])["failed"], 1);
    assert_eq!(failed(&rows)[0]["error"], "503 Service Unavailable later");
    let wrong = rows.batch("run", &["--webhook", &url, "--retry-for", "soon"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("use a number of seconds"));
    rows.drop().await;
}

/// No program can be given it as a variable, however often it is tried. (PostgreSQL has no such texts.)
#[test]
fn a_key_that_no_program_can_be_given_fails_at_once() {
    let here = tempfile::tempdir().unwrap();
    let file = rusqlite::Connection::open(here.path().join("x.db")).unwrap();
    file.execute_batch(
        "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL); INSERT INTO t VALUES ('a' || char(0) || 'b')",
    )
    .unwrap();
    let mut command = anabranch(here.path());
    command.args(["batch", "run", "--url", "sqlite:x.db", "--source", "t", "--key", "id"]);
    let output = command.args(["--job", "j", "--json", "--command", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["failed"], &summary["rows"]), (&1.into(), &1.into()), "{summary}");
}

//! Programs that fail in a way that passes.

use crate::table::Rows;
use serde_json::Value;
use std::time::{Duration, Instant};

on_both! {
    a_program_that_asks_for_it_is_started_again,
    a_killed_instance_loses_no_row_that_waits,
    a_statement_is_tried_again_if_that_is_asked_for,
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Row 7 ends with a code until the file `open` is there; each attempt and each success is a line.
fn program(code: u8) -> String {
    format!(
        "sh -c 'read row; echo \"$row\" >> attempts; case $row in *:7,*) [ -e open ] || {{ echo not yet \
         >&2; exit {code}; }};; esac; echo \"$row\" >> done'"
    )
}

fn lines(rows: &Rows, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(rows.directory.path().join(file)).unwrap_or_default();
    text.lines().map(|row| serde_json::from_str(row).unwrap()).collect()
}

fn of_seven(rows: &Rows, file: &str) -> usize {
    lines(rows, file).iter().filter(|row| row["id"] == 7).count()
}

fn failed(rows: &Rows) -> Value {
    let output = rows.batch("failed", &["--json"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn a_program_that_asks_for_it_is_started_again(rows: Rows) {
    rows.add(1..=20).await;
    let summary = rows.run(&["--command", &program(75), "--attempts", "4"]);
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&19.into(), &1.into()), "{summary}");
    assert_eq!(summary["retried"], 3, "{summary}");
    assert_eq!((of_seven(&rows, "attempts"), lines(&rows, "done").len()), (4, 19));
    let row = failed(&rows);
    assert_eq!((&row["attempts"], &row["error"]), (&4.into(), &"not yet".into()));
    // Any other code is the last word, unless it is said to pass.
    let again = |code, more: &[&str]| {
        let before = of_seven(&rows, "attempts");
        let command = program(code);
        rows.run(&[&["--retry-failed", "--command", &command, "--attempts", "3"], more].concat());
        of_seven(&rows, "attempts") - before
    };
    assert_eq!(again(1, &[]), 1);
    assert_eq!(again(28, &["--retry-exit", "7,28"]), 3);
    assert_eq!(again(75, &["--retry-for", "0"]), 1);
    assert_eq!(failed(&rows)["attempts"], 9);
    std::fs::write(rows.directory.path().join("open"), "").unwrap();
    assert_eq!(again(75, &[]), 1);
    assert_eq!(lines(&rows, "done").len(), 20);
    assert!(rows.verify(&["--complete"]).1);
    rows.drop().await;
}

async fn a_killed_instance_loses_no_row_that_waits(rows: Rows) {
    rows.add(1..=20).await;
    let command = program(75);
    let run = ["--lease", "0.5", "--command", &command];
    let first = rows.start(&run);
    // The others go on meanwhile.
    let started = Instant::now();
    while rows.verify(&[]).0["succeeded"] != 19 || of_seven(&rows, "attempts") < 2 {
        assert!(started.elapsed() < PATIENCE, "the others are never done");
    }
    first.kill();
    assert_eq!(rows.verify(&[]).0["claimed"], 1);
    std::fs::write(rows.directory.path().join("open"), "").unwrap();
    assert_eq!(rows.run(&run)["succeeded"], 1);
    assert_eq!((of_seven(&rows, "done"), lines(&rows, "done").len()), (1, 20));
    assert!(rows.verify(&["--complete"]).1);
    rows.drop().await;
}

async fn a_statement_is_tried_again_if_that_is_asked_for(rows: Rows) {
    rows.add(1..=20).await;
    let bad = format!("UPDATE {} SET name = 'bad' WHERE id = 7", rows.table("source"));
    rows.sql(&bad).await;
    let copy = rows.copy();
    let summary = rows.run(&["--sql", &copy]);
    assert_eq!((&summary["failed"], &summary["retried"]), (&1.into(), &0.into()), "{summary}");
    let summary = rows.run(&["--retry-failed", "--attempts", "3", "--sql", &copy]);
    assert_eq!((&summary["failed"], &summary["retried"]), (&1.into(), &2.into()), "{summary}");
    assert_eq!(failed(&rows)["attempts"], 4);
    assert_eq!(rows.effects().await, 19);
    rows.drop().await;
}

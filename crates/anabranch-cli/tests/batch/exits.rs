//! What scripts see: exit codes.

use crate::table::Rows;

on_both! {
    failed_rows_are_exit_code_1_unless_they_are_allowed,
    rows_that_failed_before_are_exit_code_1_as_well,
    rows_that_failed_are_counted_for_their_part,
}

/// A run that has nothing to do is not green while rows of the batch are failed.
async fn rows_that_failed_before_are_exit_code_1_as_well(rows: Rows) {
    rows.add(1..=10).await;
    rows.sql(&format!("UPDATE {} SET name = 'bad' WHERE id = 7", rows.table("source"))).await;
    let copy = rows.copy();
    let run = |more: &[&str]| {
        let output = rows.batch("run", &[&["--sql", &copy], more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), said)
    };
    let (code, summary, said) = run(&[]);
    assert!(code == 1 && summary.contains("10 rows, 1 failed, "), "{code} {summary} {said}");
    let lists = "lists it, and --retry-failed tries it again";
    assert!(said.contains("error: 1 row failed; `") && said.contains(lists), "{said}");
    let (code, summary, said) = run(&[]);
    assert!(code == 1 && summary.contains("0 rows, 0 failed, 1 failed before"), "{summary} {said}");
    assert!(said.contains("error: 1 row failed before; `") && said.contains(lists), "{said}");
    let (code, _, said) = run(&["--allow-failures"]);
    assert!(code == 0 && said.contains("warning: 1 row failed before"), "{code} {said}");
    let (code, json, _) = run(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["failed"], &json["failed_before"]), (1, &0.into(), &1.into()));
    // Another one, beside it.
    rows.sql(&format!("INSERT INTO {} VALUES (11, 'bad')", rows.table("source"))).await;
    let (code, _, said) = run(&[]);
    assert!(code == 1 && said.contains("1 row failed, 1 failed before; `"), "{code} {said}");
    assert!(said.contains("lists them"), "{said}");
    // The proof says so too, if all is to be done.
    let (verified, sound) = rows.verify(&[]);
    assert!(sound && verified["failed"] == 2, "{verified}");
    let (verified, complete) = rows.verify(&["--complete"]);
    assert!(!complete, "{verified}");
    assert_eq!(verified["violations"][0], "2 rows have failed");
    assert!(rows.verify(&["--complete", "--allow-failures"]).1);
    // A row that is no more cannot be mended.
    rows.sql(&format!("DELETE FROM {} WHERE id = 11", rows.table("source"))).await;
    assert_eq!(rows.verify(&["--complete"]).0["violations"][0], "1 row has failed");
    rows.sql(&format!("UPDATE {} SET name = 'good' WHERE id = 7", rows.table("source"))).await;
    let (code, summary, said) = run(&["--retry-failed"]);
    assert!(code == 0 && summary.contains("1 row, 0 failed, "), "{code} {summary} {said}");
    assert!(!summary.contains("before"), "{summary}");
    rows.are_done().await;
    rows.drop().await;
}

/// What instance 1 cannot try again is for instance 0 to say.
async fn rows_that_failed_are_counted_for_their_part(rows: Rows) {
    rows.add(1..=10).await;
    rows.sql(&format!("UPDATE {} SET name = 'bad' WHERE id = 4", rows.table("source"))).await;
    let copy = rows.copy();
    let run = |id| rows.run(&["--sql", &copy, "--instance-id", id, "--instance-count", "2"]);
    assert_eq!(run("0")["failed"], 1);
    assert_eq!(run("1")["failed_before"], 0);
    assert_eq!(run("0")["failed_before"], 1);
    rows.drop().await;
}

async fn failed_rows_are_exit_code_1_unless_they_are_allowed(rows: Rows) {
    rows.add(1..=30).await;
    let bad = format!("UPDATE {} SET name = 'bad' WHERE id IN (7, 8)", rows.table("source"));
    rows.sql(&bad).await;
    let copy = rows.copy();
    let run = |more: &[&str]| {
        let output = rows.batch("run", &[&["--sql", &copy], more].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    let (code, said) = run(&[]);
    assert!(code == 1 && said.contains("error: 2 rows failed"), "{code} {said}");
    let (code, said) = run(&["--retry-failed", "--allow-failures"]);
    assert!(code == 0 && said.contains("warning: 2 rows failed"), "{code} {said}");
    assert_eq!(rows.verify(&[]).0["failed"], 2, "they are kept as failed all the same");
    // That allows nothing else.
    let (code, said) = run(&["--allow-failures", "--workers", "0"]);
    assert!(code == 1 && said.contains("use 1 to 256"), "{code} {said}");
    let (_, help) = (0, rows.batch_alone("run", &["--help"]));
    let help = String::from_utf8(help.stdout).unwrap();
    for line in ["Exit codes:", "--allow-failures"] {
        assert!(help.contains(line), "{help}");
    }
    rows.drop().await;
}

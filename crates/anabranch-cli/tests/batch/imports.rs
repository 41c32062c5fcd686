//! Rows that were done before there was a batch.

use crate::process::{failure, stdout};
use crate::table::Rows;
use serde_json::Value;

on_both! {
    finished_rows_are_imported_and_not_handled_again,
    what_is_claimed_or_done_here_is_not_imported_over,
    what_cannot_be_imported_is_refused,
}

/// A log of somebody else: of twenty rows, half are done, one of them noted twice, and one is gone.
async fn with_log(rows: &Rows) -> String {
    rows.add(1..=20).await;
    let theirs = rows.table("processing_log");
    rows.sql(&format!("CREATE TABLE {theirs} (record_id bigint, state text)")).await;
    let values: Vec<_> = (1..=10).map(|id| format!("({id}, 'done')")).collect();
    let more = "(11, 'failed'), (12, 'running'), (3, 'done'), (99, 'done')";
    rows.sql(&format!("INSERT INTO {theirs} VALUES {}, {more}", values.join(", "))).await;
    theirs
}

fn import<'a>(theirs: &'a str, condition: &'a str) -> Vec<&'a str> {
    vec![
        "--log-table",
        "plog",
        "--from",
        theirs,
        "--from-key",
        "record_id",
        "--where",
        condition,
        "--json",
    ]
}

fn counts(output: &std::process::Output) -> [Value; 5] {
    let json: Value = serde_json::from_str(&stdout(output)).unwrap();
    ["rows", "keys", "imported", "already", "gone"].map(|name| json[name].clone())
}

const OURS: [&str; 2] = ["--log-table", "plog"];

async fn finished_rows_are_imported_and_not_handled_again(rows: Rows) {
    let theirs = with_log(&rows).await;
    let done = import(&theirs, "state = 'done'");
    assert_eq!(counts(&rows.batch("import", &done)), [12, 11, 11, 0, 1].map(Value::from));
    assert_eq!(counts(&rows.batch("import", &done)), [12, 11, 0, 11, 1].map(Value::from));
    let (verified, sound) = rows.verify(&OURS);
    assert!(sound, "{verified}");
    assert_eq!((&verified["succeeded"], &verified["missing"]), (&11.into(), &10.into()));
    let copy = rows.copy();
    assert_eq!(rows.run(&[&OURS[..], &["--sql", &copy]].concat())["succeeded"], 10);
    let kept = format!("SELECT count(*) AS n FROM {} WHERE id <= 10", rows.table("effects"));
    assert_eq!(rows.number(&kept).await, 0, "what they have done is not done again");
    // After a run it is still the same.
    assert_eq!(counts(&rows.batch("import", &done)), [12, 11, 0, 11, 1].map(Value::from));
    assert!(rows.verify(&[&OURS[..], &["--complete"]].concat()).1);
    // Without JSON it is a line.
    let line = stdout(&rows.batch("import", &done[..8]));
    assert!(line.contains("0 rows imported, 11 already, 1 not in the source"), "{line}");
    rows.drop().await;
}

async fn what_is_claimed_or_done_here_is_not_imported_over(rows: Rows) {
    let theirs = with_log(&rows).await;
    let copy = rows.copy();
    rows.run(&[&OURS[..], &["--limit", "2", "--workers", "1", "--sql", &copy]].concat());
    let done = import(&theirs, "state = 'done'");
    let said = failure(&rows.batch("import", &done), 1);
    let ways = ["2 of its keys", "1 (success, session ", "2 (success, session ", "--where"];
    assert!(ways.iter().all(|way| said.contains(way)), "{said}");
    let log = rows.table("plog");
    let claim = format!("UPDATE {log} SET state = 'claimed' WHERE key = '2'");
    rows.sql(&claim).await;
    let said = failure(&rows.batch("import", &done), 1);
    assert!(said.contains("2 (claimed, session "), "{said}");
    let all = format!("SELECT count(*) AS n FROM {log}");
    assert_eq!(rows.number(&all).await, 2, "all or nothing");
    let rest = import(&theirs, "state = 'done' AND record_id > 2");
    assert_eq!(counts(&rows.batch("import", &rest)), [10, 9, 9, 0, 1].map(Value::from));
    rows.drop().await;
}

async fn what_cannot_be_imported_is_refused(rows: Rows) {
    let theirs = with_log(&rows).await;
    let refused = |arguments: &[&str]| failure(&rows.batch("import", arguments), 1);
    let none = refused(&import(&theirs, "state = 'finished'"));
    assert!(none.contains("no row") && none.contains("--where"), "{none}");
    let other = refused(&import(&theirs, "record_id = 99"));
    assert!(other.contains("none of them is a key of"), "{other}");
    let mut wrong = import(&theirs, "state = 'done'");
    wrong[5] = "number";
    let said = refused(&wrong);
    assert!(said.contains("has no column `number`") && said.contains("record_id, state"), "{said}");
    wrong[3] = "no_such_table";
    assert!(refused(&wrong).contains("no_such_table"));
    let said = refused(&import(&theirs, "stat = 'done'"));
    assert!(said.contains("--where"), "{said}");
    // SQLite would take it for a text, and the condition would hold for every row.
    let said = refused(&import(&theirs, "\"stte\" <> 'failed'"));
    assert!(said.contains("stte") && said.contains("--where"), "{said}");
    rows.sql(&format!("INSERT INTO {theirs} VALUES (NULL, 'done')")).await;
    let said = refused(&import(&theirs, "state = 'done'"));
    assert!(said.contains("1 of its rows has no key"), "{said}");
    let (verified, _) = rows.verify(&OURS);
    assert_eq!(verified["entries"], 0, "{verified}");
    rows.drop().await;
}

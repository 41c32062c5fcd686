//! Keys that do not tell rows apart.

use crate::process::failure;
use crate::table::Rows;

on_both! {
    a_key_that_is_not_unique_is_refused,
    a_query_needs_to_be_assumed_unique,
    rows_that_share_a_key_stop_the_run,
    rows_that_share_a_key_fail_the_proof,
    rows_without_a_key_are_refused_and_fail_the_proof,
}

async fn a_key_that_is_not_unique_is_refused(rows: Rows) {
    rows.without_unique_key().await;
    rows.add((1..=50).chain(1..=50)).await;
    let said = failure(&rows.batch("run", &["--sql", &rows.copy()]), 1);
    let ways = ["no unique index", "NOT NULL and a unique index", "--assume-unique"];
    assert!(ways.iter().all(|way| said.contains(way)), "{said}");
    assert_eq!(rows.effects().await, 0);
    rows.drop().await;
}

async fn a_query_needs_to_be_assumed_unique(rows: Rows) {
    rows.add(1..=50).await;
    let select = format!("SELECT * FROM {} WHERE id <= 40", rows.table("source"));
    let copy = rows.copy();
    let query = ["--key", "id", "--job", "query", "--query", &select, "--sql", &copy];
    let said = failure(&rows.batch_alone("run", &query), 1);
    assert!(said.contains("a query") && said.contains("--assume-unique"), "{said}");
    assert_eq!(rows.effects().await, 0);
    let output = rows.batch_alone("run", &[&query[..], &["--assume-unique"]].concat());
    assert!(output.status.success(), "{output:?}");
    let verify = [&query[..6], &["--complete"]].concat();
    assert!(rows.batch_alone("verify", &verify).status.success());
    assert_eq!(rows.effects().await, 40);
    rows.drop().await;
}

async fn rows_that_share_a_key_stop_the_run(rows: Rows) {
    rows.without_unique_key().await;
    rows.add((1..=50).chain([33])).await;
    let copy = rows.copy();
    // With one row in a page, the two are in different pages.
    for size in ["1", "1000"] {
        let run = ["--assume-unique", "--workers", "1", "--batch-size", size, "--sql", &copy];
        let said = failure(&rows.batch("run", &run), 1);
        assert!(said.contains("share their key `id`: 33."), "{said}");
    }
    let (verified, sound) = rows.verify(&[]);
    assert!(!sound && verified["doubled"][0] == "33", "{verified}");
    rows.drop().await;
}

async fn rows_that_share_a_key_fail_the_proof(rows: Rows) {
    rows.without_unique_key().await;
    rows.add(1..=50).await;
    rows.run(&["--assume-unique", "--sql", &rows.copy()]);
    rows.add(1..=50).await;
    let (verified, sound) = rows.verify(&["--complete"]);
    assert!(!sound, "{verified}");
    let said = verified["violations"].to_string();
    assert!(said.contains("100 rows have 50 keys") && said.contains("1, 10, 11"), "{said}");
    let output = rows.batch("verify", &["--complete"]);
    assert_eq!(output.status.code(), Some(1));
    let (table, said) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    assert!(table.unwrap().contains("keys           50 (0 rows without)"));
    assert!(said.unwrap().contains("violation: 100 rows have 50 keys"));
    rows.drop().await;
}

async fn rows_without_a_key_are_refused_and_fail_the_proof(rows: Rows) {
    rows.without_unique_key().await;
    rows.add(1..=50).await;
    let source = rows.table("source");
    rows.sql(&format!("INSERT INTO {source} (id, name) VALUES (NULL, 'a'), (NULL, 'b')")).await;
    let said = failure(&rows.batch("run", &["--assume-unique", "--sql", &rows.copy()]), 1);
    assert!(said.contains("is NULL in 2 of its rows"), "{said}");
    assert_eq!(rows.effects().await, 0);
    let (verified, sound) = rows.verify(&[]);
    assert!(!sound && verified["null_keys"] == 2, "{verified}");
    // A row that is gone is remarked, and is no error.
    rows.sql(&format!("DELETE FROM {source} WHERE id IS NULL")).await;
    rows.run(&["--assume-unique", "--sql", &rows.copy()]);
    rows.sql(&format!("DELETE FROM {source} WHERE id <= 5")).await;
    let (verified, sound) = rows.verify(&["--complete"]);
    assert!(sound && verified["gone"] == 5, "{verified}");
    assert!(verified["remarks"][0].as_str().unwrap().starts_with("5 entries have no row"));
    rows.drop().await;
}

//! Keys that do not tell rows apart.

use crate::process::failure;
use crate::table::Rows;

on_both! {
    a_key_that_is_not_unique_is_refused,
    rows_that_share_a_key_fail_the_proof,
}

async fn a_key_that_is_not_unique_is_refused(rows: Rows) {
    rows.without_unique_key().await;
    rows.add((1..=50).chain(1..=50)).await;
    let said = failure(&rows.batch("run", &["--sql", &rows.copy()]), 1);
    assert!(said.contains("unique"), "{said}");
    assert_eq!(rows.effects().await, 0);
    rows.drop().await;
}

async fn rows_that_share_a_key_fail_the_proof(rows: Rows) {
    rows.without_unique_key().await;
    rows.add(1..=50).await;
    rows.run(&["--assume-unique", "--sql", &rows.copy()]);
    rows.add(1..=50).await;
    let (verified, sound) = rows.verify(&["--complete"]);
    assert!(!sound, "{verified}");
    rows.drop().await;
}

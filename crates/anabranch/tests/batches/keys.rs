//! Keys that do not tell rows apart: refused where the catalogue does not show them unique, met while it runs,
//! and found by the proof.

use crate::on_both;
use crate::records::Records;
use crate::support::*;

on_both!(
    a_key_that_is_not_unique_is_refused_and_nothing_is_handled,
    rows_that_share_a_key_are_found_by_the_proof,
);

async fn a_key_that_is_not_unique_is_refused_and_nothing_is_handled(db: Db) {
    let log = db.log().await;
    let records = Records::without_unique_key(&db, &log, (1..=50).chain(1..=50)).await;
    let refused = records.batch().run(&log, records.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("unique"), "{refused}");
    assert_eq!(records.copied(&log).await, (0, 0));
}

async fn rows_that_share_a_key_are_found_by_the_proof(db: Db) {
    let log = db.log().await;
    let records = Records::without_unique_key(&db, &log, 1..=50).await;
    let batch = records.batch().batch_size(10).assume_unique();
    batch.run(&log, records.clone()).await.unwrap();
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
    records.add(&log, 1..=50).await;
    let violations = batch.verify(&log).await.unwrap().violations(true);
    assert!(!violations.is_empty());
}

//! The proof: it fails whenever its sums do not add up, and says of what is gone.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::backend::database::{End, Statement};
use anabranch::batch::{Batch, Part, Record, RowHandler, Source, Verified};
use anabranch::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both!(
    sums_that_do_not_add_up_are_violations,
    the_primary_key_of_the_log_is_not_trusted,
    rows_that_are_gone_are_counted_and_no_violation,
    rows_that_vanish_once_they_are_handled_are_all_counted,
    a_claim_whose_row_is_gone_is_given_back,
    a_claim_whose_row_is_not_found_by_its_key_is_handled_all_the_same,
    a_part_that_never_ran_is_missing,
);

async fn done(db: &Db, log: &Log) -> Records {
    let records = Records::new(db, log, 1..=30).await;
    records.batch().batch_size(7).run(log, records.clone()).await.unwrap();
    assert!(proof(log, &records).await.violations(true).is_empty());
    records
}

async fn proof(log: &Log, records: &Records) -> Verified {
    records.batch().verify(log).await.unwrap()
}

/// What is said after a statement about the log.
async fn said_after(log: &Log, records: &Records, sql: &str) -> String {
    query(log, &sql.replace("LOG", &records.log_table), vec![]).await;
    proof(log, records).await.violations(false).join("\n")
}

async fn sums_that_do_not_add_up_are_violations(db: Db) {
    let log = db.log().await;
    let records = done(&db, &log).await;
    let said = said_after(&log, &records, "UPDATE LOG SET state = 'failed' WHERE key = '4'").await;
    assert!(said.contains("29 rows were handled well, and 30 are in the history"), "{said}");
    assert!(said.contains("handled well that the log does not say so of: 4"), "{said}");
    let said = said_after(&log, &records, "DELETE FROM LOG_history WHERE key = '4'").await;
    assert_eq!(said, "");
    let said = said_after(&log, &records, "UPDATE LOG SET state = 'odd' WHERE key = '4'").await;
    assert!(said.contains("30 entries are 29 of success, 0 failed and 0 claimed"), "{said}");
    said_after(&log, &records, "UPDATE LOG SET state = 'failed' WHERE key = '4'").await;
    let said = said_after(&log, &records, "DELETE FROM LOG_history WHERE key = '5'").await;
    assert!(said.contains("29 rows were handled well, and 28 are in the history"), "{said}");
    assert!(said.contains("rows without proof of success: 5"), "{said}");
}

async fn the_primary_key_of_the_log_is_not_trusted(db: Db) {
    let log = db.log().await;
    let records = done(&db, &log).await;
    for sql in [
        "CREATE TABLE LOG_copy AS SELECT * FROM LOG",
        "DROP TABLE LOG",
        "ALTER TABLE LOG_copy RENAME TO LOG",
    ] {
        query(&log, &sql.replace("LOG", &records.log_table), vec![]).await;
    }
    assert!(proof(&log, &records).await.violations(true).is_empty());
    let double = "INSERT INTO LOG SELECT * FROM LOG WHERE key = '6'";
    let said = said_after(&log, &records, double).await;
    assert!(said.contains("the processing log has 31 entries for 30 keys"), "{said}");
}

async fn rows_that_are_gone_are_counted_and_no_violation(db: Db) {
    let log = db.log().await;
    let records = done(&db, &log).await;
    query(&log, &format!("DELETE FROM {} WHERE id <= 3", records.source), vec![]).await;
    let verified = proof(&log, &records).await;
    assert_eq!((verified.rows, verified.gone, verified.entries), (27, 3, 30));
    assert!(verified.violations(true).is_empty(), "{verified:?}");
    assert!(verified.remarks()[0].starts_with("3 entries have no row"), "{verified:?}");
    // Another key is another row.
    query(&log, &format!("UPDATE {} SET id = 99 WHERE id = 9", records.source), vec![]).await;
    let verified = proof(&log, &records).await;
    assert_eq!((verified.gone, verified.missing), (4, 1));
    assert_eq!(verified.violations(true), ["1 rows are not processed yet"]);
}

/// Removes the rows it has handled from the source.
struct Remove(Records);

impl RowHandler for Remove {
    async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        let delete = format!("DELETE FROM {} WHERE id = $1", self.0.source);
        tx.execute(delete, params![record.get::<i64>("id")?]).await?;
        self.0.handle(record, tx).await
    }
}

async fn rows_that_vanish_once_they_are_handled_are_all_counted(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=300).await;
    let select = format!("SELECT * FROM {} WHERE id > 100", records.source);
    let seen: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let watched = Arc::clone(&seen);
    let batch = Batch::new("copy", Source::query(select, "id")).log_table(&records.log_table);
    let batch = batch.assume_unique().batch_size(10).on_progress(move |progress| {
        watched.lock().unwrap().push((progress.done, progress.rows));
    });
    batch.run(&log, Remove(records.clone())).await.unwrap();
    let seen = seen.lock().unwrap().clone();
    // Of all rows that there ever were, however many are left.
    assert!(seen.iter().all(|(_, rows)| *rows == 200), "{seen:?}");
    assert_eq!(seen.last(), Some(&(200, 200)));
    let verified = batch.verify(&log).await.unwrap();
    assert_eq!((verified.rows, verified.gone, verified.succeeded), (0, 200, 200));
    assert!(verified.violations(true).is_empty(), "{verified:?}");
}

async fn a_claim_whose_row_is_gone_is_given_back(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=10).await;
    let batch = records.batch();
    batch.verify(&log).await.unwrap();
    // By an instance that died: one of a row that is there, and one of a row that is not.
    let claim = format!(
        "INSERT INTO {} (job, key, state, session, part, attempts, claimed_us) VALUES \
         ('copy', '5', 'claimed', 'dead', 'elastic', 0, 0), \
         ('copy', '77', 'claimed', 'dead', 'elastic', 0, 0)",
        records.log_table
    );
    query(&log, &claim, vec![]).await;
    assert_eq!(batch.run(&log, records.clone()).await.unwrap().succeeded, 10);
    let verified = proof(&log, &records).await;
    assert_eq!((verified.entries, verified.claimed, verified.gone), (10, 0, 0));
    assert_eq!(records.copied(&log).await, (10, 0));
}

/// Before there is a row, nobody knows on SQLite whether keys are numbers; an expression does not convert them.
async fn a_claim_whose_row_is_not_found_by_its_key_is_handled_all_the_same(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, []).await;
    let select = format!("SELECT id + 0 AS id, body FROM {}", records.source);
    let batch = Batch::new("copy", Source::query(select, "id")).log_table(&records.log_table);
    let batch = batch.assume_unique().continuous(Duration::from_millis(10));
    let running = {
        let (log, batch, records) = (db.log().await, batch.clone(), records.clone());
        tokio::spawn(async move { batch.run(&log, records).await })
    };
    let sessions = format!("SELECT count(*) FROM {}_sessions", records.log_table);
    batch.verify(&log).await.unwrap();
    until("it runs", async || (number(&log, &sessions).await > 0).then_some(())).await;
    let row = format!("INSERT INTO {} VALUES (5, 'five')", records.source);
    let claim = format!(
        "INSERT INTO {} (job, key, state, session, part, attempts, claimed_us) VALUES \
         ('copy', '5', 'claimed', 'dead', 'elastic', 0, 0)",
        records.log_table
    );
    let both = vec![Statement::new(row, vec![]), Statement::new(claim, vec![])];
    log.store().database().begin().run(both, End::Commit).await.unwrap();
    until("it is handled", async || (records.copied(&log).await.0 == 1).then_some(())).await;
    running.abort();
}

async fn a_part_that_never_ran_is_missing(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=30).await;
    for id in [0, 2] {
        let part = Part::new(Some(id), Some(3), false).unwrap();
        records.batch().part(part).run(&log, records.clone()).await.unwrap();
    }
    let verified = proof(&log, &records).await;
    assert!(verified.is_sound(), "{verified:?}");
    assert_eq!(verified.violations(true), ["10 rows are not processed yet"]);
}

//! Keys that do not tell rows apart: refused where the catalogue does not show them unique, met while it runs,
//! and found by the proof.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::batch::{Batch, BatchError, Part, Record, RowHandler, Source};
use anabranch::prelude::*;

on_both!(
    a_key_that_is_not_unique_is_refused_and_nothing_is_handled,
    a_query_shows_nothing_and_is_refused_unless_it_is_assumed,
    rows_that_share_a_key_are_met_in_a_page_and_at_its_border,
    a_row_that_comes_late_with_a_key_that_is_done_fails_the_run,
    rows_that_share_a_key_are_found_by_the_proof,
    rows_without_a_key_are_refused_counted_and_found,
    texts_that_look_like_the_same_number_are_different_keys,
    a_column_of_the_name_that_ours_has_is_its_own,
);

async fn refused(log: &Log, batch: &Batch, records: &Records) -> String {
    let error = batch.run(log, records.clone()).await.unwrap_err();
    assert!(matches!(error, BatchError::Refused { .. }), "{error}");
    error.to_string()
}

async fn stopped(log: &Log, batch: &Batch, handler: impl RowHandler) -> String {
    let error = batch.run(log, handler).await.unwrap_err();
    assert!(matches!(error, BatchError::Stopped { .. }), "{error}");
    error.to_string()
}

/// Copies rows, and runs a statement once, with the row of a key.
struct Meanwhile {
    records: Records,
    with: &'static str,
    run: String,
}

impl RowHandler for Meanwhile {
    async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        if record.key() == self.with {
            tx.execute(self.run.clone(), vec![]).await?;
        }
        self.records.handle(record, tx).await
    }
}

async fn a_key_that_is_not_unique_is_refused_and_nothing_is_handled(db: Db) {
    let log = db.log().await;
    let records = Records::without_unique_key(&db, &log, (1..=50).chain(1..=50)).await;
    let said = refused(&log, &records.batch(), &records).await;
    let ways = ["no unique index", "unique index, or choose a key", "--assume-unique"];
    assert!(ways.iter().all(|way| said.contains(way)), "{said}");
    assert_eq!(records.copied(&log).await, (0, 0));
    // Not even if it looks unique today.
    query(&log, &format!("DELETE FROM {} WHERE id > 1", records.source), vec![]).await;
    refused(&log, &records.batch(), &records).await;
    // With an index that shows it, and a column that cannot be NULL, it runs.
    let good = Records::with_key(&db, &log, "good", "id BIGINT NOT NULL UNIQUE", 1..=50).await;
    assert_eq!(good.batch().run(&log, good.clone()).await.unwrap().succeeded, 50);
}

async fn a_query_shows_nothing_and_is_refused_unless_it_is_assumed(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=50).await;
    let select = format!("SELECT id, body FROM {}", records.source);
    let batch = Batch::new("query", Source::query(select, "id")).log_table(&records.log_table);
    let said = refused(&log, &batch, &records).await;
    assert!(said.contains("a query") && said.contains("--assume-unique"), "{said}");
    let batch = batch.assume_unique().batch_size(1).workers(1);
    assert_eq!(batch.run(&log, records.clone()).await.unwrap().succeeded, 50);
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
    // A view is no more than a query.
    let view = db.table("view");
    query(&log, &format!("CREATE VIEW {view} AS SELECT * FROM {}", records.source), vec![]).await;
    let batch = Batch::new("view", Source::table(view, "id")).log_table(&records.log_table);
    assert!(refused(&log, &batch, &records).await.contains("it is a view"));
    assert_eq!(batch.assume_unique().run(&log, records.clone()).await.unwrap().succeeded, 50);
}

async fn rows_that_share_a_key_are_met_in_a_page_and_at_its_border(db: Db) {
    let log = db.log().await;
    let records = Records::without_unique_key(&db, &log, (1..=40).chain([7])).await;
    // With one row in a page the two are in different ones, whatever its size later.
    for (job, rows) in [("border", 1), ("page", 100)] {
        let batch = Batch::new(job, Source::table(&records.source, "id")).assume_unique();
        let batch = batch.log_table(&records.log_table).batch_size(rows).workers(1);
        let said = stopped(&log, &batch, records.clone()).await;
        assert!(said.contains("share their key `id`: 7."), "{said}");
        let copy = &records.copy;
        let of_7 = number(&log, &format!("SELECT count(*) FROM {copy} WHERE id = '7'")).await;
        assert_eq!(of_7, 0, "none of them is handled");
        let verified = batch.verify(&log).await.unwrap();
        assert!(!verified.is_sound() && verified.claimed == 0, "{verified:?}");
    }
}

async fn a_row_that_comes_late_with_a_key_that_is_done_fails_the_run(db: Db) {
    let log = db.log().await;
    let records = Records::without_unique_key(&db, &log, 1..=40).await;
    let run = format!("INSERT INTO {} VALUES (3, 'late')", records.source);
    let batch = records.batch().assume_unique().batch_size(5).workers(1);
    let meanwhile = Meanwhile { records: records.clone(), with: "40", run };
    let said = stopped(&log, &batch, meanwhile).await;
    assert!(said.contains("share their key `id`: 3."), "{said}");
}

async fn rows_that_share_a_key_are_found_by_the_proof(db: Db) {
    let log = db.log().await;
    let records = Records::without_unique_key(&db, &log, 1..=50).await;
    let batch = records.batch().batch_size(10).assume_unique();
    batch.run(&log, records.clone()).await.unwrap();
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
    records.add(&log, 1..=50).await;
    let verified = batch.verify(&log).await.unwrap();
    assert!(!verified.is_sound());
    assert_eq!((verified.rows, verified.keys, verified.doubled.len()), (100, 50, 10));
    let violations = verified.violations(true);
    assert!(violations[0].contains("100 rows have 50 keys") && violations[0].contains("1, 10, 11"));
    assert_eq!(violations[1], "100 rows are 0 without an entry, 0 without a key, and 50 entries");
}

async fn rows_without_a_key_are_refused_counted_and_found(db: Db) {
    let log = db.log().await;
    let records = Records::without_unique_key(&db, &log, 1..=20).await;
    let batch = records.batch().assume_unique().workers(1).batch_size(3);
    let none = format!("INSERT INTO {} VALUES (NULL, 'a'), (NULL, 'b')", records.source);
    // One that comes while it runs.
    let meanwhile = Meanwhile { records: records.clone(), with: "15", run: none };
    let said = stopped(&log, &batch, meanwhile).await;
    assert!(said.contains("NULL"), "{said}");
    let verified = batch.verify(&log).await.unwrap();
    assert_eq!((verified.null_keys, verified.keys), (2, 20));
    assert!(verified.violations(false)[0].contains("2 rows have no key"), "{verified:?}");
    // Those that are there.
    let said = refused(&log, &batch, &records).await;
    assert!(said.contains("is NULL in 2 of its rows"), "{said}");
    let part = Part::new(Some(1), Some(2), false).unwrap();
    assert!(refused(&log, &batch.part(part), &records).await.contains("NULL"));
    // A column that may hold NULL is not shown to be without.
    let null = Records::with_key(&db, &log, "nullable", "id BIGINT UNIQUE", 1..=20).await;
    assert!(refused(&log, &null.batch(), &null).await.contains("may hold NULL"));
}

async fn texts_that_look_like_the_same_number_are_different_keys(db: Db) {
    let log = db.log().await;
    let keys = ["1", "01", "001", " 1", "1 ", "1.0", "+1", "A", "a", "ä", "", "NULL", "null"];
    let keys = keys.map(str::to_owned);
    let records = Records::with_text_keys(&db, &log, &keys).await;
    for id in 0..3 {
        let part = Part::new(Some(id), Some(3), false).unwrap();
        let batch = records.batch().part(part).batch_size(1).workers(1);
        batch.run(&log, records.clone()).await.unwrap();
    }
    assert_eq!(records.copied(&log).await, (keys.len() as i64, 0));
    let verified = records.batch().verify(&log).await.unwrap();
    assert!(verified.violations(true).is_empty(), "{verified:?}");
    assert_eq!(verified.keys, keys.len() as u64);
}

async fn a_column_of_the_name_that_ours_has_is_its_own(db: Db) {
    let log = db.log().await;
    let own = "id BIGINT NOT NULL PRIMARY KEY, batch_key TEXT DEFAULT 'x', batch_key_text TEXT DEFAULT 'y'";
    let records = Records::with_key(&db, &log, "own", own, []).await;
    let insert = format!("INSERT INTO {} (id, body) VALUES (1, 'a'), (2, 'b')", records.source);
    query(&log, &insert, vec![]).await;
    let batch = records.batch().batch_size(1).workers(1);
    let hooked = records.clone().hook(|record| {
        assert_eq!(record.get::<String>("batch_key")?, "x");
        assert_eq!(record.to_json().as_object().unwrap().len(), 4);
        Ok(())
    });
    assert_eq!(batch.run(&log, hooked).await.unwrap().succeeded, 2);
    assert_eq!(records.copied(&log).await, (2, 0));
}

//! One instance: pages, failures, limits, late rows, refusals.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::HandlerError;
use anabranch::batch::{Batch, Part, Record, RowHandler, Source, SqlHandler};
use anabranch::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both!(
    every_row_is_handled_once_and_a_second_run_finds_nothing,
    a_row_that_fails_is_logged_and_retried_when_asked,
    a_statement_that_the_database_refuses_fails_its_row_only,
    rows_that_come_late_with_lower_keys_are_found,
    a_limit_ends_the_run_and_the_next_goes_on,
    text_keys_and_queries_work_too,
    a_stopped_batch_gives_its_claims_back,
    what_cannot_run_is_refused_by_name,
    several_rows_at_once_have_outcomes_of_their_own,
);

async fn every_row_is_handled_once_and_a_second_run_finds_nothing(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, (-20..1_000).map(|id| id * 3)).await;
    let seen: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let watched = Arc::clone(&seen);
    let batch = records.batch().batch_size(64).on_progress(move |progress| {
        watched.lock().unwrap().push((progress.done, progress.rows));
    });
    let summary = batch.run(&log, records.clone()).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed, summary.lost), (1_020, 0, 0));
    assert_eq!(summary.sessions.len(), 1);
    assert_eq!(records.copied(&log).await, (1_020, 0));
    assert_eq!(*seen.lock().unwrap().last().unwrap(), (1_020, 1_020));
    let again = batch.run(&log, records.clone()).await.unwrap();
    assert_eq!((again.succeeded, again.failed), (0, 0));
    let verified = batch.verify(&log).await.unwrap();
    assert!(verified.violations(true).is_empty(), "{verified:?}");
    assert_eq!((verified.rows, verified.succeeded, verified.missing), (1_020, 1_020, 0));
    let session = &verified.sessions[0];
    assert_eq!(
        (session.rows, session.first.as_str(), session.last.as_str()),
        (1_020, "-60", "2997")
    );
    // Another job over the same table is another log.
    let other =
        Batch::new("other", Source::table(&records.source, "id")).log_table(&records.log_table);
    assert_eq!(other.verify(&log).await.unwrap().missing, 1_020);
    // What verify says can also be no.
    let double = format!(
        "INSERT INTO {0}_history SELECT job, key, session, part, at_us FROM {0}_history WHERE key = '6'",
        records.log_table
    );
    query(&log, &double, vec![]).await;
    let lost = format!("DELETE FROM {}_history WHERE key = '9'", records.log_table);
    query(&log, &lost, vec![]).await;
    let verified = batch.verify(&log).await.unwrap();
    assert_eq!((verified.collisions[0].key.as_str(), verified.collisions.len()), ("6", 1));
    let sessions = verified.collisions[0].handled_by.iter().map(|by| by.session.clone());
    assert_eq!(sessions.collect::<Vec<_>>(), vec![summary.sessions[0].clone(); 2]);
    assert_eq!(verified.unproven, ["9"]);
}

async fn a_row_that_fails_is_logged_and_retried_when_asked(db: Db) {
    let log = db.log().await;
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let records = Records::new(&db, &log, 1..=300).await.hook(move |record| {
        let number: i64 = record.key().parse()?;
        match number % 10 {
            3 if is_broken.load(Ordering::SeqCst) => {
                Err(HandlerError::new(format!("bad {number}")))
            }
            7 if is_broken.load(Ordering::SeqCst) => panic!("worse {number}"),
            _ => Ok(()),
        }
    });
    let batch = records.batch().batch_size(50);
    let summary = batch.run(&log, records.clone()).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (240, 60));
    assert_eq!(records.copied(&log).await, (240, 0));
    let failed = batch.failed(&log, 100).await.unwrap();
    assert_eq!(failed.len(), 60);
    let of = |key: &str| failed.iter().find(|row| row.key == key).unwrap().clone();
    assert_eq!((of("13").error.as_str(), of("13").attempts), ("bad 13", 1));
    assert_eq!(of("17").error, "the handler panicked: worse 17 [handler_panicked]");
    // Not again by itself.
    assert_eq!(batch.run(&log, records.clone()).await.unwrap().failed, 0);
    // Again when asked, once each.
    let again = batch.clone().retry_failed(true).run(&log, records.clone()).await.unwrap();
    assert_eq!((again.succeeded, again.failed), (0, 60));
    assert_eq!(batch.failed(&log, 1).await.unwrap()[0].attempts, 2);
    broken.store(false, Ordering::SeqCst);
    let again = batch.clone().retry_failed(true).run(&log, records.clone()).await.unwrap();
    assert_eq!((again.succeeded, again.failed), (60, 0));
    assert_eq!(records.copied(&log).await, (300, 0));
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
}

async fn a_statement_that_the_database_refuses_fails_its_row_only(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=100).await;
    let unique = format!("CREATE UNIQUE INDEX {0}_once ON {0} (id)", records.copy);
    query(&log, &unique, vec![]).await;
    let there = format!("INSERT INTO {} VALUES ('42', 'there')", records.copy);
    query(&log, &there, vec![]).await;
    let summary = records.batch().run(&log, records.clone()).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (99, 1));
    let failed = records.batch().failed(&log, 10).await.unwrap();
    assert!(
        failed[0].key == "42" && failed[0].error.to_lowercase().contains("unique"),
        "{failed:?}"
    );
    assert_eq!(records.copied(&log).await, (100, 0));
}

async fn rows_that_come_late_with_lower_keys_are_found(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 100..200).await;
    let (once, late) = (AtomicU32::new(0), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&late);
    let hooked = records.clone().hook(move |record| {
        if record.key() == "199" && once.fetch_add(1, Ordering::SeqCst) == 0 {
            flag.store(true, Ordering::SeqCst);
        }
        Ok(())
    });
    // In continuous mode a periodic look finds them, whenever they come.
    let batch = records.batch().batch_size(10).continuous(Duration::from_millis(20));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = {
        let (log, batch) = (log.clone(), batch.clone());
        tokio::spawn(async move {
            batch.run_until(&log, hooked, async { drop(stopped.await) }).await.unwrap()
        })
    };
    until("the last row", async || late.load(Ordering::SeqCst).then_some(())).await;
    records.add(&log, 1..=10).await;
    until("the late ones", async || (records.copied(&log).await.0 == 110).then_some(())).await;
    stop.send(()).unwrap();
    assert_eq!(running.await.unwrap().succeeded, 110);
    assert_eq!(records.copied(&log).await, (110, 0));
}

async fn a_limit_ends_the_run_and_the_next_goes_on(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=100).await;
    let batch = records.batch().batch_size(7).workers(3);
    let summary = batch.clone().limit(30).run(&log, records.clone()).await.unwrap();
    assert_eq!(summary.succeeded, 30);
    assert_eq!(batch.verify(&log).await.unwrap().missing, 70);
    assert_eq!(batch.run(&log, records.clone()).await.unwrap().succeeded, 70);
    assert_eq!(records.copied(&log).await, (100, 0));
}

async fn text_keys_and_queries_work_too(db: Db) {
    let log = db.log().await;
    let keys: Vec<String> = (0..90).map(|n| format!("k'{}\"{n}", n % 7)).collect();
    let records = Records::with_text_keys(&db, &log, &keys).await;
    for id in 0..3 {
        let part = Part::new(Some(id), Some(3), false).unwrap();
        records.batch().part(part).batch_size(10).run(&log, records.clone()).await.unwrap();
    }
    assert_eq!(records.copied(&log).await, (90, 0));
    let verified = records.batch().verify(&log).await.unwrap();
    assert!(verified.violations(true).is_empty(), "{verified:?}");
    assert_eq!(verified.sessions.iter().map(|session| session.partitions).max(), Some(1));
    // A query, handled by a statement.
    let some =
        format!("SELECT id, body, 7 AS seven FROM {} WHERE id LIKE 'k''3%';", records.source);
    let sql =
        format!("INSERT INTO {} SELECT :id, :body || ' ' || CAST(:seven AS TEXT)", records.copy);
    let batch = Batch::new("some", Source::query(some, "id")).log_table(&records.log_table);
    let batch = batch.assume_unique();
    let summary = batch.run(&log, SqlHandler::parse(&sql).unwrap()).await.unwrap();
    let expected = keys.iter().filter(|key| key.starts_with("k'3")).count() as u64;
    assert_eq!((summary.succeeded, summary.failed), (expected, 0));
}

async fn a_stopped_batch_gives_its_claims_back(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=500).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop = Mutex::new(Some(stop));
    let slow = records.clone().hook(move |record| {
        if record.key().parse::<i64>()? >= 20
            && let Some(stop) = stop.lock().unwrap().take()
        {
            let _ = stop.send(());
        }
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    });
    let batch = records.batch().batch_size(100).workers(2);
    let summary = batch.run_until(&log, slow, async { drop(stopped.await) }).await.unwrap();
    assert!(summary.succeeded > 0 && summary.succeeded < 500, "{summary:?}");
    let verified = batch.verify(&log).await.unwrap();
    assert_eq!((verified.claimed, verified.missing), (0, 500 - summary.succeeded));
    batch.run(&log, records.clone()).await.unwrap();
    assert_eq!(records.copied(&log).await, (500, 0));
}

async fn what_cannot_run_is_refused_by_name(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=3).await;
    let refused =
        async |batch: Batch| batch.run(&log, records.clone()).await.unwrap_err().to_string();
    assert!(refused(records.batch().workers(0)).await.contains("use 1 to 256"));
    assert!(refused(records.batch().batch_size(0)).await.contains("batch size is 0"));
    assert!(refused(records.batch().lease(Duration::ZERO)).await.contains("lease"));
    let part = Part::Fixed { id: 3, count: 3, hashed: false };
    assert!(refused(records.batch().part(part)).await.contains("0 to 2"));
    let error = refused(Batch::new("x", Source::table("no_such_table", "id"))).await;
    assert!(error.contains("cannot read key `id` of no_such_table"), "{error}");
    let error = refused(Batch::new("x", Source::table(&records.source, "nokey"))).await;
    assert!(error.contains("cannot read key `nokey`"), "{error}");
    assert!(refused(Batch::new("", Source::table(&records.source, "id"))).await.contains("name"));
}

/// Answers for pages: odd keys fail.
struct Pages(Arc<AtomicU32>);

impl RowHandler for Pages {
    async fn handle(&self, _: &Record, _: &mut Tx) -> HandlerResult {
        Err(HandlerError::new("it takes pages"))
    }

    async fn handle_page(&self, page: &[Record]) -> Option<Vec<HandlerResult>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let outcome = |record: &Record| match record.key().parse::<i64>()? % 2 {
            0 => Ok(()),
            _ => Err(HandlerError::new(format!("odd {}", record.to_json()["body"]))),
        };
        Some(page.iter().map(outcome).collect())
    }
}

async fn several_rows_at_once_have_outcomes_of_their_own(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=100).await;
    let calls = Arc::new(AtomicU32::new(0));
    let batch = records.batch().workers(1);
    let summary = batch.run(&log, Pages(Arc::clone(&calls))).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (50, 50));
    assert!(calls.load(Ordering::SeqCst) < 100, "pages, not rows");
    let failed = batch.failed(&log, 1).await.unwrap();
    assert_eq!(failed[0].error, "odd \"body 1\"");
}

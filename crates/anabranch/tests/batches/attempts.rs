//! Rows whose handler fails, and that are tried again within a run.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::{HandlerError, Retry};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both!(
    a_row_that_fails_for_a_while_is_tried_again_and_the_others_go_on,
    an_endpoint_that_is_down_fails_no_row,
    rows_that_wait_for_another_attempt_are_given_back,
    a_crash_between_attempts_loses_no_row_and_doubles_none,
    what_the_database_refuses_is_tried_again_and_counted,
);

fn quick() -> Retry {
    Retry::default().first(Duration::from_millis(5)).longest(Duration::from_millis(20))
}

type Calls = Arc<Mutex<HashMap<i64, u32>>>;

async fn a_row_that_fails_for_a_while_is_tried_again_and_the_others_go_on(db: Db) {
    let log = db.log().await;
    let calls = Calls::default();
    let called = Arc::clone(&calls);
    let records = Records::new(&db, &log, 1..=300).await.hook(move |record| {
        let number: i64 = record.key().parse()?;
        let calls = {
            let mut called = called.lock().unwrap();
            let calls = called.entry(number).or_default();
            *calls += 1;
            *calls
        };
        match number % 10 {
            1 if calls < 4 => Err(HandlerError::new("not yet")),
            2 => Err(HandlerError::new("never")),
            3 => Err(HandlerError::for_good("for good")),
            _ => Ok(()),
        }
    });
    let batch = records.batch().batch_size(50).retry(quick().attempts(5));
    let summary = batch.run(&log, records.clone()).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed, summary.lost), (240, 60, 0));
    assert_eq!(records.copied(&log).await, (240, 0));
    assert!(batch.verify(&log).await.unwrap().violations(false).is_empty());
    let failed = batch.failed(&log, 100).await.unwrap();
    let said = |error: &str| failed.iter().filter(|row| row.error == error).count();
    assert_eq!((said("never"), said("for good")), (30, 30));
    let calls = calls.lock().unwrap().clone();
    // A row may be called once more if it was not the first of its transaction.
    assert!((5..=10).contains(&calls[&12]), "{}", calls[&12]);
    assert!(calls[&13] <= 2 && calls[&14] <= 2, "{} {}", calls[&13], calls[&14]);
}

async fn an_endpoint_that_is_down_fails_no_row(db: Db) {
    let log = db.log().await;
    let (up, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (is_up, called) = (Arc::clone(&up), Arc::clone(&calls));
    let records = Records::new(&db, &log, 1..=2_000).await.hook(move |_| {
        called.fetch_add(1, Ordering::SeqCst);
        match is_up.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(HandlerError::new("connection refused")),
        }
    });
    let batch = records.batch().batch_size(20).workers(2);
    let wait = Duration::from_millis(300);
    let batch = batch.retry(Retry::default().first(wait).longest(wait).attempts(10_000));
    let (running, log_of, handler) = (batch.clone(), log.clone(), records.clone());
    let run = tokio::spawn(async move { running.run(&log_of, handler).await });
    until("many calls", async || (calls.load(Ordering::SeqCst) > 1_000).then_some(())).await;
    let claimed = number(&log, &format!("SELECT count(*) FROM {}", records.log_table)).await;
    assert!(claimed < 400, "{claimed} rows are claimed while nothing works");
    up.store(true, Ordering::SeqCst);
    let summary = run.await.unwrap().unwrap();
    assert_eq!((summary.succeeded, summary.failed), (2_000, 0));
    assert_eq!(records.copied(&log).await, (2_000, 0));
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
}

async fn rows_that_wait_for_another_attempt_are_given_back(db: Db) {
    let log = db.log().await;
    let (up, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (is_up, called) = (Arc::clone(&up), Arc::clone(&calls));
    let records = Records::new(&db, &log, 1..=500).await.hook(move |_| {
        called.fetch_add(1, Ordering::SeqCst);
        match is_up.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(HandlerError::try_after(Duration::from_secs(3_600), "503")),
        }
    });
    let batch = records.batch().batch_size(50).retry(Retry::outside());
    let told = async move {
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let stopped = batch.run_until(&log, records.clone(), told);
    let stopped = tokio::time::timeout(Duration::from_secs(60), stopped).await;
    let stopped = stopped.expect("it waits for nobody").unwrap();
    assert_eq!((stopped.succeeded, stopped.failed), (0, 0));
    up.store(true, Ordering::SeqCst);
    let summary = batch.run(&log, records.clone()).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed), (500, 0), "nothing is left claimed");
    assert_eq!(records.copied(&log).await, (500, 0));
}

async fn a_crash_between_attempts_loses_no_row_and_doubles_none(db: Db) {
    let log = db.log().await;
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let tried = Arc::clone(&attempts);
    let records = Records::new(&db, &log, 1..=100).await.hook(move |record| {
        if record.key() != "50" || is_up.load(Ordering::SeqCst) {
            return Ok(());
        }
        tried.lock().unwrap().push(record.attempt());
        Err(HandlerError::new("not yet"))
    });
    let seen = Arc::new(AtomicU32::new(0));
    let watched = Arc::clone(&seen);
    let retry = quick().attempts(u32::MAX);
    let batch = records.batch().workers(1).lease(Duration::from_millis(500)).retry(retry);
    let observed = batch.clone().on_progress(move |progress| {
        watched.fetch_max(progress.waiting as u32, Ordering::SeqCst);
    });
    let (log_of, handler) = (db.log().await, records.clone());
    let run = tokio::spawn(async move { observed.run(&log_of, handler).await });
    // The others go on meanwhile.
    until("99 rows", async || (records.copied(&log).await == (99, 0)).then_some(())).await;
    until("the row waits", async || (seen.load(Ordering::SeqCst) == 1).then_some(())).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    up.store(true, Ordering::SeqCst);
    let summary = batch.run(&log, records.clone()).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed, summary.retried), (1, 0, 0));
    assert_eq!(records.copied(&log).await, (100, 0));
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
    let attempts = attempts.lock().unwrap().clone();
    assert_eq!(attempts[..3], [1, 2, 3], "a handler knows which attempt it is");
}

async fn what_the_database_refuses_is_tried_again_and_counted(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=100).await;
    let unique = format!("CREATE UNIQUE INDEX {0}_once ON {0} (id)", records.copy);
    query(&log, &unique, vec![]).await;
    query(&log, &format!("INSERT INTO {} VALUES ('42', 'there')", records.copy), vec![]).await;
    let batch = records.batch().retry(quick().attempts(4));
    let summary = batch.run(&log, records.clone()).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed, summary.retried), (99, 1, 3));
    let failed = batch.failed(&log, 10).await.unwrap();
    assert_eq!((failed[0].key.as_str(), failed[0].attempts), ("42", 4));
    // It passes while it waits.
    let (running, log_of, handler) = (batch.clone(), db.log().await, records.clone());
    let patient = running.retry_failed(true).retry(quick().attempts(u32::MAX));
    let run = tokio::spawn(async move { patient.run(&log_of, handler).await });
    let claimed = format!("SELECT count(*) FROM {} WHERE state = 'claimed'", records.log_table);
    until("it is claimed", async || (number(&log, &claimed).await == 1).then_some(())).await;
    query(&log, &format!("DELETE FROM {} WHERE body = 'there'", records.copy), vec![]).await;
    assert_eq!(run.await.unwrap().unwrap().succeeded, 1);
    assert_eq!(records.copied(&log).await, (100, 0));
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
}

//! What a job is of: another source or key under its name is refused, by a run and by the proof.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::batch::{Batch, BatchError, Source, Summary};
use anabranch::prelude::*;

on_both!(
    another_source_or_key_under_the_same_job_is_refused,
    a_refused_run_stores_nothing,
    one_table_under_several_names_is_one_source,
    instances_that_start_together_agree_on_one_source,
    a_job_from_before_is_adopted_by_the_first_run,
    a_source_that_changed_is_taken_once_it_is_accepted,
);

/// Two tables with the same keys, and a second key in the other one.
async fn two(db: &Db, log: &Log) -> (Records, Records) {
    let orders = Records::new(db, log, 1..=30).await;
    let own = "id BIGINT NOT NULL PRIMARY KEY, nr BIGINT NOT NULL UNIQUE";
    let invoices = Records::with_key(db, log, "invoices", own, []).await;
    let (from, to) = (&orders.source, &invoices.source);
    query(log, &format!("INSERT INTO {to} SELECT id, id + 5, body FROM {from}"), vec![]).await;
    (orders, invoices)
}

/// A job over a table, in the log of the first records.
fn mail(records: &Records, source: Source) -> Batch {
    Batch::new("mail", source).log_table(&records.log_table)
}

async fn ran(log: &Log, batch: &Batch, records: &Records) -> Summary {
    batch.run(log, records.clone()).await.unwrap()
}

/// What each way to use a batch says, if all of them are refused.
async fn refused(log: &Log, batch: &Batch, records: &Records) -> String {
    let ways = [
        batch.run(log, records.clone()).await.map(drop),
        batch.verify(log).await.map(drop),
        batch.failed(log, 10).await.map(drop),
    ];
    let said = ways.map(|way| match way {
        Err(error @ BatchError::Refused { .. }) => error.to_string(),
        other => panic!("it is not refused: {other:?}"),
    });
    said.join("\n")
}

async fn another_source_or_key_under_the_same_job_is_refused(db: Db) {
    let log = db.log().await;
    let (orders, invoices) = two(&db, &log).await;
    let first = mail(&orders, Source::table(&orders.source, "id"));
    assert_eq!(ran(&log, &first, &orders).await.succeeded, 30);
    let other = mail(&orders, Source::table(&invoices.source, "id"));
    let said = refused(&log, &other, &invoices).await;
    let wanted = [&orders.source, &invoices.source, "`id`", "another --job"];
    assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
    // Under a job of its own it runs, and then the other key is refused.
    let own = |key: &str| {
        Batch::new("own", Source::table(&invoices.source, key)).log_table(&orders.log_table)
    };
    assert_eq!(ran(&log, &own("id"), &invoices).await.succeeded, 30);
    let said = refused(&log, &own("nr"), &invoices).await;
    assert!(said.contains("`id`") && said.contains("`nr`"), "{said}");
    assert_eq!(invoices.copied(&log).await, (30, 0));
    // A query over the table is another source.
    let select = format!("SELECT * FROM {}", orders.source);
    let select = mail(&orders, Source::query(&select, "id")).assume_unique();
    let said = refused(&log, &select, &orders).await;
    assert!(said.contains("SELECT * FROM"), "{said}");
    // And what is stored goes on.
    assert_eq!(ran(&log, &first, &orders).await.succeeded, 0);
    assert!(first.verify(&log).await.unwrap().violations(true).is_empty());
    assert!(first.failed(&log, 10).await.unwrap().is_empty());
}

async fn a_refused_run_stores_nothing(db: Db) {
    let log = db.log().await;
    let (orders, invoices) = two(&db, &log).await;
    let wrong = mail(&orders, Source::table(&invoices.source, "body"));
    assert!(wrong.run(&log, orders.clone()).await.is_err());
    // Neither does a look at a job that never ran.
    let look = mail(&orders, Source::table(&invoices.source, "id"));
    assert_eq!(look.verify(&log).await.unwrap().missing, 30);
    let right = mail(&orders, Source::table(&orders.source, "id"));
    assert_eq!(ran(&log, &right, &orders).await.succeeded, 30);
}

async fn one_table_under_several_names_is_one_source(db: Db) {
    let log = db.log().await;
    let orders = Records::new(&db, &log, 1..=30).await;
    let plain = mail(&orders, Source::table(&orders.source, "id"));
    assert_eq!(ran(&log, &plain, &orders).await.succeeded, 30);
    let names = match log.store().database().dialect().name() {
        "postgres" => [("public.", "", "id"), ("", "", "id")],
        _ => [("main.", "", "ID"), ("MAIN.", "UPPER", "Id")],
    };
    for (schema, spelling, key) in names {
        let name = match spelling {
            "UPPER" => orders.source.to_uppercase(),
            _ => orders.source.clone(),
        };
        let same = mail(&orders, Source::table(format!("{schema}{name}"), key));
        assert_eq!(ran(&log, &same, &orders).await.succeeded, 0);
        assert!(same.verify(&log).await.unwrap().violations(true).is_empty());
    }
}

async fn instances_that_start_together_agree_on_one_source(db: Db) {
    let log = db.log().await;
    let (orders, invoices) = two(&db, &log).await;
    let mut running = Vec::new();
    for records in [&orders, &invoices, &orders, &invoices] {
        let (log, records) = (db.log().await, records.clone());
        let batch = mail(&orders, Source::table(&records.source, "id"));
        running.push(tokio::spawn(async move { batch.run(&log, records).await }));
    }
    let mut outcomes = Vec::new();
    for instance in running {
        outcomes.push(instance.await.unwrap());
    }
    for (same, other) in [(0, 2), (1, 3)] {
        assert_eq!(outcomes[same].is_ok(), outcomes[other].is_ok(), "{outcomes:?}");
    }
    assert_ne!(outcomes[0].is_ok(), outcomes[1].is_ok(), "{outcomes:?}");
    let (done, other) = (orders.copied(&log).await.0, invoices.copied(&log).await.0);
    assert_eq!((done.max(other), done.min(other)), (30, 0));
}

async fn a_job_from_before_is_adopted_by_the_first_run(db: Db) {
    let log = db.log().await;
    let (orders, invoices) = two(&db, &log).await;
    let batch = mail(&orders, Source::table(&orders.source, "id"));
    assert_eq!(ran(&log, &batch.clone().limit(10), &orders).await.succeeded, 10);
    query(&log, &format!("DROP TABLE {}_jobs", orders.log_table), vec![]).await;
    // A look does not adopt it.
    assert_eq!(batch.verify(&log).await.unwrap().succeeded, 10);
    assert_eq!(ran(&log, &batch, &orders).await.succeeded, 20);
    let other = mail(&orders, Source::table(&invoices.source, "id"));
    refused(&log, &other, &invoices).await;
}

async fn a_source_that_changed_is_taken_once_it_is_accepted(db: Db) {
    let log = db.log().await;
    let (orders, invoices) = two(&db, &log).await;
    let of = |most: i64| {
        let select = format!("SELECT id, body FROM {} WHERE id <= {most}", orders.source);
        mail(&orders, Source::query(select, "id")).assume_unique()
    };
    assert_eq!(ran(&log, &of(20), &orders).await.succeeded, 20);
    let said = refused(&log, &of(25), &orders).await;
    let wanted = ["id <= 20", "id <= 25", "--accept-source"];
    assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
    // Only a run accepts it.
    let accepting = of(25).accept_source(true);
    assert!(accepting.verify(&log).await.is_err());
    assert_eq!(ran(&log, &accepting, &orders).await.succeeded, 5);
    assert!(of(25).verify(&log).await.unwrap().violations(true).is_empty());
    refused(&log, &of(20), &orders).await;
    // A table that takes the place of the query has the same keys; another key has not.
    let table = mail(&orders, Source::table(&orders.source, "id")).accept_source(true);
    assert_eq!(ran(&log, &table, &orders).await.succeeded, 5);
    let other = mail(&orders, Source::table(&invoices.source, "nr")).accept_source(true);
    let said = refused(&log, &other, &invoices).await;
    assert!(said.contains("`nr`") && !said.contains("--accept-source"), "{said}");
    assert_eq!(orders.copied(&log).await, (30, 0));
}

//! Rows that are taken over from a log of somebody else, while instances run.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::batch::{BatchError, Finished};

on_both!(an_import_beside_instances_takes_over_all_or_nothing,);

/// Each row is handled or imported, and none both, however they meet.
async fn an_import_beside_instances_takes_over_all_or_nothing(db: Db) {
    let log = db.log().await;
    for (round, before) in [0, 40, 150, 290].into_iter().enumerate() {
        let name = format!("import{round}");
        let records = Records::with_key(&db, &log, &name, "id BIGINT PRIMARY KEY", 1..=300).await;
        let theirs = db.table(&format!("theirs{round}"));
        query(&log, &format!("CREATE TABLE {theirs} (id BIGINT)"), vec![]).await;
        let done = format!("INSERT INTO {theirs} SELECT id FROM {} WHERE id > 100", records.source);
        query(&log, &done, vec![]).await;
        let batch = records.batch().batch_size(10).workers(2);
        let running = {
            let (batch, records, log) = (batch.clone(), records.clone(), db.log().await);
            tokio::spawn(async move { batch.run(&log, records).await })
        };
        until("some are done", async || (records.copied(&log).await.0 >= before).then_some(()))
            .await;
        let imported = match batch.import(&log, &Finished::new(&theirs, "id", "1 = 1")).await {
            Ok(imported) => {
                assert_eq!((imported.rows, imported.imported, imported.already), (200, 200, 0));
                200
            }
            Err(BatchError::Refused { problem, .. }) => {
                assert!(problem.contains("of its keys have an entry"), "{problem}");
                0
            }
            Err(other) => panic!("{other}"),
        };
        running.await.unwrap().unwrap();
        assert_eq!(records.copied(&log).await, (300 - imported, 0), "round {round}");
        let verified = batch.verify(&log).await.unwrap();
        assert!(verified.violations(true).is_empty(), "{:?}", verified.violations(true));
        assert_eq!(verified.succeeded, 300);
    }
}

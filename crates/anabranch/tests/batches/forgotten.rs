//! A claim whose answer was lost with its connection: the instance has it and does not know.

use crate::on_both;
use crate::records::Records;
use crate::support::*;
use anabranch::batch::{Record, RowHandler};
use anabranch::prelude::*;

on_both!(a_claim_that_nobody_knows_of_is_handled);

/// Copies; with the first row it also claims the last one, behind the back of its own instance.
struct Forgetful(Records);

impl RowHandler for Forgetful {
    async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        if record.key() == "1" {
            let log = &self.0.log_table;
            let claim = format!(
                "INSERT INTO {log} (job, key, state, session, part, attempts, claimed_us) \
                 SELECT job, '300', state, session, part, 0, claimed_us FROM {log} WHERE key = '1'"
            );
            tx.execute(claim, vec![]).await?;
        }
        self.0.handle(record, tx).await
    }
}

async fn a_claim_that_nobody_knows_of_is_handled(db: Db) {
    let log = db.log().await;
    let records = Records::new(&db, &log, 1..=300).await;
    let batch = records.batch().workers(1).batch_size(10);
    let summary = batch.run(&log, Forgetful(records.clone())).await.unwrap();
    assert_eq!((summary.succeeded, summary.failed, summary.lost), (300, 0, 0));
    assert_eq!(records.copied(&log).await, (300, 0));
    assert!(batch.verify(&log).await.unwrap().violations(true).is_empty());
}

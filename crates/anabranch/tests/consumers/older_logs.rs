//! A program that only looks takes a log of an older schema as it is, and shows what that has room for.

use crate::fail_apart::{quick, until_tried};
use crate::gates::table_of;
use crate::on_both;
use crate::support::{Db, fill, query, start};
use anabranch::HandlerError;
use anabranch::Options;
use anabranch::operate::Consumers;
use anabranch::prelude::*;

on_both! {
    a_log_of_schema_6_shows_outages,
}

/// It knows outages and who runs what, and no permits.
async fn a_log_of_schema_6_shows_outages(db: Db) {
    let log = db.log().await;
    fill(&log, 0..120, 1..=1).await;
    let bad = db.recorder("bad").hook(|_| Err(HandlerError::new("the endpoint is away")));
    let running = start(&log, ReplicaSet::new("s").tuning(quick()).projection(bad));
    until_tried(&log, "bad", 1).await;
    let permits = table_of(&log, "permits");
    query(&log, &format!("DROP TABLE {permits}"), vec![]).await;
    let migrations = table_of(&log, "migrations");
    query(&log, &format!("DELETE FROM {migrations} WHERE version > 6"), vec![]).await;
    let namespace = db.options.namespace.clone();
    let options = Options { namespace, migrate: false, take_older: true, ..Options::default() };
    let old = anabranch::connect_with(&db.url, &options).await.unwrap();
    let consumers = Consumers::new(&old);
    let status = consumers.status("bad").await.unwrap();
    assert!(status.outage.unwrap().error.contains("the endpoint is away"));
    assert_eq!(status.runners.len(), 1);
    running.stop().await;
    consumers.resume("bad").await.unwrap();
    assert!(
        consumers.status("bad").await.unwrap().outage.is_none(),
        "resume tries again there too"
    );
}

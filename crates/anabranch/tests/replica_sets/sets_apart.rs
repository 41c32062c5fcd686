//! Several replica sets in one process: one that fails, hangs or rescales never touches the other.

use crate::crew::*;
use crate::on_both;
use crate::on_postgres;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::{Failure, HandlerError, Retry};

on_both! {
    a_set_that_fails_leaves_the_other_alone,
    a_set_that_rescales_leaves_the_other_alone,
}

on_postgres! {
    a_set_that_uses_up_its_sessions_leaves_the_other_alone,
}

async fn a_set_that_fails_leaves_the_other_alone(db: Db) {
    let log = db.log().await;
    let good = db.recorder("critical");
    let table = good.table.clone();
    let stop = Settings::default().retry(Retry::never().then(Failure::Stop));
    let bad =
        db.recorder("analytics").settings(stop).hook(|_| Err(HandlerError::new("it is broken")));
    let critical = start(&log, ReplicaSet::new("critical").projection(good));
    let analytics = start(&log, ReplicaSet::new("analytics").projection(bad).fail_fast());
    fill(&log, 0..10, 1..=5).await;
    let error = analytics.ended().await.unwrap_err();
    assert!(error.to_string().contains("it is broken"), "{error}");
    fill(&log, 0..10, 6..=9).await;
    until_proven(&log, &table, 10, 9).await;
    let generations = generations(&log).await;
    let of_critical = generations.iter().filter(|each| each.replica_set == "critical").count();
    assert_eq!(of_critical, 1, "{generations:?}");
    critical.stop().await;
}

async fn a_set_that_rescales_leaves_the_other_alone(db: Db) {
    let log = db.log().await;
    let (critical, analytics) = (db.recorder("critical"), db.recorder("analytics"));
    let tables = [critical.table.clone(), analytics.table.clone()];
    let appender = Appender::start(&log);
    let set = ReplicaSet::new("critical").projection(critical).lanes(2);
    let critical = start(&log, set.lease(LONG_LEASE));
    let join = async || {
        let set = ReplicaSet::new("analytics").projection(analytics.clone());
        start(&db.log().await, set.lease(LONG_LEASE))
    };
    let one = join().await;
    until_shared(&log, "critical", 1).await;
    let epochs = async || -> Vec<i64> {
        status(&log, "critical").await.cursors.iter().map(|cursor| cursor.epoch).collect()
    };
    let before = epochs().await;
    for _ in 0..3 {
        let two = join().await;
        until_shared(&log, "analytics", 2).await;
        two.stop().await;
        until_shared(&log, "analytics", 1).await;
    }
    assert_eq!(before, epochs().await, "nothing of it has changed hands");
    let each = appender.finish().await;
    for table in &tables {
        until_proven(&log, table, Appender::STREAMS, each).await;
    }
    critical.stop().await;
    one.stop().await;
}

/// All sessions of one set are in the hands of handlers that wait for a lock.
async fn a_set_that_uses_up_its_sessions_leaves_the_other_alone(db: Db) {
    let log = db.log().await;
    let (critical, analytics) = (db.recorder("critical"), db.recorder("analytics"));
    let (table, blocked_table) = (critical.table.clone(), analytics.table.clone());
    let lanes = db.options.sessions + 4;
    let analytics = start(&log, ReplicaSet::new("analytics").projection(analytics).lanes(lanes));
    until_shared(&log, "analytics", 1).await;
    let other = db.log().await;
    let held = crate::gates::hold(&other, format!("LOCK TABLE {blocked_table}")).await;
    fill(&log, 0..200, 1..=1).await;
    let name = db.own.clone();
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
         AND query LIKE '%{name}%' AND pid <> pg_backend_pid()"
    );
    let sessions = db.options.sessions as i64;
    until("all sessions blocked", async || {
        (number(&other, &waiting).await >= sessions).then_some(())
    })
    .await;
    // Started only now: all that it needs is its own.
    let critical = start(&log, ReplicaSet::new("critical").projection(critical));
    until_shared(&log, "critical", 1).await;
    until_proven(&log, &table, 200, 1).await;
    drop(held);
    until_proven(&log, &blocked_table, 200, 1).await;
    critical.stop().await;
    analytics.stop().await;
}

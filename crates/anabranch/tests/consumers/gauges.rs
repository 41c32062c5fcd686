//! What metrics and autoscalers read: it says what a status says, and is never a guess.

use crate::gates::{never, table_of};
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::backend::database::{End, Statement};
use anabranch::operate::{Consumers, Gauges, GaugesOf, Import};
use anabranch::prelude::*;
use anabranch::{FixedPartition, HandlerError};
use std::time::Duration;

on_both! {
    a_consumer_that_is_behind_with_split_cursors,
    caught_up_parked_retrying_and_paused,
    workers_show_what_they_own_and_dead_ones_are_seen,
    what_nobody_can_tell_is_null,
    the_age_is_that_of_the_first_event_that_is_not_passed,
}

on_postgres!(a_scrape_scans_neither_events_nor_tasks);

/// What the view says: all, ready, and the age in milliseconds.
async fn seen(log: &Log, consumer: &str) -> (Option<i64>, Option<i64>, Option<i64>) {
    let view = table_of(log, "lag");
    let select = format!(
        "SELECT CAST(events AS BIGINT), CAST(ready_events AS BIGINT), CAST(seconds * 1000 AS BIGINT) \
         FROM {view} WHERE consumer = '{consumer}'"
    );
    let rows = query(log, &select, vec![]).await;
    let row = rows.first().unwrap();
    (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap())
}

async fn gauges(log: &Log) -> Gauges {
    Consumers::new(log).gauges(GaugesOf::All).await.unwrap()
}

/// View, gauges and status say the same, which is returned.
async fn agreed(log: &Log, consumer: &str) -> (u64, u64) {
    let status = status(log, consumer).await;
    let (all, ready, _) = seen(log, consumer).await;
    let wanted = (status.lag, status.lag_ready);
    assert_eq!((all.unwrap() as u64, ready.unwrap() as u64), wanted, "the view");
    let gauges = gauges(log).await;
    let found = gauges.consumers.iter().find(|one| one.consumer == consumer).unwrap();
    assert_eq!((found.lag_events.unwrap(), found.lag_ready_events.unwrap()), wanted, "gauges");
    let parked = (status.parked_keys as u64, status.parked_events);
    assert_eq!((found.parked_keys, found.parked_events), parked);
    wanted
}

async fn a_consumer_that_is_behind_with_split_cursors(db: Db) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=5).await;
    let import = Import::new("orders").partitions(3);
    import.checkpoint(0, 10).checkpoint(1, 70).checkpoint(2, 40).apply(&log).await.unwrap();
    assert_eq!(agreed(&log, "orders").await, (90, 90));
    let seen = gauges(&log).await;
    assert_eq!(seen.consumers[0].slots_idle, [("unassigned", 5040)].into());
    assert_eq!(seen.consumers[0].slots_owned, 0);
}

async fn caught_up_parked_retrying_and_paused(db: Db) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=5).await;
    let later = Duration::from_secs(3_600);
    let hook = move |event: &Event| match event.stream_id() {
        "3" => Err(HandlerError::new("never")),
        "4" => Err(HandlerError::try_after(later, "not now")),
        _ => Ok(()),
    };
    let orders = db.recorder("orders").settings(never()).hook(hook);
    let half = FixedPartition::new(0, 2).unwrap();
    let _ = ReplicaSet::new("s").projection(orders.clone()).partition(half).catch_up(&log).await;
    // One half has passed what it has set aside, the other stands at the beginning.
    assert_eq!(agreed(&log, "orders").await.0, 100);
    left_by(ReplicaSet::new("s").projection(orders).lanes(2), &log).await;
    let (all, ready) = agreed(&log, "orders").await;
    assert!(all > ready, "{all} and {ready}: something is parked");
    assert_eq!(seen(&log, "orders").await.2, Some(0), "what is parked has no age");
    Consumers::new(&log).pause("orders").await.unwrap();
    fill(&log, 30..40, 1..=1).await;
    assert_eq!(agreed(&log, "orders").await, (all + 10, ready + 10));
    assert_eq!(gauges(&log).await.consumers[0].slots_idle, [("paused", 5040)].into());
    Consumers::new(&log).resume("orders").await.unwrap();
    let plain = db.recorder("plain");
    ReplicaSet::new("t").projection(plain).catch_up(&log).await.unwrap();
    assert_eq!(agreed(&log, "plain").await, (0, 0));
}

async fn workers_show_what_they_own_and_dead_ones_are_seen(db: Db) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=5).await;
    let worker = start(&log, ReplicaSet::new("s").projection(db.recorder("orders")).lanes(2));
    let owned = async || {
        let seen = gauges(&log).await;
        (seen.consumers.first()?.slots_owned == 5040).then_some(seen)
    };
    let seen = until("all slots are owned", owned).await;
    assert_eq!((seen.sets.len(), seen.sets[0].workers), (1, 1));
    assert!(seen.sets[0].generation > 0);
    until("all is done", async || (status(&log, "orders").await.lag == 0).then_some(())).await;
    let table = table_of(&log, "workers");
    let rows = query(&log, &format!("SELECT id FROM {table}"), vec![]).await;
    let ids: Vec<String> = rows.iter().map(|row| row.get(0).unwrap()).collect();
    let of = |ids: Vec<String>| async {
        let ids = ids;
        Consumers::new(&log).gauges(GaugesOf::Workers(&ids)).await.unwrap()
    };
    let own = of(ids).await;
    assert_eq!((own.consumers[0].slots_owned, own.consumers[0].lag_events), (5040, Some(0)));
    assert_eq!((own.consumers[0].lag_seconds, own.sets.len()), (Some(0.0), 1));
    assert_eq!(of(vec!["nobody".to_owned()]).await, Gauges::default());
    worker.crash();
    let end = format!("UPDATE {table} SET lease_us = 1 RETURNING 1");
    query(&log, &end, vec![]).await;
    let seen = gauges(&log).await;
    assert_eq!(seen.consumers[0].slots_idle, [("owner_dead", 5040)].into());
    assert_eq!((seen.consumers[0].slots_owned, seen.sets[0].workers), (0, 0));
}

async fn what_nobody_can_tell_is_null(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=2).await;
    ReplicaSet::new("s").projection(db.recorder("orders")).catch_up(&log).await.unwrap();
    let (cursors, consumers) = (table_of(&log, "cursors"), table_of(&log, "consumers"));
    let other = "00000000-0000-4000-8000-000000000001";
    for (change, back, reason) in [
        (
            format!("UPDATE {cursors} SET position = 900 RETURNING 1"),
            format!("UPDATE {cursors} SET position = 10 RETURNING 1"),
            "beyond_log",
        ),
        (
            format!("UPDATE {consumers} SET wound_back = 'it was' RETURNING 1"),
            format!("UPDATE {consumers} SET wound_back = NULL RETURNING 1"),
            "wound_back",
        ),
        (
            format!("UPDATE {consumers} SET log_identity = '{other}' RETURNING 1"),
            format!("UPDATE {consumers} SET log_identity = NULL RETURNING 1"),
            "other_log",
        ),
    ] {
        query(&log, &change, vec![]).await;
        assert!(!status(&log, "orders").await.is_lag_known(), "{reason}");
        assert_eq!(seen(&log, "orders").await, (None, None, None), "{reason}");
        let gauges = gauges(&log).await;
        let orders = &gauges.consumers[0];
        let known = (orders.lag_events, orders.lag_ready_events, orders.lag_seconds);
        assert_eq!(known, (None, None, None), "{reason}");
        assert_eq!(orders.slots_idle, [(reason, 5040)].into());
        query(&log, &back, vec![]).await;
        assert_eq!(agreed(&log, "orders").await, (0, 0), "{reason}");
    }
}

async fn the_age_is_that_of_the_first_event_that_is_not_passed(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=3).await;
    Import::new("orders").partitions(1).checkpoint(0, 1).apply(&log).await.unwrap();
    let events = table_of(&log, "events");
    let now = log.store().database().dialect().now_us();
    let aged = match log.store().database().dialect().name() {
        "postgres" => "recorded_at = now() - interval '100 s'".to_owned(),
        _ => format!("recorded_us = {now} - 100000000"),
    };
    let age = format!("UPDATE {events} SET {aged} WHERE position = 2 RETURNING 1");
    query(&log, &age, vec![]).await;
    let (_, _, ms) = seen(&log, "orders").await;
    assert!((100_000..160_000).contains(&ms.unwrap()), "{ms:?}");
    let seconds = gauges(&log).await.consumers[0].lag_seconds.unwrap();
    assert!((100.0..160.0).contains(&seconds), "{seconds}");
    // Not that of one which it has passed.
    let cursors = table_of(&log, "cursors");
    query(&log, &format!("UPDATE {cursors} SET position = 2 RETURNING 1"), vec![]).await;
    let (_, _, ms) = seen(&log, "orders").await;
    assert!((0..60_000).contains(&ms.unwrap()), "{ms:?}");
}

async fn a_scrape_scans_neither_events_nor_tasks(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=10).await;
    Import::new("orders").partitions(1).checkpoint(0, 10).apply(&log).await.unwrap();
    let tasks = table_of(&log, "tasks");
    let insert = format!(
        "INSERT INTO {tasks} (id, pool, key, slot, state, due_us, payload, enqueued_us) \
         SELECT gen_random_uuid(), 'mail', n::text, 7, 0, 0, 'null', 1 FROM generate_series(1, 5000) AS n \
         RETURNING 1"
    );
    query(&log, &insert, vec![]).await;
    let consumers = table_of(&log, "consumers");
    let pool = format!(
        "INSERT INTO {consumers} (name, kind, strategy, version, slots) \
         SELECT 'mail', 'pool', strategy, version, slots FROM {consumers} RETURNING 1"
    );
    query(&log, &pool, vec![]).await;
    for table in ["events", "tasks"] {
        let analyze = Statement::new(format!("ANALYZE {}", table_of(&log, table)), vec![]);
        log.database().begin().run(vec![analyze], End::Commit).await.unwrap();
    }
    let (lag, ages) = (table_of(&log, "lag"), table_of(&log, "cursor_ages"));
    let (end, counts) = (table_of(&log, "log_end"), table_of(&log, "task_counts"));
    for read in [
        format!("SELECT * FROM {lag}"),
        format!("SELECT ready_events FROM {lag} WHERE consumer = 'orders'"),
        format!("SELECT * FROM {ages}"),
        format!("SELECT * FROM {end}"),
        format!("SELECT pool, state, sum(delta) FROM {counts} GROUP BY pool, state"),
    ] {
        let rows = query(&log, &format!("EXPLAIN {read}"), vec![]).await;
        let lines: Vec<String> = rows.iter().map(|row| row.get(0).unwrap()).collect();
        let is_scan = |line: &&String| {
            line.contains("Seq Scan on events ") || line.contains("Seq Scan on tasks ")
        };
        assert_eq!(lines.iter().find(is_scan), None, "{read}: {lines:#?}");
    }
    assert_eq!(seen(&log, "mail").await.1, Some(5_000));
}

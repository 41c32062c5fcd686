//! What is where, and that all of it is handled once and in order.

use crate::crew::{Appender, until_proven, until_shared};
use crate::on_all_pairs;
use crate::pair::*;
use crate::support::*;
use anabranch::events::{EngineEvent, Happening};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::workpool::Tasks;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

on_all_pairs! {
    events_are_in_one_database_and_all_else_in_the_other,
    all_events_are_handled_once_and_in_order_by_workers_that_come_and_go,
    a_worker_is_woken_by_an_append_to_the_log,
    parked_events_are_read_from_the_log,
    operators_are_told_of_the_log,
    the_home_of_a_home_is_where_consumers_are,
    observers_of_both_see_what_happens,
}

async fn rows(database: &Log, table: &str) -> i64 {
    let table = database.store().database().dialect().table(table);
    number(database, &format!("SELECT count(*) FROM {table}")).await
}

async fn events_are_in_one_database_and_all_else_in_the_other(pair: Pair) {
    let log = pair.log().await;
    assert!(log.is_apart());
    fill(&log, 0..10, 1..=20).await;
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 10, 20).await;
    let (events, home) = (pair.events.log().await, pair.home.log().await);
    assert_eq!((rows(&events, "events").await, rows(&home, "events").await), (200, 0));
    for table in ["consumers", "cursors", "generations"] {
        assert_eq!(rows(&events, table).await, 0, "{table}");
        assert!(rows(&home, table).await > 0, "{table}");
    }
    let anchors = home.database().dialect().table("cursors");
    let last = log.read(Query::all()).backwards().limit(1).collect().await.unwrap().remove(0);
    let sql = format!("SELECT anchor_position, anchor_id, anchor_recorded_us FROM {anchors}");
    for row in query(&home, &sql, vec![]).await {
        assert_eq!(row.get::<Position>(0).unwrap(), last.position());
        assert_eq!(row.get::<uuid::Uuid>(1).unwrap(), last.id());
        assert_eq!(row.get::<i64>(2).unwrap(), last.recorded_us());
    }
}

async fn all_events_are_handled_once_and_in_order_by_workers_that_come_and_go(pair: Pair) {
    let log = pair.log().await;
    let appender = Appender::start(&log);
    let mut crew = Vec::new();
    for count in 1..=3 {
        crew.push(start(&pair.log().await, pair.set()));
        until_shared(&log, "orders", count).await;
    }
    // One is gone at once, another in peace.
    crew.remove(0).crash();
    crew.remove(0).stop().await;
    crew.push(start(&pair.log().await, pair.set()));
    let each = appender.finish().await;
    until_proven(&log, &pair.recorder().table, Appender::STREAMS, each).await;
    for worker in crew {
        worker.stop().await;
    }
    pair.is_whole(&log, Appender::STREAMS as i64, each as i64).await;
}

async fn a_worker_is_woken_by_an_append_to_the_log(pair: Pair) {
    let log = pair.log().await;
    // It would look by itself too late for this case.
    let poll = anabranch::Tuning::default().poll(PATIENCE * 10);
    let worker = start(&pair.log().await, pair.set().tuning(poll));
    fill(&log, 0..1, 1..=1).await;
    let table = pair.recorder().table;
    until("its first event", async || {
        let consumers = Consumers::new(&log).list().await.unwrap();
        let handled = consumers.first()?.lag == 0 && consumers[0].head.get() == 1;
        (handled && proof(&log, &table).await.handled == 1).then_some(())
    })
    .await;
    for number in 2..=10 {
        fill(&log, 0..1, number..=number).await;
        let all = number as i64;
        until("the next", async || (proof(&log, &table).await.handled == all).then_some(())).await;
    }
    worker.stop().await;
}

async fn parked_events_are_read_from_the_log(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    let broken = |event: &Event| match event.stream_id() == "2" {
        true => Err(HandlerError::for_good("no")),
        false => Ok(()),
    };
    let set = ReplicaSet::new("s").projection(pair.recorder().hook(broken)).lanes(2);
    assert_eq!(left_by(set, &log).await.parked_keys, 1);
    let consumers = Consumers::new(&log);
    let behind = consumers.parked_events("orders", "Order:2", 10).await.unwrap();
    assert_eq!(behind.len(), 5);
    consumers.retry_parked("orders", "Order:2").await.unwrap();
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 5).await;
}

async fn operators_are_told_of_the_log(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    pair.set().catch_up(&log).await.unwrap();
    fill(&log, 0..4, 6..=6).await;
    let standing = status(&log, "orders").await;
    assert_eq!((standing.head, standing.lag), (log.head().await.unwrap(), 4));
    let tasks = Tasks::new(&log, "mails");
    let task = tasks.enqueue(anabranch::workpool::NewTask::new("a", &1)).await.unwrap().id;
    let at_home = Tasks::new(&pair.home.log().await, "mails");
    assert!(at_home.status(task).await.unwrap().is_some());
    assert_eq!(Consumers::new(&log).skip_to_head("orders").await.unwrap(), standing.head);
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 5).await;
}

/// A home that has one itself: its consumers are where they are for all.
async fn the_home_of_a_home_is_where_consumers_are(pair: Pair) {
    let between = Db::sqlite();
    let between = between.log().await.with_database(&pair.home.log().await).await.unwrap();
    let log = pair.events.log().await.with_database(&between).await.unwrap();
    assert_eq!(log.database().at(), pair.home.log().await.at());
    fill(&log, 0..4, 1..=5).await;
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 5).await;
    assert_eq!(rows(&pair.home.log().await, "consumers").await, 1);
    // The log itself, with the same home.
    let again = pair.events.log().await.with_database(&log).await.unwrap();
    assert!(again.is_apart());
    // What is the home of a log is not elsewhere for it.
    assert!(!pair.home.log().await.with_database(&log).await.unwrap().is_apart());
}

async fn observers_of_both_see_what_happens(pair: Pair) {
    let counts: [Arc<AtomicUsize>; 3] = Default::default();
    let observer = |number: usize| {
        let count = Arc::clone(&counts[number]);
        move |event: &EngineEvent| {
            let is_handled = matches!(event.what, Happening::BatchHandled { .. });
            count.fetch_add(usize::from(is_handled), Ordering::Relaxed);
        }
    };
    let events = pair.events.log().await.with_observer(observer(0));
    let home = pair.home.log().await.with_observer(observer(1));
    let log = events.with_database(&home).await.unwrap().with_observer(observer(2));
    fill(&log, 0..4, 1..=5).await;
    pair.set().catch_up(&log).await.unwrap();
    let seen = || counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    until("all of them", async || {
        let seen = seen();
        (seen[0] > 0 && seen.iter().all(|count| *count == seen[0])).then_some(())
    })
    .await;
}

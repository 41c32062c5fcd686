//! Databases that are away, appends in flight, and wakes that are lost.

use crate::crew::*;
use crate::on_postgres;
use crate::seen::Seen;
use crate::server::Server;
use crate::support::*;
use anabranch::events::{EngineEvent, Happening};
use anabranch::postgres::{Postgres, tokio_postgres};
use anabranch::prelude::*;
use anabranch::{Namespace, Tuning};
use std::time::Duration;

on_postgres! {
    an_append_in_flight_stalls_reading,
    a_wake_that_is_lost_is_found_by_a_poll,
}

fn of(event: &EngineEvent) -> String {
    let json = serde_json::to_value(event).unwrap();
    json["of"].as_str().unwrap_or_default().to_owned()
}

/// A real server that stops, and is started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_is_seen_by_all_who_need_it() {
    let mut server = Server::start(&[]);
    let db = Db::at(server.url());
    let seen = Seen::default();
    let log = db.log().await;
    let tuning = Tuning::default().lease(LONG_LEASE).heartbeat(Duration::from_millis(100));
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let set = ReplicaSet::new("s").projection(recorder).tuning(tuning).observer(seen.clone());
    let running = start(&log, set);
    fill(&log, 0..5, 1..=1).await;
    until("all of it", async || (seen.handled("orders") == 5).then_some(())).await;
    server.stop();
    let failed = seen.first("heartbeat_failed").await;
    let Happening::HeartbeatFailed { error, is_repeated, .. } = &failed.what else { panic!() };
    assert!(!error.is_empty() && !is_repeated && failed.worker.is_some(), "{failed:?}");
    // The feed is of the set, the listener is of the backend: it does not know for which set it works.
    for who in ["feed", "listener"] {
        until(who, async || {
            seen.of("outage_began").iter().any(|event| of(event) == who).then_some(())
        })
        .await;
    }
    until("more heartbeats", async || {
        let is_repeated = |event: &EngineEvent| {
            matches!(event.what, Happening::HeartbeatFailed { is_repeated: true, .. })
        };
        seen.of("heartbeat_failed").iter().any(is_repeated).then_some(())
    })
    .await;
    assert!(seen.of("outage_ended").is_empty());
    server.run();
    seen.first("heartbeat_recovered").await;
    for who in ["feed", "listener"] {
        until(who, async || {
            seen.of("outage_ended").iter().any(|event| of(event) == who).then_some(())
        })
        .await;
    }
    let ended = seen.of("outage_ended").remove(0);
    assert!(matches!(ended.what, Happening::OutageEnded { lasted: Some(_), .. }), "{ended:?}");
    fill(&log, 0..5, 2..=2).await;
    until_proven(&log, &table, 5, 2).await;
    running.stop().await;
}

async fn an_append_in_flight_stalls_reading(db: Db) {
    let log = db.log().await;
    let (mut client, connection) =
        tokio_postgres::connect(&db.url, tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let seen = Seen::default();
    let set = ReplicaSet::new("s").projection(db.recorder("orders")).observer(seen.clone());
    let running = start(&log, set);
    until("its slots", async || (!seen.of("slots_claimed").is_empty()).then_some(())).await;
    fill(&log, 0..1, 1..=1).await;
    until("the first event", async || (seen.handled("orders") == 1).then_some(())).await;
    let tx = client.transaction().await.unwrap();
    let stream = StreamId::new("Order", "slow").unwrap();
    let slow = Append::new().to(&stream, Expected::Any, [numbered(1)]);
    log.backend::<Postgres>().unwrap().append_in(&tx, slow).await.unwrap();
    fill(&log, 1..2, 1..=1).await;
    let stalled = seen.first("read_stalled").await;
    let Happening::ReadStalled { position, .. } = &stalled.what else { panic!() };
    assert_eq!((position.get(), stalled.consumer.as_deref()), (1, Some("orders")));
    assert_eq!(seen.handled("orders"), 1);
    tx.commit().await.unwrap();
    let resumed = seen.first("read_resumed").await;
    assert!(matches!(resumed.what, Happening::ReadResumed { after, .. } if after > Duration::ZERO));
    until("all of it", async || (seen.handled("orders") == 3).then_some(())).await;
    assert_eq!(seen.of("read_stalled").len(), 1, "once, however often it looks");
    running.stop().await;
    driver.abort();
}

/// What is stored by a program that does not tell: a copy of an event, by plain SQL.
async fn a_wake_that_is_lost_is_found_by_a_poll(db: Db) {
    let log = db.log().await;
    let seen = Seen::default();
    let tuning = Tuning::default().poll(Duration::from_millis(200));
    let set = ReplicaSet::new("s").projection(db.recorder("orders")).tuning(tuning);
    let running = start(&log, set.observer(seen.clone()));
    fill(&log, 0..1, 1..=1).await;
    until("the first event", async || (seen.handled("orders") == 1).then_some(())).await;
    assert!(seen.of("wake_missed").is_empty());
    let events = log.store().database().dialect().table("events");
    copy_first(&log, &db.options.namespace, &events).await;
    let missed = seen.first("wake_missed").await;
    assert!(matches!(missed.what, Happening::WakeMissed { events: 1, .. }), "{missed:?}");
    assert_eq!(missed.consumer.as_deref(), Some("orders"));
    running.stop().await;
}

async fn copy_first(log: &Log, namespace: &Namespace, events: &str) {
    let columns = format!(
        "SELECT string_agg(column_name, ', ') FROM information_schema.columns \
         WHERE table_schema = '{namespace}' AND table_name = 'events' \
         AND column_name NOT IN ('position', 'id', 'version')"
    );
    let rows = query(log, &columns, vec![]).await;
    let columns: String = rows[0].get(0).unwrap();
    let insert = format!(
        "INSERT INTO {events} (id, version, {columns}) \
         SELECT gen_random_uuid(), version + 1, {columns} FROM {events} LIMIT 1"
    );
    query(log, &insert, vec![]).await;
}

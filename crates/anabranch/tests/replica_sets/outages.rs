//! The server is away, or seems to be: workers wait, connect again, and go on where they were.

use crate::crew::*;
use crate::on_postgres;
use crate::proxy::Proxy;
use crate::support::*;
use anabranch::prelude::*;
use std::time::Duration;

on_postgres! {
    a_server_that_is_away_for_several_leases_is_waited_for,
    a_worker_behind_a_black_hole_is_taken_over_from_and_comes_back,
    a_black_hole_in_front_of_everybody_is_waited_for,
    answers_that_come_in_pieces_hold_up_nobody,
}

const LEASE: Duration = Duration::from_secs(1);
/// Several leases.
const AWAY: Duration = Duration::from_secs(4);

/// Two workers, each with a way of its own to the server, and events that come by another.
struct Outage {
    log: Log,
    table: String,
    ways: [Proxy; 2],
    workers: [Running; 2],
    appender: Appender,
}

impl Outage {
    async fn begin(db: &Db) -> Self {
        let log = db.log().await;
        let recorder = db.recorder("orders");
        let ways = [Proxy::before(&db.url).await, Proxy::before(&db.url).await];
        let start = async |name: &str, way: &Proxy| {
            let set = ReplicaSet::new("s").projection(recorder.clone().worker(name)).lanes(2);
            let log = anabranch::connect_with(&way.url, &db.options).await.unwrap();
            start(&log, set.lease(LEASE))
        };
        let workers = [start("one", &ways[0]).await, start("two", &ways[1]).await];
        let appender = Appender::start(&log);
        until_shared(&log, "orders", 2).await;
        let table = recorder.table.clone();
        until("events of both", async || (handlers(&log, &table).await.len() == 2).then_some(()))
            .await;
        Self { log, table, ways, workers, appender }
    }

    async fn handled(&self) -> i64 {
        proof(&self.log, &self.table).await.handled
    }

    /// What was handled, once nothing on the way any more is.
    async fn standstill(&self) -> i64 {
        let mut last = -1;
        until("a standstill", async || {
            let now = self.handled().await;
            let stands = now == std::mem::replace(&mut last, now);
            tokio::time::sleep(Duration::from_millis(100)).await;
            stands.then_some(now)
        })
        .await
    }

    /// Both are members and share the slots, both handle events, everything was handled once and in
    /// order, and nobody has ended.
    async fn end(self) {
        let members = until_shared(&self.log, "orders", 2).await;
        assert_eq!(members.len(), 2);
        let seen = number(&self.log, &format!("SELECT max(position) FROM {}", self.table)).await;
        let since =
            format!("SELECT count(DISTINCT worker) FROM {} WHERE position > $1", self.table);
        until("events of both", async || {
            let workers = query(&self.log, &since, params![seen]).await;
            (workers[0].get::<i64>(0).unwrap() == 2).then_some(())
        })
        .await;
        let each = self.appender.finish().await;
        until_proven(&self.log, &self.table, Appender::STREAMS, each).await;
        for worker in self.workers {
            assert!(!worker.has_ended());
            worker.stop().await;
        }
    }
}

async fn a_server_that_is_away_for_several_leases_is_waited_for(db: Db) {
    let outage = Outage::begin(&db).await;
    outage.ways.iter().for_each(Proxy::refuse);
    let before = outage.standstill().await;
    tokio::time::sleep(AWAY).await;
    assert_eq!(outage.handled().await, before, "nobody got through");
    outage.ways.iter().for_each(Proxy::pass);
    outage.end().await;
}

async fn a_worker_behind_a_black_hole_is_taken_over_from_and_comes_back(db: Db) {
    let outage = Outage::begin(&db).await;
    let before = until_shared(&outage.log, "orders", 2).await;
    outage.ways[0].swallow();
    let left = until_shared(&outage.log, "orders", 1).await;
    assert!(left.is_subset(&before));
    outage.ways[0].pass();
    let after = until_shared(&outage.log, "orders", 2).await;
    assert!(left.is_subset(&after), "{left:?} is still among {after:?}");
    assert_ne!(before, after, "who was taken for dead is back under another name");
    outage.end().await;
}

async fn a_black_hole_in_front_of_everybody_is_waited_for(db: Db) {
    let outage = Outage::begin(&db).await;
    outage.ways.iter().for_each(Proxy::swallow);
    let before = outage.standstill().await;
    tokio::time::sleep(AWAY).await;
    assert_eq!(outage.handled().await, before, "nobody got through");
    outage.ways.iter().for_each(Proxy::pass);
    outage.end().await;
}

/// A network may cut an answer anywhere. Whoever waits for a later one must read the earlier ones too.
async fn answers_that_come_in_pieces_hold_up_nobody(db: Db) {
    let log = db.log().await;
    let way = Proxy::before(&db.url).await;
    way.dribble();
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let slow = anabranch::connect_with(&way.url, &db.options).await.unwrap();
    let worker = start(&slow, ReplicaSet::new("s").projection(recorder));
    until_shared(&log, "orders", 1).await;
    fill(&log, 0..10, 1..=5).await;
    until_proven(&log, &table, 10, 5).await;
    worker.stop().await;
}

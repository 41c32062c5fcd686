//! Replays, pauses and skips.

use crate::on_both;
use crate::support::{Db, Proof, fill, number, proof, query, start, status, until};
use anabranch::Start;
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use std::sync::atomic::Ordering;

on_both! {
    a_replay_while_events_arrive_ends_like_a_fresh_build,
    a_replay_without_a_hook_is_refused_and_nothing_is_lost,
    a_replay_may_begin_at_a_time,
    pause_stops_and_resume_goes_on,
    skip_to_head_leaves_the_rest_out,
    a_consumer_may_begin_at_the_head,
}

const STREAMS: u64 = 20;

/// What the table of keys holds, in full.
async fn keys(log: &Log, table: &str) -> Vec<(String, i64, i64)> {
    let rows = query(log, &format!("SELECT * FROM {table}_keys ORDER BY key"), vec![]).await;
    let row = |row: &anabranch::Row| (row.get("key"), row.get("number"), row.get("wrong"));
    rows.iter().map(row).map(|(a, b, c)| (a.unwrap(), b.unwrap(), c.unwrap())).collect()
}

async fn a_replay_while_events_arrive_ends_like_a_fresh_build(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=50).await;
    let recorder = db.recorder("orders").settings(Settings::default().batch_size(50));
    let (table, calls) = (recorder.table.clone(), std::sync::Arc::clone(&recorder.handled));
    let running = start(&log, ReplicaSet::new("s").projection(recorder).lanes(3));
    until("half of it", async || (calls.load(Ordering::Relaxed) > 500).then_some(())).await;
    let consumers = Consumers::new(&log);
    consumers.replay("orders", ReplayFrom::Start).await.unwrap();
    fill(&log, 0..STREAMS, 51..=80).await;
    until("the replay to begin", async || {
        status(&log, "orders").await.replay_from.is_none().then_some(())
    })
    .await;
    fill(&log, 0..STREAMS, 81..=100).await;
    until("everything", async || (proof(&log, &table).await.handled >= 2_000).then_some(())).await;
    running.stop().await;
    let expected = Proof { handled: 2_000, doubled: 0, keys: STREAMS as i64, wrong: 0 };
    assert_eq!(proof(&log, &table).await, expected);
    let fresh = db.recorder("fresh");
    let fresh_table = fresh.table.clone();
    ReplicaSet::new("s").projection(fresh).catch_up(&log).await.unwrap();
    assert_eq!(keys(&log, &table).await, keys(&log, &fresh_table).await);
}

/// A projection that cannot undo what it did.
struct Counter(String);

impl Projection for Counter {
    fn name(&self) -> &str {
        "counter"
    }
    fn partition(&self) -> Partition {
        Partition::entities()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let insert = format!("INSERT INTO {} (position) VALUES ($1)", self.0);
        tx.execute(insert, params![event.position()]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        tx.execute(format!("CREATE TABLE {} (position BIGINT)", self.0), vec![]).await
    }
}

async fn a_replay_without_a_hook_is_refused_and_nothing_is_lost(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=2).await;
    let table = db.table("counter");
    let running = start(&log, ReplicaSet::new("s").projection(Counter(table.clone())));
    let count = format!("SELECT count(*) FROM {table}");
    until("all of it", async || {
        let known = Consumers::new(&log).list().await.unwrap();
        if known.is_empty() {
            return None;
        }
        (number(&log, &count).await == 40).then_some(())
    })
    .await;
    Consumers::new(&log).replay("counter", ReplayFrom::Start).await.unwrap();
    fill(&log, 0..STREAMS, 3..=3).await;
    until("it goes on as before", async || (number(&log, &count).await == 60).then_some(())).await;
    running.stop().await;
    assert_eq!(number(&log, &count).await, 60);
    assert_eq!(status(&log, "counter").await.lag, 0);
}

async fn a_replay_may_begin_at_a_time(db: Db) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=5).await;
    let middle = log.read(Query::all()).collect().await.unwrap()[10].recorded_us();
    let set = || ReplicaSet::new("s").projection(db.recorder("orders"));
    set().catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    let at = consumers.replay("orders", ReplayFrom::Time(middle)).await.unwrap();
    let events = log.read(Query::all()).collect().await.unwrap();
    for event in &events {
        let is_replayed = event.position() > at;
        assert_eq!(is_replayed, event.recorded_us() >= middle, "{event:?}");
    }
    let first = consumers.replay("orders", ReplayFrom::Time(0)).await.unwrap();
    assert_eq!(first, Position::START);
    let last = consumers.replay("orders", ReplayFrom::Time(i64::MAX)).await.unwrap();
    assert_eq!(last, log.head().await.unwrap());
    let error = consumers.replay("nobody", ReplayFrom::Start).await.unwrap_err().to_string();
    assert!(error.contains("there is no consumer `nobody`"), "{error}");
}

async fn status_or(log: &Log, name: &str) -> Option<u64> {
    Consumers::new(log).status(name).await.ok().map(|status| status.lag)
}

async fn pause_stops_and_resume_goes_on(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let running = start(&log, ReplicaSet::new("s").projection(recorder).lanes(2));
    fill(&log, 0..STREAMS, 1..=5).await;
    until("the first events", async || (status_or(&log, "orders").await? == 0).then_some(())).await;
    let consumers = Consumers::new(&log);
    consumers.pause("orders").await.unwrap();
    assert!(status(&log, "orders").await.paused);
    // It has stopped once an event stays where it is; another consumer shows that time passes.
    let mut number = 5;
    until("the pause to take effect", async || {
        number += 1;
        fill(&log, 0..STREAMS, number..=number).await;
        let before = proof(&log, &table).await.handled;
        let other = db.recorder(&format!("other_{number}"));
        ReplicaSet::new("o").projection(other).catch_up(&log).await.unwrap();
        (proof(&log, &table).await.handled == before && before < (STREAMS * number) as i64)
            .then_some(())
    })
    .await;
    consumers.resume("orders").await.unwrap();
    let all = (STREAMS * number) as i64;
    until("the rest", async || (proof(&log, &table).await.handled == all).then_some(())).await;
    running.stop().await;
    assert_eq!(proof(&log, &table).await.wrong, 0);
}

async fn skip_to_head_leaves_the_rest_out(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    ReplicaSet::new("s").projection(recorder.clone()).catch_up(&log).await.unwrap();
    fill(&log, 0..STREAMS, 1..=5).await;
    let consumers = Consumers::new(&log);
    assert_eq!(consumers.skip_to_head("orders").await.unwrap(), log.head().await.unwrap());
    fill(&log, 0..STREAMS, 6..=6).await;
    ReplicaSet::new("s").projection(recorder).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await.handled, STREAMS as i64);
    assert!(consumers.skip_to_head("nobody").await.is_err());
}

async fn a_consumer_may_begin_at_the_head(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=5).await;
    let recorder = db.recorder("orders").settings(Settings::default().start(Start::Head));
    let table = recorder.table.clone();
    ReplicaSet::new("s").projection(recorder.clone()).catch_up(&log).await.unwrap();
    fill(&log, 0..STREAMS, 6..=6).await;
    ReplicaSet::new("s").projection(recorder).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await.handled, STREAMS as i64);
}

//! Parked keys: wishes, crashes, replays, and appends in flight meanwhile.

use crate::gates::*;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use anabranch::{HandlerError, Retry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

on_both! {
    one_wish_to_skip_skips_one_event,
    a_replay_after_a_position_keeps_what_was_parked_before_it,
    a_wish_survives_a_crash,
    events_without_a_key_are_met_by_one_of_several_partitions,
}

on_postgres! {
    a_parked_key_is_tried_while_an_unrelated_append_is_in_flight,
    an_append_in_flight_is_not_passed,
}

async fn events_without_a_key_are_met_by_one_of_several_partitions(db: Db) {
    let log = db.log().await;
    for number in 1..=4 {
        one(&log, "keyless", numbered(number)).await;
        let keyed = numbered(number).with_customer("c").with_correlation("c");
        one(&log, "keyed", keyed).await;
    }
    for (name, partition) in [("customers", Partition::customer()), ("sagas", Partition::saga())] {
        let recorder = db.recorder(name).partition(partition).settings(never());
        for index in 0..3 {
            let fixed = anabranch::FixedPartition::new(index, 3).unwrap();
            let set = ReplicaSet::new("s").projection(recorder.clone()).partition(fixed).lanes(2);
            match index {
                // The slot of what has no key.
                0 => assert_eq!(left_by(set, &log).await.parked_events, 4, "{name}"),
                _ => drop(set.catch_up(&log).await.unwrap()),
            }
        }
        assert_eq!(proof(&log, &recorder.table).await.handled, 4, "{name}");
        let status = status(&log, name).await;
        assert_eq!((status.parked_keys, status.parked_events), (1, 4), "{name}");
    }
}

/// The lane is busy while the wish is made, so that it hears of it more than once.
async fn one_wish_to_skip_skips_one_event(db: Db) {
    // The gate holds the writer of SQLite in no way: nothing is read in the transaction.
    let log = db.log().await;
    let gate = Gate::default();
    let hook = {
        let gate = gate.clone();
        move |event: &Event| {
            gate.pass(event);
            match event.stream_id() {
                "3" if event.version() > 1 => Err(HandlerError::new("never")),
                _ => Ok(()),
            }
        }
    };
    let recorder = db.recorder("orders").hook(hook).settings(never());
    let table = recorder.table.clone();
    fill(&log, 0..5, 1..=10).await;
    let set = ReplicaSet::new("s").projection(recorder).lease(Duration::from_millis(500));
    let running = start(&log, set);
    let consumers = Consumers::new(&log);
    let waiting = async || consumers.parked("orders").await.ok()?.pop().map(|key| key.events);
    until("nine events", async || (waiting().await? == 9).then_some(())).await;
    until("the others", async || (proof(&log, &table).await.handled == 41).then_some(())).await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    consumers.skip_parked("orders", "Order:3").await.unwrap();
    until_beats(&log, 6).await;
    gate.open();
    until("the wish", async || {
        consumers.parked("orders").await.ok()?.pop()?.asked.is_none().then_some(())
    })
    .await;
    one(&log, "after", numbered(1)).await;
    until("the lane to go on", async || (proof(&log, &table).await.handled == 43).then_some(()))
        .await;
    running.stop().await;
    assert_eq!(waiting().await, Some(8), "one event is left out, not more");
}

/// A table that can be put back to any position.
struct Rows {
    table: String,
    fails: Arc<AtomicBool>,
}

impl Projection for Rows {
    fn name(&self) -> &str {
        "rows"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        if self.fails.load(Ordering::SeqCst) && event.stream_id() == "3" && event.version() >= 2 {
            return Err(HandlerError::new("not yet"));
        }
        let insert = format!("INSERT INTO {} (position) VALUES ($1)", self.table);
        tx.execute(insert, params![event.position()]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        tx.execute(format!("CREATE TABLE {} (position BIGINT)", self.table), vec![]).await
    }
    async fn reset(&self, to: Position, tx: &mut Tx) -> HandlerResult {
        let undo = format!("DELETE FROM {} WHERE position > $1", self.table);
        tx.execute(undo, params![to]).await
    }
}

async fn a_replay_after_a_position_keeps_what_was_parked_before_it(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=10).await;
    let (table, fails) = (db.table("rows"), Arc::new(AtomicBool::new(true)));
    let rows = || Rows { table: table.clone(), fails: Arc::clone(&fails) };
    let left = left_by(ReplicaSet::new("s").projection(rows()), &log).await;
    assert_eq!((left.parked_events, status(&log, "rows").await.parked_events), (9, 9));
    let consumers = Consumers::new(&log);
    consumers.replay("rows", ReplayFrom::After(Position::new(25))).await.unwrap();
    fails.store(false, Ordering::SeqCst);
    let left = left_by(ReplicaSet::new("s").projection(rows()), &log).await;
    let stored = number(&log, &format!("SELECT count(DISTINCT position) FROM {table}")).await;
    let parked = status(&log, "rows").await.parked_events as i64;
    assert_eq!(left.parked_events as i64, parked, "they were parked before it ran");
    assert_eq!(stored + parked, 50, "{stored} stored, {parked} parked: the rest is lost");
}

/// Somebody asks for a key to be tried again, and the process dies while it tries.
async fn a_wish_survives_a_crash(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=3).await;
    let fixed = Arc::new(AtomicBool::new(false));
    let meets = Arc::new(AtomicU32::new(0));
    let recorder = |dies: bool| {
        let (fixed, meets) = (Arc::clone(&fixed), Arc::clone(&meets));
        let hook = move |event: &Event| {
            if event.stream_id() != "3" {
                return Ok(());
            }
            if !fixed.load(Ordering::SeqCst) {
                return Err(HandlerError::new("not yet"));
            }
            if dies {
                meets.fetch_add(1, Ordering::SeqCst);
                tokio::task::block_in_place(|| std::thread::sleep(Duration::from_secs(2)));
            }
            Ok(())
        };
        db.recorder("orders").settings(never()).hook(hook)
    };
    let table = recorder(false).table;
    let lease = Duration::from_millis(300);
    let set = |dies| ReplicaSet::new("s").projection(recorder(dies)).lease(lease);
    assert_eq!(left_by(set(false), &log).await.parked_events, 3);
    fixed.store(true, Ordering::SeqCst);
    let consumers = Consumers::new(&log);
    consumers.retry_parked("orders", "Order:3").await.unwrap();
    let other = db.log().await;
    let running = start(&other, set(true));
    until("the key to be tried", async || (meets.load(Ordering::SeqCst) > 0).then_some(())).await;
    running.crash();
    let heir = start(&log, set(false));
    let moved = async || {
        let parked = consumers.parked("orders").await.ok()?;
        let is_due = parked.iter().all(|key| key.asked.is_some() || key.retry_in.is_some());
        (parked.is_empty() || !is_due).then_some(parked.len())
    };
    until("the heir to own everything", async || {
        let owned = |cursor: &anabranch::operate::CursorStatus| {
            matches!(&cursor.owner, anabranch::operate::Owner::Worker(_))
        };
        status(&log, "orders").await.cursors.iter().all(owned).then_some(())
    })
    .await;
    let left = until("the key to be done or forgotten", moved).await;
    heir.stop().await;
    assert_eq!(left, 0, "nobody will try the key again");
    assert_eq!(proof(&log, &table).await, Proof { handled: 15, doubled: 0, keys: 5, wrong: 0 });
}

/// The consumer reads some types only, so an append of another type does not hold it up; nor may it
/// when a parked event is read again.
async fn a_parked_key_is_tried_while_an_unrelated_append_is_in_flight(db: Db) {
    use anabranch::postgres::{Postgres, tokio_postgres};
    let log = db.log().await;
    let (mut client, connection) =
        tokio_postgres::connect(&db.url, tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    let stream = StreamId::new("Import", "1").unwrap();
    let unrelated = Append::new().to(&stream, Expected::Any, [NewEvent::new("Imported", 1)]);
    log.backend::<Postgres>().unwrap().append_in(&tx, unrelated).await.unwrap();
    fill(&log, 0..3, 1..=1).await;
    let fails = Arc::new(AtomicU32::new(1));
    let hook = move |event: &Event| match event.stream_id() {
        "1" if fails.swap(0, Ordering::SeqCst) == 1 => Err(HandlerError::new("not yet")),
        _ => Ok(()),
    };
    let retry = Retry::default().first(Duration::from_millis(1));
    let settings = Settings::default().retry(retry).scope(Scope::types(["Numbered"]));
    let recorder = db.recorder("orders").hook(hook).settings(settings);
    let table = recorder.table.clone();
    let running = start(&log, ReplicaSet::new("s").projection(recorder));
    until("all of it, or its end", async || {
        if running.has_ended() {
            return Some(());
        }
        Consumers::new(&log).status("orders").await.ok()?;
        (proof(&log, &table).await.handled == 3).then_some(())
    })
    .await;
    tx.rollback().await.unwrap();
    driver.abort();
    running.stop().await;
    assert_eq!(proof(&log, &table).await.handled, 3);
}

/// Law 4 for reads that the server filters. Another consumer, which the append does not concern, shows
/// that time passes.
async fn an_append_in_flight_is_not_passed(db: Db) {
    use anabranch::postgres::{Postgres, tokio_postgres};
    let log = db.log().await;
    let (mut client, connection) =
        tokio_postgres::connect(&db.url, tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let orders = db.recorder("orders");
    let scope = Settings::default().scope(Scope::types(["Other"]));
    let others = db.recorder("others").partition(Partition::entities()).settings(scope);
    let tables = [orders.table.clone(), others.table.clone()];
    let set = || ReplicaSet::new("s").projection(orders.clone()).projection(others.clone());
    set().catch_up(&log).await.unwrap();
    let tx = client.transaction().await.unwrap();
    let stream = StreamId::new("Order", "slow").unwrap();
    let slow = Append::new().to(&stream, Expected::Any, [numbered(1)]);
    log.backend::<Postgres>().unwrap().append_in(&tx, slow).await.unwrap();
    let running = start(&log, set().lanes(2));
    for number in 1..=10 {
        fill(&log, 0..5, number..=number).await;
        let stream = StreamId::new("Other", "1").unwrap();
        log.append(&stream, Expected::Any, [NewEvent::new("Other", number)]).await.unwrap();
        until("the other consumer", async || {
            (proof(&log, &tables[1]).await.handled == number as i64).then_some(())
        })
        .await;
    }
    assert_eq!(proof(&log, &tables[0]).await.handled, 0, "nothing passes it");
    tx.commit().await.unwrap();
    until("all", async || (proof(&log, &tables[0]).await.handled == 51).then_some(())).await;
    running.stop().await;
    driver.abort();
    assert_eq!(proof(&log, &tables[0]).await, Proof { handled: 51, doubled: 0, keys: 6, wrong: 0 });
}

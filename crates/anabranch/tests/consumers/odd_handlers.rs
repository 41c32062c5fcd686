//! Handlers that panic, dawdle, give up half-way or write what does not fit.

use crate::gates::*;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::HandlerError;
use anabranch::backend::database::{End, Statement};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

on_both! {
    a_statement_that_was_given_up_half_way_takes_nothing_with_it,
    a_handler_that_panics_ends_a_catch_up_with_an_error,
    a_handler_that_panics_on_one_of_two_lanes_is_noticed,
    a_key_function_that_panics_is_noticed,
    many_failing_keys_among_good_ones_do_not_stop_a_consumer,
    a_set_up_may_fill_the_table_that_it_makes,
    a_transaction_that_is_held_for_too_long_is_its_handlers_failure,
    slow_handlers_commit_in_between_and_leave_nothing_out,
}

on_postgres! {
    a_value_that_does_not_fit_fails_its_event,
    an_error_with_a_nul_in_it_parks_its_key,
    a_table_may_get_a_column_while_it_is_read,
}

/// A handler writes, then gives up a read half-way (as a timeout would) and goes on. What it wrote
/// must be stored, or the event must count as failed.
async fn a_statement_that_was_given_up_half_way_takes_nothing_with_it(db: Db) {
    struct Impatient(String);
    impl Projection for Impatient {
        fn name(&self) -> &str {
            "impatient"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
            let insert = format!("INSERT INTO {} (position) VALUES ($1)", self.0);
            tx.execute(insert, params![event.position()]).await?;
            if event.stream_id() == "3" {
                tokio::select! {
                    biased;
                    _ = tx.query("SELECT 1 AS one", vec![]) => {}
                    () = std::future::ready(()) => {}
                }
            }
            Ok(())
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            tx.execute(format!("CREATE TABLE {} (position BIGINT)", self.0), vec![]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..6, 1..=1).await;
    let table = db.table("impatient");
    let ended = ReplicaSet::new("s").projection(Impatient(table.clone())).catch_up(&log).await;
    let parked = status(&log, "impatient").await.parked_events as i64;
    assert_eq!(ended.is_err(), parked > 0, "{ended:?}");
    let stored = number(&log, &format!("SELECT count(*) FROM {table}")).await;
    assert_eq!(stored + parked, 6, "{stored} stored, {parked} parked");
}

/// A batch is cut where it takes long; what is behind the cut comes next.
async fn slow_handlers_commit_in_between_and_leave_nothing_out(db: Db) {
    #[derive(Clone, Default)]
    struct Slow(Arc<std::sync::Mutex<Vec<u64>>>);
    impl Slow {
        async fn see(&self, event: &Event) {
            tokio::time::sleep(Duration::from_millis(300)).await;
            self.0.lock().unwrap().push(event.position().get());
        }
    }
    impl Projection for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, event: &Event, _: &mut Tx) -> HandlerResult {
            self.see(event).await;
            Ok(())
        }
    }
    impl Subscriber for Slow {
        fn name(&self) -> &str {
            "slow_outside"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn deliver(&self, delivery: &anabranch::Delivery<'_>) -> HandlerResult {
            self.see(delivery.event()).await;
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let (inside, outside) = (Slow::default(), Slow::default());
    let set = ReplicaSet::new("s").projection(inside.clone()).subscriber(outside.clone());
    set.catch_up(&log).await.unwrap();
    assert_eq!(*inside.0.lock().unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(*outside.0.lock().unwrap(), [1, 2, 3, 4, 5]);
}

fn panicking(db: &Db) -> Recorder {
    db.recorder("orders").hook(|event| match event.stream_id() {
        "3" => panic!("a handler that panics"),
        _ => Ok(()),
    })
}

async fn a_handler_that_panics_ends_a_catch_up_with_an_error(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let recorder = panicking(&db);
    let table = recorder.table.clone();
    let left = left_by(ReplicaSet::new("s").projection(recorder), &log).await;
    assert!(left.first_error.unwrap().contains("a handler that panics"));
    assert_eq!((proof(&log, &table).await.handled, left.parked_events), (4, 1));
}

/// Ends by itself, or shows it in the status: anything but silence.
async fn is_noticed(log: &Log, set: ReplicaSet, total: i64, table: &str) {
    let running = start(log, set);
    let shown = until("its end, or a parked key", async || {
        if running.has_ended() {
            return Some(false);
        }
        let status = Consumers::new(log).status("orders").await.ok()?;
        let handled = proof(log, table).await.handled;
        (handled + status.parked_events as i64 == total).then_some(true)
    })
    .await;
    match shown {
        true => drop(running.stop().await),
        false => drop(running.ended().await.unwrap_err()),
    }
}

async fn a_handler_that_panics_on_one_of_two_lanes_is_noticed(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let recorder = panicking(&db);
    let table = recorder.table.clone();
    is_noticed(&log, ReplicaSet::new("s").projection(recorder).lanes(2), 5, &table).await;
}

async fn a_key_function_that_panics_is_noticed(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let partition = Partition::custom("odd", |event| match event.stream_id() {
        "3" => panic!("a key function that panics"),
        id => Some(id.to_owned()),
    });
    let recorder = db.recorder("orders").partition(partition);
    let table = recorder.table.clone();
    is_noticed(&log, ReplicaSet::new("s").projection(recorder), 5, &table).await;
}

/// Every second key fails; nothing is wrong with the others, and so not with the handler.
async fn many_failing_keys_among_good_ones_do_not_stop_a_consumer(db: Db) {
    let log = db.log().await;
    fill(&log, 0..260, 1..=1).await;
    let hook = |event: &Event| match event.stream_id().parse::<u64>().unwrap() % 2 {
        1 => Err(HandlerError::new("odd")),
        _ => Ok(()),
    };
    let recorder = db.recorder("orders").hook(hook).settings(never());
    let table = recorder.table.clone();
    let left = left_by(ReplicaSet::new("s").projection(recorder), &log).await;
    assert_eq!((proof(&log, &table).await.handled, left.parked_keys), (130, 130));
}

async fn a_set_up_may_fill_the_table_that_it_makes(db: Db) {
    struct Seeded(String);
    impl Projection for Seeded {
        fn name(&self) -> &str {
            "seeded"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, _: &Event, tx: &mut Tx) -> HandlerResult {
            tx.execute(format!("UPDATE {} SET events = events + 1", self.0), vec![]).await
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            tx.execute(format!("CREATE TABLE {} (events BIGINT)", self.0), vec![]).await?;
            tx.execute(format!("INSERT INTO {} (events) VALUES ($1)", self.0), params![0]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let table = db.table("seeded");
    ReplicaSet::new("s").projection(Seeded(table.clone())).catch_up(&log).await.unwrap();
    assert_eq!(number(&log, &format!("SELECT events FROM {table}")).await, 3);
}

/// A handler that reads, and then thinks for longer than a transaction may stay open, will do so each
/// time: it is a failing event and no outage.
async fn a_transaction_that_is_held_for_too_long_is_its_handlers_failure(db: Db) {
    struct Thinker(Arc<AtomicU32>);
    impl Projection for Thinker {
        fn name(&self) -> &str {
            "thinker"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, _: &Event, tx: &mut Tx) -> HandlerResult {
            self.0.fetch_add(1, Ordering::SeqCst);
            tx.query("SELECT 1 AS one", vec![]).await?;
            tokio::time::sleep(Duration::from_millis(1200)).await;
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let calls = Arc::new(AtomicU32::new(0));
    let set = ReplicaSet::new("s").projection(Thinker(Arc::clone(&calls)));
    let running = start(&log, set.lease(Duration::from_millis(1500)));
    let consumers = Consumers::new(&log);
    let parked = async || consumers.parked("thinker").await.is_ok_and(|keys| !keys.is_empty());
    until("a parked key, or a third call", async || {
        (parked().await || calls.load(Ordering::SeqCst) > 2).then_some(())
    })
    .await;
    assert!(parked().await, "called {} times with one attempt", calls.load(Ordering::SeqCst));
    running.stop().await;
}

/// The driver finds that a value does not fit before it sends it. The rest of the batch must not be
/// committed without it.
async fn a_value_that_does_not_fit_fails_its_event(db: Db) {
    struct Amounts(String);
    impl Projection for Amounts {
        fn name(&self) -> &str {
            "amounts"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
            let amount = if event.stream_id() == "3" { "three" } else { "7" };
            let insert = format!("INSERT INTO {} (key, amount) VALUES ($1, $2)", self.0);
            tx.execute(insert, params![event.stream_id(), amount]).await
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            tx.execute(format!("CREATE TABLE {} (key TEXT, amount BIGINT)", self.0), vec![]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..6, 1..=1).await;
    let table = db.table("amounts");
    left_by(ReplicaSet::new("s").projection(Amounts(table.clone())), &log).await;
    let parked = Consumers::new(&log).parked("amounts").await.unwrap();
    let keys: Vec<_> = parked.iter().map(|key| key.key.as_str()).collect();
    let stored = number(&log, &format!("SELECT count(*) FROM {table}")).await;
    assert_eq!((stored, keys), (5, vec!["Order:3"]));
}

async fn an_error_with_a_nul_in_it_parks_its_key(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let hook = |event: &Event| match event.stream_id() {
        "3" => Err(HandlerError::new("cannot read `a\0b`")),
        _ => Ok(()),
    };
    let recorder = db.recorder("orders").hook(hook).settings(never());
    assert_eq!(left_by(ReplicaSet::new("s").projection(recorder), &log).await.parked_keys, 1);
}

/// A column is added to a table that handlers read with `SELECT *`.
async fn a_table_may_get_a_column_while_it_is_read(db: Db) {
    struct Prices(String, Arc<AtomicU32>);
    impl Projection for Prices {
        fn name(&self) -> &str {
            "prices"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, _: &Event, tx: &mut Tx) -> HandlerResult {
            tx.query(format!("SELECT * FROM {}", self.0), vec![]).await?;
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            tx.execute(format!("CREATE TABLE {} (price BIGINT)", self.0), vec![]).await
        }
    }
    let log = db.log().await;
    let (table, handled) = (db.table("prices"), Arc::new(AtomicU32::new(0)));
    fill(&log, 0..1, 1..=1).await;
    let set = ReplicaSet::new("s").projection(Prices(table.clone(), Arc::clone(&handled)));
    let running = start(&log, set);
    let other = db.log().await;
    // One after the other, so that each session of the pool has its turn.
    for number in 1..=20 {
        until("it", async || (handled.load(Ordering::SeqCst) == number).then_some(())).await;
        fill(&log, 0..1, 1..=1).await;
    }
    until("the first", async || (handled.load(Ordering::SeqCst) == 21).then_some(())).await;
    let alter = Statement::new(format!("ALTER TABLE {table} ADD COLUMN vat BIGINT"), vec![]);
    until("the column", async || {
        let done = other.store().database().begin().run(vec![alter.clone()], End::Commit).await;
        done.is_ok().then_some(())
    })
    .await;
    let parked = async || Consumers::new(&log).parked("prices").await.unwrap();
    for number in 22..=31 {
        fill(&log, 0..1, 1..=1).await;
        until("it, or a parked key", async || {
            let done = handled.load(Ordering::SeqCst) >= number;
            (done || !parked().await.is_empty()).then_some(())
        })
        .await;
    }
    running.stop().await;
    assert!(parked().await.is_empty(), "{:?}", parked().await);
}

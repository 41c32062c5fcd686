//! Failing events: isolated, tried again, parked by key, skipped, or a reason to stop.

use crate::on_both;
use crate::support::{Db, Proof, fill, left_by, number, proof, query, start, status, until};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Failure, HandlerError, Retry, RunError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both! {
    a_poison_event_parks_its_key_and_nothing_else,
    a_late_error_is_laid_at_the_door_of_its_event,
    a_failing_batch_is_halved_until_the_event_is_found,
    skip_leaves_out_the_event_alone,
    stop_stops_before_the_event,
    an_event_without_its_key_is_parked_by_name,
    parked_events_can_be_skipped,
    what_comes_while_a_key_is_tried_is_known_to_its_next_owner,
    a_broken_handler_stops_instead_of_parking_everything,
    a_parked_key_moves_with_its_slot,
}

const STREAMS: u64 = 100;

fn quick() -> Retry {
    Retry::default().first(Duration::from_millis(2)).longest(Duration::from_millis(10))
}

/// 10,000 events: one fails always, one fails twice and then works.
async fn a_poison_event_parks_its_key_and_nothing_else(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=100).await;
    let (fixed, twice) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let hook = {
        let (fixed, twice) = (Arc::clone(&fixed), Arc::clone(&twice));
        move |event: &Event| match (event.stream_id(), event.version()) {
            ("7", 30) if !fixed.load(Ordering::SeqCst) => Err(HandlerError::new("poison")),
            ("8", 40) if twice.fetch_add(1, Ordering::SeqCst) < 2 => {
                Err(HandlerError::new("not yet"))
            }
            _ => Ok(()),
        }
    };
    let recorder = db.recorder("orders").hook(hook);
    let table = recorder.table.clone();
    let running = start(&log, ReplicaSet::new("s").projection(recorder).lanes(2));
    let consumers = Consumers::new(&log);
    let parked = until("only the poison key is parked for good", async || {
        let parked = consumers.parked("orders").await.ok()?;
        match parked.as_slice() {
            [one] if one.attempts == 5 && one.retry_in.is_none() => Some(one.clone()),
            _ => None,
        }
    })
    .await;
    assert_eq!((parked.key.as_str(), parked.error.as_str()), ("Order:7", "poison"));
    assert_eq!(parked.events, 71, "the event and all that came after it");
    until("all other keys are done", async || {
        (proof(&log, &table).await.handled == 10_000 - 71).then_some(())
    })
    .await;
    let now = status(&log, "orders").await;
    assert_eq!((now.lag, now.lag_ready, now.retrying_keys), (71, 0, 0));
    // What comes now for the key goes behind it, for others it is handled at once.
    fill(&log, 0..STREAMS, 101..=101).await;
    until("the new events", async || {
        (proof(&log, &table).await.handled == 10_000 - 71 + 99).then_some(())
    })
    .await;
    assert_eq!(consumers.parked("orders").await.unwrap()[0].events, 72);
    let waiting = consumers.parked_events("orders", "Order:7", 2).await.unwrap();
    assert_eq!(waiting.iter().map(Event::version).collect::<Vec<_>>(), [30, 31]);

    let unknown = consumers.retry_parked("orders", "Order:9").await.unwrap_err().to_string();
    assert!(unknown.contains("no parked key `Order:9`"), "{unknown}");
    fixed.store(true, Ordering::SeqCst);
    consumers.retry_parked("orders", "Order:7").await.unwrap();
    let all = Proof { handled: 10_100, doubled: 0, keys: 100, wrong: 0 };
    until("the key to drain, in order", async || (proof(&log, &table).await == all).then_some(()))
        .await;
    until("the key to be released", async || {
        consumers.parked("orders").await.unwrap().is_empty().then_some(())
    })
    .await;
    running.stop().await;
}

/// The statement of one event breaks a constraint. It is queued with those of others, so the database
/// says so long after the handler has returned.
async fn a_late_error_is_laid_at_the_door_of_its_event(db: Db) {
    #[derive(Clone)]
    struct Totals(String);
    impl Projection for Totals {
        fn name(&self) -> &str {
            "totals"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            Settings::default().retry(Retry::never())
        }
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
            let insert = format!("INSERT INTO {} (position, key) VALUES ($1, $2)", self.0);
            tx.execute(insert, params![event.position(), event.stream_id()]).await
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            let table = &self.0;
            let create =
                format!("CREATE TABLE {table} (position BIGINT, key TEXT CHECK (key <> '33'))");
            tx.execute(create, vec![]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=3).await;
    let totals = Totals(db.table("totals"));
    let left = left_by(ReplicaSet::new("s").projection(totals.clone()), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 3));
    let parked = Consumers::new(&log).parked("totals").await.unwrap();
    assert_eq!(parked.iter().map(|key| key.key.as_str()).collect::<Vec<_>>(), ["Order:33"]);
    assert!(parked[0].error.to_lowercase().contains("check"), "{}", parked[0].error);
    assert_eq!(parked[0].events, 3);
    let handled = format!("SELECT count(DISTINCT position) FROM {}", totals.0);
    assert_eq!(number(&log, &handled).await, 297);
    assert_eq!(number(&log, &format!("SELECT count(*) FROM {}", totals.0)).await, 297);
}

async fn a_failing_batch_is_halved_until_the_event_is_found(db: Db) {
    struct Sums(String);
    impl Projection for Sums {
        fn name(&self) -> &str {
            "sums"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            Settings::default().retry(Retry::never()).batch_size(200)
        }
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
            self.handle_batch(std::slice::from_ref(event), tx).await
        }
        async fn handle_batch(&self, events: &[Event], tx: &mut Tx) -> HandlerResult {
            let mut sums: HashMap<&str, i64> = HashMap::new();
            for event in events {
                *sums.entry(event.stream_id()).or_default() += event.data::<i64>()?;
            }
            if events.iter().any(|event| event.stream_id() == "5" && event.version() == 2) {
                return Err(HandlerError::new("somewhere in here"));
            }
            let rows = sums.into_iter().map(|(key, sum)| params![key, sum]).collect();
            let table = self.0.clone();
            let conflict =
                format!("ON CONFLICT (key) DO UPDATE SET sum = {table}.sum + excluded.sum");
            tx.insert_rows(table, &["key", "sum"], rows, conflict).await
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            let create = format!("CREATE TABLE {} (key TEXT PRIMARY KEY, sum BIGINT)", self.0);
            tx.execute(create, vec![]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=4).await;
    let table = db.table("sums");
    let left = left_by(ReplicaSet::new("s").projection(Sums(table.clone())), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 3));
    let parked = Consumers::new(&log).parked("sums").await.unwrap();
    assert_eq!(parked.len(), 1);
    assert_eq!((parked[0].key.as_str(), parked[0].events), ("Order:5", 3));
    let sum = number(&log, &format!("SELECT sum(sum) FROM {table}")).await;
    assert_eq!(sum, 99 * 10 + 1, "all but versions 2, 3 and 4 of one key");
}

async fn skip_leaves_out_the_event_alone(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=10).await;
    let hook = |event: &Event| match (event.stream_id(), event.version()) {
        ("3", 4) => Err(HandlerError::new("never")),
        _ => Ok(()),
    };
    let retry = quick().attempts(3).then(Failure::Skip);
    let recorder = db.recorder("orders").hook(hook).settings(Settings::default().retry(retry));
    let (table, calls) = (recorder.table.clone(), Arc::clone(&recorder.handled));
    let running = start(&log, ReplicaSet::new("s").projection(recorder));
    until("all but one", async || {
        let known = Consumers::new(&log).list().await.unwrap();
        if known.is_empty() {
            return None;
        }
        (proof(&log, &table).await.handled == 99).then_some(())
    })
    .await;
    until("nothing parked", async || {
        Consumers::new(&log).parked("orders").await.unwrap().is_empty().then_some(())
    })
    .await;
    running.stop().await;
    let proof = proof(&log, &table).await;
    assert_eq!(proof, Proof { handled: 99, doubled: 0, keys: 10, wrong: 1 }, "one gap, in order");
    assert!(calls.load(Ordering::Relaxed) >= 102, "it was tried three times");
}

async fn stop_stops_before_the_event(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=10).await;
    let fixed = Arc::new(AtomicBool::new(false));
    let hook = {
        let fixed = Arc::clone(&fixed);
        move |event: &Event| match (event.stream_id(), event.version()) {
            ("3", 4) if !fixed.load(Ordering::SeqCst) => Err(HandlerError::new("never")),
            _ => Ok(()),
        }
    };
    let retry = quick().attempts(3).then(Failure::Stop);
    let recorder = db.recorder("orders").hook(hook).settings(Settings::default().retry(retry));
    let table = recorder.table.clone();
    let set = || ReplicaSet::new("s").projection(recorder.clone());
    let error = start(&log, set().fail_fast()).ended().await.unwrap_err();
    let RunError::Stopped { position, .. } = &error else { panic!("{error}") };
    assert_eq!(position.get(), 34);
    let message = error.to_string();
    assert!(message.contains("Numbered Order:3@4") && message.contains("never"), "{message}");
    assert_eq!(proof(&log, &table).await.handled, 33, "all before it, nothing after");
    fixed.store(true, Ordering::SeqCst);
    set().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await, Proof { handled: 100, doubled: 0, keys: 10, wrong: 0 });
}

async fn an_event_without_its_key_is_parked_by_name(db: Db) {
    let log = db.log().await;
    for number in 1..=3 {
        for customer in [Some("c1"), None, Some("c2")] {
            let event = NewEvent::new("Numbered", number);
            let event = match customer {
                Some(customer) => event.with_customer(customer),
                None => event,
            };
            let stream = StreamId::new("Order", customer.unwrap_or("anonymous")).unwrap();
            log.append(&stream, Expected::Any, [event]).await.unwrap();
        }
    }
    let recorder = db.recorder("customers").partition(Partition::customer());
    let table = recorder.table.clone();
    let left = left_by(ReplicaSet::new("s").projection(recorder).lanes(3), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 3));
    assert_eq!(proof(&log, &table).await, Proof { handled: 6, doubled: 0, keys: 2, wrong: 0 });
    let parked = Consumers::new(&log).parked("customers").await.unwrap();
    assert_eq!(parked.len(), 1);
    assert_eq!((parked[0].events, parked[0].retry_in), (3, None));
    let error = &parked[0].error;
    for part in ["Numbered Order:anonymous@1", "has no customer", "consumer `customers`"] {
        assert!(error.contains(part), "{error}");
    }
}

async fn parked_events_can_be_skipped(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=10).await;
    let hook = |event: &Event| match (event.stream_id(), event.version()) {
        ("3", 4) | ("5", 5..) => Err(HandlerError::new("never")),
        _ => Ok(()),
    };
    let settings = Settings::default().retry(Retry::never());
    let recorder = db.recorder("orders").hook(hook).settings(settings);
    let table = recorder.table.clone();
    let running = start(&log, ReplicaSet::new("s").projection(recorder).lanes(2));
    let consumers = Consumers::new(&log);
    until("two parked keys", async || {
        (consumers.parked("orders").await.ok()?.len() == 2).then_some(())
    })
    .await;
    consumers.skip_parked("orders", "Order:3").await.unwrap();
    until("the rest of the first key", async || {
        (consumers.parked("orders").await.unwrap().len() == 1).then_some(())
    })
    .await;
    consumers.skip_all_parked("orders", "Order:5").await.unwrap();
    until("nothing parked", async || {
        consumers.parked("orders").await.unwrap().is_empty().then_some(())
    })
    .await;
    running.stop().await;
    let missing = proof(&log, &table).await;
    assert_eq!((missing.handled, missing.doubled), (100 - 1 - 6, 0));
}

/// All events behind a key are handled, which takes long, and the next one waits behind it.
async fn what_comes_while_a_key_is_tried_is_known_to_its_next_owner(db: Db) {
    let log = db.log().await;
    fill(&log, 0..6, 1..=2).await;
    let (is_mended, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let hook = {
        let (is_mended, tried) = (Arc::clone(&is_mended), Arc::clone(&tried));
        move |event: &Event| match event.stream_id() {
            "1" if is_mended.load(Ordering::SeqCst) => {
                tried.fetch_max(event.version(), Ordering::SeqCst);
                // Longer than a turn, so that others come next; and the feed goes on meanwhile.
                tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(400)));
                Ok(())
            }
            "1" => Err(HandlerError::new("not yet")),
            _ => Ok(()),
        }
    };
    let soon = Retry::default().first(Duration::from_millis(50)).longest(Duration::from_millis(50));
    let recorder = db.recorder("orders").settings(Settings::default().retry(soon));
    let table = recorder.table.clone();
    let set = ReplicaSet::new("s").projection(recorder.hook(hook)).lanes(1);
    let running = start(&log, set);
    let consumers = Consumers::new(&log);
    until("a key that is tried again", async || {
        (consumers.parked("orders").await.ok()?.first()?.events == 2).then_some(())
    })
    .await;
    is_mended.store(true, Ordering::SeqCst);
    until("it is tried", async || (tried.load(Ordering::SeqCst) > 0).then_some(())).await;
    fill(&log, 1..2, 3..=3).await;
    until("the next one", async || (tried.load(Ordering::SeqCst) == 3).then_some(())).await;
    // It is being handled now. If the worker died, its heir would have to know of the key.
    let sql = format!("SELECT count(*) FROM {}", log.database().dialect().table("parked_events"));
    assert_eq!(number(&log, &sql).await, 1);
    let parked = consumers.parked("orders").await.unwrap();
    let left: Vec<_> = parked.iter().map(|key| (&*key.key, key.events)).collect();
    assert_eq!(left, [("Order:1", 1)]);
    until("nothing parked", async || {
        consumers.parked("orders").await.unwrap().is_empty().then_some(())
    })
    .await;
    running.stop().await;
    let proof = proof(&log, &table).await;
    assert_eq!((proof.handled, proof.doubled, proof.wrong), (6 * 2 + 1, 0, 0));
}

async fn a_broken_handler_stops_instead_of_parking_everything(db: Db) {
    let log = db.log().await;
    fill(&log, 0..500, 1..=1).await;
    let recorder = db.recorder("orders").hook(|_| Err(HandlerError::new("no such table")));
    let set = ReplicaSet::new("s").projection(recorder).fail_fast();
    let error = start(&log, set).ended().await.unwrap_err();
    assert!(error.to_string().contains("it is the handler that is broken"), "{error}");
    assert!(Consumers::new(&log).parked("orders").await.unwrap().len() < 100);
}

/// The key is parked under one owner, its later events arrive under another, a third drains it.
async fn a_parked_key_moves_with_its_slot(db: Db) {
    let log = db.log().await;
    let fixed = Arc::new(AtomicBool::new(false));
    let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
    let hook = {
        let (fixed, seen) = (Arc::clone(&fixed), Arc::clone(&seen));
        move |event: &Event| {
            if event.stream_id() != "3" {
                return Ok(());
            }
            if event.version() == 2 && !fixed.load(Ordering::SeqCst) {
                return Err(HandlerError::new("not yet"));
            }
            seen.lock().unwrap().push(event.version());
            Ok(())
        }
    };
    let settings = Settings::default().retry(Retry::never());
    let recorder = db.recorder("orders").hook(hook).settings(settings);
    let table = recorder.table.clone();
    for (round, lanes) in [2usize, 3].into_iter().enumerate() {
        let first = round as u64 * 5;
        fill(&log, 0..10, first + 1..=first + 5).await;
        let set = ReplicaSet::new("s").projection(recorder.clone()).lanes(lanes);
        let left = left_by(set, &log).await;
        assert_eq!((left.parked_keys, left.parked_events), (1, first + 4));
    }
    let consumers = Consumers::new(&log);
    assert_eq!(consumers.parked("orders").await.unwrap()[0].events, 9);
    fixed.store(true, Ordering::SeqCst);
    consumers.retry_parked("orders", "Order:3").await.unwrap();
    let running = start(&log, ReplicaSet::new("s").projection(recorder));
    until("the key to drain", async || {
        consumers.parked("orders").await.unwrap().is_empty().then_some(())
    })
    .await;
    running.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 100, doubled: 0, keys: 10, wrong: 0 });
    let orphans = log.store().database().dialect().table("parked_events");
    assert!(query(&log, &format!("SELECT position FROM {orphans}"), vec![]).await.is_empty());
}

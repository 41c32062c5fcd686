//! One key is handled again, while the others go on: as if it had never been different.

use crate::gates::{Gate, never, one, until_beats};
use crate::on_both;
use crate::support::*;
use anabranch::operate::{Consumers, KeyState};
use anabranch::prelude::*;
use anabranch::{HandlerError, ViewReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    a_view_is_as_if_the_key_had_never_been_different,
    a_row_by_a_key_of_the_views_own_is_made_anew,
    other_keys_go_on_and_later_events_of_the_key_wait,
    later_events_wait_while_the_key_is_collected,
    a_worker_that_dies_while_it_handles_the_key_again_leaves_it_to_its_heir,
    a_worker_that_dies_while_it_undoes_the_key_has_changed_nothing,
    a_key_that_fails_again_is_parked_like_any_other,
    a_parked_key_begins_with_its_first_event_and_keeps_its_order,
    a_hook_that_fails_is_given_up_and_nothing_is_lost,
    keys_are_handled_again_while_workers_come_die_and_go,
    a_subscriber_gets_the_events_of_the_key_once_more,
    what_else_is_wanted_of_the_key_takes_the_place_of_it,
}

/// What a key does when it comes again.
#[derive(Clone, Default)]
pub struct Again {
    pub resets: Arc<AtomicU64>,
    /// The hook stands still until it is dropped.
    hangs: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
}

/// A recorder that can undo one key.
#[derive(Clone)]
pub struct Keyed {
    pub rows: Recorder,
    pub again: Again,
}

impl Keyed {
    pub fn new(rows: Recorder) -> Self {
        Self { rows, again: Again::default() }
    }
}

impl Projection for Keyed {
    fn name(&self) -> &str {
        self.rows.name()
    }
    fn partition(&self) -> Partition {
        self.rows.partition.clone()
    }
    fn settings(&self) -> Settings {
        self.rows.settings.clone()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.rows.handle(event, tx).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        self.rows.set_up(tx).await
    }
    fn resets_keys(&self) -> bool {
        true
    }
    async fn reset_key(&self, key: &str, tx: &mut Tx) -> HandlerResult {
        self.again.resets.fetch_add(1, Ordering::SeqCst);
        let table = &self.rows.table;
        tx.execute(format!("DELETE FROM {table} WHERE key = $1"), params![key]).await?;
        tx.execute(format!("DELETE FROM {table}_keys WHERE key = $1"), params![key]).await?;
        if self.again.hangs.load(Ordering::SeqCst) {
            // Sent, and not committed.
            tx.query("SELECT 1 AS one", vec![]).await?;
            std::future::pending::<()>().await;
        }
        match self.again.fails.load(Ordering::SeqCst) {
            true => Err(HandlerError::new("the table is locked away")),
            false => Ok(()),
        }
    }
}

/// Waits until nothing of a consumer is set aside, or asked for.
pub async fn until_done(log: &Log, name: &str) {
    let consumers = Consumers::new(log);
    until("no key that is set aside", async || {
        consumers.parked(name).await.ok()?.is_empty().then_some(())
    })
    .await;
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Numbers(Vec<u64>);

/// The numbers of an order, in the row of the order or in those of even and odd ones.
#[derive(Clone, Default)]
struct Orders {
    by_parity: bool,
}

impl View for Orders {
    type State = Numbers;
    fn name(&self) -> &str {
        "orders"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn key(&self, event: &Event) -> Option<String> {
        let number: u64 = event.data().ok()?;
        self.by_parity.then(|| format!("{}/{}", event.stream_id(), number % 2))
    }
    fn apply(&self, numbers: &mut Numbers, event: &Event) -> HandlerResult {
        numbers.0.push(event.data()?);
        Ok(())
    }
}

async fn spoil(log: &Log, condition: &str) {
    let table = anabranch_table(log);
    query(log, &format!("UPDATE {table} SET state = '[666]' WHERE {condition}"), vec![]).await;
}

fn anabranch_table(log: &Log) -> String {
    log.database().dialect().table("view_orders")
}

async fn a_view_is_as_if_the_key_had_never_been_different(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=30).await;
    let (view, set) = (Orders::default(), || ReplicaSet::new("s").view(Orders::default()).lanes(2));
    set().catch_up(&log).await.unwrap();
    spoil(&log, "key IN ('3', '4')").await;
    let consumers = Consumers::new(&log);
    consumers.replay_key("orders", "Order:3").await.unwrap();
    let aside = consumers.parked("orders").await.unwrap().pop().unwrap();
    assert_eq!((aside.asked, aside.state), (Some("replay"), KeyState::Retrying));
    let running = start(&log, set());
    fill(&log, 0..10, 31..=40).await;
    until_done(&log, "orders").await;
    let reader = ViewReader::new(&log, &view);
    let all = Numbers((1..=40).collect());
    until("all events", async || {
        (reader.get("3").await.ok()?.as_ref() == Some(&all)).then_some(())
    })
    .await;
    running.stop().await;
    set().catch_up(&log).await.unwrap();
    assert_eq!(reader.get("5").await.unwrap(), Some(all.clone()), "the others are as they were");
    let spoilt = Numbers([666].into_iter().chain(31..=40).collect());
    assert_eq!(reader.get("4").await.unwrap(), Some(spoilt), "only one key was asked for");
    // And once more, while a worker has the states in memory.
    let running = start(&log, set());
    spoil(&log, "key = '5'").await;
    consumers.replay_key("orders", "Order:5").await.unwrap();
    until_done(&log, "orders").await;
    running.stop().await;
    assert_eq!(reader.get("5").await.unwrap(), Some(all));
    let left =
        format!("SELECT count(*) FROM {}", log.database().dialect().table("replayed_events"));
    assert_eq!(number(&log, &left).await, 0, "what was collected is gone");
}

async fn a_row_by_a_key_of_the_views_own_is_made_anew(db: Db) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=9).await;
    let view = Orders { by_parity: true };
    let set = || ReplicaSet::new("s").view(view.clone());
    set().catch_up(&log).await.unwrap();
    spoil(&log, "key LIKE '3/%' OR key = '2/0'").await;
    Consumers::new(&log).replay_key("orders", "Order:3").await.unwrap();
    set().catch_up(&log).await.unwrap();
    let reader = ViewReader::new(&log, &view);
    assert_eq!(reader.get("3/0").await.unwrap(), Some(Numbers(vec![2, 4, 6, 8])));
    assert_eq!(reader.get("3/1").await.unwrap(), Some(Numbers(vec![1, 3, 5, 7, 9])));
    assert_eq!(
        reader.get("2/0").await.unwrap(),
        Some(Numbers(vec![666])),
        "the row of another key"
    );
}

/// Each event of the key takes a while when it comes again: another key is handled before the key is done.
async fn other_keys_go_on_and_later_events_of_the_key_wait(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=400).await;
    let slow = Arc::new(AtomicBool::new(false));
    let hook = {
        let slow = Arc::clone(&slow);
        move |event: &Event| {
            if event.stream_id() == "1" && slow.load(Ordering::SeqCst) {
                tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(5)));
            }
            Ok(())
        }
    };
    let keyed = Keyed::new(db.recorder("orders").hook(hook));
    let (table, again) = (keyed.rows.table.clone(), keyed.again.clone());
    let set = || ReplicaSet::new("s").projection(keyed.clone()).lanes(1);
    set().catch_up(&log).await.unwrap();
    slow.store(true, Ordering::SeqCst);
    let running = start(&log, set());
    let consumers = Consumers::new(&log);
    consumers.replay_key("orders", "Order:1").await.unwrap();
    until("the key to be undone", async || (again.resets.load(Ordering::SeqCst) > 0).then_some(()))
        .await;
    fill(&log, 0..3, 401..=401).await;
    let of = async |key: &str| {
        number(&log, &format!("SELECT count(*) FROM {table} WHERE key = 'Order:{key}'")).await
    };
    until("another key", async || (of("2").await == 401).then_some(())).await;
    let waits = consumers.parked_events("orders", "Order:1", 1_000).await.unwrap().len();
    assert!(waits > 1, "the other key has waited for all of this one");
    until_done(&log, "orders").await;
    running.stop().await;
    assert_eq!(of("1").await, 401);
    assert_eq!(again.resets.load(Ordering::SeqCst), 1);
    let whole = Proof { handled: 1_203, doubled: 0, keys: 3, wrong: 0 };
    assert_eq!(proof(&log, &table).await, whole);
}

/// The events of the key are on many pages, since only the program knows which they are; and the lane has later ones
/// in memory when it begins.
async fn later_events_wait_while_the_key_is_collected(db: Db) {
    let log = db.log().await;
    fill(&log, 0..100, 1..=100).await;
    let gate = Gate::default();
    let by_stream = Partition::custom("stream", |event| Some(event.stream_id().to_owned()));
    let recorder = db.recorder("orders").partition(by_stream).hook(gate.hook());
    let keyed = Keyed::new(recorder.settings(Settings::default().batch_size(100)));
    let (table, again) = (keyed.rows.table.clone(), keyed.again.clone());
    let set = || ReplicaSet::new("s").projection(keyed.clone()).lanes(1);
    set().catch_up(&log).await.unwrap();
    let running = start(&log, set().lease(Duration::from_millis(500)));
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    Consumers::new(&log).replay_key("orders", "1").await.unwrap();
    fill(&log, 0..10, 101..=200).await;
    until_beats(&log, 6).await;
    gate.open();
    until_done(&log, "orders").await;
    until("all", async || (proof(&log, &table).await.handled >= 11_001).then_some(())).await;
    running.stop().await;
    assert_eq!(again.resets.load(Ordering::SeqCst), 1);
    let whole = Proof { handled: 11_001, doubled: 0, keys: 101, wrong: 0 };
    assert_eq!(proof(&log, &table).await, whole);
}

async fn a_worker_that_dies_while_it_handles_the_key_again_leaves_it_to_its_heir(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=200).await;
    let meets = Arc::new(AtomicU64::new(0));
    let recorder = |dies: bool| {
        let meets = Arc::clone(&meets);
        let hook = move |event: &Event| {
            if dies && event.stream_id() == "1" && event.version() == 150 {
                meets.fetch_add(1, Ordering::SeqCst);
                tokio::task::block_in_place(|| std::thread::sleep(Duration::from_secs(2)));
            }
            Ok(())
        };
        Keyed::new(db.recorder("orders").hook(hook))
    };
    let table = recorder(false).rows.table;
    let lease = Duration::from_millis(300);
    let set = |dies| ReplicaSet::new("s").projection(recorder(dies)).lease(lease);
    set(false).catch_up(&log).await.unwrap();
    Consumers::new(&log).replay_key("orders", "Order:1").await.unwrap();
    let other = db.log().await;
    let running = start(&other, set(true));
    until("the key to be tried", async || (meets.load(Ordering::SeqCst) > 0).then_some(())).await;
    running.crash();
    fill(&log, 0..3, 201..=210).await;
    let heir = start(&log, set(false));
    until_done(&log, "orders").await;
    until("all", async || (proof(&log, &table).await.handled == 630).then_some(())).await;
    heir.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 630, doubled: 0, keys: 3, wrong: 0 });
}

async fn a_worker_that_dies_while_it_undoes_the_key_has_changed_nothing(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=20).await;
    let keyed = Keyed::new(db.recorder("orders"));
    let table = keyed.rows.table.clone();
    let lease = Duration::from_millis(300);
    let set = |keyed: &Keyed| ReplicaSet::new("s").projection(keyed.clone()).lease(lease);
    set(&keyed).catch_up(&log).await.unwrap();
    Consumers::new(&log).replay_key("orders", "Order:1").await.unwrap();
    let other = db.log().await;
    keyed.again.hangs.store(true, Ordering::SeqCst);
    let running = start(&other, set(&keyed));
    until("the hook", async || (keyed.again.resets.load(Ordering::SeqCst) > 0).then_some(())).await;
    running.crash();
    drop(other);
    until("the hook's session to end", async || {
        (proof(&log, &table).await.handled == 60).then_some(())
    })
    .await;
    keyed.again.hangs.store(false, Ordering::SeqCst);
    let heir = start(&log, set(&keyed));
    fill(&log, 0..3, 21..=25).await;
    until_done(&log, "orders").await;
    until("all", async || (proof(&log, &table).await.handled == 75).then_some(())).await;
    heir.stop().await;
    assert!(keyed.again.resets.load(Ordering::SeqCst) > 1, "the heir has undone it");
    assert_eq!(proof(&log, &table).await, Proof { handled: 75, doubled: 0, keys: 3, wrong: 0 });
}

async fn a_key_that_fails_again_is_parked_like_any_other(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=10).await;
    let fails = Arc::new(AtomicBool::new(false));
    let hook = {
        let fails = Arc::clone(&fails);
        move |event: &Event| match event.stream_id() {
            "1" if event.version() == 5 && fails.load(Ordering::SeqCst) => {
                Err(HandlerError::new("not this time"))
            }
            _ => Ok(()),
        }
    };
    let keyed = Keyed::new(db.recorder("orders").hook(hook).settings(never()));
    let table = keyed.rows.table.clone();
    let set = || ReplicaSet::new("s").projection(keyed.clone());
    set().catch_up(&log).await.unwrap();
    fails.store(true, Ordering::SeqCst);
    let consumers = Consumers::new(&log);
    consumers.replay_key("orders", "Order:1").await.unwrap();
    let left = left_by(set(), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 6));
    let parked = consumers.parked("orders").await.unwrap().pop().unwrap();
    assert_eq!((parked.state, parked.asked), (KeyState::Parked, None));
    assert!(parked.error.contains("not this time"), "{}", parked.error);
    assert_eq!(proof(&log, &table).await, Proof { handled: 24, doubled: 0, keys: 3, wrong: 0 });
    fails.store(false, Ordering::SeqCst);
    consumers.retry_parked("orders", "Order:1").await.unwrap();
    set().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await, Proof { handled: 30, doubled: 0, keys: 3, wrong: 0 });
}

async fn a_parked_key_begins_with_its_first_event_and_keeps_its_order(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=10).await;
    let fails = Arc::new(AtomicBool::new(true));
    let hook = {
        let fails = Arc::clone(&fails);
        move |event: &Event| match event.stream_id() {
            "1" if event.version() >= 5 && fails.load(Ordering::SeqCst) => {
                Err(HandlerError::new("not yet"))
            }
            _ => Ok(()),
        }
    };
    let keyed = Keyed::new(db.recorder("orders").hook(hook).settings(never()));
    let table = keyed.rows.table.clone();
    let set = || ReplicaSet::new("s").projection(keyed.clone());
    assert_eq!(left_by(set(), &log).await.parked_events, 6);
    // One is left out, and comes again with the others.
    let consumers = Consumers::new(&log);
    consumers.skip_parked("orders", "Order:1").await.unwrap();
    assert_eq!(left_by(set(), &log).await.parked_events, 5);
    fails.store(false, Ordering::SeqCst);
    consumers.replay_key("orders", "Order:1").await.unwrap();
    // Who asks for a retry gets it with that.
    consumers.retry_parked("orders", "Order:1").await.unwrap();
    set().catch_up(&log).await.unwrap();
    assert_eq!(keyed.again.resets.load(Ordering::SeqCst), 1);
    assert_eq!(proof(&log, &table).await, Proof { handled: 30, doubled: 0, keys: 3, wrong: 0 });
}

async fn a_hook_that_fails_is_given_up_and_nothing_is_lost(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=10).await;
    let keyed = Keyed::new(db.recorder("orders"));
    let table = keyed.rows.table.clone();
    let set = || ReplicaSet::new("s").projection(keyed.clone());
    set().catch_up(&log).await.unwrap();
    keyed.again.fails.store(true, Ordering::SeqCst);
    Consumers::new(&log).replay_key("orders", "Order:1").await.unwrap();
    fill(&log, 0..3, 11..=12).await;
    set().catch_up(&log).await.unwrap();
    let problem = status(&log, "orders").await.problem.unwrap();
    assert!(problem.contains("`Order:1`") && problem.contains("locked away"), "{problem}");
    assert_eq!(proof(&log, &table).await, Proof { handled: 36, doubled: 0, keys: 3, wrong: 0 });
    keyed.again.fails.store(false, Ordering::SeqCst);
    Consumers::new(&log).replay_key("orders", "Order:1").await.unwrap();
    assert_eq!(status(&log, "orders").await.problem, None);
    set().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await, Proof { handled: 36, doubled: 0, keys: 3, wrong: 0 });
}

/// Laws 2 and 3, across hand-over and crash.
async fn keys_are_handled_again_while_workers_come_die_and_go(db: Db) {
    const KEYS: u64 = 12;
    let log = db.log().await;
    fill(&log, 0..KEYS, 1..=40).await;
    let keyed = Keyed::new(db.recorder("orders").settings(Settings::default().batch_size(50)));
    let table = keyed.rows.table.clone();
    let lease = Duration::from_millis(300);
    let set = || ReplicaSet::new("s").projection(keyed.clone()).lanes(2).lease(lease);
    set().catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    let mut workers = Vec::new();
    for round in 0..6_u64 {
        // Workers of the rounds before may be fast.
        let before = keyed.again.resets.load(Ordering::SeqCst);
        for key in 0..KEYS {
            consumers.replay_key("orders", &format!("Order:{key}")).await.unwrap();
        }
        let other = db.log().await;
        workers.push(start(&other, set()));
        fill(&log, 0..KEYS, 41 + round * 10..=50 + round * 10).await;
        until("some of them", async || {
            (keyed.again.resets.load(Ordering::SeqCst) > before + 2).then_some(())
        })
        .await;
        match round % 3 {
            0 => {}
            1 => workers.remove(0).crash(),
            _ => drop(workers.remove(0).stop().await),
        }
    }
    until_done(&log, "orders").await;
    let all = KEYS as i64 * 100;
    until("all", async || (proof(&log, &table).await.handled == all).then_some(())).await;
    for worker in workers {
        worker.stop().await;
    }
    let whole = Proof { handled: all, doubled: 0, keys: KEYS as i64, wrong: 0 };
    assert_eq!(proof(&log, &table).await, whole);
}

struct Mail {
    sent: Arc<AtomicU64>,
}

impl Subscriber for Mail {
    fn name(&self) -> &str {
        "mail"
    }
    fn partition(&self) -> Partition {
        // A function of its own: only its program knows which events are of a key.
        Partition::custom("parity", |event| Some((event.version() % 2).to_string()))
    }
    async fn deliver(&self, delivery: &anabranch::Delivery<'_>) -> HandlerResult {
        let number: u64 = delivery.event().data()?;
        self.sent.fetch_add(if number % 2 == 1 { 1 } else { 1_000 }, Ordering::SeqCst);
        Ok(())
    }
}

async fn a_subscriber_gets_the_events_of_the_key_once_more(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=10).await;
    let sent = Arc::new(AtomicU64::new(0));
    let set = || ReplicaSet::new("s").subscriber(Mail { sent: Arc::clone(&sent) });
    set().catch_up(&log).await.unwrap();
    assert_eq!(sent.load(Ordering::SeqCst), 15_015);
    Consumers::new(&log).replay_key("mail", "1").await.unwrap();
    set().catch_up(&log).await.unwrap();
    assert_eq!(sent.load(Ordering::SeqCst), 15_030, "the odd ones, each once");
}

async fn what_else_is_wanted_of_the_key_takes_the_place_of_it(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=10).await;
    let keyed = Keyed::new(db.recorder("orders"));
    let table = keyed.rows.table.clone();
    let set = || ReplicaSet::new("s").projection(keyed.clone());
    set().catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    consumers.replay_key("orders", "Order:1").await.unwrap();
    consumers.skip_all_parked("orders", "Order:1").await.unwrap();
    one(&log, "1", numbered(11)).await;
    set().catch_up(&log).await.unwrap();
    assert_eq!(keyed.again.resets.load(Ordering::SeqCst), 0);
    assert_eq!(proof(&log, &table).await, Proof { handled: 31, doubled: 0, keys: 3, wrong: 0 });
    assert!(consumers.parked("orders").await.unwrap().is_empty());
}

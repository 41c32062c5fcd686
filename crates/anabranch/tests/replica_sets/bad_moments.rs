//! Hand-overs at bad moments: in a failure, in a backoff, while a key is drained, at a death.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::on_postgres;
use crate::support::*;
use anabranch::operate::{Consumers, Owner, Reason};
use anabranch::partitioning::SlotSet;
use anabranch::prelude::*;
use anabranch::running::Rollout;
use anabranch::{Failure, HandlerError, HashRule, Retry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    events_behind_a_failure_are_not_handled_twice,
    nothing_is_committed_without_a_row_to_fence_it,
    a_key_that_is_parked_while_its_slot_moves_moves_along,
    a_busy_lane_does_not_keep_others_from_claiming,
    a_leaver_that_is_killed_is_noticed_at_once,
    a_lane_in_backoff_lets_go,
    a_key_that_is_drained_lets_go,
    a_long_error_is_cut_before_it_is_reported,
}

on_postgres! {
    recreate_waits_for_the_last_when_somebody_died,
    a_fenced_lane_does_not_obey_an_older_order,
}

/// Waits until another worker than those of `one` lanes holds something: then all lanes know what they
/// should keep.
async fn until_others_hold(log: &Log, lanes: usize) {
    until("slots that others hold", async || {
        let cursors = status(log, "orders").await.cursors;
        let is_other = |o: &Owner| matches!(o, Owner::Worker(w) if w.lanes != lanes);
        cursors.iter().any(|cursor| is_other(&cursor.owner)).then_some(())
    })
    .await;
}

/// Waits until all cursors have passed everything; keys may be parked.
async fn until_passed(log: &Log) {
    until("the end", async || {
        let now = status(log, "orders").await;
        (now.position == now.head).then_some(())
    })
    .await;
}

/// One batch: the event of stream `gate`, then one of each of forty.
async fn gate_and_forty(log: &Log) {
    let mut append = Append::new();
    for stream in ["gate".to_owned()].into_iter().chain((0..40).map(|each| each.to_string())) {
        let id = StreamId::new("Order", stream).unwrap();
        append = append.to(&id, Expected::Any, [numbered(1)]);
    }
    log.append_all(append).await.unwrap();
}

/// A third of all slots that has the one of the gate: lanes hold theirs in strides of two.
fn third() -> String {
    format!("{}/3", HashRule::Fnv1a.slot("gate").get() % 3)
}

/// Opens a gate at the end, however that comes: else the case would hang instead of failing.
struct Opens(Gate);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Waits at the gate, and fails the first time.
fn fails_once(gate: &Gate) -> impl Fn(&Event) -> HandlerResult + Send + Sync + 'static {
    let (gate, failed) = (gate.clone(), Arc::new(AtomicBool::new(false)));
    move |event| {
        gate.pass(event);
        if event.stream_id() == "gate" && !failed.swap(true, Ordering::SeqCst) {
            return Err(HandlerError::new("the first time"));
        }
        Ok(())
    }
}

/// What stands before a failing event is committed while slots should be let go: the rest of the
/// batch must not be handled here and by the heir.
async fn events_behind_a_failure_are_not_handled_twice(db: Db) {
    fails_while_slots_move(db, |set| set, 2).await;
}

/// The same where the lane keeps nothing at all: without a row there is no fence.
async fn nothing_is_committed_without_a_row_to_fence_it(db: Db) {
    fails_while_slots_move(db, |set| set.partition("0/1".parse().unwrap()), 1).await;
}

/// An event fails in a worker of which a second one wants slots; then so many share them.
async fn fails_while_slots_move(db: Db, second: fn(ReplicaSet) -> ReplicaSet, sharers: usize) {
    let log = db.log().await;
    let recorder = db.recorder("orders").settings(never());
    let table = recorder.table.clone();
    let gate = Gate::default();
    let _opens = Opens(gate.clone());
    let first = recorder.clone().worker("first").hook(fails_once(&gate));
    let set = ReplicaSet::new("s").projection(first).lanes(2).lease(LONG_LEASE);
    let first = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    gate_and_forty(&log).await;
    gate.is_met().await;
    let set = ReplicaSet::new("s").projection(recorder.clone().worker("second"));
    let second = start(&db.log().await, second(set).lease(LONG_LEASE));
    until_others_hold(&log, 2).await;
    gate.open();
    until_shared(&log, "orders", sharers).await;
    until_passed(&log).await;
    first.stop().await;
    second.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 40, doubled: 0, keys: 40, wrong: 0 });
}

/// The lane that parks it must not remember it when the slot is gone, and comes back later.
async fn a_key_that_is_parked_while_its_slot_moves_moves_along(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders").settings(never());
    let table = recorder.table.clone();
    let gate = Gate::default();
    let _opens = Opens(gate.clone());
    let first = recorder.clone().worker("first").hook(fails_once(&gate));
    let set = ReplicaSet::new("s").projection(first).lanes(2).tuning(quick());
    let first = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    let third = third();
    let set = ReplicaSet::new("s").projection(recorder.clone().worker("second"));
    let second = start(&db.log().await, set.partition(third.parse().unwrap()).tuning(quick()));
    until_others_hold(&log, 2).await;
    gate.open();
    until("its third", async || {
        owned(&log, "orders").await?.values().any(|slots| *slots == 1680).then_some(())
    })
    .await;
    let consumers = Consumers::new(&log);
    consumers.retry_parked("orders", "Order:gate").await.unwrap();
    until("its retry", async || (proof(&log, &table).await.handled == 1).then_some(())).await;
    until("no parked key", async || {
        consumers.parked("orders").await.unwrap().is_empty().then_some(())
    })
    .await;
    second.stop().await;
    until_shared(&log, "orders", 1).await;
    one(&log, "gate", numbered(2)).await;
    until_passed(&log).await;
    first.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 2, doubled: 0, keys: 1, wrong: 0 });
}

/// What a lane holds and should let go does not make up for what another lane lacks.
async fn a_busy_lane_does_not_keep_others_from_claiming(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let gate = Gate::default();
    let _opens = Opens(gate.clone());
    let busy = recorder.clone().hook(gate.hook());
    let set = ReplicaSet::new("s").projection(busy).lanes(2).tuning(quick());
    let busy = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    let join = async || {
        let set = ReplicaSet::new("s").projection(recorder.clone());
        start(&db.log().await, set.tuning(quick()))
    };
    let guest = join().await;
    until_others_hold(&log, 2).await;
    let stays = join().await;
    until("three owners", async || (owned(&log, "orders").await?.len() == 3).then_some(())).await;
    guest.stop().await;
    // The busy lane keeps what it has; all else has an owner soon.
    until("an owner for every slot", async || owned(&log, "orders").await).await;
    gate.open();
    busy.stop().await;
    stays.stop().await;
}

/// It is a member no more, and is watched all the same.
async fn a_leaver_that_is_killed_is_noticed_at_once(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let gate = Gate::default();
    let _opens = Opens(gate.clone());
    let survivor = ReplicaSet::new("s").projection(recorder.clone());
    let survivor = start(&db.log().await, survivor.tuning(quick()));
    let leaver = recorder.clone().hook(gate.hook());
    let set = ReplicaSet::new("s").projection(leaver).lanes(2).tuning(quick());
    let third = third();
    let set = set.partition(third.parse().unwrap()).grace(Duration::from_secs(600));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let own = db.log().await;
    let leaver = tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        set.run_until(&own, stop).await
    });
    until("its third", async || {
        owned(&log, "orders").await?.values().any(|slots| *slots == 1680).then_some(())
    })
    .await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    let _ = stop.send(());
    until("that it leaves", async || {
        let newest = generations(&log).await.remove(0);
        newest.reason.ends_with("left").then_some(())
    })
    .await;
    leaver.abort();
    until_shared(&log, "orders", 1).await;
    gate.open();
    survivor.stop().await;
}

/// Whoever waits before it tries again does not hold up a hand-over.
async fn a_lane_in_backoff_lets_go(db: Db) {
    let log = db.log().await;
    let wait = Duration::from_secs(3000);
    let retry = Retry::default().first(wait).longest(wait).then(Failure::Stop);
    let recorder = db.recorder("orders").settings(Settings::default().retry(retry));
    let failing = recorder.clone().hook(|_| Err(HandlerError::new("it is broken")));
    let calls = Arc::clone(&failing.handled);
    let set = ReplicaSet::new("s").projection(failing).lanes(1).tuning(quick());
    let first = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    one(&log, "1", numbered(1)).await;
    until("a failure", async || (calls.load(Ordering::Relaxed) > 0).then_some(())).await;
    let set = ReplicaSet::new("s").projection(recorder.clone()).lanes(2).tuning(quick());
    let second = start(&db.log().await, set);
    until_shared(&log, "orders", 2).await;
    first.stop().await;
    second.stop().await;
}

/// The events behind a parked key are many, and its slot should move meanwhile.
async fn a_key_that_is_drained_lets_go(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders").settings(never());
    let table = recorder.table.clone();
    let (fails, gates) = (Arc::new(AtomicBool::new(true)), [(); 2].map(|()| Gate::default()));
    let (own_fails, own_gates) = (Arc::clone(&fails), gates.clone());
    let first = recorder.clone().hook(move |event| {
        if own_fails.load(Ordering::SeqCst) {
            return Err(HandlerError::new("not yet"));
        }
        // The first of the first transaction, and one of a later transaction.
        match event.data::<u64>()? {
            1 => own_gates[0].pass(event),
            100 => own_gates[1].pass(event),
            _ => {}
        }
        Ok(())
    });
    let set = ReplicaSet::new("s").projection(first).lanes(1).tuning(quick());
    let first = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    for number in 1..=200 {
        one(&log, "gate", numbered(number)).await;
    }
    until_passed(&log).await;
    fails.store(false, Ordering::SeqCst);
    Consumers::new(&log).retry_parked("orders", "Order:gate").await.unwrap();
    gates[0].is_met().await;
    let set = ReplicaSet::new("s").projection(recorder.clone()).lanes(2).tuning(quick());
    let second = start(&db.log().await, set);
    until("a generation", async || (generations(&log).await.len() == 2).then_some(())).await;
    until_beats(&log, 5).await;
    gates[0].open();
    // Either it lets go between two transactions, or it comes to the second gate with all its slots.
    until("slots that move", async || {
        let met = gates[1].met.load(Ordering::SeqCst);
        let shares = owned(&log, "orders").await.map_or(0, |owned| owned.len());
        (met || shares == 2).then_some(())
    })
    .await;
    let shared = owned(&log, "orders").await.map_or(0, |owned| owned.len());
    gates[1].open();
    assert_eq!(shared, 2, "it has let go before the next transaction of the key");
    until("all", async || (proof(&log, &table).await.handled == 200).then_some(())).await;
    first.stop().await;
    second.stop().await;
}

/// Whoever notices a death makes the next generation, and must not begin with it before all have
/// let go, though its last heartbeat was about the one before.
async fn recreate_waits_for_the_last_when_somebody_died(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let gates = [(); 2].map(|()| Gate::default());
    let _opens = gates.clone().map(Opens);
    let waits = |gate: &Gate| {
        let gate = gate.clone();
        move |_: &Event| {
            gate.met.store(true, Ordering::SeqCst);
            tokio::task::block_in_place(|| {
                while !gate.open.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            Ok(())
        }
    };
    let join = async |recorder: Recorder| {
        let set = ReplicaSet::new("s").projection(recorder).rollout(Rollout::Recreate);
        start(&db.log().await, set.lease(LONG_LEASE))
    };
    // They watch each other in the order of their ids: the first one the last.
    let heir = join(recorder.clone().worker("heir")).await;
    let id = until_shared(&log, "orders", 1).await.pop_first().unwrap();
    let busy = join(recorder.clone().worker("busy").hook(waits(&gates[0]))).await;
    until_shared(&log, "orders", 2).await;
    let victim = join(recorder.clone().worker("victim").hook(waits(&gates[1]))).await;
    until_shared(&log, "orders", 3).await;
    fill(&log, 0..90, 1..=1).await;
    gates[0].is_met().await;
    gates[1].is_met().await;
    let own = async || {
        let cursors = status(&log, "orders").await.cursors;
        let is_own = |o: &Owner| matches!(o, Owner::Worker(w) if w.id == id);
        cursors.into_iter().filter(|c| is_own(&c.owner)).collect::<Vec<_>>()
    };
    until("what is the heir's", async || own().await.iter().all(|c| c.lag == 0).then_some(()))
        .await;
    let before = proof(&log, &table).await.handled;
    let workers = table_of(&log, "workers");
    let held = hold(&log, format!("SELECT id FROM {workers} WHERE id = '{id}' FOR UPDATE")).await;
    victim.crash();
    until("that it lets go, or handles what was the victim's", async || {
        let handled = proof(&log, &table).await.handled;
        (handled > before || own().await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(proof(&log, &table).await.handled, before, "a handler of the last one is at work");
    drop(held);
    gates.iter().for_each(Gate::open);
    heir.stop().await;
    busy.stop().await;
}

/// It is written with every heartbeat.
async fn a_long_error_is_cut_before_it_is_reported(db: Db) {
    let log = db.log().await;
    let wait = Duration::from_secs(3000);
    let retry = Retry::default().first(wait).longest(wait).then(Failure::Stop);
    let recorder = db.recorder("orders").settings(Settings::default().retry(retry));
    let failing = recorder.hook(|_| Err(HandlerError::new("x".repeat(3_000_000))));
    let running = start(&db.log().await, ReplicaSet::new("s").projection(failing).tuning(quick()));
    until_shared(&log, "orders", 1).await;
    one(&log, "1", numbered(1)).await;
    let length = format!("SELECT max(length(report)) FROM {}", table_of(&log, "workers"));
    until("a report of it", async || {
        let cursors = status(&log, "orders").await.cursors;
        let mut reasons = cursors.into_iter().flat_map(|cursor| cursor.reasons);
        reasons.find(|reason| matches!(reason, Reason::Failing { .. }))
    })
    .await;
    let length = number(&log, &length).await;
    running.stop().await;
    assert!(length < 2_000, "{length} characters with each heartbeat");
}

/// Names are cut at 63 bytes, and `status` finds lanes by them.
#[test]
fn lanes_of_two_consumers_have_names_of_their_own() {
    use anabranch::backend::database::Who;
    let worker = "0190b6a4-0000-7000-8000-123456789abc";
    let name = |consumer: &str| Who::lane(worker, consumer, 0).name();
    assert_ne!(name("überweisung"), name("berweisung"));
    let long = "a_projection_with_a_name_that_says_what_it_does";
    assert_ne!(name(&format!("{long}_v1")), name(&format!("{long}_v2")));
}

/// It was told of a cursor before it was fenced: by then that is somebody else's.
async fn a_fenced_lane_does_not_obey_an_older_order(db: Db) {
    let log = db.log().await;
    let gate = Gate::default();
    let _opens = Opens(gate.clone());
    let calls = Arc::new(AtomicU64::new(0));
    let (own, counted) = (gate.clone(), Arc::clone(&calls));
    let recorder = db.recorder("orders").hook(move |event| {
        if event.stream_id() == "gate" {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        own.pass(event);
        Ok(())
    });
    let table = recorder.table.clone();
    let set = ReplicaSet::new("s").projection(recorder).lanes(2).tuning(quick());
    let running = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    // The lanes hold every second slot each.
    let slot = |stream: &str| HashRule::Fnv1a.slot(stream);
    let streams = (0..).map(|number: u64| number.to_string());
    let mut others = streams.filter(|stream| slot(stream).get() % 2 != slot("gate").get() % 2);
    let other = others.next().unwrap();
    let cursors = table_of(&log, "cursors");
    let row_of = async |stream: &str| {
        let rows = query(&log, &format!("SELECT id, slots FROM {cursors}"), vec![]).await;
        let has = |row: &&anabranch::Row| {
            let slots: Vec<u8> = row.get(1).unwrap();
            SlotSet::from_bytes(&slots).unwrap().contains(slot(stream))
        };
        let id: i64 = rows.iter().find(has).unwrap().get(0).unwrap();
        id
    };
    // The other lane is fenced and asks; both are told what they have.
    raise_epochs(&log, &format!("WHERE id = {}", row_of(&other).await)).await;
    one(&log, &other, numbered(1)).await;
    until("the other's event", async || (proof(&log, &table).await.handled == 1).then_some(()))
        .await;
    // Then this one is, and cannot be told yet what it has.
    raise_epochs(&log, &format!("WHERE id = {}", row_of("gate").await)).await;
    let consumers = table_of(&log, "consumers");
    let held = hold(&log, format!("SELECT name FROM {consumers} FOR UPDATE")).await;
    gate.open();
    until_blocked(&log, &db).await;
    until_beats(&log, 10).await;
    let fenced = calls.load(Ordering::SeqCst);
    drop(held);
    running.stop().await;
    assert_eq!(fenced, 1, "it holds nothing, as far as it can know");
}

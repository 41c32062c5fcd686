//! Messages with several events: their members are stored before the first attempt, and stay the same.

use crate::hooks::*;
use crate::on_both;
use crate::support::*;
use anabranch::operate::Consumers;
use anabranch::webhook::{Deliveries, Filter};
use anabranch_lab::receiver::{Received, Reply};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

on_both! {
    a_message_holds_events_of_one_key,
    the_members_of_a_message_stay_the_same_after_a_crash,
    a_zombie_stores_no_members,
    an_event_that_is_skipped_is_in_no_message,
    an_event_between_two_of_a_message_has_its_own,
    a_message_that_was_begun_stays_whole_without_batches,
}

/// What each id has held: one and the same.
fn members(received: &[Received]) -> HashMap<String, Vec<u64>> {
    let mut all: HashMap<String, Vec<u64>> = HashMap::new();
    for one in received {
        let body = one.json();
        assert_eq!(body["type"], "batch");
        let positions: Vec<u64> = body["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["position"].as_u64().unwrap())
            .collect();
        let id = one.header("webhook-id").to_owned();
        let known = all.entry(id.clone()).or_insert_with(|| positions.clone());
        assert_eq!(*known, positions, "{id} has held other events");
    }
    all
}

async fn a_message_holds_events_of_one_key(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=25).await;
    let receiver = always_taken().await;
    set(hook(&log, &receiver).batch(10)).catch_up(&log).await.unwrap();
    is_whole(&receiver, 10, 25);
    assert_eq!(members(&receiver.received()).len(), 30);
    for one in receiver.received() {
        let body = one.json();
        let events = body["data"].as_array().unwrap();
        assert!(events.iter().all(|event| event["stream"] == body["key"]));
        assert!(events.len() <= 10 && !events.is_empty());
    }
    let kept = Deliveries::new(&log).list(&Filter::default()).await.unwrap();
    assert_eq!(kept.len(), 30);
    assert_eq!(kept.iter().map(|one| one.members.len()).sum::<usize>(), 250);
}

/// The first worker stores what belongs together and crashes while the endpoint has not answered; meanwhile more
/// events have come.
async fn the_members_of_a_message_stay_the_same_after_a_crash(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=2).await;
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let receiver = receiver(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        0..5 => Reply { after: Duration::from_secs(600), ..Reply::default() },
        _ => Reply::default(),
    })
    .await;
    let first = start(&log, set(hook(&log, &receiver).batch(10)));
    until("five are under way", async || (receiver.count() == 5).then_some(())).await;
    first.crash();
    fill(&log, 0..5, 3..=6).await;
    let second = start(&db.log().await, set(hook(&log, &receiver).batch(10)));
    until("all events", async || {
        let whole = members(&receiver.received()).values().map(Vec::len).sum::<usize>() == 30;
        whole.then_some(())
    })
    .await;
    until_handled(&log).await;
    second.stop().await;
    let ids = members(&receiver.received());
    assert_eq!(ids.len(), 10, "two of each key");
    let twice = receiver.received().len();
    assert_eq!(twice, 15, "the first five came again, under their ids");
}

/// Its slots are taken away while it is about to store what belongs together: nothing of that may be stored, or two
/// deliveries would hold the same event.
async fn a_zombie_stores_no_members(db: Db) {
    let log = db.log().await;
    let receiver = always_taken().await;
    let running = start(&log, set(hook(&log, &receiver).batch(4)).lease(Duration::from_secs(300)));
    until("its slots", async || {
        let standing = standing(&log).await?;
        standing.runners.first().filter(|runner| runner.slots == 5040).map(drop)
    })
    .await;
    let cursors = log.database().dialect().table("cursors");
    query(&log, &format!("UPDATE {cursors} SET epoch = epoch + 1"), vec![]).await;
    fill(&log, 0..10, 1..=8).await;
    // It finds out by the first of its transactions, which is the one that stores members.
    until_handled(&log).await;
    running.stop().await;
    is_whole(&receiver, 10, 8);
    assert_eq!(
        receiver.count(),
        members(&receiver.received()).len(),
        "nothing was sent by the one without slots"
    );
    let kept = Deliveries::new(&log).list(&Filter::default()).await.unwrap();
    let mut all: Vec<u64> =
        kept.iter().flat_map(|one| one.members.iter().map(|member| member.get())).collect();
    all.sort_unstable();
    assert_eq!(all, (1..=80).collect::<Vec<u64>>(), "each event is in one delivery");
    assert!(Consumers::new(&log).parked("crm").await.unwrap().is_empty());
}

/// The first event of a message that is parked is left out: the others go on without it, under another id.
async fn an_event_that_is_skipped_is_in_no_message(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=3).await;
    let receiver = receiver(|one| match one.json()["data"][0] {
        ref event if event["stream"] == "Order:1" && event["version"] == 1 => Reply::status(422),
        _ => Reply::default(),
    })
    .await;
    let running = start(&log, set(hook(&log, &receiver).batch(10)));
    until("it is parked", async || (standing(&log).await?.parked_keys == 1).then_some(())).await;
    Consumers::new(&log).skip_parked("crm", "Order:1").await.unwrap();
    until("the others", async || taken(&receiver).contains_key("Order:1").then_some(())).await;
    until("nothing is parked", async || (standing(&log).await?.parked_keys == 0).then_some(()))
        .await;
    running.stop().await;
    assert_eq!(taken(&receiver)["Order:1"], [2, 3]);
    assert_eq!(taken(&receiver)["Order:0"], [1, 2, 3]);
    members(&receiver.received());
}

/// Events 1 and 3 of a key are delivered together; then event 2 is to be delivered as well, as after a wider scope.
async fn an_event_between_two_of_a_message_has_its_own(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=3).await;
    let receiver = always_taken().await;
    set(hook(&log, &receiver).batch(10)).catch_up(&log).await.unwrap();
    let deliveries = log.database().dialect().table("deliveries");
    let cursors = log.database().dialect().table("cursors");
    query(&log, &format!("UPDATE {deliveries} SET members = '[1,3]'"), vec![]).await;
    query(&log, &format!("UPDATE {cursors} SET position = 0"), vec![]).await;
    set(hook(&log, &receiver).batch(10)).catch_up(&log).await.unwrap();
    let [all, own] = receiver.received().try_into().unwrap();
    assert_ne!(all.header("webhook-id"), own.header("webhook-id"));
    let events = own.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["version"], 2);
}

/// A message with several events is under way when `batch` becomes 1: it comes again as it was.
async fn a_message_that_was_begun_stays_whole_without_batches(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=3).await;
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let receiver = receiver(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => Reply { after: Duration::from_secs(600), ..Reply::default() },
        _ => Reply::default(),
    })
    .await;
    let first = start(&log, set(hook(&log, &receiver).batch(10)));
    until("one is under way", async || (receiver.count() == 1).then_some(())).await;
    first.crash();
    fill(&log, 0..1, 4..=4).await;
    let second = start(&db.log().await, set(hook(&log, &receiver)));
    until_handled(&log).await;
    second.stop().await;
    let received = receiver.received();
    assert_eq!(received.len(), 3);
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
    assert_eq!(received[0].body, received[1].body);
    assert_eq!(received[2].json()["version"], 4);
}

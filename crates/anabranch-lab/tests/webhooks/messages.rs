//! What a receiver gets: each event, in order for each key, signed.

use crate::hooks::*;
use crate::on_both;
use crate::support::*;
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use anabranch::trace::{TraceContext, within};
use anabranch::webhook::{Deliveries, Delivery, DeliveryState, Filter, Secrets};
use anabranch_lab::receiver::Reply;
use std::collections::{HashMap, HashSet};

on_both! {
    every_event_arrives_in_order_for_its_key,
    others_verify_what_is_sent,
    a_replay_sends_the_same_ids,
    a_replay_with_new_ids_sends_others,
    the_trace_of_its_events_goes_on,
    what_arrived_is_kept_up_to_a_bound,
    what_arrived_is_bounded_however_short_the_runs_are,
}

async fn every_event_arrives_in_order_for_its_key(db: Db) {
    let log = db.log().await;
    fill(&log, 0..50, 1..=20).await;
    let receiver = always_taken().await;
    set(hook(&log, &receiver)).lanes(2).catch_up(&log).await.unwrap();
    assert_eq!(receiver.count(), 1_000);
    is_whole(&receiver, 50, 20);
    let ids: HashSet<String> =
        receiver.received().iter().map(|one| one.header("webhook-id").to_owned()).collect();
    assert_eq!(ids.len(), 1_000);
    assert_eq!(status(&log, "crm").await.kind, "webhook");
}

async fn others_verify_what_is_sent(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let receiver = always_taken().await;
    let second = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let to = endpoint(&receiver).secrets(Secrets::of([SECRET, second]).unwrap());
    let to = to.header("Authorization", "Bearer 42").unwrap();
    let hook = anabranch::webhook::Webhook::new(&log, "crm", Partition::entity("Order"), to);
    set(hook).catch_up(&log).await.unwrap();
    let [message] = receiver.received().try_into().unwrap();
    for secret in [SECRET, second] {
        let theirs = standardwebhooks::Webhook::new(secret).unwrap();
        theirs.verify(&message.body, &message.headers).unwrap();
        theirs.verify(b"{}", &message.headers).unwrap_err();
    }
    assert_eq!(message.header("content-type"), "application/json");
    assert_eq!(message.header("authorization"), "Bearer 42");
    assert!(message.header("user-agent").starts_with("anabranch/"));
    let event = log.read(Query::all()).collect().await.unwrap().remove(0);
    let body = message.json();
    assert_eq!(body["type"], event.event_type());
    assert_eq!(body["timestamp"], event.recorded_at().to_string());
    assert_eq!(body["stream"], event.stream().to_string());
    assert_eq!(body["data"], event.data::<serde_json::Value>().unwrap());
    assert_eq!(body["id"], event.id().to_string());
}

pub fn ids(receiver: &anabranch_lab::receiver::Receiver) -> Vec<String> {
    let mut ids: Vec<String> =
        receiver.received().iter().map(|one| one.header("webhook-id").to_owned()).collect();
    ids.sort();
    ids
}

async fn a_replay_sends_the_same_ids(db: Db) {
    for batch in [1, 3] {
        let (log, receiver) = (db.log().await, always_taken().await);
        let name = format!("crm-{batch}");
        if batch == 1 {
            fill(&log, 0..4, 1..=5).await;
        }
        let hook = || hook_named(&log, &receiver, &name).batch(batch);
        set(hook()).catch_up(&log).await.unwrap();
        let first = ids(&receiver);
        assert_eq!(first.len(), if batch == 1 { 20 } else { 8 });
        Consumers::new(&log).replay(&name, ReplayFrom::Start).await.unwrap();
        set(hook()).catch_up(&log).await.unwrap();
        let mut twice = [first.clone(), first].concat();
        twice.sort();
        assert_eq!(ids(&receiver), twice, "batch = {batch}");
        is_whole_twice(&receiver);
    }
}

pub fn is_whole_twice(receiver: &anabranch_lab::receiver::Receiver) {
    let mut all: HashMap<String, Vec<u64>> = HashMap::new();
    for one in receiver.received() {
        let body = one.json();
        let events = body["data"].as_array().cloned().unwrap_or_else(|| vec![body.clone()]);
        for event in events {
            let stream = event["stream"].as_str().unwrap().to_owned();
            all.entry(stream).or_default().push(event["version"].as_u64().unwrap());
        }
    }
    assert_eq!(all.len(), 4);
    for (stream, versions) in all {
        assert_eq!(versions, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5], "{stream}");
    }
}

async fn a_replay_with_new_ids_sends_others(db: Db) {
    for batch in [1, 3] {
        let (log, receiver) = (db.log().await, always_taken().await);
        let name = format!("crm-{batch}");
        if batch == 1 {
            fill(&log, 0..4, 1..=5).await;
        }
        let hook = || hook_named(&log, &receiver, &name).batch(batch);
        set(hook()).catch_up(&log).await.unwrap();
        let first: HashSet<String> = ids(&receiver).into_iter().collect();
        Deliveries::new(&log).replay_anew(&name, ReplayFrom::Start, false).await.unwrap();
        set(hook()).catch_up(&log).await.unwrap();
        let all: HashSet<String> = ids(&receiver).into_iter().collect();
        assert_eq!(all.len(), 2 * first.len());
        is_whole_twice(&receiver);
    }
}

async fn kept(log: &Log) -> Vec<Delivery> {
    let filter = Filter { limit: 20_000, ..Filter::default() };
    Deliveries::new(log).list(&filter).await.unwrap()
}

async fn what_arrived_is_kept_up_to_a_bound(db: Db) {
    let log = db.log().await;
    fill(&log, 0..50, 1..=60).await;
    let receiver = always_taken().await;
    set(hook(&log, &receiver).kept(500)).catch_up(&log).await.unwrap();
    assert_eq!(receiver.count(), 3_000);
    let kept =
        until("fewer are kept", async || Some(kept(&log).await).filter(|all| all.len() < 2_500))
            .await;
    assert!(kept.len() >= 500, "{}", kept.len());
    assert!(
        kept.iter().all(|one| one.state == DeliveryState::Delivered && one.status == Some(200))
    );
    assert!(kept.windows(2).all(|two| two[0].at >= two[1].at), "the newest come first");
}

/// Programs that are started often, and what never arrives, let nothing grow; and what did not arrive stays.
async fn what_arrived_is_bounded_however_short_the_runs_are(db: Db) {
    let log = db.log().await;
    fill(&log, 0..30, 1..=2).await;
    let receiver = receiver(|one| match stream(one).as_str() {
        "Order:7" => Reply::status(400),
        _ => Reply::default(),
    })
    .await;
    let hook = || hook(&log, &receiver).kept(20);
    left_by(set(hook()), &log).await;
    assert_eq!(
        kept(&log).await.len(),
        59,
        "58 that arrived, and the first of the key that did not"
    );
    fill(&log, 0..1, 3..=3).await;
    left_by(set(hook()), &log).await;
    // The last 20 and the one that failed; and the newest, if they were counted before it had arrived.
    let is_bounded = |kept: usize| (21..=22).contains(&kept);
    until("fewer are kept", async || is_bounded(kept(&log).await.len()).then_some(())).await;
    let failed = Filter { state: Some(DeliveryState::Failed), ..Filter::default() };
    let failed = Deliveries::new(&log).list(&failed).await.unwrap();
    assert_eq!(failed.iter().map(|one| one.key.as_str()).collect::<Vec<_>>(), ["Order:7"]);
}

/// One cause is named; several are none, without spans, and neither is what nobody traced.
async fn the_trace_of_its_events_goes_on(db: Db) {
    let log = db.log().await;
    let context = |number: u8| TraceContext::new([number; 16], [number; 8], 1).unwrap();
    // Of each order the traces of its events; 0 is none.
    let orders: [(&str, &[u8]); 5] =
        [("one", &[1]), ("same", &[2, 2]), ("two", &[3, 4]), ("half", &[5, 0]), ("none", &[0])];
    for (order, traces) in orders {
        let stream = StreamId::new("Order", order).unwrap();
        for (place, number) in (1..).zip(traces) {
            let append = log.append(&stream, Expected::Any, [numbered(place)]);
            match number {
                0 => append.await.unwrap(),
                number => within(context(*number), append).await.unwrap(),
            };
        }
    }
    let receiver = always_taken().await;
    set(hook(&log, &receiver).batch(10)).catch_up(&log).await.unwrap();
    let received = receiver.received();
    let header = |order: &str| {
        let is_it = |one: &&anabranch_lab::receiver::Received| one.json()["key"] == order;
        received.iter().find(is_it).unwrap().header("traceparent").to_owned()
    };
    assert_eq!(received.len(), 5);
    assert_eq!(header("Order:one"), context(1).to_string());
    assert_eq!(header("Order:same"), context(2).to_string());
    for order in ["Order:two", "Order:half", "Order:none"] {
        assert_eq!(header(order), "", "{order}");
    }
    // What nobody can choose for all messages.
    let refused = endpoint(&receiver).header("TraceParent", &context(9).to_string()).unwrap_err();
    assert!(refused.to_string().contains("traceparent"), "{refused}");
}

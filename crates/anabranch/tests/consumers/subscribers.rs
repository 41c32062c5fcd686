//! Subscribers: at least once with a stable key, or at most once.

use crate::on_both;
use crate::support::{Db, fill, start, until};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::running::Guarantee;
use anabranch::{Delivery, HandlerError, Retry};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both! {
    every_event_is_delivered_in_order_with_a_stable_key,
    a_failed_delivery_is_repeated_and_its_neighbours_are_not,
    at_most_once_never_repeats,
}

type Delivered = Arc<Mutex<Vec<(String, u64, String)>>>;

#[derive(Clone)]
struct Outside {
    delivered: Delivered,
    guarantee: Guarantee,
    /// Order 3's second event fails so often.
    fails: Arc<Mutex<u32>>,
}

impl Outside {
    fn new(guarantee: Guarantee, fails: u32) -> Self {
        Self { delivered: Arc::default(), guarantee, fails: Arc::new(Mutex::new(fails)) }
    }

    fn by_order(&self) -> HashMap<String, Vec<u64>> {
        let mut by_order: HashMap<String, Vec<u64>> = HashMap::new();
        for (order, number, _) in self.delivered.lock().unwrap().iter() {
            by_order.entry(order.clone()).or_default().push(*number);
        }
        by_order
    }
}

impl Subscriber for Outside {
    fn name(&self) -> &str {
        "outside"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().retry(Retry::default().first(Duration::from_millis(1)))
    }
    fn guarantee(&self) -> Guarantee {
        self.guarantee
    }
    async fn deliver(&self, delivery: &Delivery<'_>) -> HandlerResult {
        let event = delivery.event();
        let mut fails = self.fails.lock().unwrap();
        if event.stream_id() == "3" && event.version() == 2 && *fails > 0 {
            *fails -= 1;
            return Err(HandlerError::new("the other side is away"));
        }
        let row = (event.stream_id().to_owned(), event.version(), delivery.idempotency_key());
        self.delivered.lock().unwrap().push(row);
        Ok(())
    }
}

async fn every_event_is_delivered_in_order_with_a_stable_key(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=20).await;
    let outside = Outside::new(Guarantee::AtLeastOnce, 0);
    ReplicaSet::new("s").subscriber(outside.clone()).lanes(3).catch_up(&log).await.unwrap();
    let by_order = outside.by_order();
    assert_eq!(by_order.len(), 10);
    assert!(by_order.values().all(|numbers| *numbers == (1..=20).collect::<Vec<_>>()));
    // Delivered again after a replay, each event has the key it had before.
    let first: HashMap<(String, u64), String> =
        outside.delivered.lock().unwrap().drain(..).map(|(a, b, c)| ((a, b), c)).collect();
    let consumers = Consumers::new(&log);
    consumers.replay("outside", anabranch::operate::ReplayFrom::Start).await.unwrap();
    let running = start(&log, ReplicaSet::new("s").subscriber(outside.clone()));
    until("the replay", async || (outside.delivered.lock().unwrap().len() == 200).then_some(()))
        .await;
    running.stop().await;
    for (order, number, key) in outside.delivered.lock().unwrap().iter() {
        assert_eq!(first[&(order.clone(), *number)], *key);
        assert!(key.starts_with("outside:"), "{key}");
    }
}

async fn a_failed_delivery_is_repeated_and_its_neighbours_are_not(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=5).await;
    let outside = Outside::new(Guarantee::AtLeastOnce, 3);
    let running = start(&log, ReplicaSet::new("s").subscriber(outside.clone()).lanes(2));
    until("all", async || (outside.delivered.lock().unwrap().len() >= 50).then_some(())).await;
    running.stop().await;
    let by_order = outside.by_order();
    assert!(by_order.values().all(|numbers| *numbers == [1, 2, 3, 4, 5]), "{by_order:?}");
}

async fn at_most_once_never_repeats(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=5).await;
    let outside = Outside::new(Guarantee::AtMostOnce, 1);
    ReplicaSet::new("s").subscriber(outside.clone()).lanes(2).catch_up(&log).await.unwrap();
    let by_order = outside.by_order();
    assert_eq!(by_order["3"], [1, 3, 4, 5], "the one that failed is left out");
    assert_eq!(outside.delivered.lock().unwrap().len(), 49);
}

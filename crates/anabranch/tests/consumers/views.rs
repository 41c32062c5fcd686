//! Views: folds without SQL.

use crate::on_both;
use crate::support::{Db, fill, start, until};
use anabranch::operate::{Consumers, Rebuild, ReplayFrom};
use anabranch::prelude::*;
use anabranch::{HandlerError, Retry, ViewColumn, ViewReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

on_both! {
    states_are_folded_once_and_in_order,
    a_failing_fold_parks_its_key_and_spoils_no_state,
    a_view_is_replayed_and_rebuilt,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Order {
    numbers: Vec<u64>,
    total: i64,
}

#[derive(Clone, Default)]
struct Orders {
    fails: Option<(&'static str, u64)>,
    version: u32,
    applied: Arc<AtomicU64>,
}

impl View for Orders {
    type State = Order;
    fn name(&self) -> &str {
        "orders"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        let settings = Settings::default().retry(Retry::never()).batch_size(100);
        settings.version(self.version.max(1))
    }
    fn apply(&self, order: &mut Order, event: &Event) -> HandlerResult {
        self.applied.fetch_add(1, Ordering::Relaxed);
        let number: u64 = event.data()?;
        order.numbers.push(number);
        if self.fails == Some((event.stream_id(), number)) {
            return Err(HandlerError::new("cannot fold"));
        }
        order.total += number as i64;
        Ok(())
    }
    fn columns(&self) -> Vec<ViewColumn<Order>> {
        vec![
            ViewColumn::int("total", |order: &Order| order.total),
            ViewColumn::text("last", |order: &Order| order.numbers.last().map(u64::to_string)),
        ]
    }
}

fn state(last: u64) -> Order {
    Order { numbers: (1..=last).collect(), total: (1..=last as i64).sum() }
}

async fn states_are_folded_once_and_in_order(db: Db) {
    let log = db.log().await;
    let view = Orders::default();
    for (round, lanes) in [1usize, 4, 2].into_iter().enumerate() {
        let first = round as u64 * 20;
        fill(&log, 0..30, first + 1..=first + 20).await;
        ReplicaSet::new("s").view(view.clone()).lanes(lanes).catch_up(&log).await.unwrap();
    }
    let reader = ViewReader::new(&log, &view);
    assert_eq!(reader.get("7").await.unwrap(), Some(state(60)));
    assert_eq!(reader.get("99").await.unwrap(), None);
    let found = reader.find("total = $1 AND last = $2", params![1830, "60"]).await.unwrap();
    assert_eq!(found.len(), 30);
    assert!(found.iter().all(|(_, order)| *order == state(60)));
    assert!(reader.find("nonsense", vec![]).await.is_err());
}

/// The fold changes the state before it fails; neither the row nor what the lane keeps may show it.
async fn a_failing_fold_parks_its_key_and_spoils_no_state(db: Db) {
    let log = db.log().await;
    let view = Orders { fails: Some(("3", 5)), ..Orders::default() };
    fill(&log, 0..10, 1..=10).await;
    let running = start(&log, ReplicaSet::new("s").view(view.clone()).lanes(2));
    let reader = ViewReader::new(&log, &view);
    let done = |last: i64| {
        let reader = &reader;
        async move || {
            (reader.find("position > $1", params![last]).await.ok()?.len() == 9).then_some(())
        }
    };
    until("all but one key", done(90)).await;
    fill(&log, 0..10, 11..=12).await;
    until("all but one key again", done(110)).await;
    running.stop().await;
    assert_eq!(reader.get("3").await.unwrap(), Some(state(4)));
    assert_eq!(reader.get("4").await.unwrap(), Some(state(12)));
    let parked = Consumers::new(&log).parked("orders").await.unwrap();
    assert_eq!((parked[0].key.as_str(), parked[0].events), ("Order:3", 8));
    let fixed = Orders::default();
    Consumers::new(&log).retry_parked("orders", "Order:3").await.unwrap();
    let running = start(&log, ReplicaSet::new("s").view(fixed));
    until("the key to drain", async || {
        Consumers::new(&log).parked("orders").await.unwrap().is_empty().then_some(())
    })
    .await;
    running.stop().await;
    assert_eq!(reader.get("3").await.unwrap(), Some(state(12)));
}

async fn a_view_is_replayed_and_rebuilt(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=10).await;
    let view = Orders::default();
    ReplicaSet::new("s").view(view.clone()).catch_up(&log).await.unwrap();
    let applied = view.applied.load(Ordering::Relaxed);
    Consumers::new(&log).replay("orders", ReplayFrom::Start).await.unwrap();
    let running = start(&log, ReplicaSet::new("s").view(view.clone()).lanes(2));
    until("the replay", async || {
        (view.applied.load(Ordering::Relaxed) >= applied + 100).then_some(())
    })
    .await;
    running.stop().await;
    ReplicaSet::new("s").view(view.clone()).catch_up(&log).await.unwrap();
    let reader = ViewReader::new(&log, &view);
    assert_eq!(reader.get("5").await.unwrap(), Some(state(10)));

    let next = Orders { version: 2, ..Orders::default() };
    ReplicaSet::new("r").rebuild_view(next.clone()).catch_up(&log).await.unwrap();
    let rebuild = Rebuild::for_view(&log, "orders");
    assert!(rebuild.compare().await.unwrap()[0].is_same());
    rebuild.switch().await.unwrap();
    fill(&log, 0..10, 11..=11).await;
    ReplicaSet::new("s").view(next).catch_up(&log).await.unwrap();
    assert_eq!(reader.get("5").await.unwrap(), Some(state(11)));
}

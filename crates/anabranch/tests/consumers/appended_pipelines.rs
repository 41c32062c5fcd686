//! Consumers of one set that make events of each other's events: a catch-up takes all of them to the end.

use crate::on_both;
use crate::support::{Db, fill, status, until};
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use tokio::sync::{oneshot, watch};

on_both! {
    a_catch_up_takes_a_pipeline_to_its_end,
    a_replay_of_a_pipeline_comes_to_an_end,
    what_a_catch_up_leaves_of_a_pipeline_when_it_is_told_to_stop,
}

const ORDERS: u64 = 60;

/// Makes an event of the next category of each event of one.
#[derive(Clone)]
struct Step {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    /// Whether it waits, and for what.
    waits_for: Option<watch::Receiver<bool>>,
}

impl Projection for Step {
    fn name(&self) -> &str {
        self.name
    }
    fn partition(&self) -> Partition {
        Partition::entity(self.from)
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        if let Some(go_on) = &self.waits_for {
            go_on.clone().wait_for(|go_on| *go_on).await?;
        }
        let made = NewEvent::new("Made", event.data::<u64>()?).caused_by(event);
        tx.append(&StreamId::new(self.to, event.stream_id())?, Expected::Any, [made])
    }
    async fn reset(&self, _: Position, _: &mut Tx) -> HandlerResult {
        Ok(())
    }
}

fn steps() -> [Step; 3] {
    let step = |name, from, to| Step { name, from, to, waits_for: None };
    // The last one first: where it is up to date, there is more for it in a moment.
    [
        step("ledger", "Booking", "Ledger"),
        step("bookings", "Invoice", "Booking"),
        step("invoices", "Order", "Invoice"),
    ]
}

fn set(steps: [Step; 3]) -> ReplicaSet {
    steps.into_iter().fold(ReplicaSet::new("s").lanes(2), ReplicaSet::projection)
}

async fn ledger(log: &Log) -> usize {
    let all = log.read(Query::types(["Made"])).collect().await.unwrap();
    all.iter().filter(|event| event.stream().category() == "Ledger").count()
}

async fn a_catch_up_takes_a_pipeline_to_its_end(db: Db) {
    let log = db.log().await;
    for round in 1..=5 {
        fill(&log, 0..ORDERS, round..=round).await;
        set(steps()).catch_up(&log).await.unwrap();
        assert_eq!(ledger(&log).await as u64, ORDERS * round, "round {round}");
        for step in steps() {
            assert_eq!(status(&log, step.name).await.lag, 0, "{}", step.name);
        }
    }
}

/// What it finds again is nothing new.
async fn a_replay_of_a_pipeline_comes_to_an_end(db: Db) {
    let log = db.log().await;
    fill(&log, 0..ORDERS, 1..=2).await;
    set(steps()).catch_up(&log).await.unwrap();
    let before = log.head().await.unwrap();
    for step in steps() {
        Consumers::new(&log).replay(step.name, ReplayFrom::Start).await.unwrap();
    }
    set(steps()).catch_up(&log).await.unwrap();
    assert_eq!(log.head().await.unwrap(), before);
}

/// All that was there when it began is handled; what was made of it is not.
async fn what_a_catch_up_leaves_of_a_pipeline_when_it_is_told_to_stop(db: Db) {
    let log = db.log().await;
    fill(&log, 0..ORDERS, 1..=1).await;
    let (go_on, waits) = watch::channel(false);
    let [last, mut middle, first] = steps();
    middle.waits_for = Some(waits);
    let (stop, stopped) = oneshot::channel::<()>();
    let (set, other) = (set([last, middle, first]), log.clone());
    let running = tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        set.catch_up_until(&other, stopped).await
    });
    until("invoices", async || {
        let made = log.read(Query::types(["Made"])).collect().await.unwrap();
        (made.len() as u64 == ORDERS).then_some(())
    })
    .await;
    let _ = stop.send(());
    go_on.send_replace(true);
    match running.await.unwrap() {
        Err(anabranch::RunError::Incomplete(left)) => assert!(left.was_stopped),
        Err(error) => panic!("{error}"),
        // It may have been done by then, and only then.
        Ok(_) => assert_eq!(ledger(&log).await as u64, ORDERS),
    }
}

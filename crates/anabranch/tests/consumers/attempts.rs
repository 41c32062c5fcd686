//! How often an event is tried: by where its effects are, and by what its error says.

use crate::on_both;
use crate::support::{Db, fill, proof, start, status, until};
use anabranch::operate::{Consumers, Parked};
use anabranch::prelude::*;
use anabranch::{Delivery, Failure, HandlerError, Retry};
use anyhow::Context;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

on_both! {
    without_a_choice_the_kind_of_consumer_decides,
    an_endpoint_that_is_down_parks_nothing,
    an_error_for_good_is_parked_at_once,
    an_error_for_good_is_skipped_at_once,
    an_error_that_says_when_is_not_tried_before,
    a_key_that_waits_for_its_next_attempt_is_tried_at_once_if_somebody_says_so,
    an_error_for_good_in_an_error_of_anyhow_is_parked_at_once,
}

type Deliver = Arc<dyn Fn(&Event) -> HandlerResult + Send + Sync>;

/// Delivers as a test says.
#[derive(Clone)]
pub struct Outside {
    settings: Settings,
    deliver: Deliver,
}

impl Outside {
    pub fn new(
        settings: Settings,
        deliver: impl Fn(&Event) -> HandlerResult + Send + Sync + 'static,
    ) -> Self {
        Self { settings, deliver: Arc::new(deliver) }
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
        self.settings.clone()
    }
    async fn deliver(&self, delivery: &Delivery<'_>) -> HandlerResult {
        (self.deliver)(delivery.event())
    }
}

async fn parked(log: &Log, consumer: &str, is_wanted: impl Fn(&Parked) -> bool) -> Parked {
    let consumers = Consumers::new(log);
    until(&format!("a key of {consumer}"), async || {
        let keys = consumers.parked(consumer).await.ok()?;
        keys.into_iter().find(&is_wanted)
    })
    .await
}

async fn without_a_choice_the_kind_of_consumer_decides(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let no = |_: &Event| Err(HandlerError::new("no"));
    let set = ReplicaSet::new("s").projection(db.recorder("inside").hook(no));
    let worker = start(&log, set.subscriber(Outside::new(Settings::default(), no)));
    let inside = parked(&log, "inside", |key| key.retry_in.is_none()).await;
    assert_eq!(inside.attempts, 5);
    let outside = parked(&log, "outside", |key| key.attempts > 5).await;
    assert!(outside.retry_in.is_some(), "it is still tried: {outside:?}");
    worker.stop().await;
}

/// An hour of outage, at a thousandth of the time: the schedule of the default, faster.
async fn an_endpoint_that_is_down_parks_nothing(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=3).await;
    let (up, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new((0, Vec::new()))));
    let (is_up, called) = (Arc::clone(&up), Arc::clone(&calls));
    let default = Retry::outside();
    let fast = default.first(default.first / 1_000).longest(default.longest / 1_000);
    let outside = Outside::new(Settings::default().retry(fast), move |event| {
        let mut called = called.lock().unwrap();
        if !is_up.load(Ordering::SeqCst) {
            called.0 += 1;
            return Err(HandlerError::new("connection refused"));
        }
        called.1.push((event.stream_id().to_owned(), event.version()));
        Ok(())
    });
    let worker = start(&log, ReplicaSet::new("s").subscriber(outside));
    until("many attempts", async || (calls.lock().unwrap().0 >= 200).then_some(())).await;
    let now = status(&log, "outside").await;
    assert_eq!((now.parked_keys, now.retrying_keys), (0, 10));
    up.store(true, Ordering::SeqCst);
    until("all", async || (calls.lock().unwrap().1.len() == 30).then_some(())).await;
    let mut delivered = calls.lock().unwrap().1.clone();
    delivered.sort_by_key(|(stream, _)| stream.clone());
    let versions: Vec<u64> = delivered.iter().map(|(_, version)| *version).collect();
    assert_eq!(versions, [1, 2, 3].repeat(10), "in order for each key");
    until("no key is left", async || {
        let now = status(&log, "outside").await;
        (now.parked_keys + now.retrying_keys == 0).then_some(())
    })
    .await;
    worker.stop().await;
}

async fn an_error_for_good_is_parked_at_once(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=4).await;
    let calls = Arc::new(Mutex::new(0));
    let called = Arc::clone(&calls);
    let bad = |event: &Event| event.stream_id() == "1" && event.version() == 2;
    let for_good = move |event: &Event| match bad(event) {
        true => Err(HandlerError::for_good("no such address")),
        false => Ok(()),
    };
    let recorder = db.recorder("inside").hook(for_good);
    let table = recorder.table.clone();
    let outside = Outside::new(Settings::default(), move |event| {
        *called.lock().unwrap() += u32::from(bad(event));
        for_good(event)
    });
    let worker = start(&log, ReplicaSet::new("s").projection(recorder).subscriber(outside));
    for consumer in ["inside", "outside"] {
        let key = parked(&log, consumer, |_| true).await;
        assert_eq!((key.attempts, key.retry_in, key.error.as_str()), (1, None, "no such address"));
    }
    until("the others", async || (proof(&log, &table).await.handled == 9).then_some(())).await;
    assert_eq!(*calls.lock().unwrap(), 1);
    // Asked for, it is tried once more, and that is for good as well.
    Consumers::new(&log).retry_parked("outside", "Order:1").await.unwrap();
    until("another call", async || (*calls.lock().unwrap() == 2).then_some(())).await;
    let key = parked(&log, "outside", |key| key.attempts == 1 && key.retry_in.is_none()).await;
    assert_eq!(key.key, "Order:1");
    worker.stop().await;
}

async fn an_error_for_good_in_an_error_of_anyhow_is_parked_at_once(db: Db) {
    fn send(to: &str) -> anyhow::Result<()> {
        anyhow::ensure!(to != "0", "the line is busy");
        Err(HandlerError::for_good("no such address").into_error())
            .with_context(|| format!("to {to}"))
    }
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    let outside = Outside::new(Settings::default(), |event| Ok(send(event.stream_id())?));
    let worker = start(&log, ReplicaSet::new("s").subscriber(outside));
    let key = parked(&log, "outside", |key| key.retry_in.is_none()).await;
    assert_eq!((key.key.as_str(), key.attempts), ("Order:1", 1));
    assert_eq!(key.error, "to 1: no such address");
    let other = parked(&log, "outside", |key| key.attempts > 1).await;
    assert_eq!((other.key.as_str(), other.error.as_str()), ("Order:0", "the line is busy"));
    worker.stop().await;
}

async fn an_error_for_good_is_skipped_at_once(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=3).await;
    let settings = Settings::default().retry(Retry::outside().then(Failure::Skip));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let called = Arc::clone(&calls);
    let outside = Outside::new(settings, move |event| {
        called.lock().unwrap().push(event.version());
        match event.version() {
            2 => Err(HandlerError::for_good("no")),
            _ => Ok(()),
        }
    });
    let worker = start(&log, ReplicaSet::new("s").subscriber(outside));
    until("the last", async || calls.lock().unwrap().contains(&3).then_some(())).await;
    worker.stop().await;
    assert_eq!(*calls.lock().unwrap(), [1, 2, 3]);
}

async fn an_error_that_says_when_is_not_tried_before(db: Db) {
    const WAIT: Duration = Duration::from_millis(400);
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let retry = Retry::default().attempts(3).first(Duration::from_millis(1));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let called = Arc::clone(&calls);
    let outside = Outside::new(Settings::default().retry(retry), move |_| {
        called.lock().unwrap().push(Instant::now());
        Err(HandlerError::try_after(WAIT, "429 Too Many Requests"))
    });
    let worker = start(&log, ReplicaSet::new("s").subscriber(outside));
    let key = parked(&log, "outside", |key| key.retry_in.is_none()).await;
    assert_eq!((key.attempts, key.error.as_str()), (3, "429 Too Many Requests"));
    worker.stop().await;
    let calls = calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 3, "each counts as an attempt");
    assert!(calls.windows(2).all(|two| two[1] - two[0] >= WAIT), "{calls:?}");
}

async fn a_key_that_waits_for_its_next_attempt_is_tried_at_once_if_somebody_says_so(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=3).await;
    let (up, done) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new((0, 0))));
    let (is_up, calls) = (Arc::clone(&up), Arc::clone(&done));
    let hour = Duration::from_secs(3600);
    let settings = Settings::default().retry(Retry::outside().first(hour).longest(hour));
    let outside = Outside::new(settings, move |event| {
        let (delivered, refused) = &mut *calls.lock().unwrap();
        if event.stream_id() == "1" && !is_up.load(Ordering::SeqCst) {
            *refused += 1;
            return Err(HandlerError::new("connection refused"));
        }
        *delivered += 1;
        Ok(())
    });
    let worker = start(&log, ReplicaSet::new("s").subscriber(outside));
    parked(&log, "outside", |key| key.attempts == 1 && key.retry_in.is_some()).await;
    let consumers = Consumers::new(&log);
    // It fails again, and waits again.
    consumers.retry_parked("outside", "Order:1").await.unwrap();
    until("another try", async || (done.lock().unwrap().1 == 2).then_some(())).await;
    parked(&log, "outside", |key| key.retry_in.is_some()).await;
    up.store(true, Ordering::SeqCst);
    consumers.retry_parked("outside", "Order:1").await.unwrap();
    until("all", async || (*done.lock().unwrap() == (6, 2)).then_some(())).await;
    worker.stop().await;
}

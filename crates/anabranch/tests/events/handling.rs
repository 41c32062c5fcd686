//! What becomes of events: batches that add up, failures, parked keys, replays and pauses.

use crate::on_both;
use crate::seen::Seen;
use crate::support::*;
use anabranch::Retry;
use anabranch::events::{EngineEvent, Happening};
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use anabranch::running::Guarantee;
use anabranch::{Failure, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both! {
    batches_add_up_to_what_was_handled,
    a_key_fails_is_tried_again_and_is_done,
    a_key_is_parked_and_let_go,
    a_parked_event_is_skipped_on_request,
    an_event_is_skipped_by_its_policy,
    an_event_that_must_not_be_passed_is_held_up,
    a_delivery_that_is_not_repeated_says_so,
    a_pause_and_a_replay_are_seen,
}

fn quick() -> Tuning {
    Tuning::default().heartbeat(Duration::from_millis(50))
}

fn fails_for(
    stream: &'static str,
    fails: &Arc<AtomicBool>,
) -> impl Fn(&Event) -> HandlerResult + Send + Sync + use<> {
    let fails = Arc::clone(fails);
    move |event| match event.stream_id() == stream && fails.load(Ordering::SeqCst) {
        true => Err(HandlerError::new("no such customer")),
        false => Ok(()),
    }
}

fn retry(attempts: u32, then: Failure) -> Settings {
    let retry = Retry::default().attempts(attempts).first(Duration::from_millis(1));
    Settings::default().retry(Retry { then, ..retry })
}

async fn batches_add_up_to_what_was_handled(db: Db) {
    let log = db.log().await;
    fill(&log, 0..40, 1..=25).await;
    let (seen, batch) = (Seen::default(), Settings::default().batch_size(64));
    let set = ReplicaSet::new("s").projection(db.recorder("orders").settings(batch)).lanes(3);
    let progress = set.observer(seen.clone()).catch_up(&log).await.unwrap();
    assert_eq!(progress.consumers[0].handled, 1000);
    // All of them are there when the run has ended.
    assert_eq!(seen.handled("orders"), 1000);
    let batches = seen.of("batch_handled");
    assert!((1000 / 64..200).contains(&batches.len()), "{}: one each transaction", batches.len());
    let lanes: std::collections::BTreeSet<_> = batches.iter().map(|event| event.lane).collect();
    assert_eq!(lanes.len(), 3);
    let mut last = Position::START;
    for event in &batches {
        assert!(event.set.as_deref() == Some("s") && event.worker.is_some(), "{event:?}");
        let Happening::BatchHandled { position, handler, commit, .. } = &event.what else {
            panic!("{event:?}")
        };
        assert!(*handler > Duration::ZERO && *commit > Duration::ZERO, "{event:?}");
        last = last.max(position.expect("events have places"));
    }
    assert_eq!(last, log.head().await.unwrap());
}

async fn a_key_fails_is_tried_again_and_is_done(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=2).await;
    let fails = Arc::new(AtomicBool::new(true));
    let recorder = db.recorder("orders").hook(fails_for("3", &fails));
    let (seen, settings) = (Seen::default(), retry(1_000, Failure::Park));
    let set = ReplicaSet::new("s").projection(recorder.settings(settings));
    let running = start(&log, set.observer(seen.clone()));
    let failed = seen.first("event_failed").await;
    let Happening::EventFailed { key, position, subject, attempts, error, retry_in, .. } =
        &failed.what
    else {
        panic!("{failed:?}")
    };
    assert_eq!((key.as_str(), error.as_str(), *attempts), ("Order:3", "no such customer", 1));
    assert!(subject.contains("Numbered Order:3@1") && position.get() > 0, "{failed:?}");
    assert!(retry_in.is_some());
    until("another try", async || (seen.of("event_retried").len() > 1).then_some(())).await;
    fails.store(false, Ordering::SeqCst);
    let done = seen.first("event_unparked").await;
    assert!(
        matches!(&done.what, Happening::EventUnparked { key, .. } if key == "Order:3"),
        "{done:?}"
    );
    until("all of it", async || (seen.handled("orders") == 10).then_some(())).await;
    let progress = running.stop().await;
    assert_eq!((progress.consumers[0].handled, seen.handled("orders")), (10, 10));
    assert!(seen.of("event_parked").is_empty());
}

async fn a_key_is_parked_and_let_go(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=2).await;
    let fails = Arc::new(AtomicBool::new(true));
    let recorder = db.recorder("orders").hook(fails_for("3", &fails));
    let (seen, settings) = (Seen::default(), retry(3, Failure::Park));
    let set = ReplicaSet::new("s").projection(recorder.settings(settings)).tuning(quick());
    let running = start(&log, set.observer(seen.clone()));
    let parked = seen.first("event_parked").await;
    let Happening::EventParked { key, subject, attempts, error, .. } = &parked.what else {
        panic!()
    };
    assert_eq!((key.as_str(), error.as_str(), *attempts), ("Order:3", "no such customer", 3));
    assert!(subject.contains("Numbered Order:3@1"), "it is the third attempt: {subject}");
    assert_eq!(seen.of("event_failed").len(), 3, "each attempt once");
    fails.store(false, Ordering::SeqCst);
    Consumers::new(&log).retry_parked("orders", "Order:3").await.unwrap();
    seen.first("event_unparked").await;
    let tried = seen.of("event_retried").pop().unwrap();
    assert!(matches!(tried.what, Happening::EventRetried { attempts: 0, .. }), "{tried:?}");
    running.stop().await;
    assert_eq!(seen.handled("orders"), 10);
}

async fn a_parked_event_is_skipped_on_request(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let fails = Arc::new(AtomicBool::new(true));
    let recorder = db.recorder("orders").hook(fails_for("3", &fails));
    let (seen, settings) = (Seen::default(), retry(1, Failure::Park));
    let set = ReplicaSet::new("s").projection(recorder.settings(settings)).tuning(quick());
    let running = start(&log, set.observer(seen.clone()));
    let parked = seen.first("event_parked").await;
    let Happening::EventParked { position: at, .. } = parked.what else { panic!() };
    Consumers::new(&log).skip_parked("orders", "Order:3").await.unwrap();
    let skipped = seen.first("event_skipped").await;
    let Happening::EventSkipped { key, position, error, .. } = &skipped.what else { panic!() };
    assert_eq!((key.as_str(), *position, error), ("Order:3", Some(at), &None));
    seen.first("event_unparked").await;
    running.stop().await;
    assert_eq!(seen.handled("orders"), 4);
}

async fn an_event_is_skipped_by_its_policy(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let fails = Arc::new(AtomicBool::new(true));
    let recorder = db.recorder("orders").hook(fails_for("3", &fails));
    let (seen, settings) = (Seen::default(), retry(2, Failure::Skip));
    let set = ReplicaSet::new("s").projection(recorder.settings(settings));
    set.observer(seen.clone()).catch_up(&log).await.unwrap();
    let skipped = seen.of("event_skipped");
    assert_eq!(skipped.len(), 1);
    let Happening::EventSkipped { key, error, .. } = &skipped[0].what else { panic!() };
    assert_eq!((key.as_str(), error.as_deref()), ("Order:3", Some("no such customer")));
    assert_eq!((seen.of("event_failed").len(), seen.of("event_parked").len()), (2, 0));
}

async fn an_event_that_must_not_be_passed_is_held_up(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let fails = Arc::new(AtomicBool::new(true));
    let recorder = db.recorder("orders").hook(fails_for("3", &fails));
    let (seen, settings) = (Seen::default(), retry(3, Failure::Stop));
    let tuning = quick().probes(Duration::from_millis(50), Duration::from_millis(100));
    let set = ReplicaSet::new("s").projection(recorder.settings(settings)).tuning(tuning);
    let running = start(&log, set.observer(seen.clone()));
    seen.first("event_held_up").await;
    let began = seen.first("outage_began").await;
    let json = serde_json::to_value(&began).unwrap();
    assert_eq!((&json["of"], &json["consumer"]), (&"handler".into(), &"orders".into()));
    seen.first("outage_tried").await;
    seen.first("outage_try_failed").await;
    fails.store(false, Ordering::SeqCst);
    let ended = seen.first("outage_ended").await;
    assert_eq!(serde_json::to_value(&ended).unwrap()["of"], "handler");
    until("all of it", async || (seen.handled("orders") == 5).then_some(())).await;
    running.stop().await;
}

async fn a_delivery_that_is_not_repeated_says_so(db: Db) {
    struct Mail;
    impl Subscriber for Mail {
        fn name(&self) -> &str {
            "mail"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn guarantee(&self) -> Guarantee {
            Guarantee::AtMostOnce
        }
        async fn deliver(&self, _: &anabranch::Delivery<'_>) -> HandlerResult {
            Err(HandlerError::new("no route"))
        }
    }
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    let seen = Seen::default();
    let set = ReplicaSet::new("s").subscriber(Mail).observer(seen.clone());
    set.catch_up(&log).await.unwrap();
    let failed = seen.of("delivery_failed");
    assert_eq!((failed.len(), seen.handled("mail")), (2, 2));
    let is_said = |event: &EngineEvent| matches!(&event.what, Happening::DeliveryFailed { error, .. } if error == "no route");
    assert!(failed.iter().all(is_said), "{failed:?}");
}

async fn a_pause_and_a_replay_are_seen(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let seen = Seen::default();
    let set = ReplicaSet::new("s").projection(db.recorder("orders")).tuning(quick());
    let running = start(&log, set.observer(seen.clone()));
    until("all of it", async || (seen.handled("orders") == 5).then_some(())).await;
    let consumers = Consumers::new(&log);
    consumers.pause("orders").await.unwrap();
    assert_eq!(seen.first("paused").await.consumer.as_deref(), Some("orders"));
    consumers.resume("orders").await.unwrap();
    assert_eq!(seen.first("resumed").await.consumer.as_deref(), Some("orders"));
    consumers.replay("orders", ReplayFrom::Start).await.unwrap();
    assert_eq!(seen.first("replay_began").await.consumer.as_deref(), Some("orders"));
    until("all of it again", async || (seen.handled("orders") == 10).then_some(())).await;
    running.stop().await;
    let once = |name: &str| assert_eq!(seen.of(name).len(), 1, "{name}");
    ["paused", "resumed", "replay_began"].into_iter().for_each(once);
}

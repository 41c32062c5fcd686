//! What fails: one key waits alone, and an endpoint that is away is waited for.

use crate::hooks::*;
use crate::on_both;
use crate::support::*;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::webhook::{Deliveries, DeliveryState, Filter};
use anabranch::{Retry, Settings, Tuning};
use anabranch_lab::receiver::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

on_both! {
    a_key_that_fails_is_parked_alone,
    a_key_that_is_retried_goes_on_in_order,
    an_endpoint_that_is_away_parks_no_key,
    an_endpoint_that_answers_503_to_all_parks_no_key,
    keys_that_always_fail_do_not_keep_it_stopped,
    what_an_endpoint_asks_for_is_waited,
    one_that_asks_for_less_is_left_alone_at_once,
    one_key_that_asks_for_less_is_parked_alone,
    an_endpoint_that_is_gone_pauses_the_webhook,
    a_redirect_is_not_followed,
    attempts_are_kept_up_to_a_bound,
    a_slow_key_holds_up_no_other_of_its_batch,
    a_worker_that_was_taken_for_dead_goes_on,
}

async fn a_key_that_fails_is_parked_alone(db: Db) {
    let log = db.log().await;
    fill(&log, 0..40, 1..=5).await;
    let decide = |one: &anabranch_lab::receiver::Received| match stream(one).as_str() {
        "Order:7" => Reply { body: "no such customer".to_owned(), ..Reply::status(422) },
        _ => Reply::default(),
    };
    let receiver = receiver(decide).await;
    let left = left_by(set(hook(&log, &receiver)), &log).await;
    assert_eq!((left.consumer.as_str(), left.parked_keys), ("crm", 1));
    is_whole(&receiver, 39, 5);
    let parked = Consumers::new(&log).parked("crm").await.unwrap();
    assert_eq!((parked.len(), parked[0].key.as_str(), parked[0].events), (1, "Order:7", 5));
    let error = &parked[0].error;
    assert!(error.contains("422") && error.contains("no such customer"), "{error}");
    let failed = receiver.received().iter().filter(|one| one.status == 422).count();
    assert_eq!(failed, 3, "one event, three times");
}

async fn a_key_that_is_retried_goes_on_in_order(db: Db) {
    for batch in [1, 3] {
        let log = db.log().await;
        let name = format!("crm-{batch}");
        if batch == 1 {
            fill(&log, 0..4, 1..=5).await;
        }
        let fails = Arc::new(AtomicBool::new(true));
        let still = Arc::clone(&fails);
        let decide = move |one: &anabranch_lab::receiver::Received| {
            let body = one.json().to_string();
            match body.contains("\"Order:2\"") && still.load(Ordering::Relaxed) {
                true => Reply::status(500),
                false => Reply::default(),
            }
        };
        let receiver = receiver(decide).await;
        let to = endpoint(&receiver);
        let hook = anabranch::webhook::Webhook::new(&log, &name, Partition::entity("Order"), to);
        let running = start(&log, set(hook.batch(batch).settings(quickly(2))));
        until("it is parked", async || {
            let parked = Consumers::new(&log).parked(&name).await.unwrap_or_default();
            parked.iter().any(|one| one.key == "Order:2" && one.events == 5).then_some(())
        })
        .await;
        fails.store(false, Ordering::Relaxed);
        Consumers::new(&log).retry_parked(&name, "Order:2").await.unwrap();
        until("nothing is parked", async || {
            Consumers::new(&log).parked(&name).await.unwrap().is_empty().then_some(())
        })
        .await;
        running.stop().await;
        is_whole(&receiver, 4, 5);
        let mut ids: Vec<String> = receiver
            .received()
            .iter()
            .filter(|one| one.json().to_string().contains("\"Order:2\""))
            .map(|one| one.header("webhook-id").to_owned())
            .collect();
        ids.dedup();
        let deliveries = if batch == 1 { 5 } else { 2 };
        assert_eq!(ids.len(), deliveries, "the same id each time: {ids:?}");
    }
}

/// Nobody listens: nothing is sent, and all of it arrives when somebody does.
async fn an_endpoint_that_is_away_parks_no_key(db: Db) {
    let log = db.log().await;
    let mut receiver = receiver(|one| match stream(one).as_str() {
        "Order:7" => Reply::status(400),
        _ => Reply::default(),
    })
    .await;
    receiver.stop().await;
    fill(&log, 0..300, 1..=2).await;
    let set = |hook| set(hook).lanes(2);
    let running = start(&log, set(hook(&log, &receiver)));
    let second = start(&db.log().await, set(hook(&log, &receiver)));
    until("an outage", async || standing(&log).await?.outage).await;
    assert!(Consumers::new(&log).parked("crm").await.unwrap().is_empty());
    receiver.go_on().await.unwrap();
    until("all but one key", async || {
        let standing = status(&log, "crm").await;
        (standing.parked_keys == 1 && standing.outage.is_none() && taken(&receiver).len() == 299)
            .then_some(())
    })
    .await;
    until("all events", async || {
        (taken(&receiver).values().map(Vec::len).sum::<usize>() == 598).then_some(())
    })
    .await;
    running.stop().await;
    second.stop().await;
    is_whole(&receiver, 299, 2);
    let parked = Consumers::new(&log).parked("crm").await.unwrap();
    assert_eq!((parked.len(), parked[0].key.as_str()), (1, "Order:7"));
}

/// The endpoint was away, and is back; those that come first fail for reasons of their own.
async fn keys_that_always_fail_do_not_keep_it_stopped(db: Db) {
    let log = db.log().await;
    let mut receiver = receiver(|one| {
        let number: u64 = stream(one)["Order:".len()..].parse().unwrap();
        if number < 8 { Reply::status(500) } else { Reply::default() }
    })
    .await;
    receiver.stop().await;
    fill(&log, 0..100, 1..=1).await;
    let patient = Settings::default().retry(Retry::outside());
    let slowly = Tuning::default().probes(Duration::from_secs(1), Duration::from_secs(60));
    let running = start(&log, set(hook(&log, &receiver).settings(patient)).tuning(slowly));
    until("an outage", async || standing(&log).await?.outage).await;
    receiver.go_on().await.unwrap();
    until("all others", async || (taken(&receiver).len() == 92).then_some(())).await;
    running.stop().await;
    let standing = standing(&log).await.unwrap();
    assert_eq!((standing.parked_keys, standing.retrying_keys), (0, 8));
}

async fn an_endpoint_that_answers_503_to_all_parks_no_key(db: Db) {
    let log = db.log().await;
    let down = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&down);
    let receiver = receiver(move |_| match still.load(Ordering::Relaxed) {
        true => Reply::status(503),
        false => Reply::default(),
    })
    .await;
    fill(&log, 0..300, 1..=2).await;
    let running = start(&log, set(hook(&log, &receiver)).lanes(2));
    until("an outage", async || standing(&log).await?.outage).await;
    let before = receiver.count();
    assert!(before < 100, "it was left alone: {before}");
    down.store(false, Ordering::Relaxed);
    until("all events", async || {
        (taken(&receiver).values().map(Vec::len).sum::<usize>() == 600).then_some(())
    })
    .await;
    running.stop().await;
    is_whole(&receiver, 300, 2);
    assert!(Consumers::new(&log).parked("crm").await.unwrap().is_empty());
}

async fn what_an_endpoint_asks_for_is_waited(db: Db) {
    let log = db.log().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let receiver = receiver(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Reply { header: Some(("retry-after", "2".to_owned())), ..Reply::status(429) },
        _ => Reply::default(),
    })
    .await;
    fill(&log, 0..1, 1..=20).await;
    let running = start(&log, set(hook(&log, &receiver)));
    // One that could take it over must wait as well.
    let second = start(&db.log().await, set(hook(&log, &receiver)));
    until("all events", async || {
        (taken(&receiver).values().map(Vec::len).sum::<usize>() == 20).then_some(())
    })
    .await;
    running.stop().await;
    second.stop().await;
    let received = receiver.received();
    let wait = received[1].at.duration_since(received[0].answered.unwrap());
    assert!(wait >= Duration::from_millis(1_900), "{wait:?}");
}

/// It asks for less in the middle of a batch: what is not under way then is not sent, and little comes again.
async fn one_that_asks_for_less_is_left_alone_at_once(db: Db) {
    let log = db.log().await;
    fill(&log, 0..600, 1..=1).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let receiver = receiver(move |one| {
        let is_fifth = stream(one) == "Order:5";
        match is_fifth && count.fetch_add(1, Ordering::Relaxed) == 0 {
            true => Reply { header: Some(("retry-after", "1".to_owned())), ..Reply::status(429) },
            false => Reply::default(),
        }
    })
    .await;
    let running = start(&log, set(hook(&log, &receiver)));
    until("an outage", async || standing(&log).await?.outage).await;
    let before = receiver.count();
    assert!(before < 60, "it was not left alone: {before}");
    until("all events", async || (taken(&receiver).len() == 600).then_some(())).await;
    running.stop().await;
    is_whole(&receiver, 600, 1);
    assert!(receiver.count() < 660, "much came again: {}", receiver.count());
}

async fn one_key_that_asks_for_less_is_parked_alone(db: Db) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=3).await;
    let receiver = receiver(|one| match stream(one).as_str() {
        "Order:7" => Reply::status(429),
        _ => Reply::default(),
    })
    .await;
    let running = start(&log, set(hook(&log, &receiver)));
    until("it is parked", async || (standing(&log).await?.parked_keys == 1).then_some(())).await;
    until("all others", async || {
        (taken(&receiver).values().map(Vec::len).sum::<usize>() == 57).then_some(())
    })
    .await;
    running.stop().await;
    is_whole(&receiver, 19, 3);
}

async fn an_endpoint_that_is_gone_pauses_the_webhook(db: Db) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=3).await;
    let gone = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&gone);
    let receiver = receiver(move |_| match still.load(Ordering::Relaxed) {
        true => Reply::status(410),
        false => Reply::default(),
    })
    .await;
    let running = start(&log, set(hook(&log, &receiver)));
    until("a pause", async || standing(&log).await?.paused.then_some(())).await;
    // All that were under way have got their answers by then.
    until("a stop", async || standing(&log).await?.outage).await;
    assert!(Consumers::new(&log).parked("crm").await.unwrap().is_empty());
    gone.store(false, Ordering::Relaxed);
    Consumers::new(&log).resume("crm").await.unwrap();
    until("all events", async || {
        (taken(&receiver).values().map(Vec::len).sum::<usize>() == 60).then_some(())
    })
    .await;
    running.stop().await;
    is_whole(&receiver, 20, 3);
}

async fn a_redirect_is_not_followed(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let elsewhere = always_taken().await;
    let to = format!("{}/services?token=hunter2", elsewhere.url());
    let receiver =
        receiver(move |_| Reply { header: Some(("location", to.clone())), ..Reply::status(307) })
            .await;
    left_by(set(hook(&log, &receiver)), &log).await;
    assert_eq!(elsewhere.count(), 0);
    let error = Consumers::new(&log).parked("crm").await.unwrap().remove(0).error;
    assert!(error.contains("307") && error.contains("not followed"), "{error}");
    assert!(error.contains("/…") && !error.contains("hunter2"), "{error}");
}

async fn attempts_are_kept_up_to_a_bound(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let receiver = receiver(|_| Reply { body: "x".repeat(10_000), ..Reply::status(500) }).await;
    let tried = set(hook(&log, &receiver).settings(quickly(8)));
    left_by(tried, &log).await;
    let failed = Filter { state: Some(DeliveryState::Failed), ..Filter::default() };
    let [one] = Deliveries::new(&log).list(&failed).await.unwrap().try_into().unwrap();
    assert_eq!((one.attempts, one.failures.len(), one.status), (8, 5, Some(500)));
    assert!(one.answer.unwrap().len() <= 500 && one.failures[0].answer.len() <= 500);
    assert_eq!((one.key.as_str(), one.members.len()), ("Order:0", 1));
}

async fn a_slow_key_holds_up_no_other_of_its_batch(db: Db) {
    let log = db.log().await;
    fill(&log, 0..50, 1..=2).await;
    let receiver = receiver(|one| match (stream(one).as_str(), one.json()["version"].as_u64()) {
        ("Order:0", Some(1)) => Reply { after: Duration::from_secs(3), ..Reply::default() },
        _ => Reply::default(),
    })
    .await;
    let running = start(&log, set(hook(&log, &receiver)));
    until("all others", async || (receiver.count() == 99).then_some(())).await;
    let slow = receiver.received().into_iter().find(|one| stream(one) == "Order:0").unwrap();
    assert!(slow.answered.is_none_or(|at| at > Instant::now()), "it is not answered yet");
    until_handled(&log).await;
    running.stop().await;
    is_whole(&receiver, 50, 2);
    assert_eq!(receiver.count(), 100, "none of them came twice");
}

/// Its lane waits for permits meanwhile, and those of the old lease are gone.
async fn a_worker_that_was_taken_for_dead_goes_on(db: Db) {
    let log = db.log().await;
    fill(&log, 0..60, 1..=5).await;
    let receiver =
        receiver(|_| Reply { after: Duration::from_millis(10), ..Reply::default() }).await;
    let quick = tuning().heartbeat(Duration::from_millis(100));
    let running = start(&log, set(hook(&log, &receiver).concurrency(4)).tuning(quick));
    let workers = log.database().dialect().table("workers");
    for deaths in 1..=3 {
        until("deliveries", async || (receiver.received().len() > deaths * 40).then_some(())).await;
        query(&log, &format!("DELETE FROM {workers} RETURNING id"), vec![]).await;
    }
    until_handled(&log).await;
    running.stop().await;
    is_whole(&receiver, 60, 5);
}

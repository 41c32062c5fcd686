//! Deliveries that the workers send once more, since somebody asked for it: under the same ids, in order for each key.

use crate::hooks::*;
use crate::messages::{ids, is_whole_twice};
use crate::on_both;
use crate::support::*;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use anabranch::webhook::{Deliveries, DeliveryState, Filter};
use anabranch_lab::receiver::{Receiver, Reply};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

on_both! {
    a_page_at_a_time_sends_all_once_more_in_order,
    one_key_is_sent_again_and_its_later_events_wait,
    a_replay_of_one_key_sends_the_same_ids,
    what_was_refused_is_tried_again,
    what_cannot_be_sent_again_is_counted_or_refused,
}

fn of(key: &str) -> Filter {
    Filter { key: Some(key.to_owned()), ..Filter::default() }
}

/// The versions of the events of a stream, as often as they came.
fn versions(receiver: &Receiver, key: &str) -> Vec<u64> {
    let all = receiver.received().into_iter().flat_map(|message| message.events());
    let of_key = all.filter(|event| event["stream"] == key);
    of_key.map(|event| event["version"].as_u64().unwrap()).collect()
}

async fn until_done(log: &Log, name: &str) {
    let consumers = Consumers::new(log);
    until("nothing to be asked for", async || {
        consumers.parked(name).await.ok()?.is_empty().then_some(())
    })
    .await;
}

async fn a_page_at_a_time_sends_all_once_more_in_order(db: Db) {
    for batch in [1, 3] {
        let (log, receiver) = (db.log().await, always_taken().await);
        let name = format!("crm-{batch}");
        if batch == 1 {
            fill(&log, 0..4, 1..=5).await;
        }
        let hook = || hook_named(&log, &receiver, &name).batch(batch);
        set(hook()).catch_up(&log).await.unwrap();
        let first = ids(&receiver);
        let (deliveries, until) = (Deliveries::new(&log), Some(anabranch::Timestamp::now()));
        let filter = Filter { consumer: Some(name.clone()), until, ..Filter::default() };
        let preview = deliveries.resend_preview(&filter).await.unwrap();
        let count = first.len() as u64;
        assert_eq!((preview.deliveries, preview.keys, preview.delivered), (count, 4, count));
        assert_eq!((preview.outdated, preview.first.len()), (0, first.len().min(10)));
        let running = start(&log, set(hook()));
        let (mut after, mut asked) = (None, 0);
        loop {
            let page = deliveries.resend_where(&filter, after.as_ref(), 3).await.unwrap();
            asked += page.asked;
            assert!(page.asked <= 3 && page.outdated == 0);
            after = page.next;
            if after.is_none() {
                break;
            }
            // Later pages meet keys that are done, and such that are not.
            if asked % 2 == 0 {
                until_done(&log, &name).await;
            }
        }
        assert_eq!(asked, count);
        until_done(&log, &name).await;
        running.stop().await;
        let mut twice = [first.clone(), first].concat();
        twice.sort();
        assert_eq!(ids(&receiver), twice, "batch = {batch}");
        is_whole_twice(&receiver);
        let open = Filter { state: Some(DeliveryState::Open), ..filter };
        assert!(deliveries.list(&open).await.unwrap().is_empty());
    }
}

async fn one_key_is_sent_again_and_its_later_events_wait(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=3).await;
    let refuses = Arc::new(AtomicBool::new(false));
    let receiver = {
        let refuses = Arc::clone(&refuses);
        receiver(move |one| match stream(one).as_str() {
            "Order:1" if refuses.load(Ordering::SeqCst) => Reply::status(400),
            _ => Reply::default(),
        })
        .await
    };
    let running = start(&log, set(hook(&log, &receiver)));
    until("all", async || (receiver.count() == 9).then_some(())).await;
    until_handled(&log).await;
    refuses.store(true, Ordering::SeqCst);
    let again = Deliveries::new(&log).resend_where(&of("Order:1"), None, 100).await.unwrap();
    assert_eq!((again.asked, again.next), (3, None));
    let consumers = Consumers::new(&log);
    let parked = until("the key to be parked", async || {
        let key = consumers.parked("crm").await.ok()?.pop()?;
        (key.state == anabranch::operate::KeyState::Parked).then_some(key)
    })
    .await;
    assert_eq!((parked.key.as_str(), parked.events), ("Order:1", 3));
    fill(&log, 0..3, 4..=4).await;
    until("the others", async || (versions(&receiver, "Order:2").len() == 4).then_some(())).await;
    until("the later event to wait", async || {
        (consumers.parked("crm").await.ok()?.pop()?.events == 4).then_some(())
    })
    .await;
    refuses.store(false, Ordering::SeqCst);
    let refused = versions(&receiver, "Order:1").len();
    consumers.retry_parked("crm", "Order:1").await.unwrap();
    until_done(&log, "crm").await;
    running.stop().await;
    assert_eq!(versions(&receiver, "Order:1")[refused..], [1, 2, 3, 4]);
    assert_eq!(versions(&receiver, "Order:2"), [1, 2, 3, 4], "nobody asked for these");
}

async fn a_replay_of_one_key_sends_the_same_ids(db: Db) {
    for batch in [1, 3] {
        let (log, receiver) = (db.log().await, always_taken().await);
        let name = format!("crm-{batch}");
        if batch == 1 {
            fill(&log, 0..4, 1..=5).await;
        }
        let hook = || hook_named(&log, &receiver, &name).batch(batch);
        set(hook()).catch_up(&log).await.unwrap();
        let first: HashSet<String> = ids(&receiver).into_iter().collect();
        Consumers::new(&log).replay_key(&name, "Order:2").await.unwrap();
        set(hook()).catch_up(&log).await.unwrap();
        assert_eq!(ids(&receiver).into_iter().collect::<HashSet<_>>(), first);
        assert_eq!(versions(&receiver, "Order:2"), [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
        assert_eq!(versions(&receiver, "Order:3"), [1, 2, 3, 4, 5]);
    }
}

/// A key whose delivery failed is parked: to send that again is to try the key.
async fn what_was_refused_is_tried_again(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=3).await;
    let refuses = Arc::new(AtomicBool::new(true));
    let receiver = {
        let refuses = Arc::clone(&refuses);
        receiver(move |one| match stream(one).as_str() {
            "Order:1" if refuses.load(Ordering::SeqCst) => Reply::status(400),
            _ => Reply::default(),
        })
        .await
    };
    left_by(set(hook(&log, &receiver)), &log).await;
    refuses.store(false, Ordering::SeqCst);
    let failed = Filter { state: Some(DeliveryState::Failed), ..Filter::default() };
    let asked = Deliveries::new(&log).resend_where(&failed, None, 100).await.unwrap();
    assert_eq!(asked.asked, 1);
    set(hook(&log, &receiver)).catch_up(&log).await.unwrap();
    is_whole(&receiver, 3, 3);
    assert!(Deliveries::new(&log).list(&failed).await.unwrap().is_empty());
}

async fn what_cannot_be_sent_again_is_counted_or_refused(db: Db) {
    let (log, receiver) = (db.log().await, always_taken().await);
    fill(&log, 0..2, 1..=3).await;
    let deliveries = Deliveries::new(&log);
    set(hook(&log, &receiver)).catch_up(&log).await.unwrap();
    deliveries.replay_anew("crm", ReplayFrom::Start, false).await.unwrap();
    let filter = Filter { consumer: Some("crm".to_owned()), ..Filter::default() };
    let preview = deliveries.resend_preview(&filter).await.unwrap();
    assert_eq!((preview.deliveries, preview.outdated), (6, 6), "they would come under new ids");
    let page = deliveries.resend_where(&filter, None, 4).await.unwrap();
    assert_eq!((page.asked, page.outdated, page.next.is_some()), (0, 4, true));
    set(hook(&log, &receiver)).catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    consumers.start_audit("crm").await.unwrap();
    let refused = deliveries.resend_where(&filter, None, 100).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::KeyReplayAudited, "{refused}");
    let refused = deliveries.resend_preview(&filter).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::KeyReplayAudited, "{refused}");
    assert!(consumers.parked("crm").await.unwrap().is_empty());
    let nobody = Filter { consumer: Some("nobody".to_owned()), ..Filter::default() };
    let refused = deliveries.resend_preview(&nobody).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NoSuchConsumer);
}

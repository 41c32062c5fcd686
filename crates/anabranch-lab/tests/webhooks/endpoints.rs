//! Where messages may go.

use crate::hooks::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::webhook::{Deliveries, Endpoint, Filter, Verdict, Webhook};
use anabranch_lab::receiver::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

on_both! {
    private_addresses_are_not_reached,
    a_delivery_is_sent_again,
    an_endpoint_is_tested,
}

async fn private_addresses_are_not_reached(db: Db) {
    let log = db.log().await;
    let receiver = always_taken().await;
    let port = receiver.url().rsplit(':').next().unwrap().to_owned();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0"] {
        let to = Endpoint::new(&format!("http://{host}:{port}")).unwrap();
        let hook = Webhook::new(&log, "crm", Partition::entity("Order"), to);
        let attempt = hook.test().await.unwrap();
        assert_eq!(attempt.verdict, Verdict::Unreachable, "{host}: {}", attempt.answer);
        let is_told = attempt.answer.contains("private_addresses") || host.parse::<u32>().is_ok();
        assert!(is_told, "{host}: {}", attempt.answer);
    }
    assert_eq!(receiver.count(), 0);
}

async fn a_delivery_is_sent_again(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let fails = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&fails);
    let receiver =
        receiver(move |one| match stream(one) == "Order:1" && still.load(Ordering::Relaxed) {
            true => Reply::status(500),
            false => Reply::default(),
        })
        .await;
    left_by(set(hook(&log, &receiver)), &log).await;
    let of_key = Filter { key: Some("Order:1".to_owned()), ..Filter::default() };
    let [one] = Deliveries::new(&log).list(&of_key).await.unwrap().try_into().unwrap();
    let hook = hook(&log, &receiver);
    let (id, attempt) = hook.resend(&one, false).await.unwrap();
    assert_eq!((id == one.id, attempt.status), (true, Some(500)));
    fails.store(false, Ordering::Relaxed);
    let (id, attempt) = hook.resend(&one, false).await.unwrap();
    assert_eq!((id == one.id, attempt.verdict), (true, Verdict::Arrived));
    let (id, attempt) = hook.resend(&one, true).await.unwrap();
    assert_eq!((id != one.id, attempt.verdict), (true, Verdict::Arrived));
    let kept = Deliveries::new(&log).list(&of_key).await.unwrap();
    assert_eq!(kept.len(), 2);
    assert_eq!(kept.iter().find(|kept| kept.id == one.id).unwrap().attempts, 5);
    let bodies: Vec<_> =
        receiver.received().into_iter().filter(|one| stream(one) == "Order:1").collect();
    assert!(bodies.iter().all(|one| one.body == bodies[0].body));
}

async fn an_endpoint_is_tested(db: Db) {
    let log = db.log().await;
    let receiver = always_taken().await;
    let attempt = hook(&log, &receiver).test().await.unwrap();
    assert_eq!((attempt.verdict, attempt.status), (Verdict::Arrived, Some(200)));
    let body = receiver.received().remove(0).json();
    assert_eq!(
        (body["type"].as_str(), body["data"]["webhook"].as_str()),
        (Some("webhook.test"), Some("crm"))
    );
    assert!(Deliveries::new(&log).list(&Filter::default()).await.unwrap().is_empty());
}

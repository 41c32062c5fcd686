//! Where messages may go.

use crate::hooks::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::webhook::{Deliveries, DeliveryState, Endpoint, Filter, Verdict, Webhook};
use anabranch_lab::receiver::Reply;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

on_both! {
    private_addresses_are_not_reached,
    a_delivery_is_sent_again,
    what_has_arrived_stays_so,
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

/// One more time that somebody asked for has failed: the delivery has arrived all the same.
async fn what_has_arrived_stays_so(db: Db) {
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let fails = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&fails);
    let receiver = receiver(move |_| match now.load(Ordering::Relaxed) {
        true => Reply::status(500),
        false => Reply::default(),
    })
    .await;
    set(hook(&log, &receiver)).catch_up(&log).await.unwrap();
    let list = async || Deliveries::new(&log).list(&Filter::default()).await.unwrap().remove(0);
    fails.store(true, Ordering::Relaxed);
    let (_, attempt) = hook(&log, &receiver).resend(&list().await, false).await.unwrap();
    assert_eq!(attempt.status, Some(500));
    let kept = list().await;
    assert_eq!((kept.state, kept.status), (DeliveryState::Delivered, Some(200)));
    assert_eq!((kept.attempts, kept.failures.len()), (2, 1), "the failure is seen");
}

/// An endpoint at a port of ours, and how long it is waited for.
async fn raw(scheme: &str) -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{scheme}://{}/hook", listener.local_addr().unwrap());
    let to = Endpoint::new(&url).unwrap().private_addresses(true);
    (listener, to.timeout(Duration::from_secs(2)).connected())
}

#[tokio::test]
async fn an_answer_whose_body_never_ends_is_an_answer() {
    let (listener, to) = raw("http").await;
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort";
        stream.write_all(head.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    let attempt = to.send("msg_1", "{}").await;
    answering.abort();
    assert_eq!((attempt.verdict, attempt.status), (Verdict::Arrived, Some(200)));
    assert_eq!(attempt.answer, "short");
}

#[tokio::test]
async fn encryption_that_is_never_agreed_upon_is_no_connection() {
    let (listener, to) = raw("https").await;
    let silent = tokio::spawn(async move {
        let _stream = listener.accept().await.unwrap();
        std::future::pending::<()>().await;
    });
    let attempt = to.send("msg_1", "{}").await;
    silent.abort();
    assert_eq!(attempt.verdict, Verdict::Unreachable, "{}", attempt.answer);
}

//! What holds for the endpoint over all workers together.

use crate::hooks::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch_lab::receiver::Reply;
use std::time::Duration;

on_both! {
    no_more_are_under_way_than_the_limit,
    no_more_are_sent_in_a_second_than_the_limit,
    so_many_are_sent_in_a_second_as_the_limit_allows,
    keys_go_side_by_side,
}

async fn no_more_are_under_way_than_the_limit(db: Db) {
    let log = db.log().await;
    fill(&log, 0..60, 1..=4).await;
    let receiver =
        receiver(|_| Reply { after: Duration::from_millis(20), ..Reply::default() }).await;
    let hook = |log: &Log| hook(log, &receiver).concurrency(3);
    let one = start(&log, set(hook(&log)).lanes(2));
    let two = start(&db.log().await, set(hook(&log)).lanes(2));
    until("all events", async || (receiver.count() >= 240).then_some(())).await;
    until_handled(&log).await;
    one.stop().await;
    two.stop().await;
    is_whole(&receiver, 60, 4);
    let received = receiver.received();
    let most = received.iter().map(|one| {
        let is_under_way = |other: &&anabranch_lab::receiver::Received| {
            other.at <= one.at && other.answered.is_none_or(|end| end > one.at)
        };
        received.iter().filter(is_under_way).count()
    });
    assert_eq!(most.max(), Some(3));
}

async fn no_more_are_sent_in_a_second_than_the_limit(db: Db) {
    let log = db.log().await;
    fill(&log, 0..50, 1..=3).await;
    let receiver = always_taken().await;
    let hook = |log: &Log| hook(log, &receiver).max_per_second(50.0);
    let one = start(&log, set(hook(&log)).lanes(2));
    let two = start(&db.log().await, set(hook(&log)).lanes(2));
    until("all events", async || (receiver.count() >= 150).then_some(())).await;
    until_handled(&log).await;
    one.stop().await;
    two.stop().await;
    is_whole(&receiver, 50, 3);
    let at: Vec<_> = receiver.received().iter().map(|one| one.at).collect();
    // A turn is taken up to a tenth of a second ahead, and used up to a tenth of a second late, by each worker.
    for (number, begin) in at.iter().enumerate() {
        let second =
            at[number..].iter().filter(|at| at.duration_since(*begin) < Duration::from_secs(1));
        assert!(second.count() <= 62);
    }
    let took = at[149].duration_since(at[0]);
    assert!(took >= Duration::from_millis(2_700), "{took:?}");
}

/// Deliveries that wait for a turn and are not begun leave it to others: else most of the turns would be lost.
async fn so_many_are_sent_in_a_second_as_the_limit_allows(db: Db) {
    let log = db.log().await;
    fill(&log, 0..40, 1..=1).await;
    let receiver = always_taken().await;
    let began = std::time::Instant::now();
    set(hook(&log, &receiver).max_per_second(10.0).concurrency(16)).catch_up(&log).await.unwrap();
    let took = began.elapsed();
    is_whole(&receiver, 40, 1);
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(8), "{took:?}");
}

async fn keys_go_side_by_side(db: Db) {
    let log = db.log().await;
    fill(&log, 0..8, 1..=2).await;
    // Long enough that all of them are there before the first is answered.
    let receiver = receiver(|_| Reply { after: Duration::from_secs(1), ..Reply::default() }).await;
    set(hook(&log, &receiver).concurrency(8)).catch_up(&log).await.unwrap();
    let first = receiver.received()[0].answered.unwrap();
    let beside = receiver.received().iter().filter(|one| one.at < first).count();
    assert_eq!(beside, 8, "one of each key");
    is_whole(&receiver, 8, 2);
}

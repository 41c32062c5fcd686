//! Subscriptions: catch up, then follow, once and in order.

use super::{Harness, numbered, numbers, order, soon};
use crate::EventStream;
use anabranch_core::{Event, Expected, NewEvent, Position, Query};
use futures_util::future::join_all;

async fn take(events: &mut EventStream, count: usize) -> Vec<Event> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(soon(events.next()).await.expect("a subscription does not end").unwrap());
    }
    taken
}

/// What was there, what comes through the same door, and what comes through another.
pub async fn a_subscription_catches_up_and_follows(harness: &Harness) {
    let log = harness.log().await;
    let other = harness.again(&log).await;
    for number in 0..10 {
        log.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
    }
    let mut events = log.subscribe(Query::all(), Position::new(4));
    assert_eq!(numbers(&take(&mut events, 6).await), [4, 5, 6, 7, 8, 9]);
    for number in 10..30 {
        let door = if number % 2 == 0 { &log } else { &other };
        door.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
        assert_eq!(numbers(&take(&mut events, 1).await), [number]);
    }
    // One that begins beyond the head waits for what comes after.
    let mut later = log.subscribe(Query::all(), log.head().await.unwrap());
    log.append(&order(1), Expected::Any, [numbered(99)]).await.unwrap();
    assert_eq!(numbers(&take(&mut later, 1).await), [99]);
}

/// Events that do not match are passed over, however many there are.
pub async fn a_filtered_subscription_sees_only_its_events(harness: &Harness) {
    let log = harness.log().await;
    let mut events = log.subscribe(Query::types(["Wanted"]).tagged(["x"]), Position::START);
    for number in 0..200u64 {
        let name = if number % 50 == 7 { "Wanted" } else { "Other" };
        let event = NewEvent::new(name, number).with_tag("x");
        log.append(&order(number), Expected::Any, [event]).await.unwrap();
    }
    assert_eq!(numbers(&take(&mut events, 4).await), [7, 57, 107, 157]);
}

/// Sixteen appenders, two doors, three subscribers: each sees every event once, in order.
pub async fn every_event_once_and_in_order_under_load(harness: &Harness) {
    const TASKS: u64 = 16;
    const EACH: u64 = 40;
    let log = harness.log().await;
    let doors = [log.clone(), harness.again(&log).await];
    let subscribers: Vec<_> = (0..3)
        .map(|number| {
            let mut events = doors[number % 2].subscribe(Query::all(), Position::START);
            tokio::spawn(async move { take(&mut events, (TASKS * EACH) as usize).await })
        })
        .collect();
    let appenders = (0..TASKS).map(|task| {
        let log = doors[task as usize % 2].clone();
        tokio::spawn(async move {
            for number in 0..EACH {
                let event = numbered(task * EACH + number);
                log.append(&order(task), Expected::Any, [event]).await.unwrap();
            }
        })
    });
    for appender in soon(join_all(appenders)).await {
        appender.unwrap();
    }
    for seen in soon(join_all(subscribers)).await {
        let seen = seen.unwrap();
        assert!(seen.is_sorted_by(|a, b| a.position() < b.position()));
        let mut numbers = numbers(&seen);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..TASKS * EACH).collect::<Vec<_>>());
    }
}

//! Tails against appends that go on: each event once, in order, over joins, lags and reconnects.

use crate::client::{Client, Server, tails_of};
use crate::on_both;
use crate::sse::Sse;
use crate::support::{Db, until};
use anabranch::prelude::*;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both!(
    no_event_is_left_out_or_sent_twice_while_others_append,
    a_tail_gets_what_is_appended_after_it_was_opened,
    a_tail_gets_only_what_it_asked_for,
    each_event_is_read_and_written_once_for_all,
);

const TASKS: u64 = 4;
const EACH: u64 = 100;

fn order(number: u64) -> StreamId {
    StreamId::new("Order", number.to_string()).unwrap()
}

/// Appends single events from several tasks: every third one even, some refused.
async fn append_meanwhile(log: &Log) {
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let log = log.clone();
        tasks.push(tokio::spawn(async move {
            for number in 0..EACH {
                let name = if number % 3 == 0 { "Third" } else { "Other" };
                let event = NewEvent::new(name, (task, number)).with_tag(format!("task:{task}"));
                log.append(&order(task), Expected::Any, [event]).await.unwrap();
                if number % 10 == 0 {
                    let wrong = NewEvent::new("Third", "refused");
                    log.append(&order(task), Expected::NoStream, [wrong]).await.unwrap_err();
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// What a tail does beside reading.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Reads to the end.
    Steady,
    /// Goes away after so many events, and comes again.
    Leaves(usize),
    /// Rests after so many events until the ring has passed it.
    Dawdles(usize),
}

/// Positions of all events that came, until the one at `end`.
async fn collect(client: Client, query: String, habit: Habit, end: Arc<AtomicBool>) -> Vec<u64> {
    let (mut seen, mut last) = (Vec::new(), 0);
    loop {
        let mut tail = client.tail_from(&query, Some(last)).await;
        let mut got = 0;
        while let Some(frame) = tail.next().await {
            match frame.name.as_str() {
                "event" => {
                    let position = frame.json()["position"].as_u64().unwrap();
                    assert_eq!(frame.id, Some(position));
                    if frame.json()["type"] == "End" {
                        return seen;
                    }
                    seen.push(position);
                    got += 1;
                }
                "dropped" => assert_eq!(frame.json()["reason"], "too_slow"),
                other => assert!(["caught_up", "comment"].contains(&other), "{other}"),
            }
            match habit {
                Habit::Leaves(after) if got >= after => break,
                Habit::Dawdles(after) if got >= after && !end.load(Ordering::Relaxed) => {
                    got = 0;
                    tokio::time::sleep(Duration::from_millis(30)).await;
                }
                _ => {}
            }
        }
        last = tail.last_id.unwrap_or(last);
    }
}

async fn no_event_is_left_out_or_sent_twice_while_others_append(db: Db) {
    let log = db.log().await;
    // Small, so that tails fall out of it, catch up and join again all the time.
    let server = Server::with(&log, tails_of(16), |api| api).await;
    let habits = [
        Habit::Steady,
        Habit::Leaves(1),
        Habit::Leaves(7),
        Habit::Leaves(50),
        Habit::Dawdles(5),
        Habit::Dawdles(40),
    ];
    let end = Arc::<AtomicBool>::default();
    let mut readers = Vec::new();
    for query in ["", "types=Third&types=End", "tags=task:1", "category=Order&category=End"] {
        for habit in habits {
            let (client, end) = (server.anybody(), Arc::clone(&end));
            let reading = tokio::spawn(collect(client, query.to_owned(), habit, end));
            readers.push((query, habit, reading));
        }
    }
    append_meanwhile(&log).await;
    end.store(true, Ordering::Relaxed);
    let last = NewEvent::new("End", ()).with_tag("task:1");
    log.append(&StreamId::new("End", "1").unwrap(), Expected::Any, [last]).await.unwrap();
    let mut all = log.read(Query::all()).collect().await.unwrap();
    assert_eq!(all.pop().unwrap().event_type(), "End");
    assert_eq!(all.len() as u64, TASKS * EACH);
    for (query, habit, reading) in readers {
        let is_wanted = |event: &&Event| match query {
            "types=Third&types=End" => event.event_type() == "Third",
            "tags=task:1" => event.tags().any(|tag| tag == "task:1"),
            _ => true,
        };
        let wanted: Vec<u64> =
            all.iter().filter(is_wanted).map(|event| event.position().get()).collect();
        assert_eq!(reading.await.unwrap(), wanted, "{query} {habit:?}");
    }
    let figures = server.tails.figures();
    assert!(figures.pages_read > 20, "few of them were ever behind: {figures:?}");
}

async fn a_tail_gets_what_is_appended_after_it_was_opened(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    for number in 0..20 {
        log.append(&order(1), Expected::Any, [NewEvent::new("Old", number)]).await.unwrap();
        let mut tail = server.anybody().tail("").await;
        // Over HTTP, from another process as it were: on a handle that the server does not know.
        let new = r#"{"events": [{"type": "New", "data": {"a": 9007199254740993.10}}]}"#;
        server.anybody().post("/v1/streams/Order/1", new).await.good();
        let frame = tail.until("event").await;
        assert_eq!(frame.json()["type"], "New");
        assert!(frame.data.contains(r#""data":{"a": 9007199254740993.10}"#), "{}", frame.data);
    }
}

async fn a_tail_gets_only_what_it_asked_for(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let client = server.anybody();
    let all: [(&str, &[&str]); 6] = [
        ("", &["1", "2", "3", "4"]),
        ("types=A&types=C", &["1", "3", "4"]),
        ("tags=x&tags=y", &["2"]),
        ("category=Order", &["1", "2"]),
        ("tenant=acme&types=A", &["4"]),
        ("types=A&category=Seat&category=Order", &["1", "4"]),
    ];
    let mut live: Vec<Sse> = Vec::new();
    for (query, _) in all {
        let mut tail = client.tail(query).await;
        tail.until("caught_up").await;
        live.push(tail);
    }
    let seat = StreamId::new("Seat", "1").unwrap();
    let events = [
        (order(1), NewEvent::new("A", "1").with_tag("x")),
        (order(1), NewEvent::new("B", "2").with_tags(["y", "z", "x"])),
        (seat.clone(), NewEvent::new("C", "3").with_tag("y").with_tenant("umbrella")),
        (seat.clone(), NewEvent::new("A", "4").with_tenant("acme")),
        (seat, NewEvent::new("A", "end").with_tags(["x", "y"]).with_tenant("acme")),
        (order(1), NewEvent::new("A", "end").with_tags(["x", "y"]).with_tenant("acme")),
    ];
    for (stream, event) in events {
        log.append(&stream, Expected::Any, [event]).await.unwrap();
    }
    for ((query, wanted), mut live) in all.into_iter().zip(live) {
        let mut behind = client.tail(&format!("{query}&after=0")).await;
        for tail in [&mut live, &mut behind] {
            let mut got = Vec::new();
            loop {
                match tail.event().await["data"].take() {
                    Value::String(data) if data == "end" => break,
                    Value::String(data) => got.push(data),
                    other => panic!("{other}"),
                }
            }
            assert_eq!(got, wanted, "{query}");
        }
    }
    for wrong in ["type=A", "after=x", "types="] {
        assert_eq!(client.get(&format!("/v1/tail?{wrong}")).await.status, 400, "{wrong}");
    }
}

async fn each_event_is_read_and_written_once_for_all(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let mut tails = Vec::new();
    for number in 0..30 {
        let mut tail = server.anybody().tail(if number % 2 == 0 { "" } else { "types=A" }).await;
        tail.until("caught_up").await;
        tails.push(tail);
    }
    for number in 0..100 {
        log.append(&order(1), Expected::Any, [NewEvent::new("A", number)]).await.unwrap();
    }
    for tail in &mut tails {
        for number in 0..100 {
            assert_eq!(tail.event().await["data"], number);
        }
    }
    let figures = server.tails.figures();
    assert_eq!((figures.subscriptions, figures.events_read, figures.events_written), (1, 100, 100));
    assert_eq!((figures.events_sent, figures.open, figures.pages_read), (3_000, 30, 0));
    // With nobody there it ends; the next one begins it anew.
    drop(tails);
    until("all have left", async || (server.tails.figures().open == 0).then_some(())).await;
    log.append(&order(1), Expected::Any, [NewEvent::new("A", 100)]).await.unwrap();
    let mut tail = server.anybody().tail("").await;
    log.append(&order(1), Expected::Any, [NewEvent::new("A", 101)]).await.unwrap();
    assert_eq!(tail.event().await["data"], 101);
    let figures = server.tails.figures();
    assert_eq!((figures.subscriptions, figures.events_read, figures.open), (2, 101, 1));
}

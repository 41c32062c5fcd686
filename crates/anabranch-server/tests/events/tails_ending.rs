//! Tails that are slow, cut off, closed, or begin where they cannot.

use crate::client::{Server, tails_of};
use crate::on_both;
use crate::support::{Db, until};
use anabranch::prelude::*;
use anabranch_server::{NewToken, Scope, TailLimits, Tokens};
use std::collections::BTreeSet;
use std::time::Duration;

on_both!(
    a_slow_tail_is_dropped_and_goes_on_where_it_was,
    tails_are_told_when_the_server_stops,
    a_position_beyond_the_log_is_refused,
    there_are_only_so_many_tails,
    a_silent_tail_says_where_it_stands,
    bodies_are_kept_from_those_who_may_not_see_them,
    text_of_several_lines_stays_one_event,
    a_tail_ends_with_its_token,
    wrong_tokens_keep_no_revoked_one_alive,
    a_silent_tail_ends_with_its_token,
    a_server_that_stops_says_so_behind_a_whole_event,
);

fn order() -> StreamId {
    StreamId::new("Order", "1").unwrap()
}

async fn a_slow_tail_is_dropped_and_goes_on_where_it_was(db: Db) {
    let log = db.log().await;
    let server = Server::with(&log, tails_of(25), |api| api).await;
    let mut tail = server.anybody().slow_tail("").await;
    tail.until("caught_up").await;
    // More than all buffers on the way hold, while it does not read.
    let large = "x".repeat(100_000);
    let mut number = 0_u64;
    while number < 200 {
        let events = (number..number + 20).map(|number| NewEvent::new("A", (number, &large)));
        log.append(&order(), Expected::Any, events).await.unwrap();
        number += 20;
    }
    // If it was dropped by now, nobody listens any more, and nothing more is read.
    until("the ring has passed it", async || {
        let figures = server.tails.figures();
        (figures.events_read == 200 || figures.open == 0).then_some(())
    })
    .await;
    let (mut got, mut dropped) = (Vec::new(), None);
    while let Some(frame) = tail.next().await {
        match frame.name.as_str() {
            "event" => got.push(frame.json()["data"][0].as_u64().unwrap()),
            "dropped" => dropped = Some(frame),
            _ => {}
        }
    }
    let dropped = dropped.expect("it was dropped with a word");
    assert_eq!(dropped.json()["reason"], "too_slow");
    assert!(got.len() < 200, "it was never too slow");
    let mut again = server.anybody().tail_from("", tail.last_id).await;
    while got.len() < 200 {
        got.push(again.event().await["data"][0].as_u64().unwrap());
    }
    assert_eq!(got, (0..200).collect::<Vec<_>>());
    assert_eq!(server.tails.figures().dropped, 1);
}

async fn tails_are_told_when_the_server_stops(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let mut tail = server.anybody().tail("").await;
    log.append(&order(), Expected::Any, [NewEvent::new("A", 1)]).await.unwrap();
    tail.event().await;
    server.tails.close();
    let dropped = tail.until("dropped").await;
    assert_eq!(dropped.json()["reason"], "server_stops");
    assert_eq!(dropped.id, dropped.json()["position"].as_u64());
    assert_eq!(tail.next().await, None);
    server.anybody().get("/v1/tail").await.problem(503, "log_closed");
}

async fn a_position_beyond_the_log_is_refused(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let appended = log.append(&order(), Expected::Any, [NewEvent::new("A", 1)]).await.unwrap();
    let at = appended.position().get();
    let beyond = server.anybody().get(&format!("/v1/tail?after={}", at + 1)).await;
    let problem = beyond.problem(409, "log_fell_back");
    assert_eq!((&problem["after"], &problem["newest"]), (&(at + 1).into(), &at.into()));
    server.anybody().tail(&format!("after={at}")).await.until("caught_up").await;
}

async fn there_are_only_so_many_tails(db: Db) {
    let log = db.log().await;
    let limits = TailLimits { tails: 2, ..TailLimits::default() };
    let server = Server::with(&log, limits, |api| api).await;
    let first = server.anybody().tail("").await;
    let _second = server.anybody().tail("").await;
    server.anybody().get("/v1/tail").await.problem(429, "too_many_requests");
    drop(first);
    until("a place is free", async || (server.tails.figures().open == 1).then_some(())).await;
    server.anybody().tail("").await.until("caught_up").await;
}

async fn a_silent_tail_says_where_it_stands(db: Db) {
    let log = db.log().await;
    let heartbeat = Duration::from_millis(20);
    let server = Server::with(&log, TailLimits { heartbeat, ..TailLimits::default() }, |api| api);
    let server = server.await;
    let mut tail = server.anybody().tail("types=Rare").await;
    tail.until("caught_up").await;
    let appended = log.append(&order(), Expected::Any, [NewEvent::new("A", 1)]).await.unwrap();
    // Nothing that it wants; but it need not look at that again when it comes back.
    let at = appended.position().get();
    while tail.until("comment").await.id != Some(at) {}
}

async fn bodies_are_kept_from_those_who_may_not_see_them(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let tenants = Some(BTreeSet::from(["acme".to_owned()]));
    let acme = NewToken { tenants, ..NewToken::new("acme", [Scope::Read]) };
    let mut whole = server.with_scopes(&[Scope::Read]).await.tail("").await;
    let mut masked = server.with_scopes(&[Scope::ReadMasked]).await.tail("").await;
    let mut acme = server.holder(acme).await.tail("").await;
    for tenant in [None, Some("umbrella"), Some("acme")] {
        let event =
            NewEvent::new("A", "secret").with_metadata(serde_json::json!({"by": "lovelace"}));
        let event = match tenant {
            Some(tenant) => event.with_tenant(tenant),
            None => event,
        };
        log.append(&order(), Expected::Any, [event]).await.unwrap();
    }
    for tenant in [None, Some("umbrella"), Some("acme")] {
        let (seen, hidden) = (whole.event().await, masked.until("event").await);
        assert_eq!(
            (&seen["data"], &seen["metadata"]["by"]),
            (&"secret".into(), &"lovelace".into())
        );
        assert_eq!(hidden.json()["masked"], true);
        assert!(
            !hidden.data.contains("secret") && !hidden.data.contains("lovelace"),
            "{}",
            hidden.data
        );
        for mut one in [seen, hidden.json()] {
            assert_eq!(one["tenant"].as_str(), tenant);
            one["position"].take();
        }
    }
    assert_eq!(acme.event().await["tenant"], "acme");
    // Written twice at the most: with bodies, and without.
    assert_eq!(server.tails.figures().events_written, 6);
}

async fn text_of_several_lines_stays_one_event(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let mut tail = server.anybody().tail("").await;
    let body = "{\"events\": [{\"type\": \"A\", \"data\": {\n  \"a\": 1,\r\n  \"b\": \"\\n\"\n}}]}";
    server.anybody().post("/v1/streams/Order/1", body).await.good();
    let frame = tail.until("event").await;
    assert!(frame.data.contains("\"data\":{\n  \"a\": 1,\n  \"b\": \"\\n\"\n}"), "{}", frame.data);
    assert_eq!(frame.json()["data"], serde_json::json!({"a": 1, "b": "\n"}));
}

async fn a_tail_ends_with_its_token(db: Db) {
    let log = db.log().await;
    let server = Server::start(&log).await;
    let stays = server.with_scopes(&[Scope::Read]).await;
    let goes = server.holder(NewToken::new("goes", [Scope::Read])).await;
    let (mut stays, mut goes) = (stays.tail("").await, goes.tail("").await);
    goes.until("caught_up").await;
    let tokens = Tokens::new(&log);
    let all = tokens.list().await.unwrap();
    let goes_by = all.into_iter().find(|token| token.name == "goes").unwrap();
    // By another process: this one finds it out by itself.
    Tokens::new(&db.log().await).revoke(&goes_by.id).await.unwrap();
    // What is sent until then is from before it was found out, which takes two seconds at the most.
    let mut number = 0;
    let dropped = loop {
        number += 1;
        log.append(&order(), Expected::Any, [NewEvent::new("A", number)]).await.unwrap();
        let frame = goes.next().await.expect("it ended without a word");
        if frame.name == "dropped" {
            break frame;
        }
        assert!(number < 1000, "it still gets events");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(dropped.json()["reason"], "not_allowed");
    assert_eq!(goes.next().await, None);
    for wanted in 1..=number {
        assert_eq!(stays.event().await["data"], wanted);
    }
}

async fn wrong_tokens_keep_no_revoked_one_alive(db: Db) {
    let log = db.log().await;
    let server = Server::with(&log, tails_of(8192), |api| api).await;
    let goes = server.holder(NewToken::new("goes", [Scope::Read])).await;
    let (mut tail, mut second) = (goes.tail("").await, goes.tail("").await);
    tail.until("caught_up").await;
    second.until("caught_up").await;
    let tokens = Tokens::new(&log);
    let goes_by = tokens.list().await.unwrap().remove(0);
    tokens.revoke(&goes_by.id).await.unwrap();
    until("it is known to be revoked", async || {
        (goes.get("/v1/events").await.status == 401).then_some(())
    })
    .await;
    // Whoever wants to hold the door open tries so many wrong ones that nobody is let in from there.
    let wrong = server.with_token("anb_wrong");
    until("no more tries", async || (wrong.get("/v1/events").await.status == 429).then_some(()))
        .await;
    for tail in [&mut tail, &mut second] {
        let dropped = loop {
            log.append(&order(), Expected::Any, [NewEvent::new("A", "secret")]).await.unwrap();
            let frame = tail.next().await.expect("it ended without a word");
            if frame.name == "dropped" {
                break frame;
            }
            let all = log.read(Query::all()).collect().await.unwrap().len();
            assert!(all < 200, "it still gets events");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(dropped.json()["reason"], "not_allowed");
    }
}

async fn a_silent_tail_ends_with_its_token(db: Db) {
    let log = db.log().await;
    let heartbeat = Duration::from_millis(2_500);
    let limits = TailLimits { heartbeat, ..TailLimits::default() };
    let server = Server::with(&log, limits, |api| api).await;
    let mut tail = server.holder(NewToken::new("goes", [Scope::Read])).await.tail("").await;
    tail.until("caught_up").await;
    let tokens = Tokens::new(&log);
    let goes = tokens.list().await.unwrap().remove(0);
    tokens.revoke(&goes.id).await.unwrap();
    // Not even that it is alive is said any more.
    let next = tail.next().await.unwrap();
    assert_eq!((next.name.as_str(), &next.json()["reason"]), ("dropped", &"not_allowed".into()));
}

/// An event that was changed by hand into what is no JSON. PostgreSQL's type refuses that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_before_an_event_that_cannot_be_written_is_sent() {
    use anabranch::backend::database::{End, Statement};
    let db = Db::sqlite();
    let log = db.log().await;
    let server = Server::start(&log).await;
    let mut tail = server.anybody().tail("").await;
    tail.until("caught_up").await;
    let event = |name: &str| NewEvent::new(name, 1);
    let events = [event("Good"), event("Good"), event("Broken"), event("Good")];
    let append = Append::new().to(&order(), Expected::Any, events);
    let table = log.database().dialect().table("events");
    let broken = format!("UPDATE {table} SET data = '{{' WHERE type = 'Broken'");
    let statements = vec![Statement::appends(vec![append]), Statement::new(broken, vec![])];
    log.database().control().run(statements, End::Commit).await.unwrap();
    let mut late = server.anybody().tail("after=0").await;
    for tail in [&mut tail, &mut late] {
        for position in [1, 2] {
            let frame = tail.next().await.unwrap();
            assert_eq!((frame.name.as_str(), frame.id), ("event", Some(position)), "{frame:?}");
        }
        let dropped = tail.next().await.unwrap();
        assert_eq!((dropped.name.as_str(), dropped.id), ("dropped", Some(2)), "{dropped:?}");
        assert_eq!(dropped.json()["reason"], "unwritable");
    }
}

async fn a_server_that_stops_says_so_behind_a_whole_event(db: Db) {
    let log = db.log().await;
    let (server, stop) = Server::that_stops(&log).await;
    let mut tail = server.anybody().tail("").await;
    tail.until("caught_up").await;
    log.append(&order(), Expected::Any, [NewEvent::new("A", 1)]).await.unwrap();
    tail.event().await;
    stop.send(()).unwrap();
    assert_eq!(tail.until("dropped").await.json()["reason"], "server_stops");
    assert_eq!(tail.next().await, None);
}

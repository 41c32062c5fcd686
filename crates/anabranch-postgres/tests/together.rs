//! Reads of scopes share round trips, and each keeps the promises of a read that is alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use anabranch_core::{Append, Event, Expected, NewEvent, Position, Query, StoreError};
use anabranch_postgres::Postgres;
use anabranch_postgres::tokio_postgres::Client;
use anabranch_store::contract::{numbered, numbers, order, soon};
use anabranch_store::{Filter, Log, Namespace, Options, Page, PageEnd, ReadRequest, Scope};
use futures_util::future::join_all;
use server::{client, client_of, namespace, open, url};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

type Reading = JoinHandle<Result<Vec<Event>, StoreError>>;

fn tagged(number: u64, tag: &str) -> NewEvent {
    numbered(number).with_tag(tag)
}

async fn append(log: &Log, number: u64, tag: &str) {
    log.append(&order(tag), Expected::Any, [tagged(number, tag)]).await.unwrap();
}

fn read(log: &Log, query: Query) -> Reading {
    tokio::spawn(log.read(query).collect())
}

/// Asked for at the same time: in a runtime of one thread they are one group, since each has joined before the task
/// that reads them has its turn.
fn read_each(log: &Log, scopes: u64) -> Vec<Reading> {
    (0..scopes).map(|scope| read(log, Query::tags([format!("scope:{scope}")]))).collect()
}

async fn append_each(log: &Log, scopes: u64) {
    join_all((0..scopes).map(async |scope| append(log, scope, &format!("scope:{scope}")).await))
        .await;
}

/// A page of a scope, asked for in a way that ends when its task does.
fn page_of(log: &Log, tag: &str) -> JoinHandle<Result<Page, StoreError>> {
    let (scope, filter) = (Scope::Log(Query::tags([tag])), Filter::default());
    let (cursor, up_to, backwards, max_events) = (0, Position::END, false, 100);
    let request = ReadRequest { scope, filter, cursor, up_to, backwards, max_events };
    let log = log.clone();
    tokio::spawn(async move { log.store().read(request).await })
}

/// Holds up the rows of a group, and nothing before them.
async fn hold_rows(namespace: &Namespace) -> Client {
    let holder = client().await;
    let hold = format!("BEGIN; LOCK TABLE {namespace}.event_tags IN ACCESS EXCLUSIVE MODE");
    holder.batch_execute(&hold).await.unwrap();
    holder
}

/// The session that waits for the rows, as soon as there is one.
async fn held_up(namespace: &Namespace) -> i32 {
    let client = client().await;
    let waits = format!(
        "SELECT pid FROM pg_locks WHERE NOT granted AND relation = '{namespace}.event_tags'::regclass"
    );
    loop {
        if let Some(row) = client.query_opt(&waits, &[]).await.unwrap() {
            return row.get(0);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_append_in_flight_holds_up_its_own_scope_and_no_other_of_the_group() {
    let log = open(&namespace()).await;
    append_each(&log, 32).await;
    let mut slow = client().await;
    let slow = slow.transaction().await.unwrap();
    let in_flight = Append::new().to(&order("slow"), Expected::Any, [tagged(100, "slow")]);
    log.backend::<Postgres>().unwrap().append_in(&slow, in_flight).await.unwrap();
    log.append(&order("fast"), Expected::Any, [tagged(101, "slow")]).await.unwrap();

    // One page of each, in one group.
    let (held, other) = (page_of(&log, "slow"), page_of(&log, "scope:1"));
    let page = soon(held).await.unwrap().unwrap();
    assert_eq!((page.events.len(), page.end), (0, PageEnd::Pending));
    let page = soon(other).await.unwrap().unwrap();
    assert_eq!((numbers(&page.events), page.end), (vec![1], PageEnd::Last));

    // Whole reads.
    let types = Query::types(["Numbered"]);
    let waits = [
        Query::tags(["slow"]),
        types.clone().tagged(["slow"]),
        Query::tags(["scope:1"]).or(Query::tags(["slow"])),
    ];
    let mut held: Vec<Reading> = Vec::new();
    for _ in 0..5 {
        held.extend(waits.iter().map(|query| read(&log, query.clone())));
        for (scope, reading) in read_each(&log, 32).into_iter().enumerate() {
            assert_eq!(numbers(&soon(reading).await.unwrap().unwrap()), [scope as u64]);
        }
        let with_types = read(&log, types.clone().tagged(["scope:7"]));
        assert_eq!(numbers(&soon(with_types).await.unwrap().unwrap()), [7]);
    }
    assert!(!held.iter().any(Reading::is_finished), "a read passed an append in flight");

    slow.commit().await.unwrap();
    for (number, reading) in held.into_iter().enumerate() {
        let seen = numbers(&soon(reading).await.unwrap().unwrap());
        let expected: &[u64] = if number % 3 == 2 { &[1, 100, 101] } else { &[100, 101] };
        assert_eq!(seen, expected);
    }
}

/// Each has just appended, while the reads of others are on their way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_read_sees_what_was_stored_before_it_began() {
    let log = open(&namespace()).await;
    let tasks = (0..32u64).map(|task| {
        let log = log.clone();
        // Two tasks each share a scope.
        let tag = format!("scope:{}", task / 2);
        tokio::spawn(async move {
            let mut before = Vec::new();
            for step in 0..40 {
                let number = task * 1000 + step;
                let event = [tagged(number, &tag)];
                log.append(&order(task), Expected::Any, event).await.unwrap();
                let query = match step % 3 {
                    0 => Query::types(["Numbered"]).tagged([tag.as_str()]),
                    _ => Query::tags([tag.as_str()]),
                };
                let seen = numbers(&soon(log.read(query).collect()).await.unwrap());
                assert!(seen.contains(&number), "{number} is not in {seen:?}");
                assert!(seen.starts_with(&before), "{before:?} came first, then {seen:?}");
                before = seen;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

/// Twelve appenders with connections of their own, some of which are slow or roll back. What a read has seen is all
/// there will ever be up to its last event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_appears_below_what_was_read() {
    let log = open(&namespace()).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = (0..16u64).map(|reader| {
        let (log, is_over) = (log.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let query = Query::tags([format!("scope:{}", reader % 4)]);
            let mut before: Vec<u64> = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let seen = numbers(&soon(log.read(query.clone()).collect()).await.unwrap());
                assert!(seen.starts_with(&before), "{query}: {before:?} came first, then {seen:?}");
                before = seen;
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    let appenders = (0..12u64).map(|appender| {
        let log = log.clone();
        tokio::spawn(async move {
            let mut client = client().await;
            for step in 0..60 {
                let (number, scope) = (appender * 1000 + step, (appender + step) % 4);
                let event = [tagged(number, &format!("scope:{scope}"))];
                let append = Append::new().to(&order(appender), Expected::Any, event);
                let tx = client.transaction().await.unwrap();
                log.backend::<Postgres>().unwrap().append_in(&tx, append).await.unwrap();
                if step % 4 == 0 {
                    tokio::time::sleep(Duration::from_millis((appender + step) % 7)).await;
                }
                match step % 9 {
                    0 => tx.rollback().await.unwrap(),
                    _ => tx.commit().await.unwrap(),
                }
            }
        })
    });
    for appender in appenders.collect::<Vec<_>>() {
        appender.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        soon(reader).await.unwrap();
    }
}

#[tokio::test]
async fn a_group_whose_session_is_killed_is_read_one_by_one() {
    let namespace = namespace();
    let log = open(&namespace).await;
    append_each(&log, 40).await;
    let holder = hold_rows(&namespace).await;
    let group = read_each(&log, 40);
    let pid = held_up(&namespace).await;
    let killer = client().await;
    killer.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    holder.batch_execute("ROLLBACK").await.unwrap();
    for (scope, reading) in group.into_iter().enumerate() {
        assert_eq!(numbers(&soon(reading).await.unwrap().unwrap()), [scope as u64]);
    }
}

#[tokio::test]
async fn a_read_that_is_given_up_harms_no_other_of_its_group() {
    let namespace = namespace();
    let log = open(&namespace).await;
    append_each(&log, 40).await;
    let holder = hold_rows(&namespace).await;
    let pages = || (0..40).map(|scope| page_of(&log, &format!("scope:{scope}"))).collect();
    let group: Vec<_> = pages();
    held_up(&namespace).await;
    let next: Vec<_> = pages();
    tokio::task::yield_now().await;
    // The first as well, which began the group; and of the next, which has not been sent.
    for group in [&group, &next] {
        group.iter().step_by(2).for_each(JoinHandle::abort);
    }
    holder.batch_execute("ROLLBACK").await.unwrap();
    for group in [group, next] {
        for (scope, reading) in group.into_iter().enumerate().skip(1).step_by(2) {
            let page = soon(reading).await.unwrap().unwrap();
            assert_eq!((numbers(&page.events), page.end), (vec![scope as u64], PageEnd::Last));
        }
    }
}

/// Scopes of more than a page, with more text than a page, and with little that matches, beside small ones.
#[tokio::test]
async fn large_scopes_are_read_whole_beside_small_ones() {
    let log = open(&namespace()).await;
    append_each(&log, 20).await;
    let many = (0..700).map(|number| tagged(number, "many"));
    log.append(&order("many"), Expected::Any, many).await.unwrap();
    let rare = NewEvent::new("Rare", 700).with_tag("many");
    log.append(&order("many"), Expected::Any, [rare]).await.unwrap();
    for number in 0..9 {
        let large = NewEvent::new("Large", "x".repeat((1 << 20) - 2)).with_tag("large");
        log.append(&order(number), Expected::Any, [large]).await.unwrap();
    }
    for _ in 0..3 {
        let many = read(&log, Query::tags(["many"]));
        let rare = read(&log, Query::types(["Rare"]).tagged(["many"]));
        let both = read(&log, Query::tags(["scope:1"]).or(Query::tags(["many", "scope:1"])));
        let first = tokio::spawn(log.read(Query::tags(["many"])).limit(3).collect());
        let large: Vec<_> = (0..5).map(|_| read(&log, Query::tags(["large"]))).collect();
        let small = read_each(&log, 20);
        let many = numbers(&soon(many).await.unwrap().unwrap());
        assert_eq!(many, (0..=700).collect::<Vec<_>>());
        assert_eq!(numbers(&soon(rare).await.unwrap().unwrap()), [700]);
        assert_eq!(numbers(&soon(both).await.unwrap().unwrap()), [1]);
        assert_eq!(numbers(&soon(first).await.unwrap().unwrap()), [0, 1, 2]);
        for large in large {
            assert_eq!(soon(large).await.unwrap().unwrap().len(), 9);
        }
        for (scope, small) in small.into_iter().enumerate() {
            assert_eq!(numbers(&soon(small).await.unwrap().unwrap()), [scope as u64]);
        }
    }
}

/// Each statement is a transaction of its own, and a read that is alone needs three: see what the server has counted.
#[tokio::test]
async fn reads_at_the_same_time_share_statements() {
    const ROUNDS: u64 = 40;
    const READS: u64 = 64;
    let namespace = namespace();
    let (control, database) = (client().await, format!("db_{namespace}"));
    control.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
    let elsewhere = url().rsplit_once('/').unwrap().0.to_owned() + "/" + &database;
    let log = Log::new(Postgres::connect(&elsewhere, &Options::default()).await.unwrap());
    append_each(&log, READS).await;
    for _ in 0..ROUNDS {
        for (scope, reading) in read_each(&log, READS).into_iter().enumerate() {
            assert_eq!(numbers(&soon(reading).await.unwrap().unwrap()), [scope as u64]);
        }
    }
    // Sessions tell what they have done when they end, at the latest.
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1";
    while control.query_one(end, &[&database]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(log);
    let counted = client_of(&elsewhere).await;
    let counted = counted
        .query_one("SELECT xact_commit FROM pg_stat_database WHERE datname = $1", &[&database])
        .await
        .unwrap()
        .get::<_, i64>(0);
    assert!(counted > ROUNDS as i64, "they were counted: {counted}");
    let all = (ROUNDS * READS) as i64;
    assert!(counted < all / 2, "{counted} statements for {all} reads");
    control.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await.unwrap();
}

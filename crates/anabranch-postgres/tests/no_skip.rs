//! Law 4: a reader passes a position only when every position up to it is decided.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use anabranch_core::{Append, Expected, NewEvent, Position, Query, StreamId};
use anabranch_postgres::Postgres;
use anabranch_postgres::tokio_postgres::Client;
use anabranch_store::contract::{numbered, numbers, order, soon};
use anabranch_store::{EventStream, Log, Namespace};
use server::{client, client_of, namespace, open};
use std::collections::HashSet;
use std::time::{Duration, Instant};

fn backend(log: &Log) -> &Postgres {
    log.backend().expect("it is PostgreSQL")
}

fn one(stream: &StreamId, event: NewEvent) -> Append {
    Append::new().to(stream, Expected::Any, [event])
}

async fn append(log: &Log, id: &str, number: u64) -> Position {
    log.append(&order(id), Expected::Any, [numbered(number)]).await.unwrap().position()
}

/// The numbers of the next events.
async fn next(events: &mut EventStream, count: usize) -> Vec<u64> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(soon(events.next()).await.unwrap().unwrap());
    }
    numbers(&taken)
}

/// Nothing comes for as long as that.
async fn nothing(events: &mut EventStream, time: Duration) {
    let came = tokio::time::timeout(time, events.next()).await;
    assert!(came.is_err(), "a reader passed an append in flight: {came:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_in_flight_for_ten_seconds_is_never_passed() {
    let namespace = namespace();
    let log = open(&namespace).await;
    append(&log, "before", 1).await;
    let mut events = log.subscribe(Query::all(), Position::START);
    assert_eq!(next(&mut events, 1).await, [1]);

    let mut slow = client().await;
    let slow = slow.transaction().await.unwrap();
    let drawn = backend(&log).append_in(&slow, one(&order("slow"), numbered(2))).await.unwrap();
    let later = append(&log, "after", 3).await;
    assert!(later > drawn.position(), "the later append has the later position");
    nothing(&mut events, Duration::from_secs(10)).await;
    // Not even a reader that starts now, nor one that never saw a gap coming.
    nothing(&mut log.subscribe(Query::all(), Position::new(1)), Duration::from_millis(300)).await;
    nothing(
        &mut open(&namespace).await.subscribe(Query::types(["Numbered"]), Position::new(1)),
        Duration::from_millis(300),
    )
    .await;

    slow.commit().await.unwrap();
    assert_eq!(next(&mut events, 2).await, [2, 3], "both, in order");
}

/// Idle in a transaction that has written, in this database and in another, with locks that look
/// like marks in the other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unrelated_transaction_left_open_stalls_nobody() {
    let namespace = namespace();
    let log = open(&namespace).await;
    append(&log, "a", 1).await;

    let here = client().await;
    let (table, database) = (format!("{namespace}.unrelated"), format!("db_{namespace}"));
    here.batch_execute(&format!("CREATE TABLE {table} (n int)")).await.unwrap();
    here.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
    here.batch_execute(&format!("BEGIN; INSERT INTO {table} VALUES (1)")).await.unwrap();
    let elsewhere = server::url().rsplit_once('/').unwrap().0.to_owned() + "/" + &database;
    let there = client_of(&elsewhere).await;
    there.batch_execute("BEGIN; CREATE TABLE unrelated (n int)").await.unwrap();
    for class in mark_classes(&namespace, &log).await {
        let mark = format!("SELECT pg_advisory_xact_lock_shared({class}, 0)");
        there.batch_execute(&mark).await.unwrap();
    }

    // A gap, so that readers have to ask.
    roll_back(&log, "gap", 0).await;
    append(&log, "b", 2).await;
    let mut events = log.subscribe(Query::all(), Position::START);
    assert_eq!(next(&mut events, 2).await, [1, 2]);
    for number in 3..20 {
        roll_back(&log, "gap", 0).await;
        append(&log, "c", number).await;
        assert_eq!(next(&mut events, 1).await, [number]);
    }
    let read = log.read(Query::types(["Numbered"])).collect().await.unwrap();
    assert_eq!(numbers(&read), (1..20).collect::<Vec<_>>());

    drop((here, there));
    let cleaner = client().await;
    let drop = format!("DROP DATABASE {database} WITH (FORCE)");
    cleaner.batch_execute(&drop).await.unwrap();
}

/// The lock classes that an append of this log holds while it is in flight.
async fn mark_classes(namespace: &Namespace, log: &Log) -> Vec<i32> {
    let mut client = client().await;
    let tx = client.transaction().await.unwrap();
    let id = format!("classes-{namespace}");
    backend(log).append_in(&tx, one(&order(id), numbered(0))).await.unwrap();
    let held = "SELECT DISTINCT classid::int8 FROM pg_locks \
                WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    let rows = tx.query(held, &[]).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(rows.len(), 2, "keys and marks");
    rows.iter().map(|row| row.get::<_, i64>(0) as u32 as i32).collect()
}

/// An append that draws its position and is rolled back.
async fn roll_back(log: &Log, id: &str, number: u64) {
    let mut client = client().await;
    let tx = client.transaction().await.unwrap();
    backend(log).append_in(&tx, one(&order(id), numbered(number))).await.unwrap();
    tx.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolled_back_append_holds_readers_for_a_moment() {
    let log = open(&namespace()).await;
    let mut events = log.subscribe(Query::all(), Position::START);
    let mut client = client().await;
    let mut waits = Vec::new();
    for number in 0..15 {
        let tx = client.transaction().await.unwrap();
        backend(&log).append_in(&tx, one(&order("gone"), numbered(0))).await.unwrap();
        append(&log, "kept", number).await;
        nothing(&mut events, Duration::from_millis(100)).await;
        tx.rollback().await.unwrap();
        let rolled_back = Instant::now();
        assert_eq!(next(&mut events, 1).await, [number]);
        waits.push(rolled_back.elapsed());
    }
    waits.sort();
    let median = waits[waits.len() / 2];
    assert!(median <= Duration::from_millis(100), "readers were held for {waits:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_append_holds_up_only_readers_of_its_own_scope() {
    let log = open(&namespace()).await;
    let tagged = |number: u64, tag: &str| numbered(number).with_tag(tag);
    let mut slow = client().await;
    let slow = slow.transaction().await.unwrap();
    let in_flight = one(&order("slow"), tagged(1, "x"));
    backend(&log).append_in(&slow, in_flight).await.unwrap();
    log.append(&order("fast"), Expected::Any, [tagged(2, "y")]).await.unwrap();
    log.append(&order("fast"), Expected::Any, [tagged(3, "y").with_tag("z")]).await.unwrap();

    // Another scope: reads at once, and its position is safe to decide on.
    let seen = soon(log.read(Query::tags(["y"])).collect()).await.unwrap();
    assert_eq!(numbers(&seen), [2, 3]);
    let mut events = log.subscribe(Query::tags(["y"]), Position::START);
    assert_eq!(next(&mut events, 2).await, [2, 3]);
    let decided = one(&order("fast"), tagged(4, "y"))
        .unless(Query::tags(["y"]), seen.last().unwrap().position());
    soon(log.append_all(decided)).await.unwrap();

    // Its own scope, or all of them: waits for it.
    let waits = |query| tokio::time::timeout(Duration::from_millis(300), log.read(query).collect());
    assert!(waits(Query::tags(["x"]).or(Query::tags(["y"]))).await.is_err());
    assert!(waits(Query::all()).await.is_err());

    slow.commit().await.unwrap();
    let all = soon(log.read(Query::tags(["x"]).or(Query::tags(["y"]))).collect()).await.unwrap();
    assert_eq!(numbers(&all), [1, 2, 3, 4]);
}

/// Beginning at the end: neither `head` nor a backward read leads past an append in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_log_is_before_what_is_in_flight() {
    let log = open(&namespace()).await;
    append(&log, "a", 1).await;
    let mut slow = client().await;
    let slow = slow.transaction().await.unwrap();
    let in_flight = one(&order("slow"), numbered(2).with_tag("x"));
    backend(&log).append_in(&slow, in_flight).await.unwrap();
    let later = log.append(&order("b"), Expected::Any, [numbered(3).with_tag("x")]).await.unwrap();

    let head = log.head().await.unwrap();
    assert_eq!(head, Position::new(1));
    let mut events = log.subscribe(Query::all(), head);
    let last = || log.read(Query::tags(["x"])).backwards().limit(1).collect();
    assert!(tokio::time::timeout(Duration::from_millis(300), last()).await.is_err());
    // Below what is in flight, and elsewhere, nobody waits.
    let below = log.read(Query::all()).before(Position::new(2)).collect();
    assert_eq!(numbers(&soon(below).await.unwrap()), [1]);
    assert!(soon(log.read(Query::tags(["y"])).backwards().collect()).await.unwrap().is_empty());

    slow.commit().await.unwrap();
    assert_eq!(next(&mut events, 2).await, [2, 3]);
    assert_eq!(log.head().await.unwrap(), later.position());
    assert_eq!(numbers(&soon(last()).await.unwrap()), [3]);
}

/// The log's own appends, made slow by a trigger after they have drawn their positions: in one statement
/// (wherever the stream stands, where it is expected, and under a condition), and with a look first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_of_the_log_itself_is_never_passed() {
    let namespace = namespace();
    let (log, other) = (open(&namespace).await, open(&namespace).await);
    let control = client().await;
    control
        .batch_execute(&format!(
            "CREATE FUNCTION {namespace}.be_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF NEW.type = 'Slow' THEN PERFORM pg_sleep(0.7); END IF; RETURN NULL; \
             END $$; \
             CREATE TRIGGER be_slow AFTER INSERT ON {namespace}.events \
                 FOR EACH ROW EXECUTE FUNCTION {namespace}.be_slow()"
        ))
        .await
        .unwrap();
    let drawn = format!("SELECT last_value FROM {namespace}.events_position");
    let drawn = async || control.query_one(&drawn, &[]).await.unwrap().get::<_, i64>(0);
    let mut events = other.subscribe(Query::all(), Position::START);
    let slow = |number: u64| NewEvent::new("Slow", number);
    for (number, slow_append) in [
        one(&order("any"), slow(0)),
        Append::new().to(&order("new"), Expected::NoStream, [slow(2)]),
        one(&order("if"), slow(4)).unless(Query::tags(["never"]), Position::START),
        one(&order("look"), slow(6)).unless(Query::types(["Never"]), Position::START),
    ]
    .into_iter()
    .enumerate()
    {
        let before = drawn().await;
        let in_flight = {
            let log = log.clone();
            tokio::spawn(async move { log.append_all(slow_append).await })
        };
        while drawn().await == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let number = number as u64 * 2;
        append(&other, &format!("fast-{number}"), number + 1).await;
        assert!(!in_flight.is_finished(), "it is still in flight");
        assert_eq!(next(&mut events, 2).await, [number, number + 1], "in order");
        soon(in_flight).await.unwrap().unwrap();
    }
}

/// Sixteen appenders, each with a connection of its own; a fifth roll back and a fifth sleep before
/// they commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_committed_event_is_seen_once_and_in_order() {
    storm(0).await;
}

/// The same where the low 32 bits of positions change sign, and where they begin anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_beyond_31_and_32_bits_are_no_different() {
    storm((1 << 31) - 150).await;
    storm((1 << 32) - 150).await;
}

const APPENDERS: u64 = 16;
const APPENDS_EACH: u64 = 40;

async fn storm(first_position: i64) {
    let namespace = namespace();
    let log = open(&namespace).await;
    let control = client().await;
    if first_position > 0 {
        let jump = format!("SELECT setval('{namespace}.events_position', {first_position})");
        control.execute(&jump, &[]).await.unwrap();
    }
    let committed: u64 = APPENDERS * APPENDS_EACH / 5 * 4;
    let subscribers: Vec<_> = [
        (Query::all(), log.clone()),
        (Query::all(), open(&namespace).await),
        (Query::types(["Numbered"]), log.clone()),
        (Query::tags(["even"]).or(Query::tags(["odd"])), open(&namespace).await),
    ]
    .into_iter()
    .map(|(query, log)| {
        let mut events = log.subscribe(query, Position::START);
        tokio::spawn(async move {
            let mut seen = Vec::new();
            while (seen.len() as u64) < committed {
                seen.push(soon(events.next()).await.unwrap().unwrap());
            }
            seen
        })
    })
    .collect();
    let naive = tokio::spawn(naive_reader(namespace.clone(), committed));
    let appenders: Vec<_> =
        (0..APPENDERS).map(|task| tokio::spawn(appender(log.clone(), task))).collect();
    for appender in appenders {
        appender.await.unwrap();
    }
    let stored = soon(log.read(Query::all()).collect()).await.unwrap();
    assert_eq!(stored.len() as u64, committed);
    for subscriber in subscribers {
        let seen = soon(subscriber).await.unwrap();
        assert!(seen.is_sorted_by(|a, b| a.position() < b.position()));
        let missed: HashSet<_> = stored.iter().map(|event| event.id()).collect();
        let missed = &missed - &seen.iter().map(|event| event.id()).collect();
        assert!(missed.is_empty(), "{} events were never seen", missed.len());
    }
    // The storm is one in which events can be missed: a reader without the law misses some.
    let naive = soon(naive).await.unwrap();
    assert!(naive < committed, "the storm was too mild to prove anything");
}

async fn appender(log: Log, task: u64) {
    let mut client: Client = client().await;
    for step in 0..APPENDS_EACH {
        let tx = client.transaction().await.unwrap();
        let number = task * APPENDS_EACH + step;
        let event =
            numbered(number).with_tag(if number.is_multiple_of(2) { "even" } else { "odd" });
        let stream = order(format!("{task}-{}", step % 4));
        backend(&log).append_in(&tx, one(&stream, event)).await.unwrap();
        match step % 5 {
            0 => tx.rollback().await.unwrap(),
            1 => {
                tokio::time::sleep(Duration::from_millis(5 + (task * 7 + step) % 40)).await;
                tx.commit().await.unwrap();
            }
            _ => tx.commit().await.unwrap(),
        }
    }
}

/// `position > last`, as many readers do; how many events it saw when all were stored.
async fn naive_reader(namespace: Namespace, committed: u64) -> u64 {
    let client = client().await;
    let next = format!("SELECT position FROM {namespace}.events WHERE position > $1 ORDER BY 1");
    let stored = format!("SELECT count(*) FROM {namespace}.events");
    let next = client.prepare(&next).await.unwrap();
    let stored = client.prepare(&stored).await.unwrap();
    let (mut last, mut seen) = (0i64, 0);
    loop {
        let all_stored = client.query_one(&stored, &[]).await.unwrap().get::<_, i64>(0) as u64;
        for row in client.query(&next, &[&last]).await.unwrap() {
            last = row.get(0);
            seen += 1;
        }
        if all_stored == committed {
            return seen;
        }
    }
}

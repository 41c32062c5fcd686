//! Appending inside a transaction of the caller's: an outbox without an outbox.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use anabranch_core::{Append, AppendError, Expected, Position, Query};
use anabranch_postgres::Postgres;
use anabranch_postgres::tokio_postgres::IsolationLevel;
use anabranch_store::contract::{numbered, numbers, order, soon};
use server::{client, namespace, open};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_the_callers_rows_commit_together_or_not_at_all() {
    let namespace = namespace();
    let log = open(&namespace).await;
    let postgres: &Postgres = log.backend().unwrap();
    let mut client = client().await;
    client.batch_execute(&format!("CREATE TABLE {namespace}.stock (n int)")).await.unwrap();
    let insert = format!("INSERT INTO {namespace}.stock VALUES (1)");
    let count = format!("SELECT count(*) FROM {namespace}.stock");
    let append = |number, expected| Append::new().to(&order(1), expected, [numbered(number)]);

    let tx = client.transaction().await.unwrap();
    tx.execute(&insert, &[]).await.unwrap();
    postgres.append_in(&tx, append(1, Expected::NoStream)).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(log.head().await.unwrap(), Position::START);

    let mut events = log.subscribe(Query::all(), Position::START);
    let tx = client.transaction().await.unwrap();
    tx.execute(&insert, &[]).await.unwrap();
    let first = postgres.append_in(&tx, append(2, Expected::NoStream)).await.unwrap();
    // The transaction sees its own events, and a refused append does not spoil it.
    let second = postgres.append_in(&tx, append(3, Expected::Exact(1))).await.unwrap();
    assert_eq!((first.version(), second.version()), (1, 2));
    let refused = postgres.append_in(&tx, append(4, Expected::Exact(1))).await.unwrap_err();
    assert!(matches!(refused, AppendError::Conflict { actual: 2, .. }), "{refused}");
    let refused = postgres.append_in(&tx, Append::new()).await.unwrap_err();
    assert!(matches!(refused, AppendError::Invalid(_)), "{refused}");
    tx.execute(&insert, &[]).await.unwrap();
    tx.commit().await.unwrap();

    let seen = [soon(events.next()).await, soon(events.next()).await];
    assert_eq!(numbers(&seen.map(|event| event.unwrap().unwrap())), [2, 3]);
    assert_eq!(client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_left_open_holds_up_only_its_own_streams_and_scopes() {
    let namespace = namespace();
    let log = open(&namespace).await;
    let postgres: &Postgres = log.backend().unwrap();
    let mut client = client().await;
    let tx = client.transaction().await.unwrap();
    let held = Append::new().to(&order("held"), Expected::Any, [numbered(1).with_tag("held")]);
    let held = held.unless(Query::tags(["scope"]), Position::START);
    postgres.append_in(&tx, held).await.unwrap();

    let waiting = {
        let log = log.clone();
        tokio::spawn(
            async move { log.append(&order("held"), Expected::Exact(1), [numbered(2)]).await },
        )
    };
    let condition = {
        let log = log.clone();
        let append = Append::new().to(&order("other"), Expected::Any, [numbered(3)]);
        let append = append.unless(Query::tags(["held"]), Position::START);
        tokio::spawn(async move { log.append_all(append).await })
    };
    // One that would break the condition of the transaction, if it came before its commit.
    let breaking = {
        let log = open(&namespace).await;
        let event = numbered(4).with_tag("scope");
        tokio::spawn(async move { log.append(&order("new"), Expected::NoStream, [event]).await })
    };
    let all_wait = || [&waiting, &condition, &breaking].iter().all(|append| !append.is_finished());
    // Everybody else goes on, in the same process and through the same coalesced commits.
    for number in 0..200 {
        let free = order(format!("free-{number}"));
        soon(log.append(&free, Expected::NoStream, [numbered(number)])).await.unwrap();
    }
    assert!(all_wait());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(all_wait());

    tx.commit().await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().unwrap().version(), 2);
    soon(breaking).await.unwrap().unwrap();
    let failed = soon(condition).await.unwrap().unwrap_err();
    assert!(matches!(failed, AppendError::ConditionFailed { .. }), "{failed}");
}

/// A snapshot that is older than the locks would let a condition hold that does not.
#[tokio::test]
async fn a_transaction_with_an_old_snapshot_is_refused() {
    let log = open(&namespace()).await;
    let postgres: &Postgres = log.backend().unwrap();
    let mut client = client().await;
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let tx = client.build_transaction().isolation_level(level).start().await.unwrap();
        let append = Append::new().to(&order(1), Expected::Any, [numbered(1)]);
        let error = postgres.append_in(&tx, append).await.unwrap_err();
        assert!(error.to_string().contains("begin it as READ COMMITTED"), "{error}");
        tx.commit().await.unwrap();
    }
    assert_eq!(log.head().await.unwrap(), Position::START);
}

/// More appends wait for slow transactions than there are sessions to wait on; one that waits for a
/// moment only is not held up by them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_long_does_not_hold_up_who_waits_shortly() {
    let log = open(&namespace()).await;
    let postgres: &Postgres = log.backend().unwrap();
    let append = |id: &str| Append::new().to(&order(id), Expected::Any, [numbered(1)]);
    let mut clients = Vec::new();
    for _ in 0..9 {
        clients.push(client().await);
    }
    let mut transactions = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        let tx = client.transaction().await.unwrap();
        postgres.append_in(&tx, append(&format!("held-{number}"))).await.unwrap();
        transactions.push(tx);
    }
    let waiting: Vec<_> = (0..9)
        .map(|number| {
            let (log, append) = (log.clone(), append(&format!("held-{number}")));
            tokio::spawn(async move { log.append_all(append).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    transactions.pop().unwrap().commit().await.unwrap();
    let released = std::time::Instant::now();
    let mut waiting = waiting;
    soon(waiting.pop().unwrap()).await.unwrap().unwrap();
    assert!(released.elapsed() < Duration::from_secs(10), "{:?}", released.elapsed());
    assert!(waiting.iter().all(|append| !append.is_finished()));
    for tx in transactions {
        tx.commit().await.unwrap();
    }
    for append in waiting {
        assert_eq!(soon(append).await.unwrap().unwrap().version(), 2);
    }
}

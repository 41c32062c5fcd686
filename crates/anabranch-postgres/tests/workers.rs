//! What the server knows of workers: their signs of life, their open transactions, who blocks them.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod server;

use anabranch_core::StoreError;
use anabranch_postgres::Postgres;
use anabranch_store::contract::soon;
use anabranch_store::database::{End, Statement, Topic, Who};
use anabranch_store::{Database, LogStore, Options};
use server::{namespace, url};
use std::sync::Arc;
use std::time::Duration;

const OPEN: End = End::Open { idle: Duration::from_secs(60) };

async fn database(options: &Options) -> Arc<dyn Database> {
    Postgres::connect(&url(), options).await.unwrap().database()
}

fn options() -> Options {
    Options { namespace: namespace(), ..Options::default() }
}

fn worker() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// As another process would have it.
async fn two() -> (Arc<dyn Database>, Arc<dyn Database>) {
    let options = options();
    (database(&options).await, database(&options).await)
}

#[tokio::test]
async fn a_sign_of_life_ends_with_its_holder() {
    let (one, other) = two().await;
    let worker = worker();
    let shown = one.show_life(&worker).await.unwrap();
    let mut death = other.death_of(&worker);
    let seen = tokio::time::timeout(Duration::from_millis(1500), &mut death).await;
    assert!(seen.is_err(), "it lives");
    drop(shown);
    soon(death).await;
}

#[tokio::test]
async fn the_transactions_of_a_dead_worker_are_ended_and_those_of_others_are_not() {
    let (one, other) = two().await;
    let (dead, living) = (worker(), worker());
    let mut left_behind = one.begin_as(&Who::lane(&dead, "orders", 0));
    let mut at_work = one.begin_as(&Who::lane(&living, "orders", 0));
    let look = || vec![Statement::query("SELECT 1 AS one", vec![])];
    left_behind.run(look(), OPEN).await.unwrap();
    at_work.run(look(), OPEN).await.unwrap();
    other.bury(&dead).await.unwrap();
    assert!(left_behind.run(look(), OPEN).await.is_err(), "its session is gone");
    at_work.run(look(), End::Commit).await.unwrap();
}

#[tokio::test]
async fn whoever_waits_for_a_lock_is_known_with_the_process_that_holds_it() {
    let (one, other) = two().await;
    let table = one.dialect().table("settings");
    let lock = format!("LOCK TABLE {table}");
    let mut holder = one.begin();
    let statements = vec![
        Statement::new(lock.clone(), vec![]),
        Statement::query("SELECT pg_backend_pid() AS pid", vec![]),
    ];
    let answers = holder.run(statements, OPEN).await.unwrap();
    let pid: i32 = answers[1].rows[0].get("pid").unwrap();
    let who = Who::lane(&worker(), "orders", 3);
    let mut waiter = one.begin_as(&who);
    let waits = tokio::spawn(async move {
        waiter.run(vec![Statement::new(lock, vec![])], End::Commit).await.map(drop)
    });
    let found = soon(async {
        loop {
            let blocked = other.blocked().await.unwrap();
            if let Some(found) = blocked.into_iter().find(|blocked| blocked.name == who.name()) {
                return found;
            }
        }
    })
    .await;
    assert_eq!(found.by, [pid]);
    assert!(found.doing.contains("pg_backend_pid"), "{}", found.doing);
    drop(holder);
    soon(waits).await.unwrap().unwrap();
    assert!(other.blocked().await.unwrap().iter().all(|blocked| blocked.name != who.name()));
}

async fn process_of_link(database: &Arc<dyn Database>) -> i32 {
    let look = vec![Statement::query("SELECT pg_backend_pid() AS pid", vec![])];
    let answers = database.heartbeat().run(look, End::Commit).await.unwrap();
    answers[0].rows[0].get("pid").unwrap()
}

/// All workers of a process show their life by the same session: it stays when one of them is gone.
#[tokio::test]
async fn a_heartbeat_that_is_given_up_does_not_cut_the_session_that_shows_life() {
    let one = database(&options()).await;
    let before = process_of_link(&one).await;
    let slow = vec![Statement::query("SELECT pg_sleep(0.3)", vec![])];
    let mut given_up = one.heartbeat();
    let beat = given_up.run(slow, End::Commit);
    assert!(tokio::time::timeout(Duration::from_millis(100), beat).await.is_err());
    drop(given_up);
    assert_eq!(process_of_link(&one).await, before);
}

#[tokio::test]
async fn a_log_that_is_dropped_while_it_notifies_does_not_cut_the_session_that_shows_life() {
    let one = database(&options()).await;
    let before = process_of_link(&one).await;
    let notifies = options();
    for pause in (0..2_000).step_by(40) {
        let log = Postgres::connect(&url(), &notifies).await.unwrap();
        log.database()
            .begin()
            .run(vec![Statement::signal(Topic::Tasks)], End::Commit)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_micros(pause)).await;
        drop(log);
        assert_eq!(process_of_link(&one).await, before, "after {pause} microseconds");
    }
}

/// A heartbeat that waits for somebody's lock holds up nobody else's.
#[tokio::test]
async fn a_heartbeat_that_waits_for_a_lock_gives_up_soon() {
    let one = database(&options()).await;
    let before = process_of_link(&one).await;
    let lock = || vec![Statement::query("SELECT pg_advisory_xact_lock(77, 7001)", vec![])];
    let mut held = one.begin();
    held.run(lock(), OPEN).await.unwrap();
    let mut beat = one.heartbeat();
    let (beaten, other) = tokio::join!(beat.run(lock(), End::Commit), async {
        tokio::task::yield_now().await;
        tokio::time::timeout(Duration::from_secs(2), process_of_link(&one)).await
    });
    let error = beaten.unwrap_err().into_store_error("");
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    assert_eq!(other.expect("it had its turn"), before);
}

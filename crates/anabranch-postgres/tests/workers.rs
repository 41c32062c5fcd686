//! What the server knows of workers: their signs of life, their open transactions, who blocks them.

#![allow(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test fails by panicking")]

mod server;

use anabranch_postgres::Postgres;
use anabranch_store::contract::soon;
use anabranch_store::database::{End, Statement, Who};
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

//! A migration of a log that others use: it gives way to them, and is applied in the end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use anabranch_core::Expected;
use anabranch_postgres::{MIGRATIONS, Postgres};
use anabranch_store::contract::{numbered, order, soon};
use anabranch_store::{Log, Namespace, Options};
use server::{client, namespace, url};
use std::time::Duration;

/// The oldest schema whose programs run beside this one.
const OLD: u32 = 5;
const LOOK: Duration = Duration::from_millis(10);

/// A log as an older program has made it.
async fn an_old_log() -> Namespace {
    let (namespace, client) = (namespace(), client().await);
    for step in MIGRATIONS.steps.iter().filter(|step| step.version <= OLD) {
        client.batch_execute(&step.sql_for(&namespace)).await.unwrap();
    }
    client.batch_execute(&MIGRATIONS.keep_rule(&namespace, Default::default())).await.unwrap();
    namespace
}

/// Waits until a session waits for a lock on a table of the log.
async fn somebody_waits(namespace: &Namespace) {
    let client = client().await;
    let waits = "SELECT count(*) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation \
                 JOIN pg_namespace AS n ON n.oid = c.relnamespace \
                 WHERE NOT l.granted AND n.nspname = $1";
    let name = namespace.as_str();
    soon(async {
        while client.query_one(waits, &[&name]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(LOOK).await;
        }
    })
    .await;
}

/// Somebody has used the first table when the migration comes, and goes on to the second.
async fn gives_way(first: &str, second: &str) {
    let (namespace, mut client) = (an_old_log().await, client().await);
    let tx = client.transaction().await.unwrap();
    // On a machine that stands still for a moment, this one would look for a deadlock before the migration gives way.
    tx.batch_execute("SET LOCAL deadlock_timeout = '10s'").await.unwrap();
    let look = format!("SELECT count(*) FROM {namespace}.{first}");
    tx.query_one(&look, &[]).await.unwrap();
    let options = Options { namespace: namespace.clone(), ..Options::default() };
    let migrating = tokio::spawn(async move { Postgres::connect(&url(), &options).await });
    somebody_waits(&namespace).await;
    // What every INSERT, UPDATE and DELETE locks.
    let write = format!("LOCK TABLE {namespace}.{second} IN ROW EXCLUSIVE MODE");
    soon(tx.batch_execute(&write)).await.unwrap_or_else(|error| {
        panic!("{first}, then {second}: a worker had to give way: {error:?}")
    });
    // It has not given up, either: it waits for as long as the other takes.
    somebody_waits(&namespace).await;
    tx.commit().await.unwrap();
    let migrated = soon(migrating).await.unwrap();
    let log = Log::new(migrated.unwrap_or_else(|error| panic!("{first}, then {second}: {error}")));
    log.store().database().require_newest_schema().unwrap();
    log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_events_goes_on_to_write_some() {
    gives_way("events", "events").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_used_in_any_order() {
    for (first, second) in [
        ("events", "cursors"),
        ("cursors", "events"),
        ("tasks", "events"),
        ("consumers", "tasks"),
        ("cursors", "consumers"),
    ] {
        gives_way(first, second).await;
    }
}

//! Appending inside a transaction of the caller's: an outbox without an outbox.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch_core::{Append, AppendError, Expected, Position, Query};
use anabranch_sqlite::Sqlite;
use anabranch_sqlite::rusqlite::{Connection, TransactionBehavior};
use anabranch_store::contract::{numbered, numbers, order, soon};
use anabranch_store::{Log, Options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_the_callers_rows_commit_together_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db").display().to_string();
    let log = Log::new(Sqlite::open(&path, &Options::default()).await.unwrap());
    let sqlite: &Sqlite = log.backend().unwrap();
    let mut connection = Connection::open(&path).unwrap();
    connection.execute("CREATE TABLE stock (n int)", ()).unwrap();
    let insert = "INSERT INTO stock VALUES (1)";
    let append = |number, expected| Append::new().to(&order(1), expected, [numbered(number)]);
    let mut events = log.subscribe(Query::all(), Position::START);

    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    tx.execute(insert, ()).unwrap();
    sqlite.append_in(&tx, append(1, Expected::NoStream)).unwrap();
    tx.rollback().unwrap();
    assert_eq!(log.head().await.unwrap(), Position::START);

    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    tx.execute(insert, ()).unwrap();
    let first = sqlite.append_in(&tx, append(2, Expected::NoStream)).unwrap();
    // The transaction sees its own events, and a refused append does not spoil it.
    let second = sqlite.append_in(&tx, append(3, Expected::Exact(1))).unwrap();
    assert_eq!((first.version(), second.version()), (1, 2));
    let refused = sqlite.append_in(&tx, append(4, Expected::Exact(1))).unwrap_err();
    assert!(matches!(refused, AppendError::Conflict { actual: 2, .. }), "{refused}");
    let refused = sqlite.append_in(&tx, Append::new()).unwrap_err();
    assert!(matches!(refused, AppendError::Invalid(_)), "{refused}");
    tx.execute(insert, ()).unwrap();
    // Nobody sees them before the commit.
    assert_eq!(log.head().await.unwrap(), Position::START);
    tx.commit().unwrap();

    let seen = [soon(events.next()).await, soon(events.next()).await];
    assert_eq!(numbers(&seen.map(|event| event.unwrap().unwrap())), [2, 3]);
    let rows: i64 =
        connection.query_row("SELECT count(*) FROM stock", (), |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
}

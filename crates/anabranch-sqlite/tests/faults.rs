//! What goes wrong with a file: each error names the thing and the remedy, and nothing is half
//! written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch_core::{AppendError, Expected, Position, Query, StoreError};
use anabranch_sqlite::Sqlite;
use anabranch_sqlite::rusqlite::Connection;
use anabranch_store::contract::{numbered, numbers, order, soon};
use anabranch_store::database::Topic;
use anabranch_store::{Log, Options};
use std::path::Path;

async fn open(path: &Path) -> Result<Log, StoreError> {
    Ok(Log::new(Sqlite::open(&path.display().to_string(), &Options::default()).await?))
}

async fn refused(path: &Path) -> StoreError {
    open(path).await.expect_err("it cannot work")
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing/orders.db");
    let error = refused(&missing).await;
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
    assert!(error.to_string().contains("missing/orders.db"), "{error}");
    assert!(error.to_string().contains("that its directory exists"), "{error}");

    let text = directory.path().join("notes.txt");
    std::fs::write(&text, "this is not a database, but it is long enough to be looked at").unwrap();
    let error = refused(&text).await;
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
    assert!(error.to_string().contains("check that the file is a SQLite database"), "{error}");

    let error = refused(directory.path()).await;
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
}

#[tokio::test]
async fn bad_urls_say_what_to_write() {
    let options = Options::default();
    let refused = async |path: &str| Sqlite::open(path, &options).await.err().unwrap().to_string();
    assert!(refused("").await.contains("write sqlite:orders.db"));
    assert!(refused("x.db?cache=shared").await.contains("?mode=ro"));
    assert!(refused("a\0b").await.contains("NUL"));
}

#[tokio::test]
async fn a_read_only_log_reads_and_refuses_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.db");
    let log = open(&path).await.unwrap();
    log.append(&order(1), Expected::Any, [numbered(1)]).await.unwrap();

    let read_only = directory.path().join("log.db?mode=ro");
    let other = open(&read_only).await.unwrap();
    assert_eq!(numbers(&other.read(Query::all()).collect().await.unwrap()), [1]);
    let error = other.append(&order(1), Expected::Any, [numbered(2)]).await.unwrap_err();
    assert!(matches!(error, AppendError::Store(StoreError::ReadOnly { .. })), "{error:?}");
    assert!(error.to_string().contains("check the permissions"), "{error}");
    // It still follows what others write.
    let mut events = other.subscribe(Query::all(), Position::new(1));
    log.append(&order(1), Expected::Exact(1), [numbered(2)]).await.unwrap();
    assert_eq!(numbers(&[soon(events.next()).await.unwrap().unwrap()]), [2]);

    let nowhere = directory.path().join("none.db?mode=ro");
    let error = refused(&nowhere).await;
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
}

#[tokio::test]
async fn a_newer_schema_is_opened_if_it_admits_this_program_and_else_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.db");
    drop(open(&path).await.unwrap());
    let known = anabranch_sqlite::MIGRATIONS.newest();
    let later = |version: u32, admits: Option<u32>| {
        let insert = "INSERT INTO anabranch_migrations (version, name, admits) VALUES (?1, ?2, ?3)";
        let row = (version, "from the future", admits);
        Connection::open(&path).unwrap().execute(insert, row).unwrap();
    };
    later(known + 1, Some(known));
    let log = open(&path).await.unwrap();
    log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
    assert_eq!(numbers(&log.read(Query::all()).collect().await.unwrap()), [1]);
    log.store().database().require_newest_schema().unwrap();

    for (version, admits) in [(known + 2, Some(known + 2)), (known + 3, None)] {
        later(version, admits);
        let error = refused(&path).await;
        let StoreError::SchemaTooNew { found, admits, known: knows, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((*found, *admits, *knows), (version, version, known));
        let order = "install the newer program everywhere this one may be started, start newer \
                     workers, then stop the older ones";
        let error = error.to_string();
        assert!(error.contains(&format!("admits programs from version {version} on")), "{error}");
        assert!(error.contains(order), "{error}");
    }
    later(known + 4, Some(known));
    refused(&path).await;
}

/// Looking at a file that holds no log leaves it as it is.
#[tokio::test]
async fn a_file_without_a_log_is_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let look = Options { migrate: false, take_older: true, ..Options::default() };
    let path = directory.path().join("other.db");
    Connection::open(&path).unwrap().execute("CREATE TABLE other (a)", ()).unwrap();
    let before = std::fs::read(&path).unwrap();
    let missing = directory.path().join("missing.db");
    for path in [&path, &missing, Path::new(":memory:")] {
        let error = Sqlite::open(&path.display().to_string(), &look).await.err().unwrap();
        assert!(matches!(error, StoreError::NoLog { .. }), "{error:?}");
        assert!(error.to_string().contains("create it with `anabranch migrate`"), "{error}");
    }
    assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// Signals of other processes still arrive after a look that failed.
#[tokio::test]
async fn a_look_at_signals_that_fails_is_made_up_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.db");
    let log = open(&path).await.unwrap();
    let other = Connection::open(&path).unwrap();
    let rename = |from: &str, to: &str| {
        let all = other.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"));
        all.unwrap();
    };
    rename("anabranch_settings", "hidden");
    // Nobody looks before somebody listens.
    let (mut wake, mut signals) =
        (log.store().wake(), log.store().database().signals(Topic::Tasks));
    soon(wake.changed()).await.unwrap();
    assert!(!signals.has_changed().unwrap());
    rename("hidden", "anabranch_settings");
    soon(signals.changed()).await.unwrap();
}

/// The printed script, applied by hand, is the log that the program expects.
#[tokio::test]
async fn migrations_can_be_applied_by_hand() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.db");
    let script = anabranch_sqlite::MIGRATIONS.script(&Default::default(), Default::default());
    Connection::open(&path).unwrap().execute_batch(&script).unwrap();
    let options = Options { migrate: false, ..Options::default() };
    let log = Sqlite::open(&path.display().to_string(), &options).await.unwrap();
    let log = Log::new(log);
    log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
}

/// A row that Anabranch would never write is an error, not a panic.
#[tokio::test]
async fn a_row_changed_by_hand_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.db");
    let log = open(&path).await.unwrap();
    log.append(&order(1), Expected::Any, [numbered(1)]).await.unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute("UPDATE anabranch_events SET entity_slot = 5040", ()).unwrap();
    let error = log.read(Query::all()).collect().await.unwrap_err();
    assert!(error.to_string().contains("5040"), "{error}");
}

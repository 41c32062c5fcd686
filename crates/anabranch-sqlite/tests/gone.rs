//! Files that are deleted, moved or replaced while a log is open: nothing is acknowledged that nobody would
//! find, and nobody reads on as if nothing had happened.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch_core::{AppendError, Expected, Position, Query, StoreError};
use anabranch_sqlite::Sqlite;
use anabranch_store::contract::{numbered, numbers, order, soon};
use anabranch_store::database::{End, Statement};
use anabranch_store::{Log, Options};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

async fn open(path: &Path) -> Log {
    Log::new(Sqlite::open(&path.display().to_string(), &Options::default()).await.unwrap())
}

/// A log with one event.
async fn with_one() -> (Log, PathBuf, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let log = open(&path).await;
    log.append(&order(1), Expected::NoStream, [numbered(1)]).await.unwrap();
    (log, path, directory)
}

fn named(path: &Path, suffix: &str) -> PathBuf {
    format!("{}{suffix}", path.display()).into()
}

async fn read(log: &Log) -> Result<Vec<u64>, StoreError> {
    Ok(numbers(&log.read(Query::all()).collect().await?))
}

/// Appends, reads, subscriptions and transactions all say it.
async fn is_gone(log: &Log, what: &str) {
    let is_gone = |error: &StoreError| {
        assert!(matches!(error, StoreError::Gone { .. }), "{error:?}");
        assert!(error.to_string().contains(what), "{error}");
        assert!(error.to_string().contains("Nothing is stored any more"), "{error}");
        assert!(!error.is_transient() && !error.is_worth_waiting());
    };
    let appended = log.append(&order(1), Expected::Any, [numbered(9)]).await;
    match appended {
        Err(AppendError::Store(error)) => is_gone(&error),
        other => panic!("{other:?}"),
    }
    is_gone(&read(log).await.unwrap_err());
    let statement = Statement::new("UPDATE anabranch_settings SET value = value", vec![]);
    let ran = log.store().database().begin().run(vec![statement], End::Commit).await;
    is_gone(&ran.unwrap_err().into_store_error("x"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_deleted_is_noticed_by_everybody() {
    let (log, path, directory) = with_one().await;
    let mut events = log.subscribe(Query::all(), Position::new(1));
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(named(&path, suffix)).unwrap();
    }
    is_gone(&log, "orders.db was deleted or moved away").await;
    let error = soon(events.next()).await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Gone { .. }), "{error:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "no empty file takes its place");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_moved_away_and_back_is_used_again() {
    let (log, path, directory) = with_one().await;
    let away = directory.path().join("away.db");
    fs::rename(&path, &away).unwrap();
    is_gone(&log, "orders.db was deleted or moved away").await;
    fs::rename(&away, &path).unwrap();
    assert_eq!(read(&log).await.unwrap(), [1]);
    log.append(&order(1), Expected::Exact(1), [numbered(2)]).await.unwrap();
    assert_eq!(read(&open(&path).await).await.unwrap(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_replaced_is_not_taken_for_the_one_that_was_opened() {
    let (log, path, _directory) = with_one().await;
    let (other, other_path, _other_directory) = with_one().await;
    drop(other);
    fs::copy(&other_path, named(&path, ".new")).unwrap();
    fs::rename(named(&path, ".new"), &path).unwrap();
    is_gone(&log, "orders.db was replaced by another file").await;
}

/// Without them other processes would not see what was committed, or write at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sqlite_keeps_beside_the_file_is_part_of_it() {
    for suffix in ["-wal", "-shm"] {
        let (log, path, _directory) = with_one().await;
        fs::remove_file(named(&path, suffix)).unwrap();
        is_gone(&log, &format!("orders.db{suffix} was deleted or moved away")).await;
    }
}

/// By another name, from another directory, read-only, and while others come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_where_it_was_is_used_whatever_its_name() {
    let (log, path, directory) = with_one().await;
    let link = directory.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = open(&link).await;
    let read_only = open(&named(&path, "?mode=ro")).await;
    for number in 2..6 {
        let other = open(&path).await;
        other.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
        drop(other);
        linked.append(&order(1), Expected::Any, [numbered(number)]).await.unwrap();
        assert_eq!(read(&read_only).await.unwrap().len() as u64, number * 2 - 1);
    }
    drop(log);
    drop(linked);
    // The last one that may write has left.
    assert_eq!(read(&read_only).await.unwrap().len(), 9);
    let again = open(&path).await;
    again.append(&order(1), Expected::Any, [numbered(6)]).await.unwrap();
    assert_eq!(read(&read_only).await.unwrap().len(), 10);
}

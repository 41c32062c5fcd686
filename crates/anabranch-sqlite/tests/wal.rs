//! The write-ahead log: how large its file becomes, and that it does not stay so.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch_core::{Expected, NewEvent};
use anabranch_sqlite::Sqlite;
use anabranch_sqlite::rusqlite::Connection;
use anabranch_store::contract::order;
use anabranch_store::{Durability, Log, Options};
use std::path::Path;

const MIB: u64 = 1 << 20;

fn size(path: &Path) -> u64 {
    std::fs::metadata(format!("{}-wal", path.display())).unwrap().len()
}

/// Appends so many times 4 MiB, and returns how large the file was at the most.
async fn append(log: &Log, path: &Path, times: u64) -> u64 {
    let mut most = 0;
    for _ in 0..times {
        let events = (0..16).map(|_| NewEvent::new("Large", "x".repeat(1 << 18)));
        log.append(&order(1), Expected::Any, events).await.unwrap();
        most = most.max(size(path));
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_file_stays_small_and_shrinks_again_after_a_reader_has_held_it_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.db");
    let options = Options { durability: Durability::Relaxed, ..Options::default() };
    let log = Log::new(Sqlite::open(&path.display().to_string(), &options).await.unwrap());
    let most = append(&log, &path, 12).await;
    assert!(most < 40 * MIB, "{most} bytes");

    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count: i64 =
        reader.query_row("SELECT count(*) FROM anabranch_events", (), |row| row.get(0)).unwrap();
    assert_eq!(count, 12 * 16);
    let most = append(&log, &path, 20).await;
    assert!(most > 70 * MIB, "what the reader sees is kept, {most} bytes");
    reader.execute_batch("COMMIT").unwrap();
    append(&log, &path, 2).await;
    assert!(size(&path) <= 64 * MIB, "{} bytes", size(&path));
}

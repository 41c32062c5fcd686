//! Events that somebody deletes by hand: their positions are never given again, and what is left is read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use anabranch_core::{Append, Expected, Position, Query};
use anabranch_sqlite::Sqlite;
use anabranch_sqlite::rusqlite::{Connection, TransactionBehavior};
use anabranch_store::contract::{numbered, order};
use anabranch_store::{Filter, Log, Options, PageEnd, ReadRequest, Scope};
use std::time::Duration;

/// A log with ten events, and a connection that knows nothing of it.
struct Emptied {
    log: Log,
    by_hand: Connection,
    _directory: tempfile::TempDir,
}

impl Emptied {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orders.db").display().to_string();
        let log = Log::new(Sqlite::open(&path, &Options::default()).await.unwrap());
        let by_hand = Connection::open(&path).unwrap();
        by_hand.busy_timeout(Duration::from_secs(10)).unwrap();
        let this = Self { log, by_hand, _directory: directory };
        for _ in 0..10 {
            this.append().await;
        }
        assert_eq!(this.drawn().await, 10);
        this
    }

    async fn append(&self) -> u64 {
        let appended = self.log.append(&order(1), Expected::Any, [numbered(1)]).await.unwrap();
        appended.position().get()
    }

    async fn append_in(&mut self) -> u64 {
        let sqlite: &Sqlite = self.log.backend().unwrap();
        let immediate = TransactionBehavior::Immediate;
        let tx = self.by_hand.transaction_with_behavior(immediate).unwrap();
        let append = Append::new().to(&order(2), Expected::Any, [numbered(1), numbered(2)]);
        let appended = sqlite.append_in(&tx, append).unwrap();
        tx.commit().unwrap();
        appended.position().get()
    }

    async fn drawn(&self) -> u64 {
        self.log.store().drawn().await.unwrap().get()
    }

    fn sql(&self, sql: &str) {
        self.by_hand.execute_batch(sql).unwrap();
    }

    /// What a consumer's feed would read after the start, up to a position, and how far it looks.
    async fn feed(&self, up_to: Position) -> (Vec<u64>, u64) {
        let categories = vec!["Order".to_owned()];
        let (mut found, mut cursor) = (Vec::new(), 0);
        loop {
            let request = ReadRequest {
                scope: Scope::Log(Query::all()),
                filter: Filter { categories: categories.clone(), ..Filter::default() },
                cursor,
                up_to,
                backwards: false,
                max_events: 100,
            };
            let page = self.log.store().read(request).await.unwrap();
            found.extend(page.events.iter().map(|event| event.position().get()));
            cursor = page.cursor;
            if page.end != PageEnd::More || cursor >= up_to.get() {
                return (found, cursor);
            }
        }
    }

    async fn positions(&self) -> Vec<u64> {
        let events = self.log.read(Query::all()).collect().await.unwrap();
        events.iter().map(|event| event.position().get()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_of_deleted_events_are_never_given_again() {
    for delete in [
        // Without WHERE, SQLite would rather drop all pages than look at rows: not past a trigger.
        "DELETE FROM anabranch_events",
        "DELETE FROM anabranch_events WHERE position > 7",
        "DELETE FROM anabranch_events WHERE position IN (3, 4)",
        "DELETE FROM anabranch_events; VACUUM",
        "BEGIN; DELETE FROM anabranch_events WHERE position = 10; \
         DELETE FROM anabranch_events WHERE position = 9; COMMIT",
        // Moved, not deleted: the place where it was is just as used.
        "UPDATE anabranch_events SET position = 0 WHERE position = 10",
    ] {
        let mut log = Emptied::new().await;
        log.sql(delete);
        assert_eq!(log.drawn().await, 10, "{delete}");
        assert_eq!(log.append().await, 11, "{delete}");
        assert_eq!(log.append_in().await, 13, "{delete}");
        assert_eq!(log.drawn().await, 13);
        log.sql("DELETE FROM anabranch_events");
        assert_eq!(log.append_in().await, 15, "{delete}");
        assert_eq!(log.append().await, 16, "{delete}");
        assert_eq!(log.positions().await, [14, 15, 16]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_replaced_by_hand_keeps_its_position() {
    let log = Emptied::new().await;
    // The columns are named: a migration may add some.
    let kept = "position, category, stream_id, version, type, schema_version, tags, recorded_us, \
                entity_slot";
    log.sql(&format!(
        "INSERT OR REPLACE INTO anabranch_events (id, data, {kept}) \
         SELECT randomblob(16), '7', {kept} FROM anabranch_events WHERE position = 10"
    ));
    assert_eq!(log.append().await, 11);
    assert_eq!(log.positions().await.len(), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolled_back_delete_leaves_no_mark() {
    let log = Emptied::new().await;
    log.sql("BEGIN; DELETE FROM anabranch_events WHERE position > 5; ROLLBACK");
    assert_eq!((log.drawn().await, log.append().await), (10, 11));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filtered_read_passes_a_hole_that_is_wider_than_its_window() {
    let log = Emptied::new().await;
    log.sql("UPDATE anabranch_events SET position = 2000000 WHERE position = 10");
    log.sql("DELETE FROM anabranch_events WHERE position > 2 AND position < 10");
    assert_eq!(log.append().await, 2_000_001);
    let all = vec![1, 2, 2_000_000, 2_000_001];
    assert_eq!(log.feed(Position::END).await, (all, 2_000_001));
    assert_eq!(log.feed(Position::new(5)).await, (vec![1, 2], 5), "a bound in the hole is reached");
    log.sql("DELETE FROM anabranch_events WHERE position > 2");
    assert_eq!(log.feed(Position::END).await, (vec![1, 2], 2), "nobody knows what comes next");
}

/// As a running program of the last version does: it draws the highest position and one.
#[tokio::test]
async fn a_program_that_would_give_a_position_again_is_refused() {
    let emptied = Emptied::new().await;
    emptied.sql("DELETE FROM anabranch_events");
    let insert = "INSERT INTO anabranch_events (position, id, category, stream_id, version, type, \
                  schema_version, data, tags, recorded_us, entity_slot) \
                  VALUES (1, x'00', 'Order', '1', 1, 'E', 1, '{}', '', 0, 0)";
    let error = emptied.by_hand.execute_batch(insert).unwrap_err().to_string();
    assert!(error.contains("use a program of the newest version"), "{error}");
    assert_eq!(emptied.append().await, 11);
}

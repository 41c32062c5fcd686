//! Whatever is broken is found, and named: in each case something real is changed from outside.

use crate::on_both;
use crate::proofs::{STREAMS, proven};
use crate::support::{Db, Recorder, fill, number, query};
use anabranch::backend::database::{End, Statement};
use anabranch::errors::ErrorCode;
use anabranch::operate::{AuditError, Consumers, Violation};
use anabranch::prelude::*;
use anabranch::{HandlerError, Retry};

on_both! {
    a_cursor_that_was_moved_on_has_left_events_out,
    a_cursor_that_was_put_back_hands_events_over_twice,
    a_cursor_and_its_row_that_were_put_back_are_a_fork,
    a_row_that_is_gone_is_missed,
    the_last_row_of_a_cursor_is_missed,
    a_row_that_was_changed_does_not_fit,
    an_event_that_was_deleted_is_named,
    an_event_with_another_id_is_another_one,
    events_that_changed_places_are_out_of_order,
    an_event_that_appears_behind_the_cursors_was_not_handled,
    an_event_that_is_not_set_aside_any_more_is_lost,
    an_event_behind_a_key_that_is_gone_is_lost,
    an_event_that_is_set_aside_again_is_handled_twice,
    a_cursor_that_records_nothing_is_noticed,
    slots_of_nobody_are_noticed,
}

/// A consumer that has handled a log of 400 events, in rows that were not pruned; and its tables.
struct Broken {
    db: Db,
    log: Log,
    recorder: Recorder,
}

impl Broken {
    async fn new(db: Db) -> Self {
        let log = db.log().await;
        fill(&log, 0..STREAMS, 1..=10).await;
        let settings = Settings::default().audit(true).batch_size(32).retry(Retry::never());
        // The last two events of order 3 are set aside.
        let hook = |event: &Event| match (event.stream_id(), event.version()) {
            ("3", 9..=10) => Err(HandlerError::new("ill")),
            _ => Ok(()),
        };
        let recorder = db.recorder("orders").settings(settings).hook(hook);
        let broken = Self { db, log, recorder };
        broken.run().await;
        let proof = Consumers::new(&broken.log).audit_and_keep("orders", |_| {}).await.unwrap();
        assert_eq!((proof.proven.handed, proof.proven.aside), (398, 2), "nothing is wrong yet");
        broken
    }

    async fn run(&self) {
        let set = ReplicaSet::new("s").projection(self.recorder.clone()).lanes(2);
        assert!(set.catch_up(&self.log).await.is_err(), "a key is parked");
    }

    fn table(&self, name: &str) -> String {
        self.log.database().dialect().table(name)
    }

    /// Changes something; `{name}` stands for a table of the log.
    async fn change(&self, sql: &str) {
        let statement = Statement::new(self.named(sql), vec![]);
        let mut session = self.log.database().begin();
        session.run(vec![statement], End::Commit).await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        number(&self.log, &self.named(sql)).await
    }

    fn named(&self, sql: &str) -> String {
        let tables = ["cursors", "audit", "events", "parked_events", "parked_keys"];
        tables.iter().fold(sql.to_owned(), |sql, name| {
            sql.replace(&format!("{{{name}}}"), &self.table(name))
        })
    }

    /// What an audit finds; it finds the same once more.
    async fn found(&self, code: ErrorCode, said: &[&str]) -> Violation {
        let found = async || match Consumers::new(&self.log).audit("orders", |_| {}).await {
            Err(error @ AuditError::Violated { .. }) => error,
            other => panic!("{other:?}"),
        };
        let error = found().await;
        assert_eq!(error.code(), code, "{error}");
        for said in said {
            assert!(error.to_string().contains(said), "{said}: {error}");
        }
        let AuditError::Violated { violation, .. } = found().await else { unreachable!() };
        assert!(error.to_string().ends_with(&violation.to_string()), "{error} and {violation}");
        *violation
    }
}

async fn a_cursor_that_was_moved_on_has_left_events_out(db: Db) {
    let broken = Broken::new(db).await;
    fill(&broken.log, 0..STREAMS, 11..=12).await;
    broken.change("UPDATE {cursors} SET position = position + 30").await;
    let said = ["is at position 430", "ended at 400", "events in between were left out"];
    broken.found(ErrorCode::AuditCursor, &said).await;
    broken.run().await;
    let said = ["begins at position 430", "ended at 400", "events in between were left out"];
    let violation = broken.found(ErrorCode::AuditCursor, &said).await;
    assert!(matches!(violation, Violation::Moved { .. }), "{violation:?}");
}

async fn a_cursor_that_was_put_back_hands_events_over_twice(db: Db) {
    let broken = Broken::new(db).await;
    broken.change("UPDATE {cursors} SET position = 350").await;
    let said = ["is at position 350", "ended at 400", "will be handed twice"];
    broken.found(ErrorCode::AuditCursor, &said).await;
    broken.run().await;
    broken.found(ErrorCode::AuditCursor, &["events in between were handed twice"]).await;
}

/// As if the commit of an owner that was fenced had been let through: two commits begin at one place.
async fn a_cursor_and_its_row_that_were_put_back_are_a_fork(db: Db) {
    let broken = Broken::new(db).await;
    assert_eq!(broken.number("SELECT count(*) FROM {cursors}").await, 1);
    let row = broken.number("SELECT audit FROM {cursors}").await;
    fill(&broken.log, 0..STREAMS, 11..=12).await;
    broken.run().await;
    broken.change(&format!("UPDATE {{cursors}} SET position = 400, audit = {row}")).await;
    let said = ["at position 400 says", "was put back, or a commit was not fenced"];
    broken.found(ErrorCode::AuditCursor, &said).await;
    broken.run().await;
    let said = format!("two commits went on from row {row}");
    let violation = broken.found(ErrorCode::AuditDouble, &[&said]).await;
    assert!(matches!(violation, Violation::Fork { .. }), "{violation:?}");
}

async fn a_row_that_is_gone_is_missed(db: Db) {
    let broken = Broken::new(db).await;
    let gone = "SELECT max(id) FROM {audit} WHERE kind = 'step' \
                AND id NOT IN (SELECT audit FROM {cursors})";
    let gone = broken.number(gone).await;
    broken.change(&format!("DELETE FROM {{audit}} WHERE id = {gone}")).await;
    let said = format!("goes on from row {gone}, which is not in the record");
    broken.found(ErrorCode::AuditRecord, &[&said]).await;
}

async fn the_last_row_of_a_cursor_is_missed(db: Db) {
    let broken = Broken::new(db).await;
    broken.change("DELETE FROM {audit} WHERE id IN (SELECT audit FROM {cursors})").await;
    broken.found(ErrorCode::AuditCursor, &["The last rows were deleted"]).await;
}

async fn a_row_that_was_changed_does_not_fit(db: Db) {
    let broken = Broken::new(db).await;
    let other = "UPDATE {audit} SET digest = (SELECT a.digest FROM {audit} AS a WHERE a.digest IS NOT NULL \
                 ORDER BY a.id LIMIT 1) WHERE id = (SELECT max(id) FROM {audit} WHERE kind = 'step' \
                 AND digest IS NOT NULL)";
    broken.change(other).await;
    broken.found(ErrorCode::AuditMismatch, &["does not fit the log"]).await;
}

async fn an_event_that_was_deleted_is_named(db: Db) {
    let broken = Broken::new(db).await;
    broken.change("DELETE FROM {events} WHERE position = 123").await;
    broken.found(ErrorCode::AuditMismatch, &["events were deleted from the log"]).await;
}

async fn an_event_with_another_id_is_another_one(db: Db) {
    let broken = Broken::new(db).await;
    let id = match broken.db.url.starts_with("postgres") {
        true => "gen_random_uuid()",
        false => "randomblob(16)",
    };
    broken.change(&format!("UPDATE {{events}} SET id = {id} WHERE position = 123")).await;
    broken.found(ErrorCode::AuditMismatch, &["does not fit the log"]).await;
}

async fn events_that_changed_places_are_out_of_order(db: Db) {
    let broken = Broken::new(db).await;
    // The second and the third of an order: what it was given first is the later one now.
    for (from, to) in [(42, 9_001), (82, 42), (9_001, 82)] {
        broken
            .change(&format!("UPDATE {{events}} SET position = {to} WHERE position = {from}"))
            .await;
    }
    let code = {
        let error = Consumers::new(&broken.log).audit("orders", |_| {}).await.unwrap_err();
        error.code()
    };
    assert!([ErrorCode::AuditOrder, ErrorCode::AuditMismatch].contains(&code), "{code}");
}

/// An append that became visible after the cursors had passed its place: what law 4 rules out.
async fn an_event_that_appears_behind_the_cursors_was_not_handled(db: Db) {
    let broken = Broken::new(db).await;
    proven(&broken.log, "orders").await;
    fill(&broken.log, 0..STREAMS, 11..=12).await;
    broken.change("UPDATE {events} SET category = 'Unseen' WHERE position = 433").await;
    broken.run().await;
    broken.change("UPDATE {events} SET category = 'Order' WHERE position = 433").await;
    let select = format!("SELECT stream_id FROM {} WHERE position = 433", broken.table("events"));
    let order: String = query(&broken.log, &select, vec![]).await[0].get(0).unwrap();
    let name = format!("event Numbered Order:{order}@11 at position 433 (slot ");
    let said = [name.as_str(), "was never handed to the handler", "replay from position 432"];
    let violation = broken.found(ErrorCode::AuditGap, &said).await;
    assert!(matches!(violation, Violation::NotHanded { missing: 1, .. }), "{violation:?}");
}

async fn an_event_that_is_not_set_aside_any_more_is_lost(db: Db) {
    let broken = Broken::new(db).await;
    broken.change("DELETE FROM {parked_events} WHERE position = 324").await;
    let said = ["event Numbered Order:3@9 at position 324", "it was lost"];
    broken.found(ErrorCode::AuditGap, &said).await;
}

/// Nobody reaches it: the list of parked keys does not show it, and the lag is 0.
async fn an_event_behind_a_key_that_is_gone_is_lost(db: Db) {
    let broken = Broken::new(db).await;
    broken.change("DELETE FROM {parked_keys}").await;
    broken.found(ErrorCode::AuditGap, &["was set aside", "lost"]).await;
}

async fn an_event_that_is_set_aside_again_is_handled_twice(db: Db) {
    let broken = Broken::new(db).await;
    let again =
        "INSERT INTO {parked_events} (consumer, key, position) VALUES ('orders', 'Order:3', 4)";
    broken.change(again).await;
    broken.found(ErrorCode::AuditDouble, &["position 4 is set aside"]).await;
    Consumers::new(&broken.log).retry_parked("orders", "Order:3").await.unwrap();
    broken.run().await;
    let said = ["event Numbered Order:3@1 at position 4", "was not set aside then"];
    broken.found(ErrorCode::AuditDouble, &said).await;
}

/// As a program would do that knows nothing of records.
async fn a_cursor_that_records_nothing_is_noticed(db: Db) {
    let broken = Broken::new(db).await;
    broken.change("UPDATE {cursors} SET audit = NULL").await;
    broken.found(ErrorCode::AuditCursor, &["writes no record"]).await;
    fill(&broken.log, 0..STREAMS, 11..=12).await;
    broken.run().await;
    broken.found(ErrorCode::AuditCursor, &["writes no record"]).await;
}

async fn slots_of_nobody_are_noticed(db: Db) {
    let broken = Broken::new(db).await;
    broken.change("DELETE FROM {cursors} WHERE id = (SELECT max(id) FROM {cursors})").await;
    broken.found(ErrorCode::AuditCursor, &["missing"]).await;
}

//! One code of a consumer is accepted at a time: no two of them write the same tables, and nobody has to be restarted
//! when another one is accepted.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::support::*;
use anabranch::errors::ErrorCode;
use anabranch::operate::{CodeChange, Consumers, Reason};
use anabranch::prelude::*;
use anabranch::running::ConsumerChange;

on_both! {
    each_event_is_handled_by_one_code_and_none_by_the_old_one_after_another_is_accepted,
    a_batch_of_the_old_code_that_is_under_way_does_not_commit,
    the_first_code_that_comes_is_adopted,
    a_worker_with_only_other_code_waits,
    a_catch_up_with_other_code_ends_with_its_error,
    a_code_is_accepted_in_the_place_of_the_one_that_was_looked_at,
    a_code_is_not_accepted_while_a_worker_of_an_older_version_runs_it,
}

/// Runs `a` with a code of its own, and `b` that says nothing of it.
async fn join(db: &Db, code: &'static str) -> Running {
    let settings = || Settings::default().batch_size(7);
    let a = db.recorder("a").worker(code).settings(settings().code(code));
    let b = db.recorder("b").worker(code).settings(settings());
    let set = ReplicaSet::new("s").lanes(2).projection(a).projection(b).tuning(quick());
    start(&db.log().await, set)
}

async fn handled_by(db: &Db, log: &Log, code: &str) -> i64 {
    let table = db.recorder("a").table;
    number(log, &format!("SELECT count(*) FROM {table} WHERE worker = '{code}'")).await
}

/// Waits until a worker has said that its code is not the accepted one.
async fn until_said(log: &Log, consumer: &str) -> String {
    until("a worker that says that it has other code", async || {
        let status = Consumers::new(log).status(consumer).await.ok()?;
        let said = |reason: &Reason| {
            matches!(reason, Reason::OtherCode { .. } | Reason::Unable { .. })
                .then(|| reason.to_string())
        };
        status.cursors.iter().flat_map(|cursor| &cursor.reasons).find_map(said)
    })
    .await
}

async fn change_of(log: &Log) -> CodeChange {
    Consumers::new(log).code_change("a").await.unwrap().unwrap()
}

async fn each_event_is_handled_by_one_code_and_none_by_the_old_one_after_another_is_accepted(
    db: Db,
) {
    let log = db.log().await;
    let appender = Appender::start(&log);
    let old = join(&db, "old").await;
    until_shared(&log, "a", 1).await;
    let new = join(&db, "new").await;
    // What both have is shared, and what the new one has other code of is not.
    until_shared(&log, "b", 2).await;
    until_shared(&log, "a", 1).await;
    let said = until_said(&log, "a").await;
    assert!(said.contains("has other code (new) than the accepted one (old)"), "{said}");
    assert_eq!(handled_by(&db, &log, "new").await, 0);

    Consumers::new(&log).accept_code(&change_of(&log).await).await.unwrap();
    let by_old = handled_by(&db, &log, "old").await;
    until("events by the new code", async || {
        (handled_by(&db, &log, "new").await > 0).then_some(())
    })
    .await;
    let said = until_said(&log, "a").await;
    assert!(said.contains("has other code (old) than the accepted one (new)"), "{said}");
    until_shared(&log, "a", 1).await;
    until_shared(&log, "b", 2).await;

    let each = appender.finish().await;
    until_proven(&log, &db.recorder("a").table, Appender::STREAMS, each).await;
    until_proven(&log, &db.recorder("b").table, Appender::STREAMS, each).await;
    assert_eq!(handled_by(&db, &log, "old").await, by_old, "the old code goes on");
    assert!(by_old > 0);
    assert!(!old.has_ended());
    old.stop().await;
    new.stop().await;
}

async fn a_batch_of_the_old_code_that_is_under_way_does_not_commit(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let gate = Gate::default();
    let recorder = |code: &'static str| {
        let settings = Settings::default().batch_size(1).code(code);
        db.recorder("a").worker(code).settings(settings)
    };
    let set = || ReplicaSet::new("s").tuning(quick());
    let old = start(&db.log().await, set().projection(recorder("old").hook(gate.hook())));
    until("the first events", async || {
        let handled = Consumers::new(&log).status("a").await.ok()?.lag_ready == 0;
        (handled && handled_by(&db, &log, "old").await == 3).then_some(())
    })
    .await;
    let new = start(&db.log().await, set().projection(recorder("new")));
    until("the new code to be known", async || {
        Consumers::new(&log).code_change("a").await.unwrap()
    })
    .await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    // Its handler is at work, and the transaction that accepts does not wait for it.
    Consumers::new(&log).accept_code(&change_of(&log).await).await.unwrap();
    gate.open();
    until_proven(&log, &db.recorder("a").table, 4, 1).await;
    assert_eq!(handled_by(&db, &log, "old").await, 3);
    assert_eq!(handled_by(&db, &log, "new").await, 1);
    old.stop().await;
    new.stop().await;
}

async fn the_first_code_that_comes_is_adopted(db: Db) {
    let log = db.log().await;
    let set =
        |settings: Settings| ReplicaSet::new("s").projection(db.recorder("a").settings(settings));
    set(Settings::default()).catch_up(&log).await.unwrap();
    set(Settings::default().code("one")).catch_up(&log).await.unwrap();
    let two = set(Settings::default().code("two"));
    let changes = two.changes_on(&log).await.unwrap();
    let [(name, ConsumerChange::Code(change))] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((name.as_str(), change.accepted.as_str()), ("a", "one"));
    assert_eq!(change.wanted, "two");
    // Nothing is said of it, and nothing is stored by looking.
    set(Settings::default()).catch_up(&log).await.unwrap();
    assert_eq!(Consumers::new(&log).code_change("a").await.unwrap(), None);
}

async fn a_worker_with_only_other_code_waits(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let set = |code: &'static str| {
        let recorder = db.recorder("a").worker(code).settings(Settings::default().code(code));
        ReplicaSet::new("s").tuning(quick()).projection(recorder)
    };
    set("old").catch_up(&log).await.unwrap();
    let new = start(&log, set("new"));
    let said = until_said(&log, "a").await;
    assert!(said.contains("`anabranch run FILE --accept"), "{said}");
    fill(&log, 0..3, 2..=2).await;
    assert!(!new.has_ended());
    Consumers::new(&log).accept_code(&change_of(&log).await).await.unwrap();
    until_proven(&log, &db.recorder("a").table, 3, 2).await;
    assert_eq!(handled_by(&db, &log, "new").await, 3);
    new.stop().await;
}

async fn a_catch_up_with_other_code_ends_with_its_error(db: Db) {
    let log = db.log().await;
    let set = |code: &str| {
        ReplicaSet::new("s")
            .projection(db.recorder("a").settings(Settings::default().code(code)))
            .projection(db.recorder("b"))
    };
    set("old").catch_up(&log).await.unwrap();
    fill(&log, 0..3, 1..=1).await;
    let error = set("new").catch_up(&log).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::OtherCode);
    assert_eq!(proof(&log, &db.recorder("a").table).await.handled, 0);
    assert_eq!(proof(&log, &db.recorder("b").table).await.handled, 3);
}

async fn a_code_is_accepted_in_the_place_of_the_one_that_was_looked_at(db: Db) {
    let log = db.log().await;
    let set = |code: &str| {
        ReplicaSet::new("s").projection(db.recorder("a").settings(Settings::default().code(code)))
    };
    set("one").catch_up(&log).await.unwrap();
    set("two").catch_up(&log).await.unwrap_err();
    let consumers = Consumers::new(&log);
    let to_two = change_of(&log).await;
    set("three").catch_up(&log).await.unwrap_err();
    consumers.accept_code(&change_of(&log).await).await.unwrap();
    let error = consumers.accept_code(&to_two).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::CodeChanged);
    set("three").catch_up(&log).await.unwrap();
}

/// It would claim again.
async fn a_code_is_not_accepted_while_a_worker_of_an_older_version_runs_it(db: Db) {
    let log = db.log().await;
    let set = |code: &str| {
        ReplicaSet::new("s").projection(db.recorder("a").settings(Settings::default().code(code)))
    };
    set("one").catch_up(&log).await.unwrap();
    set("two").catch_up(&log).await.unwrap_err();
    let (workers, runners) = (table_of(&log, "workers"), table_of(&log, "runners"));
    let insert = format!(
        "INSERT INTO {workers} (id, replica_set, host, pid, runs, lanes, started_us, lease_us, schema_version) \
         VALUES ('w', 's', 'old-host', 7, 'a share', 1, 0, 9000000000000000, 9) RETURNING id"
    );
    query(&log, &insert, vec![]).await;
    let consumers = Consumers::new(&log);
    let change = change_of(&log).await;
    let insert = format!(
        "INSERT INTO {runners} (worker, consumer, version, since_us) VALUES ('w', 'a', 1, 0) \
         RETURNING worker"
    );
    query(&log, &insert, vec![]).await;
    let error = consumers.accept_code(&change).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::OldWorkers);
    assert!(error.to_string().contains("s on old-host, pid 7"), "{error}");
    query(&log, &format!("DELETE FROM {runners} RETURNING worker"), vec![]).await;
    consumers.accept_code(&change).await.unwrap();
}

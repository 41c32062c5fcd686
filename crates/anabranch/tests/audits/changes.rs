//! What changes a consumer as a whole, with its record: scopes, positions, versions, other databases.

use crate::on_both;
use crate::proofs::{STREAMS, proven};
use crate::support::{Db, fill, number};
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, Import, Rebuild};
use anabranch::prelude::*;
use anabranch::workpool::{Pool, Task};

on_both! {
    an_accepted_scope_begins_the_record_anew,
    an_import_begins_the_record_anew,
    a_new_version_has_a_record_of_its_own,
    events_in_another_database_are_compared_there,
    what_cannot_be_audited_is_refused,
    a_setting_begins_the_record_of_one_that_has_run,
}

fn set() -> ReplicaSet {
    ReplicaSet::new("s").lanes(2)
}

async fn an_accepted_scope_begins_the_record_anew(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=5).await;
    let recorder = |types: &[&'static str]| {
        let scope = Scope::types(types.iter().copied());
        db.recorder("orders").settings(Settings::default().audit(true).scope(scope))
    };
    set().projection(recorder(&["Other"])).catch_up(&log).await.unwrap();
    // Not proven: what was handed over by the old scope is not compared with the new one.
    let both = || set().projection(recorder(&["Other", "Numbered"]));
    assert!(both().catch_up(&log).await.is_err(), "it asks");
    let consumers = Consumers::new(&log);
    let change = consumers.scope_change("orders").await.unwrap().unwrap();
    consumers.accept_scope(&change).await.unwrap();
    fill(&log, 0..STREAMS, 6..=7).await;
    both().catch_up(&log).await.unwrap();
    let proof = proven(&log, "orders").await;
    assert_eq!((proof.proven.handed, proof.proven.since), (80, Position::new(200)));
}

async fn an_import_begins_the_record_anew(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=10).await;
    let recorder = db.recorder("orders").settings(Settings::default().audit(true));
    set().projection(recorder.clone()).catch_up(&log).await.unwrap();
    let import = Import::new("orders").partitions(3).replace(true);
    let import = [(0, 100), (1, 250), (2, 400)]
        .into_iter()
        .fold(import, |import, (index, at)| import.checkpoint(index, Position::new(at)));
    import.apply(&log).await.unwrap();
    let error = Consumers::new(&log).audit("orders", |_| {}).await.unwrap_err();
    assert_eq!(
        error.code(),
        ErrorCode::AuditBeforeFirstRun,
        "what was imported has not run: {error}"
    );
    set().projection(recorder).catch_up(&log).await.unwrap();
    let done = proven(&log, "orders").await.proven;
    assert_eq!((done.since, done.up_to), (Position::new(100), log.head().await.unwrap()));
    assert!(done.handed > 100 && done.handed < 300, "the rest of two of three: {done:?}");
}

async fn a_new_version_has_a_record_of_its_own(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=5).await;
    let recorder = db.recorder("orders");
    set().projection(recorder.clone()).catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    consumers.start_audit("orders").await.unwrap();
    // It is audited since the old one is.
    let view = |version| Counts { version };
    set().view(view(1)).catch_up(&log).await.unwrap();
    consumers.start_audit("counts").await.unwrap();
    set().rebuild_view(view(2)).catch_up(&log).await.unwrap();
    let next = proven(&log, "counts.next").await.proven;
    assert_eq!((next.handed, next.since), (200, Position::START));
    Rebuild::new(&log, "counts", &[]).switch().await.unwrap();
    fill(&log, 0..STREAMS, 6..=6).await;
    set().view(view(2)).catch_up(&log).await.unwrap();
    let switched = proven(&log, "counts").await.proven;
    assert_eq!((switched.handed, switched.since), (40, Position::new(200)));
    let names: Vec<String> =
        consumers.audits().await.unwrap().into_iter().map(|audit| audit.consumer).collect();
    assert_eq!(names, ["counts", "orders"]);
}

struct Counts {
    version: u32,
}

impl View for Counts {
    type State = u64;
    fn name(&self) -> &str {
        "counts"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().version(self.version)
    }
    fn apply(&self, count: &mut u64, _: &Event) -> HandlerResult {
        *count += 1;
        Ok(())
    }
}

/// The record is beside the cursors, the events are elsewhere.
async fn events_in_another_database_are_compared_there(db: Db) {
    let (events, home) = (Db::sqlite(), db.log().await);
    let log = events.log().await.with_database(&home).await.unwrap();
    fill(&log, 0..STREAMS, 1..=10).await;
    let recorder = db.recorder("orders").settings(Settings::default().audit(true).batch_size(30));
    set().projection(recorder).catch_up(&log).await.unwrap();
    assert_eq!(proven(&log, "orders").await.proven.handed, 400);
    let rows =
        |log: &Log| format!("SELECT count(*) FROM {}", log.database().dialect().table("audit"));
    assert!(number(&home, &rows(&home)).await > 0);
    let own = events.log().await;
    assert_eq!(number(&own, &rows(&own)).await, 0);
    let error = Consumers::new(&home).audit("orders", |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::OtherLog, "without its events: {error}");
}

struct Mail;

impl Pool for Mail {
    type Output = ();
    fn name(&self) -> &str {
        "mail"
    }
    async fn run(&self, _: &Task, _: &mut Tx) -> HandlerResult {
        Ok(())
    }
}

async fn what_cannot_be_audited_is_refused(db: Db) {
    let log = db.log().await;
    let consumers = Consumers::new(&log);
    let error = consumers.start_audit("nobody").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NoSuchConsumer);
    set().pool(Mail).catch_up(&log).await.unwrap();
    let error = consumers.start_audit("mail").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AuditOfRows, "{error}");
    assert!(error.to_string().contains("anabranch tasks"), "{error}");
    let error = consumers.audit("mail", |_| {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AuditOfRows, "{error}");
    let import = Import::new("imported").partitions(1).checkpoint(0, Position::START);
    import.apply(&log).await.unwrap();
    let error = consumers.start_audit("imported").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AuditBeforeFirstRun, "{error}");
}

async fn a_setting_begins_the_record_of_one_that_has_run(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=5).await;
    let recorder = db.recorder("orders");
    set().projection(recorder.clone()).catch_up(&log).await.unwrap();
    let audited = recorder.clone().settings(Settings::default().audit(true));
    fill(&log, 0..STREAMS, 6..=6).await;
    set().projection(audited).catch_up(&log).await.unwrap();
    let proof = proven(&log, "orders").await.proven;
    assert_eq!((proof.handed, proof.since), (40, Position::new(200)));
    // One that says nothing of it changes nothing.
    fill(&log, 0..STREAMS, 7..=7).await;
    set().projection(recorder).catch_up(&log).await.unwrap();
    assert_eq!(proven(&log, "orders").await.proven.handed, 40);
}

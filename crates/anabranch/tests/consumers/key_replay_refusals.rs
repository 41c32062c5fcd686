//! When one key is not handled again: said by type, and nothing is changed.

use crate::gates::table_of;
use crate::key_replays::{Keyed, until_done};
use crate::on_both;
use crate::support::*;
use anabranch::Rollup;
use anabranch::errors::{ErrorCode, ErrorKind};
use anabranch::operate::{Consumers, CursorStatus, Obstacle, OperateError, Owner};
use anabranch::prelude::*;

on_both! {
    what_cannot_be_handled_again_says_why_by_its_type,
    an_audited_consumer_is_refused_and_its_record_stays_provable,
    an_audit_that_begins_after_the_request_is_not_spoilt,
    a_key_whose_first_events_are_deleted_is_refused_unless_that_is_accepted,
    a_program_without_the_hook_gives_up_what_was_asked_for,
}

async fn refusal(log: &Log, name: &str, key: &str) -> (OperateError, Obstacle) {
    let error = Consumers::new(log).replay_key(name, key).await.unwrap_err();
    let OperateError::NotPossible { because, .. } = &error else { panic!("{error}") };
    assert_eq!(error.code(), because.code());
    let because = because.clone();
    (error, because)
}

struct ByDay;

impl Rollup for ByDay {
    type State = u64;
    fn name(&self) -> &str {
        "days"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn group(&self, _: &Event) -> HandlerResult<Option<String>> {
        Ok(Some("today".to_owned()))
    }
    fn apply(&self, events: &mut u64, _: &Event) -> HandlerResult {
        *events += 1;
        Ok(())
    }
    fn merge(&self, into: &mut u64, other: &u64) {
        *into += *other;
    }
}

async fn what_cannot_be_handled_again_says_why_by_its_type(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=3).await;
    let keyed = Keyed::new(db.recorder("orders"));
    let set = || {
        let plain = db.recorder("plain");
        ReplicaSet::new("s").projection(keyed.clone()).projection(plain).rollup(ByDay)
    };
    set().catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    let error = consumers.replay_key("nobody", "Order:1").await.unwrap_err();
    assert_eq!((error.code(), error.kind()), (ErrorCode::NoSuchConsumer, ErrorKind::NotFound));
    for (name, kind) in [("plain", "projection"), ("days", "rollup")] {
        let (error, because) = refusal(&log, name, "Order:1").await;
        assert_eq!(because, Obstacle::NoKeyReset { kind: kind.to_owned() });
        assert_eq!(error.code(), ErrorCode::NoKeyReset);
        assert!(
            error.to_string().contains(&format!("`anabranch replay {name} --from-start`")),
            "{error}"
        );
    }
    for key in ["1", "Customer:1", ""] {
        let (error, because) = refusal(&log, "orders", key).await;
        assert!(matches!(because, Obstacle::NotAKey { .. }), "{error}");
        assert_eq!((error.code(), error.kind()), (ErrorCode::NotAKey, ErrorKind::Invalid));
    }
    // A worker of the version before, and a program of it that was the last to start.
    let running = start(&log, set());
    let workers = table_of(&log, "workers");
    until("a worker", async || {
        (number(&log, &format!("SELECT count(*) FROM {workers}")).await > 0).then_some(())
    })
    .await;
    query(&log, &format!("UPDATE {workers} SET schema_version = 13"), vec![]).await;
    let (error, because) = refusal(&log, "orders", "Order:1").await;
    assert!(
        matches!(because, Obstacle::KeyReplayUnknown { ref workers } if workers.len() == 1),
        "{error}"
    );
    running.stop().await;
    let registered = table_of(&log, "consumers");
    query(&log, &format!("UPDATE {registered} SET replays_keys = NULL"), vec![]).await;
    let (error, because) = refusal(&log, "orders", "Order:1").await;
    assert_eq!(because, Obstacle::KeyReplayUnknown { workers: Vec::new() });
    assert!(error.to_string().contains("start a worker of this version"), "{error}");
    set().catch_up(&log).await.unwrap();
    consumers.replay_key("orders", "Order:1").await.unwrap();
    // A key that no event has: nothing is behind it, and it is done.
    consumers.replay_key("orders", "Order:none").await.unwrap();
    set().catch_up(&log).await.unwrap();
    let whole = Proof { handled: 9, doubled: 0, keys: 3, wrong: 0 };
    assert_eq!(proof(&log, &keyed.rows.table).await, whole);
    // What finds its work elsewhere has no events.
    query(&log, &format!("UPDATE {registered} SET kind = 'pool' WHERE name = 'plain'"), vec![])
        .await;
    let (_, because) = refusal(&log, "plain", "a").await;
    assert_eq!(because, Obstacle::NoPosition { kind: "pool".to_owned() });
}

async fn an_audited_consumer_is_refused_and_its_record_stays_provable(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=5).await;
    let settings = Settings::default().audit(true);
    let keyed = Keyed::new(db.recorder("orders").settings(settings));
    let set = || ReplicaSet::new("s").projection(keyed.clone());
    set().catch_up(&log).await.unwrap();
    let (error, because) = refusal(&log, "orders", "Order:1").await;
    assert_eq!((because, error.code()), (Obstacle::KeyReplayAudited, ErrorCode::KeyReplayAudited));
    assert!(error.to_string().contains("`anabranch audit orders --stop --yes`"), "{error}");
    set().catch_up(&log).await.unwrap();
    let proof = Consumers::new(&log).audit("orders", |_| {}).await.unwrap();
    assert_eq!(proof.proven.handed, 15);
}

async fn an_audit_that_begins_after_the_request_is_not_spoilt(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=5).await;
    let keyed = Keyed::new(db.recorder("orders"));
    let set = || ReplicaSet::new("s").projection(keyed.clone());
    set().catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    consumers.replay_key("orders", "Order:1").await.unwrap();
    consumers.start_audit("orders").await.unwrap();
    fill(&log, 0..3, 6..=7).await;
    set().catch_up(&log).await.unwrap();
    let problem = status(&log, "orders").await.problem.unwrap();
    assert!(problem.contains("anabranch audit orders --stop --yes"), "{problem}");
    assert_eq!(consumers.audit("orders", |_| {}).await.unwrap().proven.handed, 6);
    let whole = Proof { handled: 21, doubled: 0, keys: 3, wrong: 0 };
    assert_eq!(proof(&log, &keyed.rows.table).await, whole);
}

async fn a_key_whose_first_events_are_deleted_is_refused_unless_that_is_accepted(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=5).await;
    let keyed = Keyed::new(db.recorder("orders"));
    let set = || ReplicaSet::new("s").projection(keyed.clone());
    set().catch_up(&log).await.unwrap();
    let events = table_of(&log, "events");
    query(&log, &format!("DELETE FROM {events} WHERE position <= 6"), vec![]).await;
    let (error, because) = refusal(&log, "orders", "Order:1").await;
    let first = Some(Position::new(7));
    assert_eq!(because, Obstacle::KeyLacksEvents { key: "Order:1".to_owned(), first });
    assert_eq!(error.code(), ErrorCode::EventsMissing);
    Consumers::new(&log).replay_what_is_left_of_key("orders", "Order:1").await.unwrap();
    set().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &keyed.rows.table).await.handled, 13, "two are gone");
}

/// The program with the hook was the last to start, and one without it owns the slot.
async fn a_program_without_the_hook_gives_up_what_was_asked_for(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=5).await;
    let keyed = Keyed::new(db.recorder("orders"));
    let plain = || ReplicaSet::new("s").projection(keyed.rows.clone());
    plain().catch_up(&log).await.unwrap();
    let running = start(&log, plain());
    until("all slots", async || {
        let owned = |cursor: &CursorStatus| matches!(&cursor.owner, Owner::Worker(_));
        status(&log, "orders").await.cursors.iter().all(owned).then_some(())
    })
    .await;
    let registered = table_of(&log, "consumers");
    query(&log, &format!("UPDATE {registered} SET replays_keys = NOT replays_keys"), vec![]).await;
    Consumers::new(&log).replay_key("orders", "Order:1").await.unwrap();
    fill(&log, 0..3, 6..=6).await;
    until_done(&log, "orders").await;
    until("the new events", async || {
        (proof(&log, &keyed.rows.table).await.handled == 18).then_some(())
    })
    .await;
    running.stop().await;
    let problem = status(&log, "orders").await.problem.unwrap();
    assert!(problem.contains("cannot undo what it made of one key"), "{problem}");
    let whole = Proof { handled: 18, doubled: 0, keys: 3, wrong: 0 };
    assert_eq!(proof(&log, &keyed.rows.table).await, whole);
}

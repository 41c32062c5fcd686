//! A conflict is an answer about one event: it says that handler and database work, however many there are.

use crate::appended_events::{Copier, Hook, copied, copies, copy};
use crate::fail_apart::{quick, until_tried};
use crate::gates::never;
use crate::on_both;
use crate::support::{Db, fill, left_by, start, status, until};
use anabranch::HandlerError;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

on_both! {
    conflicts_of_all_keys_stop_nothing,
    conditions_that_fail_for_all_keys_stop_nothing,
    other_bodies_for_all_keys_stop_nothing,
    appends_that_are_invalid_for_all_keys_stop_nothing,
    conflicts_that_a_handler_passes_on_stop_nothing,
    a_try_that_meets_a_conflict_ends_an_outage,
}

/// More than are enough for an outage.
const KEYS: u64 = 120;

fn taken() -> StreamId {
    StreamId::new("Copy", "taken").unwrap()
}

async fn filled(db: &Db) -> Log {
    let log = db.log().await;
    fill(&log, 0..KEYS, 1..=1).await;
    let tagged = NewEvent::new("Taken", ()).with_tags(["taken:1"]);
    log.append(&taken(), Expected::Any, [tagged]).await.unwrap();
    log
}

/// Each key is parked, with what its event was told, and the consumer goes on.
async fn parks_each_key(db: Db, hook: Hook, said: &str) {
    let log = filled(&db).await;
    let copier = Copier { hook, ..Copier::new(|_, _| Ok(())).settings(never()) };
    let set = ReplicaSet::new("s").lanes(2).projection(copier);
    assert_eq!(left_by(set, &log).await.parked_keys as u64, KEYS);
    assert!(status(&log, "copier").await.outage.is_none());
    let parked = Consumers::new(&log).parked("copier").await.unwrap();
    assert!(parked.iter().all(|key| key.error.contains(said)), "{}", parked[0].error);
}

async fn conflicts_of_all_keys_stop_nothing(db: Db) {
    let hook = Arc::new(|event: &Event, tx: &mut Tx| {
        tx.append(&taken(), Expected::NoStream, [copy(event)])
    });
    parks_each_key(db, hook, "conflict on stream Copy:taken").await;
}

async fn conditions_that_fail_for_all_keys_stop_nothing(db: Db) {
    let hook = Arc::new(|event: &Event, tx: &mut Tx| {
        let append = Append::new().to(&copies(event), Expected::Any, [copy(event)]);
        tx.append_all(append.unless(Query::tags(["taken:1"]), Position::START))
    });
    parks_each_key(db, hook, "condition failed").await;
}

async fn other_bodies_for_all_keys_stop_nothing(db: Db) {
    let id = uuid::Uuid::from_u128(7);
    let log = db.log().await;
    log.append(&taken(), Expected::Any, [NewEvent::new("Taken", ()).with_id(id)]).await.unwrap();
    let hook = Arc::new(move |event: &Event, tx: &mut Tx| {
        tx.append(&copies(event), Expected::Any, [copy(event).with_id(id)])
    });
    parks_each_key(db, hook, "is in the log already").await;
}

async fn appends_that_are_invalid_for_all_keys_stop_nothing(db: Db) {
    let hook = Arc::new(|event: &Event, tx: &mut Tx| tx.append(&copies(event), Expected::Any, []));
    parks_each_key(db, hook, "has no events").await;
}

/// Appends through the log, and passes on what it says.
struct Through {
    log: Log,
    with_words: bool,
}

impl Projection for Through {
    fn name(&self) -> &str {
        if self.with_words { "with_words" } else { "bare" }
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    async fn handle(&self, event: &Event, _: &mut Tx) -> HandlerResult {
        let appended = self.log.append(&taken(), Expected::NoStream, [copy(event)]).await;
        match self.with_words {
            true => anyhow::Context::context(appended, "the copy")?,
            false => appended?,
        };
        Ok(())
    }
}

async fn conflicts_that_a_handler_passes_on_stop_nothing(db: Db) {
    let log = filled(&db).await;
    for with_words in [true, false] {
        let through = Through { log: log.clone(), with_words };
        let left = left_by(ReplicaSet::new("s").projection(through), &log).await;
        assert_eq!(left.parked_keys as u64, KEYS, "with words: {with_words}");
    }
}

/// What fails is cured, and all that is left to try conflicts: the handler works again.
async fn a_try_that_meets_a_conflict_ends_an_outage(db: Db) {
    let log = filled(&db).await;
    let cured = Arc::new(AtomicBool::new(false));
    let is_cured = Arc::clone(&cured);
    let copier = Copier::new(move |event, tx| match is_cured.load(Ordering::SeqCst) {
        true => tx.append(&taken(), Expected::NoStream, [copy(event)]),
        false => Err(HandlerError::new("the endpoint refuses connections")),
    });
    let set = ReplicaSet::new("s").tuning(quick()).lanes(2).projection(copier.settings(never()));
    let running = start(&log, set);
    until_tried(&log, "copier", 2).await;
    cured.store(true, Ordering::SeqCst);
    until("no outage", async || status(&log, "copier").await.outage.is_none().then_some(())).await;
    until("all parked", async || {
        assert!(status(&log, "copier").await.outage.is_none(), "it stays over");
        (Consumers::new(&log).parked("copier").await.unwrap().len() as u64 == KEYS).then_some(())
    })
    .await;
    running.stop().await;
    assert!(copied(&log).await.0.is_empty());
}

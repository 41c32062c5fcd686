//! What an operator requests and cannot have: told apart by type and code, so that an API needs no texts.

use crate::on_both;
use crate::support::*;
use anabranch::HandlerError;
use anabranch::Retry;
use anabranch::errors::{ErrorCode, ErrorKind};
use anabranch::operate::{Consumers, Rebuild, RebuildError, ReplayError, ReplayFrom};
use anabranch::operate::{Obstacle, OperateError};
use anabranch::prelude::*;

on_both!(
    a_consumer_that_is_not_there_is_not_found_by_any_request,
    a_key_that_is_not_parked_is_not_found,
    a_replay_that_is_not_possible_says_why_by_its_type,
    an_error_of_ours_ends_what_is_stored_with_its_code,
);

async fn a_consumer_that_is_not_there_is_not_found_by_any_request(db: Db) {
    let log = db.log().await;
    ReplicaSet::new("s").projection(db.recorder("orders")).catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    let (no, slot) = ("nobody", log.hash_rule().slot("x"));
    let refused: [(&str, OperateError); 15] = [
        ("status", consumers.status(no).await.unwrap_err()),
        ("owner_of", consumers.owner_of(no, slot).await.unwrap_err()),
        ("pause", consumers.pause(no).await.unwrap_err()),
        ("resume", consumers.resume(no).await.unwrap_err()),
        ("skip_to_head", consumers.skip_to_head(no).await.unwrap_err()),
        ("forget", consumers.forget(no).await.unwrap_err()),
        ("parked", consumers.parked(no).await.unwrap_err()),
        ("parked_events", consumers.parked_events(no, "k", 1).await.unwrap_err()),
        ("retry_parked", consumers.retry_parked(no, "k").await.unwrap_err()),
        ("skip_parked", consumers.skip_parked(no, "k").await.unwrap_err()),
        ("skip_all_parked", consumers.skip_all_parked(no, "k").await.unwrap_err()),
        ("offsets", consumers.offsets(no, None).await.unwrap_err()),
        ("rescale", consumers.rescale(no, 1, 2).await.unwrap_err()),
        ("scope_change", consumers.scope_change(no).await.unwrap_err()),
        ("unmatched", consumers.unmatched(no).await.unwrap_err()),
    ];
    for (what, error) in refused {
        assert_eq!(error.code(), ErrorCode::NoSuchConsumer, "{what}: {error}");
        assert_eq!(error.kind().http_status(), 404, "{what}");
        let OperateError::NoSuchConsumer { name, known, .. } = error else { panic!("{what}") };
        assert_eq!((name.as_str(), known), (no, vec!["orders".to_owned()]), "{what}");
    }
    let error = consumers.replay(no, ReplayFrom::Start).await.unwrap_err();
    assert!(matches!(&error, ReplayError::Operate(OperateError::NoSuchConsumer { .. })), "{error}");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    for error in [
        Rebuild::new(&log, no, &["t"]).compare().await.unwrap_err(),
        Rebuild::new(&log, no, &["t"]).switch().await.unwrap_err(),
        Rebuild::for_view(&log, no).abandon().await.unwrap_err(),
    ] {
        assert!(matches!(&error, RebuildError::Operate(_)), "{error}");
        assert_eq!(error.code(), ErrorCode::NoSuchConsumer, "{error}");
    }
    // One that is there, and is not being rebuilt.
    let error = Rebuild::new(&log, "orders", &["t"]).switch().await.unwrap_err();
    assert_eq!((error.code(), error.kind()), (ErrorCode::NoRebuild, ErrorKind::NotFound));
    // Wrong in itself, whoever is there.
    let error = consumers.offsets("orders", Some(0)).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), (ErrorCode::InvalidPartition, ErrorKind::Invalid));
}

async fn a_key_that_is_not_parked_is_not_found(db: Db) {
    let log = db.log().await;
    ReplicaSet::new("s").projection(db.recorder("orders")).catch_up(&log).await.unwrap();
    let consumers = Consumers::new(&log);
    for error in [
        consumers.retry_parked("orders", "o\n1").await.unwrap_err(),
        consumers.skip_parked("orders", "o\n1").await.unwrap_err(),
        consumers.skip_all_parked("orders", "o\n1").await.unwrap_err(),
    ] {
        assert_eq!((error.code(), error.kind()), (ErrorCode::NoSuchKey, ErrorKind::NotFound));
        assert!(error.to_string().contains("has no parked key `o\\n1`"), "{error}");
        let OperateError::NoSuchKey { consumer, key, .. } = error else { panic!("{error}") };
        assert_eq!((consumer.as_str(), key.as_str()), ("orders", "o\n1"));
    }
}

struct Totals;

impl View for Totals {
    type State = u64;
    fn name(&self) -> &str {
        "totals"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn apply(&self, total: &mut u64, event: &Event) -> HandlerResult {
        *total += event.data::<u64>()?;
        Ok(())
    }
}

async fn a_replay_that_is_not_possible_says_why_by_its_type(db: Db) {
    let log = db.log().await;
    let set = || ReplicaSet::new("s").projection(db.recorder("orders")).view(Totals);
    set().catch_up(&log).await.unwrap();
    fill(&log, 0..2, 1..=2).await;
    let consumers = Consumers::new(&log);
    let because = async |name: &str, from| {
        let error = consumers.replay(name, from).await.unwrap_err();
        assert_eq!(error.kind().http_status(), 409, "{error}");
        let code = error.code();
        let ReplayError::Operate(OperateError::NotPossible { because, consumer, .. }) = error
        else {
            panic!("{error}")
        };
        assert_eq!((consumer.as_str(), because.code()), (name, code));
        because
    };
    let after = |position| ReplayFrom::After(Position::new(position));
    let (start, to) = (Position::START, Position::new(3));
    assert_eq!(because("orders", after(3)).await, Obstacle::Forwards { stands: start, to });
    set().catch_up(&log).await.unwrap();
    assert_eq!(because("totals", after(3)).await, Obstacle::Folded);
    let stands = Position::new(4);
    let to = Position::new(9);
    assert_eq!(because("orders", after(9)).await, Obstacle::Forwards { stands, to });
}

/// What is stored with a failed event is one of the places where people meet an error.
async fn an_error_of_ours_ends_what_is_stored_with_its_code(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let orders = db.recorder("orders").settings(Settings::default().retry(Retry::never()));
    let orders = orders.hook(|event| match event.stream_id() {
        "0" => Err(StreamId::new("", "x").unwrap_err())?,
        "1" => Err(HandlerError::new("no such card")),
        _ => Ok(()),
    });
    let _ = ReplicaSet::new("s").projection(orders).catch_up(&log).await;
    let parked = Consumers::new(&log).parked("orders").await.unwrap();
    let mut said: Vec<&str> = parked.iter().map(|key| key.error.as_str()).collect();
    said.sort_unstable();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].ends_with(" [invalid_input]"), "{said:?}");
    assert_eq!(said[1], "no such card");
}

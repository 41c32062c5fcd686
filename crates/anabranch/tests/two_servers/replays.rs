//! A replay that was asked for on one log is done on no other: a wrong URL of one process empties no tables.

use crate::on_all_pairs;
use crate::pair::*;
use crate::support::*;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, Reason, ReplayFrom};
use anabranch::prelude::*;

on_all_pairs! {
    a_process_with_another_log_does_not_carry_out_a_replay,
    a_worker_with_another_log_leaves_a_replay_to_others,
    a_replay_that_is_withdrawn_binds_to_no_other_log,
}

/// Another log of the same kind, with the same home.
async fn beside(pair: &Pair) -> (Db, Log) {
    let events = match pair.events.url.starts_with("postgres:") {
        true => Db::postgres(),
        false => Db::sqlite(),
    };
    let log = events.log().await.with_database(&pair.home.log().await).await.unwrap();
    (events, log)
}

async fn a_process_with_another_log_does_not_carry_out_a_replay(pair: Pair) {
    let (log, (_events, other)) = (pair.log().await, beside(&pair).await);
    fill(&log, 0..4, 1..=5).await;
    fill(&other, 100..110, 1..=5).await;
    pair.set().catch_up(&log).await.unwrap();
    Consumers::new(&log).replay("orders", ReplayFrom::Start).await.unwrap();
    let error = pair.set().catch_up(&other).await.unwrap_err();
    assert!(error.code() == ErrorCode::OtherLog, "{error}");
    pair.is_whole(&log, 4, 5).await;
    assert_eq!(status(&log, "orders").await.replay_from, Some(Position::START));
    fill(&log, 0..4, 6..=6).await;
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 6).await;
}

async fn a_worker_with_another_log_leaves_a_replay_to_others(pair: Pair) {
    let (log, (_events, other)) = (pair.log().await, beside(&pair).await);
    fill(&log, 0..4, 1..=5).await;
    fill(&other, 100..110, 1..=5).await;
    let worker = start(&pair.log().await, pair.set());
    let table = pair.recorder().table;
    until("a worker", async || {
        let standing = Consumers::new(&log).list().await.unwrap();
        let runs = standing.first()?.runners.first()?.slots == 5040;
        (runs && proof(&log, &table).await.handled == 20).then_some(())
    })
    .await;
    Consumers::new(&other).replay("orders", ReplayFrom::Start).await.unwrap();
    let error = worker.ended().await.unwrap_err();
    assert!(error.code() == ErrorCode::OtherLog, "{error}");
    pair.is_whole(&log, 4, 5).await;
    let standing = status(&log, "orders").await;
    assert_eq!((standing.replay_from, standing.problem), (Some(Position::START), None));
    let is_other = |reason: &Reason| matches!(reason, Reason::OtherLog { .. });
    assert!(standing.cursors[0].reasons.iter().any(is_other), "{:?}", standing.cursors);
    // Where it was asked for, it is done; and then the consumer belongs there.
    pair.set().catch_up(&other).await.unwrap();
    pair.is_whole(&other, 10, 5).await;
    let error = pair.set().catch_up(&log).await.unwrap_err();
    assert!(error.code() == ErrorCode::OtherLog, "{error}");
}

/// A hook that fails leaves all as it was: also which log the cursors belong to.
async fn a_replay_that_is_withdrawn_binds_to_no_other_log(pair: Pair) {
    let (log, (_events, other)) = (pair.log().await, beside(&pair).await);
    fill(&log, 0..4, 1..=5).await;
    fill(&other, 100..110, 1..=5).await;
    pair.set().catch_up(&log).await.unwrap();
    Consumers::new(&other).replay("orders", ReplayFrom::Start).await.unwrap();
    let refusing = ReplicaSet::new("s").projection(Refusing(pair.recorder()));
    let error = refusing.catch_up(&other).await.unwrap_err();
    assert!(error.to_string().contains("not today"), "{error}");
    assert_eq!(status(&log, "orders").await.replay_from, None);
    let error = pair.set().catch_up(&other).await.unwrap_err();
    assert!(error.code() == ErrorCode::OtherLog, "{error}");
    fill(&log, 0..4, 6..=6).await;
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 6).await;
}

/// The recorder, which cannot begin again.
struct Refusing(Recorder);

impl Projection for Refusing {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn partition(&self) -> Partition {
        self.0.partition.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.0.handle(event, tx).await
    }

    async fn reset(&self, _to: Position, _tx: &mut Tx) -> HandlerResult {
        Err(HandlerError::for_good("not today"))
    }
}

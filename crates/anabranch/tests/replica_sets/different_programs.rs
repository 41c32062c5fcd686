//! Workers of one set that run different consumers: rolling deploys that add, remove or rename one, and
//! programs that share a set's name. Each consumer is shared by those who run it, and is complete.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use std::collections::BTreeSet;

on_both! {
    each_consumer_is_complete_whoever_runs_it,
    a_consumer_is_renamed_in_a_rolling_deploy,
    a_consumer_is_added_and_another_removed,
    where_all_run_all_one_decision_moves_a_slot,
    a_worker_that_runs_something_else_catches_up,
    fixed_partitions_of_different_programs,
}

/// A worker with these consumers, each of which keeps its own record.
async fn join(db: &Db, worker: &str, consumers: &[&str]) -> Running {
    join_set(db, ReplicaSet::new("s").lanes(2), worker, consumers).await
}

async fn join_set(db: &Db, set: ReplicaSet, worker: &str, consumers: &[&str]) -> Running {
    start(&db.log().await, with(db, set, worker, consumers))
}

fn with(db: &Db, set: ReplicaSet, worker: &str, consumers: &[&str]) -> ReplicaSet {
    let add = |set: ReplicaSet, consumer: &&str| {
        let settings = Settings::default().batch_size(20);
        set.projection(db.recorder(consumer).worker(worker).settings(settings))
    };
    consumers.iter().fold(set, add).lease(LONG_LEASE)
}

async fn until_all_proven(db: &Db, log: &Log, consumers: &[&str], each: u64) {
    for consumer in consumers {
        until_proven(log, &db.recorder(consumer).table, Appender::STREAMS, each).await;
    }
}

/// How many rows there are about consumers that not all can run, in the current generations.
async fn rows_apart(log: &Log) -> i64 {
    let (apart, sets) = (table_of(log, "consumer_assignments"), table_of(log, "replica_sets"));
    let count = format!(
        "SELECT count(*) FROM {apart} AS a, {sets} AS s \
         WHERE a.replica_set = s.name AND a.generation = s.generation"
    );
    number(log, &count).await
}

async fn each_consumer_is_complete_whoever_runs_it(db: Db) {
    let log = db.log().await;
    let appender = Appender::start(&log);
    let one = join(&db, "one", &["a", "b"]).await;
    let two = join(&db, "two", &["b", "c"]).await;
    let of_a = until_shared(&log, "a", 1).await;
    let of_b = until_shared(&log, "b", 2).await;
    let of_c = until_shared(&log, "c", 1).await;
    assert_eq!(of_b, of_a.union(&of_c).cloned().collect::<BTreeSet<_>>());
    assert!(of_a.is_disjoint(&of_c));
    let three = join(&db, "three", &["c", "a"]).await;
    until_shared(&log, "a", 2).await;
    until_shared(&log, "c", 2).await;
    assert_eq!(until_shared(&log, "b", 2).await, of_b, "nothing has changed for those who run it");
    two.crash();
    assert_eq!(until_shared(&log, "b", 1).await, of_a);
    let of_c = until_shared(&log, "c", 1).await;
    assert_eq!(until_shared(&log, "a", 2).await, of_a.union(&of_c).cloned().collect());
    let each = appender.finish().await;
    until_all_proven(&db, &log, &["a", "b", "c"], each).await;
    one.stop().await;
    three.stop().await;
    assert_eq!(
        number(&log, &format!("SELECT count(*) FROM {}", table_of(&log, "runners"))).await,
        0
    );
}

/// The last one that knows the old name has all of it, and the first that knows the new one all of that.
async fn a_consumer_is_renamed_in_a_rolling_deploy(db: Db) {
    let log = db.log().await;
    let appender = Appender::start(&log);
    let mut old = vec![
        join(&db, "old-1", &["before", "same"]).await,
        join(&db, "old-2", &["before", "same"]).await,
    ];
    let all_old = until_shared(&log, "before", 2).await;
    let mut new = Vec::new();
    for (number, left) in [(1, 1), (2, 0)] {
        new.push(join(&db, &format!("new-{number}"), &["after", "same"]).await);
        until_shared(&log, "after", number).await;
        until_shared(&log, "same", 3).await;
        let of_before = until_shared(&log, "before", left + 1).await;
        assert!(of_before.is_subset(&all_old));
        old.remove(0).stop().await;
        until_shared(&log, "same", 2).await;
        if left > 0 {
            until_shared(&log, "before", left).await;
        }
    }
    let idle = status(&log, "before").await;
    assert!(
        idle.cursors.iter().all(|cursor| cursor.owner == anabranch::operate::Owner::Unassigned)
    );
    until("all run the same again", async || (rows_apart(&log).await == 0).then_some(())).await;
    let each = appender.finish().await;
    until_all_proven(&db, &log, &["after", "same"], each).await;
    // A program with the old name goes on where it was left.
    with(&db, ReplicaSet::new("s"), "back", &["before"]).catch_up(&log).await.unwrap();
    until_all_proven(&db, &log, &["before"], each).await;
    for worker in new {
        worker.stop().await;
    }
}

async fn a_consumer_is_added_and_another_removed(db: Db) {
    let log = db.log().await;
    let appender = Appender::start(&log);
    let old = join(&db, "old", &["kept", "removed"]).await;
    until_shared(&log, "removed", 1).await;
    let added = join(&db, "added", &["kept", "removed", "added"]).await;
    until_shared(&log, "kept", 2).await;
    until_shared(&log, "removed", 2).await;
    until_shared(&log, "added", 1).await;
    old.stop().await;
    until_shared(&log, "removed", 1).await;
    let removed = join(&db, "removed", &["kept", "added"]).await;
    until_shared(&log, "kept", 2).await;
    until_shared(&log, "added", 2).await;
    until_shared(&log, "removed", 1).await;
    let each = appender.finish().await;
    until_all_proven(&db, &log, &["kept", "removed", "added"], each).await;
    added.stop().await;
    until_shared(&log, "added", 1).await;
    removed.stop().await;
}

/// Nothing is written about single consumers, and a slot of both has the same owner.
async fn where_all_run_all_one_decision_moves_a_slot(db: Db) {
    let log = db.log().await;
    let one = join(&db, "one", &["a", "b"]).await;
    until_shared(&log, "a", 1).await;
    let two = join(&db, "two", &["b", "a"]).await;
    let three = join(&db, "three", &["a", "b"]).await;
    until_shared(&log, "a", 3).await;
    until_shared(&log, "b", 3).await;
    two.stop().await;
    until_shared(&log, "a", 2).await;
    until_shared(&log, "b", 2).await;
    let consumers = anabranch::operate::Consumers::new(&log);
    for slot in (0..5040).step_by(97).filter_map(anabranch::partitioning::Slot::new) {
        let (a, b) = (consumers.owner_of("a", slot).await, consumers.owner_of("b", slot).await);
        let id = |found: anabranch::operate::CursorStatus| match found.owner {
            anabranch::operate::Owner::Worker(worker) => worker.id,
            other => panic!("slot {slot}: {other:?}"),
        };
        assert_eq!(id(a.unwrap()), id(b.unwrap()), "slot {slot}");
    }
    let rows = table_of(&log, "consumer_assignments");
    assert_eq!(number(&log, &format!("SELECT count(*) FROM {rows}")).await, 0);
    one.stop().await;
    three.stop().await;
}

/// Others run only a part of what it runs, and hold that: it ends when all is handled, by whomever.
async fn a_worker_that_runs_something_else_catches_up(db: Db) {
    let log = db.log().await;
    let other = join(&db, "other", &["b", "c"]).await;
    until_shared(&log, "c", 1).await;
    fill(&log, 0..Appender::STREAMS, 1..=5).await;
    let catching_up = with(&db, ReplicaSet::new("s").lanes(2), "catching up", &["a", "b"]);
    catching_up.catch_up(&db.log().await).await.unwrap();
    for consumer in ["a", "b"] {
        let all = Proof { handled: 200, doubled: 0, keys: 40, wrong: 0 };
        assert_eq!(proof(&log, &db.recorder(consumer).table).await, all, "{consumer}");
    }
    until_all_proven(&db, &log, &["c"], 5).await;
    until_shared(&log, "b", 1).await;
    other.stop().await;
}

/// A partition of one program is not that of another.
async fn fixed_partitions_of_different_programs(db: Db) {
    let log = db.log().await;
    let fixed =
        |partition: &str| ReplicaSet::new("s").lanes(2).partition(partition.parse().unwrap());
    let appender = Appender::start(&log);
    let half = join_set(&db, fixed("0/2"), "half", &["a", "b"]).await;
    let elastic = join(&db, "elastic", &["b"]).await;
    let rest = join_set(&db, fixed("1/2"), "rest", &["a"]).await;
    until_shared(&log, "a", 2).await;
    until_shared(&log, "b", 2).await;
    let thirds = join_set(&db, fixed("0/3"), "thirds", &["b"]).await;
    until("partitions of b that overlap", async || {
        let mut owned: Vec<usize> = owned(&log, "b").await?.into_values().collect();
        owned.sort_unstable();
        // Of the slots that both ask for, the first keeps those it has.
        (owned == [840, 1680, 2520]).then_some(())
    })
    .await;
    until_shared(&log, "a", 2).await;
    let each = appender.finish().await;
    until_all_proven(&db, &log, &["a", "b"], each).await;
    for worker in [half, elastic, rest, thirds] {
        worker.stop().await;
    }
}

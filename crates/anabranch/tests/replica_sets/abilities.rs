//! Workers that run a consumer and cannot for the time being: others own its slots meanwhile.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::support::*;
use anabranch::backend::database::{End, Statement, Topic};
use anabranch::operate::{Consumers, Owner, Reason};
use anabranch::prelude::*;
use std::collections::BTreeMap;

on_both! {
    slots_go_to_those_who_can_and_come_back,
    what_nobody_can_run_stays_where_it_is,
    a_fixed_partition_that_nobody_else_asks_for_stays,
}

/// Writes down whether a worker can run `orders`, as the worker would, and makes a generation as a worker of
/// the last version does, which knows nothing of that.
async fn says(log: &Log, worker: &str, unable: Option<&str>) {
    let table = |name| table_of(log, name);
    let (sets, assignments) = (table("replica_sets"), table("assignments"));
    let change = format!(
        "UPDATE {} SET unable = CAST($1 AS text) WHERE worker = $2 AND consumer = 'orders'",
        table("runners")
    );
    let insert = format!(
        "INSERT INTO {} (replica_set, generation, at_us, reason) \
         SELECT name, generation, 0, 'somebody old' FROM {sets}",
        table("generations")
    );
    let copy = format!(
        "INSERT INTO {assignments} (replica_set, generation, worker, place, slots) \
         SELECT s.name, s.generation, a.worker, a.place, a.slots FROM {assignments} AS a, {sets} AS s \
         WHERE a.replica_set = s.name AND a.generation = s.generation - 1"
    );
    let statements = vec![
        Statement::new(format!("UPDATE {sets} SET generation = generation + 1"), vec![]),
        Statement::new(change, params![unable, worker]),
        Statement::new(insert, vec![]),
        Statement::new(copy, vec![]),
        Statement::signal(Topic::Workers),
    ];
    log.store().database().control().run(statements, End::Commit).await.unwrap();
}

/// Waits until these workers own so many slots of a consumer, and nobody else any.
async fn until_owned(log: &Log, consumer: &str, wanted: &[(&String, usize)]) {
    let wanted: BTreeMap<String, usize> =
        wanted.iter().map(|(worker, slots)| ((*worker).clone(), *slots)).collect();
    until(&format!("{wanted:?} of {consumer}"), async || {
        (owned(log, consumer).await? == wanted).then_some(())
    })
    .await;
}

async fn newest(log: &Log) -> i64 {
    generations(log).await[0].generation
}

async fn slots_go_to_those_who_can_and_come_back(db: Db) {
    let log = db.log().await;
    let (orders, mails) = (db.recorder("orders"), db.recorder("mails"));
    let join = async || {
        let set = ReplicaSet::new("s").projection(orders.clone()).projection(mails.clone());
        start(&db.log().await, set.lanes(2).tuning(quick()))
    };
    let appender = Appender::start(&log);
    let (one, two) = (join().await, join().await);
    let ids: Vec<String> = until_shared(&log, "orders", 2).await.into_iter().collect();
    until_shared(&log, "mails", 2).await;
    let before = status(&log, "mails").await.cursors;
    let generation = newest(&log).await;

    says(&log, &ids[0], Some("its endpoint refuses")).await;
    until_owned(&log, "orders", &[(&ids[1], 5040)]).await;
    let shown = status(&log, "orders").await;
    let unable: Vec<_> = shown.runners.iter().filter(|runner| runner.unable.is_some()).collect();
    assert_eq!(unable.len(), 1, "{:?}", shown.runners);
    assert_eq!((&unable[0].worker, unable[0].slots), (&ids[0], 0));
    says(&log, &ids[0], None).await;
    until_owned(&log, "orders", &[(&ids[0], 2520), (&ids[1], 2520)]).await;
    until_beats(&log, 5).await;
    assert_eq!(newest(&log).await, generation + 4, "each is completed, and slots do not bounce");
    let apart = table_of(&log, "consumer_assignments");
    let rows = format!("SELECT count(*) FROM {apart} WHERE generation > {}", generation + 2);
    assert_eq!(number(&log, &rows).await, 0, "both run both again");
    // Cursors of one owner at the same position may become one, and stay where they are.
    let epochs = |cursors: &[anabranch::operate::CursorStatus]| {
        let mut slots = std::collections::BTreeMap::new();
        for cursor in cursors {
            let Owner::Worker(worker) = &cursor.owner else { panic!("{cursor:?} has no owner") };
            let owner = (worker.id.clone(), cursor.epoch);
            *slots.entry(owner).or_insert(0) += cursor.slot_count;
        }
        slots
    };
    let after = status(&log, "mails").await.cursors;
    assert_eq!(epochs(&before), epochs(&after), "another consumer has not moved at all");

    let each = appender.finish().await;
    for recorder in [&orders, &mails] {
        until_proven(&log, &recorder.table, Appender::STREAMS, each).await;
    }
    one.stop().await;
    two.stop().await;
}

/// If it fails everywhere, everybody keeps what it has, and goes on when it works again.
async fn what_nobody_can_run_stays_where_it_is(db: Db) {
    let log = db.log().await;
    let join = async || {
        let set = ReplicaSet::new("s").projection(db.recorder("orders"));
        start(&db.log().await, set.tuning(quick()))
    };
    let (one, two) = (join().await, join().await);
    let ids: Vec<String> = until_shared(&log, "orders", 2).await.into_iter().collect();
    says(&log, &ids[0], Some("it fails")).await;
    until_owned(&log, "orders", &[(&ids[1], 5040)]).await;
    says(&log, &ids[1], Some("it fails here, too")).await;
    until_owned(&log, "orders", &[(&ids[0], 2520), (&ids[1], 2520)]).await;
    let reasons: Vec<String> = until("its reasons", async || {
        let cursors = status(&log, "orders").await.cursors;
        let reasons = cursors.iter().flat_map(|cursor| &cursor.reasons);
        let unable = reasons.filter(|reason| matches!(reason, Reason::Unable { .. }));
        let unable: Vec<String> = unable.map(ToString::to_string).collect();
        (unable.len() == 2).then_some(unable)
    })
    .await;
    let me = std::process::id();
    let text = format!(":{me} runs it but cannot just now: it fails");
    assert!(reasons.iter().all(|reason| reason.contains(&text)), "{reasons:?}");
    says(&log, &ids[0], None).await;
    until_owned(&log, "orders", &[(&ids[0], 5040)]).await;
    one.stop().await;
    two.stop().await;
}

async fn a_fixed_partition_that_nobody_else_asks_for_stays(db: Db) {
    let log = db.log().await;
    let join = async |partition: &str| {
        let set = ReplicaSet::new("s").projection(db.recorder("orders"));
        let set = set.partition(partition.parse().unwrap()).tuning(quick());
        start(&db.log().await, set)
    };
    let first = join("0/2").await;
    until("the first", async || Consumers::new(&log).workers().await.ok()?.pop()).await;
    let second = join("1/2").await;
    // Ids are in the order in which they joined.
    let ids: Vec<String> = until_shared(&log, "orders", 2).await.into_iter().collect();
    let generation = newest(&log).await;
    says(&log, &ids[0], Some("no session")).await;
    until_beats(&log, 5).await;
    until_owned(&log, "orders", &[(&ids[0], 2520), (&ids[1], 2520)]).await;
    let shown = Consumers::new(&log).workers().await.unwrap();
    let unable = shown.iter().filter_map(|worker| worker.runs("orders")?.unable.clone());
    assert_eq!(unable.collect::<Vec<_>>(), ["no session"]);
    // A standby with the same partition takes it over.
    let standby = join("0/2").await;
    until("the standby", async || {
        let owned = owned(&log, "orders").await?;
        (owned.len() == 2 && !owned.contains_key(&ids[0])).then_some(())
    })
    .await;
    assert!(newest(&log).await > generation);
    for worker in [first, second, standby] {
        worker.stop().await;
    }
}

//! Positions of runners that were there before: each slot goes on exactly where its old partition stood.

mod checkpoints;
mod ledger;
mod refusals;

use crate::on_both;
use crate::support::{Db, query, status, until};
use anabranch::operate::Before;
use anabranch::operate::{Consumers, CursorStatus, Import, ImportError, Owner, Refusal};
use anabranch::prelude::*;
use anabranch::{FixedPartition, HashRule, RunError};
use ledger::{EVENTS, Ledger, STOPS, fill, fill_named, fnv1a, import, with_old};

on_both! {
    every_event_is_handled_once_by_the_old_or_the_new,
    other_rules_are_continued_at_the_client,
    an_import_and_a_start_at_the_same_time_are_one_or_the_other,
    processes_that_start_together_set_up_once,
    one_sequence_has_one_checkpoint,
}

async fn every_event_is_handled_once_by_the_old_or_the_new(db: Db) {
    for (case, total) in [3u16, 5, 1].into_iter().enumerate() {
        let ledger = Ledger { table: db.table(&format!("ledger_{case}")), ..Ledger::new(&db) };
        let log = match case {
            0 => with_old(&db, &ledger, STOPS).await,
            _ => db.log().await,
        };
        if case > 0 {
            Consumers::new(&log).forget("ledger").await.unwrap();
            ledger.run_old(&log, fnv1a, &STOPS).await;
        }
        let before = query(&log, &format!("SELECT 1 FROM {}", ledger.table), vec![]).await.len();
        assert!(before > 50, "the old ones have done something: {before}");
        let plan = import(&STOPS).apply(&log).await.unwrap();
        assert_eq!((plan.before, plan.cursors, plan.lag), (Before::Nothing, 3, EVENTS));
        let standing = status(&log, "ledger").await;
        assert_eq!((standing.kind.as_str(), standing.version), ("imported", 0));
        assert_eq!(standing.strategy, "entity, fnv1a");
        for index in 0..total {
            let set = ledger.set().lanes(if total == 1 { 4 } else { 2 });
            let set = set.partition(FixedPartition::new(index, total).unwrap());
            set.catch_up(&log).await.unwrap();
        }
        assert_eq!(ledger.check(&log).await, EVENTS - before as u64);
        assert_eq!(ledger.set_ups(&log).await, 1);
        let standing = status(&log, "ledger").await;
        assert_eq!((standing.kind.as_str(), standing.version, standing.lag), ("projection", 1, 0));
    }
}

/// The log's own rule is FNV-1a; the old runners took MD5, or the number that the id is.
async fn other_rules_are_continued_at_the_client(db: Db) {
    let log = db.log().await;
    fill_named(&log, "").await;
    let integer: fn(&str) -> u128 = |id| id.parse().unwrap();
    for (rule, hash) in [(HashRule::Md5, HashRule::md5_128 as _), (HashRule::Integer, integer)] {
        let table = db.table(&format!("ledger_{rule}"));
        let ledger = Ledger { table, ..Ledger::by(&db, rule) };
        let stops = [31, 299, 150];
        ledger.run_old(&log, hash, &stops).await;
        import(&stops).partition(&ledger.partition).apply(&log).await.unwrap();
        let other = Ledger { partition: Partition::entity("Order"), ..ledger.clone() };
        let error = other.set().catch_up(&log).await.unwrap_err();
        assert!(matches!(error, RunError::Refused { .. }), "{error}");
        let said = format!("imported for entity, {rule} and it is partitioned by entity, fnv1a");
        assert!(error.to_string().contains(&said), "{error}");
        assert_eq!(ledger.set_ups(&log).await, 0, "a refused program sets nothing up");
        for index in 0..5 {
            let set = ledger.set().partition(FixedPartition::new(index, 5).unwrap());
            set.catch_up(&log).await.unwrap();
        }
        assert!(ledger.check(&log).await > 20);
        assert_eq!(ledger.set_ups(&log).await, 1);
        Consumers::new(&log).forget("ledger").await.unwrap();
    }
}

/// What somebody waits for before it begins.
#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    Registered,
    Claimed,
    Handled,
}

impl After {
    async fn wait(self, log: &Log) {
        until("its turn", async || {
            let known = Consumers::new(log).list().await.unwrap();
            let owned = |cursor: &CursorStatus| matches!(cursor.owner, Owner::Worker(_));
            let is_done = known.iter().any(|one| one.lag == 0);
            let is_reached = match self {
                Self::Nothing => true,
                Self::Registered => !known.is_empty(),
                Self::Claimed => is_done || known.iter().any(|one| one.cursors.iter().any(owned)),
                Self::Handled => is_done,
            };
            is_reached.then_some(())
        })
        .await;
    }
}

/// Two processes start while a third imports. Whoever comes first: the hook runs once, and either the
/// positions hold for every event or they were refused and the consumer begins at the start.
async fn an_import_and_a_start_at_the_same_time_are_one_or_the_other(db: Db) {
    let log = db.log().await;
    fill(&log).await;
    let (mut imported, mut refused) = (0, 0);
    for (round, (start, import)) in [
        (After::Registered, After::Nothing),
        (After::Nothing, After::Nothing),
        (After::Nothing, After::Registered),
        (After::Nothing, After::Claimed),
        (After::Nothing, After::Handled),
        (After::Nothing, After::Registered),
        (After::Nothing, After::Claimed),
    ]
    .into_iter()
    .enumerate()
    {
        let own = Ledger { table: db.table(&format!("ledger_{round}")), ..Ledger::new(&db) };
        own.run_old(&log, fnv1a, &STOPS).await;
        let old = query(&log, &format!("SELECT 1 FROM {}", own.table), vec![]).await.len();
        let other = db.log().await;
        let half = async |index, log| {
            start.wait(log).await;
            let set = own.set().partition(FixedPartition::new(index, 2).unwrap());
            set.catch_up(log).await
        };
        let import = async {
            import.wait(&log).await;
            ledger::import(&STOPS).apply(&log).await
        };
        let (one, two, import) = tokio::join!(half(0, &log), half(1, &other), import);
        one.and(two).unwrap();
        assert_eq!(own.set_ups(&log).await, 1, "round {round}");
        match import {
            Ok(_) => {
                imported += 1;
                assert_eq!(own.check(&log).await, EVENTS - old as u64, "round {round}");
            }
            Err(ImportError::Refused { refusals, .. }) => {
                refused += 1;
                let is_late = |refusal: &Refusal| {
                    matches!(refusal, Refusal::Running { .. } | Refusal::HasRun { .. })
                };
                assert!(refusals.iter().all(is_late), "{refusals:?}");
                let new = format!("SELECT position FROM {} WHERE who = 'new'", own.table);
                assert_eq!(query(&log, &new, vec![]).await.len() as u64, EVENTS);
            }
            Err(error) => panic!("{error}"),
        }
        Consumers::new(&log).forget("ledger").await.unwrap();
    }
    assert!(imported > 0 && refused > 0, "{imported} came first, {refused} too late");
}

async fn processes_that_start_together_set_up_once(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    let others = [db.log().await, db.log().await];
    import(&STOPS).apply(&log).await.unwrap();
    let part = |index| ledger.set().partition(FixedPartition::new(index, 3).unwrap());
    let (one, two, three) = tokio::join!(
        part(0).catch_up(&log),
        part(1).catch_up(&others[0]),
        part(2).catch_up(&others[1])
    );
    one.and(two).and(three).unwrap();
    assert_eq!(ledger.set_ups(&log).await, 1);
    ledger.check(&log).await;
}

async fn one_sequence_has_one_checkpoint(db: Db) {
    let ledger = Ledger { partition: Partition::global(), ..Ledger::new(&db) };
    let log = db.log().await;
    fill(&log).await;
    ledger.run_old(&log, |_| 0, &[250]).await;
    let import = Import::new("ledger").partition(&ledger.partition).checkpoint(0, 250);
    let plan = import.apply(&log).await.unwrap();
    assert_eq!((plan.strategy.as_str(), plan.partitions[0].slots), ("global", 1));
    ledger.set().catch_up(&log).await.unwrap();
    assert_eq!(ledger.check(&log).await, 50);
}

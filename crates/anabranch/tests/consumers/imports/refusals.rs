//! What an import leaves alone: everything in a dry run, and what it would lose or repeat.

use super::ledger::{EVENTS, Ledger, STOPS, fill, fnv1a, import, with_old};
use crate::on_both;
use crate::support::{Db, query, start, status, until};
use anabranch::HashRule;
use anabranch::operate::Before;
use anabranch::operate::{Consumers, Import, ImportError, Refusal};
use anabranch::partitioning::Strategy;
use anabranch::prelude::*;

on_both! {
    partitions_that_are_no_sets_of_slots_need_one_position,
    a_dry_run_changes_nothing,
    what_would_lose_or_repeat_events_is_refused,
    a_consumer_that_has_run_is_replaced_only_if_asked,
    a_running_consumer_is_not_touched,
    a_second_import_corrects_the_first,
    a_view_begins_at_the_start,
}

async fn partitions_that_are_no_sets_of_slots_need_one_position(db: Db) {
    let ledger = Ledger::new(&db);
    let log = db.log().await;
    fill(&log).await;
    let mut stops = [140; 11];
    ledger.run_old(&log, fnv1a, &stops).await;
    stops[3] = 139;
    let refused = import(&stops).check(&log).await.unwrap().refusals;
    let (lowest, highest) = (Position::new(139), Position::new(140));
    assert_eq!(refused, [Refusal::Uneven { total: 11, lowest, highest }]);
    assert!(refused[0].to_string().contains("or give 139 for all"), "{}", refused[0]);
    stops[3] = 140;
    let plan = import(&stops).apply(&log).await.unwrap();
    assert_eq!(plan.cursors, 1);
    ledger.set().lanes(3).catch_up(&log).await.unwrap();
    assert_eq!(ledger.check(&log).await, EVENTS - 140);
}

/// All that is kept about consumers, as text.
async fn kept(db: &Db, log: &Log) -> Vec<String> {
    let mut all = Vec::new();
    for table in ["consumers", "cursors", "parked_keys", "parked_events"] {
        let table = log.store().database().dialect().table(table);
        let rows = query(log, &format!("SELECT * FROM {table} ORDER BY 1"), vec![]).await;
        all.extend(rows.iter().map(|row| format!("{table} {row:?}")));
    }
    let ledger = Ledger::new(db).table;
    for table in [ledger.clone(), format!("{ledger}_set_ups")] {
        all.extend(
            query(log, &format!("SELECT * FROM {table}"), vec![])
                .await
                .iter()
                .map(|row| format!("{row:?}")),
        );
    }
    all
}

async fn a_dry_run_changes_nothing(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    for step in 0..3 {
        let before = kept(&db, &log).await;
        let plan = import(&STOPS).check(&log).await.unwrap();
        assert_eq!(plan.partitions.len(), 3);
        let lags: Vec<u64> = plan.partitions.iter().map(|partition| partition.lag).collect();
        assert_eq!(lags, [180, 300, 23]);
        assert_eq!((plan.minimum, plan.lag, plan.cursors), (Position::START, 300, 3));
        let expected = [Before::Nothing, Before::Imported, Before::Consumer][step];
        assert_eq!((plan.before, plan.refusals.is_empty()), (expected, step < 2));
        assert_eq!(kept(&db, &log).await, before, "{expected:?}");
        match step {
            0 => drop(import(&STOPS).apply(&log).await.unwrap()),
            1 => drop(ledger.set().catch_up(&log).await.unwrap()),
            _ => {}
        }
    }
    let before = kept(&db, &log).await;
    import(&STOPS).apply(&log).await.unwrap_err();
    assert_eq!(kept(&db, &log).await, before, "nor does an import that is refused");
}

async fn what_would_lose_or_repeat_events_is_refused(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    let of = |checkpoints: &[(u16, u64)]| {
        let all = checkpoints.iter().map(|(index, at)| (*index, Position::new(*at)));
        Import::new("ledger").partitions(3).checkpoints(all)
    };
    for (import, expected) in [
        (of(&[(0, 1), (2, 1)]), "no checkpoint for partition 1 of 3; add it, with position 0"),
        (of(&[]), "no checkpoint for partition 0, 1, 2 of 3"),
        (of(&[(0, 1), (1, 1), (2, 1), (1, 1)]), "two checkpoints for partition 1"),
        (of(&[(0, 1), (1, 1), (2, 1), (3, 1)]), "for partition 3, but 3 partitions are 0 to 2"),
        (of(&[(0, 1), (1, 301), (2, 1)]), "partition 1 stands at 301, and the log ends at 300"),
        (of(&[]).partitions(0), "there cannot be 0 partitions; use 1 to 5040"),
        (of(&[]).partitions(5041), "there cannot be 5041 partitions"),
        (of(&[(0, 1), (1, 1), (2, 1)]).strategy(Strategy::Global), "has 1 partition and not 3"),
        (Import::new("1edger").checkpoint(0, 1), "beginning with a letter"),
    ] {
        let planned = import.check(&log).await.unwrap().refusals;
        let said = planned.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(said.contains(expected), "{expected}: {said}");
        let error = import.apply(&log).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let ImportError::Refused { refusals, .. } = error else { panic!("{error}") };
        assert_eq!(refusals, planned);
    }
    assert!(Consumers::new(&log).list().await.unwrap().is_empty(), "nothing was kept");
}

async fn a_consumer_that_has_run_is_replaced_only_if_asked(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    import(&[100, 100, 100]).apply(&log).await.unwrap();
    ledger.set().catch_up(&log).await.unwrap();
    fill(&log).await;
    let error = import(&[310, 290, 300]).apply(&log).await.unwrap_err().to_string();
    assert!(error.contains("stands at 300: it would handle up to 10 positions again"), "{error}");
    assert!(error.contains("leave out up to 10"), "{error}");
    let other = import(&[310, 290, 300]).rule(HashRule::Md5).replace(true);
    let error = other.apply(&log).await.unwrap_err().to_string();
    assert!(
        error.contains("is partitioned by entity, fnv1a, and these positions are for"),
        "{error}"
    );
    let plan = import(&[310, 290, 300]).replace(true).apply(&log).await.unwrap();
    let changes: Vec<_> = plan.partitions.iter().map(|p| (p.repeats, p.leaves_out)).collect();
    assert_eq!(changes, [(0, 10), (10, 0), (0, 0)]);
    let epochs: Vec<i64> = status(&log, "ledger").await.cursors.iter().map(|c| c.epoch).collect();
    assert!(epochs.iter().all(|epoch| *epoch > 1), "above the old ones: {epochs:?}");
    ledger.set().catch_up(&log).await.unwrap();
    assert_eq!(ledger.set_ups(&log).await, 1, "it was set up already");
}

async fn a_running_consumer_is_not_touched(db: Db) {
    let ledger = Ledger::new(&db);
    let log = with_old(&db, &ledger, STOPS).await;
    import(&STOPS).apply(&log).await.unwrap();
    let running = start(&log, ledger.set());
    until("it to run", async || (status(&log, "ledger").await.lag == 0).then_some(())).await;
    let planned = import(&STOPS).replace(true).check(&log).await.unwrap().refusals;
    assert!(matches!(&planned[..], [Refusal::Running { .. }]), "{planned:?}");
    assert!(planned[0].to_string().contains("it is run by s on "), "{}", planned[0]);
    import(&STOPS).replace(true).apply(&log).await.unwrap_err();
    running.stop().await;
    ledger.check(&log).await;
    let plan = import(&STOPS).replace(true).check(&log).await.unwrap();
    assert!(plan.refusals.is_empty(), "a stopped one can be: {plan:?}");
}

async fn a_second_import_corrects_the_first(db: Db) {
    let ledger = Ledger::by(&db, HashRule::Md5);
    let log = db.log().await;
    fill(&log).await;
    ledger.run_old(&log, HashRule::md5_128, &STOPS).await;
    Import::new("ledger").strategy(Strategy::Global).checkpoint(0, 7).apply(&log).await.unwrap();
    let plan = import(&STOPS).rule(HashRule::Md5).apply(&log).await.unwrap();
    assert_eq!(plan.before, Before::Imported);
    assert_eq!(status(&log, "ledger").await.strategy, "entity, md5");
    ledger.set().lanes(2).catch_up(&log).await.unwrap();
    ledger.check(&log).await;
}

struct Counts;

impl View for Counts {
    type State = u64;

    fn name(&self) -> &str {
        "counts"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn apply(&self, state: &mut u64, _: &Event) -> HandlerResult {
        *state += 1;
        Ok(())
    }
}

/// Its table is made when it first runs, so what the old runners have done is not in it.
async fn a_view_begins_at_the_start(db: Db) {
    let log = db.log().await;
    fill(&log).await;
    let import = Import::new("counts").checkpoint(0, 100);
    import.apply(&log).await.unwrap();
    let set = || ReplicaSet::new("s").view(Counts);
    let error = set().catch_up(&log).await.unwrap_err().to_string();
    assert!(error.contains("a view is folded from the first event on"), "{error}");
    Consumers::new(&log).forget("counts").await.unwrap();
    set().catch_up(&log).await.unwrap();
    let refused = import.replace(true).check(&log).await.unwrap().refusals;
    assert_eq!(refused, [Refusal::View]);
}

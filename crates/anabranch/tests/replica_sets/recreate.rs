//! The recreate rollout: no handler of the next generation starts before the last of this one ended.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::running::Rollout;

on_both! {
    nobody_starts_before_the_last_has_ended,
    a_worker_that_does_not_run_it_is_not_waited_for,
}

/// A handler sits in one lane of the first worker. Cooperatively the second one would take what the
/// other lane releases its slots (see `a_lane_that_is_busy_holds_up_only_its_own_slots`); here it waits.
async fn nobody_starts_before_the_last_has_ended(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let gate = Gate::default();
    let set = |recorder| {
        let set = ReplicaSet::new("s").projection(recorder).rollout(Rollout::Recreate);
        set.lanes(2).tuning(quick())
    };
    let first = recorder.clone().worker("first").hook(gate.hook());
    let first = start(&db.log().await, set(first));
    until_shared(&log, "orders", 1).await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    let second = start(&db.log().await, set(recorder.clone().worker("second")));
    // The free lane releases everything, not only of what moves.
    until("free slots", async || {
        let cursors = status(&log, "orders").await.cursors;
        let free = cursors.iter().filter(|c| c.owner == anabranch::operate::Owner::Unassigned);
        (free.map(|cursor| cursor.slot_count).sum::<usize>() == 2520).then_some(())
    })
    .await;
    fill(&log, 0..40, 1..=2).await;
    until_beats(&log, 3).await;
    assert_eq!(proof(&log, &table).await.handled, 0, "the barrier holds");
    gate.open();
    until_shared(&log, "orders", 2).await;
    until("all", async || (proof(&log, &table).await.handled >= 81).then_some(())).await;
    first.stop().await;
    second.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 81, doubled: 0, keys: 41, wrong: 0 });
}

/// A handler sits in a consumer that only one worker runs. Others wait for that worker in what they share
/// with it, and in nothing else.
async fn a_worker_that_does_not_run_it_is_not_waited_for(db: Db) {
    let log = db.log().await;
    let gate = Gate::default();
    let set = || ReplicaSet::new("s").rollout(Rollout::Recreate).lanes(2).tuning(quick());
    let (alone, both, other) = (db.recorder("alone"), db.recorder("both"), db.recorder("other"));
    let first = set().projection(alone.clone().hook(gate.hook())).projection(both.clone());
    let first = start(&db.log().await, first);
    until_shared(&log, "alone", 1).await;
    until_shared(&log, "both", 1).await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    let second = start(&db.log().await, set().projection(both.clone()).projection(other.clone()));
    // It may begin with what is its own, though the first one cannot release what it sits in.
    until_shared(&log, "other", 1).await;
    fill(&log, 0..40, 1..=2).await;
    until("what is its own", async || {
        (proof(&log, &other.table).await.handled >= 81).then_some(())
    })
    .await;
    until_beats(&log, 3).await;
    let handled = proof(&log, &both.table).await.handled;
    assert!(handled <= 1, "the barrier holds for what both run: {handled}");
    assert_eq!(proof(&log, &alone.table).await.handled, 0);
    gate.open();
    until_shared(&log, "both", 2).await;
    until_shared(&log, "alone", 1).await;
    for recorder in [&alone, &both, &other] {
        until("all", async || (proof(&log, &recorder.table).await.handled >= 81).then_some(()))
            .await;
        let all = Proof { handled: 81, doubled: 0, keys: 41, wrong: 0 };
        assert_eq!(proof(&log, &recorder.table).await, all, "{}", recorder.name);
    }
    first.stop().await;
    second.stop().await;
}

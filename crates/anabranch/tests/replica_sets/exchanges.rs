//! Consumers of a set that runs are replaced, added and removed: every event is handled once and in order meanwhile, and
//! what is kept never releases a slot.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::support::*;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::running::SetHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

on_both! {
    only_what_changes_is_handed_over,
    among_several_workers_each_event_is_handled_once,
    what_is_refused_does_not_stop_the_others,
    a_handler_that_is_at_work_finishes_first,
    one_that_takes_long_to_begin_holds_up_nobody,
}

/// A projection whose tables take for ever to be made.
struct Endless {
    has_begun: Arc<AtomicBool>,
}

impl Projection for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn set_up(&self, _: &mut Tx) -> HandlerResult {
        self.has_begun.store(true, Ordering::SeqCst);
        std::future::pending().await
    }

    async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
        Ok(())
    }
}

fn recorder(db: &Db, name: &str, worker: &str) -> Recorder {
    db.recorder(name).worker(worker).settings(Settings::default().batch_size(7))
}

fn set() -> ReplicaSet {
    ReplicaSet::new("s").lanes(2).tuning(quick())
}

/// The cursors of a consumer with their epochs: who claims or releases one raises it.
async fn epochs(log: &Log, consumer: &str) -> Vec<(i64, i64)> {
    let cursors = table_of(log, "cursors");
    let select =
        format!("SELECT id, epoch FROM {cursors} WHERE consumer = '{consumer}' ORDER BY id");
    let rows = query(log, &select, vec![]).await;
    rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect()
}

/// Cursors that stand at the same place may have become one meanwhile.
async fn never_released(log: &Log, before: &[(i64, i64)]) {
    let now = epochs(log, "kept").await;
    let is_same = now.iter().all(|cursor| before.contains(cursor));
    assert!(is_same && !now.is_empty(), "what is kept has been handed over: {before:?}, {now:?}");
}

async fn until_by(log: &Log, table: &str, worker: &str) {
    until("events by another one", async || {
        let select = format!("SELECT count(*) FROM {table} WHERE worker = '{worker}'");
        (number(log, &select).await > 0).then_some(())
    })
    .await;
}

async fn only_what_changes_is_handed_over(db: Db) {
    let log = db.log().await;
    let appender = Appender::start(&log);
    let handle = SetHandle::new();
    let first = set()
        .projection(recorder(&db, "kept", "first"))
        .projection(recorder(&db, "changed", "first"))
        .projection(recorder(&db, "removed", "first"));
    let running = start(&db.log().await, first.handle(&handle));
    for name in ["kept", "changed", "removed"] {
        until_shared(&log, name, 1).await;
        until_by(&log, &db.recorder(name).table, "first").await;
    }
    let before = epochs(&log, "kept").await;

    let second = set()
        .projection(recorder(&db, "kept", "second"))
        .projection(recorder(&db, "changed", "second"))
        .projection(recorder(&db, "added", "second"));
    handle.exchange(second, |name| name == "kept").unwrap();
    for name in ["changed", "added"] {
        until_by(&log, &db.recorder(name).table, "second").await;
        until_shared(&log, name, 1).await;
    }
    until("what is removed to be released", async || {
        let workers = Consumers::new(&log).workers().await.unwrap();
        let is_run = workers.iter().any(|worker| worker.runs("removed").is_some());
        let is_owned = owned(&log, "removed").await.is_some();
        (!is_run && !is_owned).then_some(())
    })
    .await;
    never_released(&log, &before).await;
    assert_eq!(handlers(&log, &db.recorder("kept").table).await.len(), 1);

    // What was removed goes on where it was when it is there again.
    let third = set()
        .projection(recorder(&db, "kept", "third"))
        .projection(recorder(&db, "changed", "third"))
        .projection(recorder(&db, "added", "third"))
        .projection(recorder(&db, "removed", "third"));
    handle.exchange(third, |name| name != "removed").unwrap();
    until_by(&log, &db.recorder("removed").table, "third").await;
    let each = appender.finish().await;
    for name in ["kept", "changed", "removed", "added"] {
        until_proven(&log, &db.recorder(name).table, Appender::STREAMS, each).await;
    }
    never_released(&log, &before).await;
    running.stop().await;
}

async fn among_several_workers_each_event_is_handled_once(db: Db) {
    let log = db.log().await;
    let appender = Appender::start(&log);
    let handles = [SetHandle::new(), SetHandle::new()];
    let both = |worker: &str| {
        set().projection(recorder(&db, "kept", worker)).projection(recorder(&db, "changed", worker))
    };
    let mut running = Vec::new();
    for (number, handle) in handles.iter().enumerate() {
        let set = both(&format!("old-{number}")).handle(handle);
        running.push(start(&db.log().await, set));
    }
    until_shared(&log, "kept", 2).await;
    until_shared(&log, "changed", 2).await;
    let before = epochs(&log, "kept").await;
    for (number, handle) in handles.iter().enumerate() {
        let worker = format!("new-{number}");
        handle.exchange(both(&worker), |name| name == "kept").unwrap();
        until_by(&log, &db.recorder("changed").table, &worker).await;
        until_shared(&log, "changed", 2).await;
    }
    never_released(&log, &before).await;
    let each = appender.finish().await;
    for name in ["kept", "changed"] {
        until_proven(&log, &db.recorder(name).table, Appender::STREAMS, each).await;
    }
    for running in running {
        running.stop().await;
    }
}

async fn what_is_refused_does_not_stop_the_others(db: Db) {
    let log = db.log().await;
    let appender = Appender::start(&log);
    let handle = SetHandle::new();
    let two = |changed: Recorder| set().projection(recorder(&db, "kept", "w")).projection(changed);
    let running = start(&log, two(recorder(&db, "changed", "w")).handle(&handle));
    until_shared(&log, "changed", 1).await;
    until_by(&log, &db.recorder("changed").table, "w").await;
    let other = recorder(&db, "changed", "refused").partition(Partition::customer());
    handle.exchange(two(other), |name| name == "kept").unwrap();
    until("the refusal", async || {
        let workers = Consumers::new(&log).workers().await.unwrap();
        let runner = workers.iter().find_map(|worker| worker.runs("changed"))?;
        runner.unable.as_ref().filter(|why| why.contains("it was partitioned by")).map(drop)
    })
    .await;
    assert!(!running.has_ended());
    let refused = set();
    assert!(handle.exchange(refused, |_| false).is_err(), "a set without consumers cannot run");
    handle.exchange(two(recorder(&db, "changed", "again")), |name| name == "kept").unwrap();
    until_by(&log, &db.recorder("changed").table, "again").await;
    let each = appender.finish().await;
    for name in ["kept", "changed"] {
        until_proven(&log, &db.recorder(name).table, Appender::STREAMS, each).await;
    }
    running.stop().await;
}

async fn a_handler_that_is_at_work_finishes_first(db: Db) {
    let log = db.log().await;
    let (gate, handle) = (Gate::default(), SetHandle::new());
    let old = recorder(&db, "a", "old").hook(gate.hook());
    let running = start(&log, set().projection(old).handle(&handle));
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    handle.exchange(set().projection(recorder(&db, "a", "new")), |_| false).unwrap();
    fill(&log, 0..3, 1..=1).await;
    gate.open();
    until_proven(&log, &db.recorder("a").table, 4, 1).await;
    until_shared(&log, "a", 1).await;
    fill(&log, 0..3, 2..=2).await;
    until_by(&log, &db.recorder("a").table, "new").await;
    running.stop().await;
}

/// The worker goes on with the others, follows who joins, and hears that it is to stop.
async fn one_that_takes_long_to_begin_holds_up_nobody(db: Db) {
    let log = db.log().await;
    let handle = SetHandle::new();
    let kept = || set().projection(recorder(&db, "kept", "first"));
    let running = start(&db.log().await, kept().handle(&handle));
    until_shared(&log, "kept", 1).await;
    let has_begun = Arc::new(AtomicBool::new(false));
    let endless = Endless { has_begun: Arc::clone(&has_begun) };
    handle.exchange(kept().projection(endless), |name| name == "kept").unwrap();
    until("it to begin", async || has_begun.load(Ordering::SeqCst).then_some(())).await;
    // Slots are released for another one, and claimed again when it has left.
    let second = start(&db.log().await, set().projection(recorder(&db, "kept", "second")));
    until_shared(&log, "kept", 2).await;
    second.stop().await;
    until_shared(&log, "kept", 1).await;
    running.stop().await;
}

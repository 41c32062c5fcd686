//! `status` names why something does not advance.

use crate::crew::*;
use crate::gates::*;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::backend::database::{End, Statement};
use anabranch::operate::{Consumers, Reason};
use anabranch::prelude::*;
use anabranch::{Failure, HandlerError, Retry};
use std::time::Duration;

on_both! {
    an_unassigned_slot,
    a_parked_key,
    a_failing_handler,
    a_handler_whose_only_failure_is_parked_is_not_failing,
    a_paused_consumer,
    a_batch_that_takes_long,
    nothing_to_say_when_all_is_well,
}

on_postgres! {
    a_blocked_lane_with_the_pid_that_blocks_it,
    a_missing_wake,
}

/// Waits until some cursor of `orders` has a reason, and returns it.
async fn until_reason(log: &Log, what: &str, wanted: impl Fn(&Reason) -> bool) -> Reason {
    until(what, async || {
        // There is none before it first runs.
        let status = Consumers::new(log).status("orders").await.ok()?;
        status.cursors.into_iter().flat_map(|cursor| cursor.reasons).find(&wanted)
    })
    .await
}

async fn an_unassigned_slot(db: Db) {
    let log = db.log().await;
    let set = || ReplicaSet::new("s").projection(db.recorder("orders"));
    set().catch_up(&log).await.unwrap();
    let reasons = |status: anabranch::operate::ConsumerStatus| -> Vec<(usize, Vec<Reason>)> {
        status.cursors.into_iter().map(|cursor| (cursor.slot_count, cursor.reasons)).collect()
    };
    let idle = reasons(status(&log, "orders").await);
    assert!(idle.iter().all(|(_, reasons)| *reasons == [Reason::Unassigned]), "{idle:?}");
    // One partition of three runs: two thirds are unassigned, and say why.
    let fixed = start(&db.log().await, set().partition("0/3".parse().unwrap()));
    let mut partly = until("its partition", async || {
        let found = reasons(status(&log, "orders").await);
        found.iter().any(|(slots, _)| *slots == 1680).then_some(found)
    })
    .await;
    partly.sort_by_key(|(slots, _)| *slots);
    assert_eq!(partly[0], (1680, vec![]));
    let (slots, reasons) = &partly[1];
    let text = reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let only = format!(":{} (partition 0 of 3)", std::process::id());
    assert!(*slots == 3360 && text.starts_with("unassigned: only other slots"), "{text}");
    assert!(text.ends_with(&only), "{text}");
    fixed.stop().await;
}

async fn a_parked_key(db: Db) {
    let log = db.log().await;
    let park = Settings::default().retry(Retry::never().then(Failure::Park));
    let recorder = db.recorder("orders").settings(park);
    let bad = recorder.hook(|event| match event.stream_id() {
        "3" => Err(HandlerError::new("not this one")),
        _ => Ok(()),
    });
    let running = start(&db.log().await, ReplicaSet::new("s").projection(bad).tuning(quick()));
    fill(&log, 0..6, 1..=2).await;
    let reason =
        until_reason(&log, "a parked key", |r| matches!(r, Reason::ParkedKeys { .. })).await;
    assert_eq!(reason, Reason::ParkedKeys { keys: 1 });
    assert_eq!(reason.to_string(), "1 parked key");
    running.stop().await;
}

async fn a_failing_handler(db: Db) {
    let log = db.log().await;
    let retry = Retry::default().attempts(1000).then(Failure::Stop);
    let settings = Settings::default().retry(retry);
    let bad = db
        .recorder("orders")
        .settings(settings)
        .hook(|_| Err(HandlerError::new("the bank is closed")));
    let running = start(&db.log().await, ReplicaSet::new("s").projection(bad).tuning(quick()));
    fill(&log, 0..1, 1..=1).await;
    let reason =
        until_reason(&log, "a failing handler", |r| matches!(r, Reason::Failing { .. })).await;
    let Reason::Failing { error, .. } = &reason else { unreachable!() };
    assert!(error.contains("the bank is closed"), "{error}");
    assert!(reason.to_string().starts_with("handler failing for "), "{reason}");
    running.crash();
}

async fn a_handler_whose_only_failure_is_parked_is_not_failing(db: Db) {
    let log = db.log().await;
    let park = Settings::default().retry(Retry::never().then(Failure::Park));
    let recorder = db.recorder("orders").settings(park);
    let bad = recorder.hook(|_| Err(HandlerError::new("not this one")));
    let running = start(&db.log().await, ReplicaSet::new("s").projection(bad).tuning(quick()));
    fill(&log, 0..1, 1..=1).await;
    // Its lane has said that it fails, and nothing has worked since.
    let consumers = Consumers::new(&log);
    until("the report of the lane", async || {
        let workers = serde_json::to_value(consumers.workers().await.unwrap()).unwrap();
        workers.to_string().contains("\"failing\"").then_some(())
    })
    .await;
    let status = until("the key is parked", async || {
        let status = consumers.status("orders").await.unwrap();
        (status.parked_keys == 1).then_some(status)
    })
    .await;
    let reasons: Vec<Reason> = status.cursors.into_iter().flat_map(|one| one.reasons).collect();
    assert!(reasons.contains(&Reason::ParkedKeys { keys: 1 }), "{reasons:?}");
    assert!(!reasons.iter().any(|one| matches!(one, Reason::Failing { .. })), "{reasons:?}");
    running.stop().await;
}

async fn a_paused_consumer(db: Db) {
    let log = db.log().await;
    let set = ReplicaSet::new("s").projection(db.recorder("orders")).tuning(quick());
    let running = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    Consumers::new(&log).pause("orders").await.unwrap();
    until_reason(&log, "a pause", |reason| *reason == Reason::Paused).await;
    running.stop().await;
}

async fn a_batch_that_takes_long(db: Db) {
    let log = db.log().await;
    let gate = Gate::default();
    let recorder = db.recorder("orders").hook(gate.hook());
    // On SQLite the open transaction of a handler would keep the heartbeat out: none is open here.
    let running = start(&db.log().await, ReplicaSet::new("s").projection(recorder).tuning(quick()));
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    until_reason(&log, "a long batch", |reason| matches!(reason, Reason::Busy { .. })).await;
    gate.open();
    running.stop().await;
}

async fn nothing_to_say_when_all_is_well(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let running = start(&db.log().await, ReplicaSet::new("s").projection(recorder).lanes(2));
    until_shared(&log, "orders", 1).await;
    fill(&log, 0..10, 1..=3).await;
    until_proven(&log, &table, 10, 3).await;
    until("nothing to say", async || {
        let cursors = status(&log, "orders").await.cursors;
        cursors.iter().all(|cursor| cursor.reasons.is_empty()).then_some(())
    })
    .await;
    running.stop().await;
}

async fn a_blocked_lane_with_the_pid_that_blocks_it(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let set = ReplicaSet::new("s").projection(recorder).lanes(3).tuning(quick());
    let running = start(&db.log().await, set);
    until_shared(&log, "orders", 1).await;
    let mut held = other.store().database().begin();
    let lock = vec![
        Statement::new(format!("LOCK TABLE {table}"), vec![]),
        Statement::query("SELECT pg_backend_pid() AS pid", vec![]),
    ];
    let open = End::Open { idle: Duration::from_secs(120) };
    let answers = held.run(lock, open).await.unwrap();
    let pid: i32 = answers[1].rows[0].get("pid").unwrap();
    fill(&log, 0..1, 1..=1).await;
    // One lane of three: the cursors of the others have nothing to say.
    let blocked = until("one blocked cursor", async || {
        let cursors = status(&log, "orders").await.cursors;
        let blocked = |r: &Reason| matches!(r, Reason::Blocked { .. });
        let mut found = cursors.iter().filter(|c| c.reasons.iter().any(blocked));
        let first = found.next()?;
        let rest = found.next();
        rest.is_none().then(|| first.reasons.clone())
    })
    .await;
    let said = blocked.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(matches!(&blocked[0], Reason::Blocked { by, .. } if *by == [pid]), "{blocked:?}");
    assert!(said.contains(&format!("by backend pid {pid}")), "{said}");
    drop(held);
    until_proven(&log, &table, 1, 1).await;
    running.stop().await;
}

/// Events that are written without a NOTIFY, as by a process that was cut off right after its commit.
async fn a_missing_wake(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let poll = quick().poll(Duration::from_millis(200));
    let running = start(&db.log().await, ReplicaSet::new("s").projection(recorder).tuning(poll));
    until_shared(&log, "orders", 1).await;
    fill(&log, 0..1, 1..=1).await;
    until_proven(&log, &table, 1, 1).await;
    let events = table_of(&log, "events");
    let columns = query(
        &log,
        "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns \
         WHERE table_schema = $1 AND table_name = 'events' \
         AND column_name NOT IN ('position', 'version', 'id', 'data')",
        params![&db.own],
    )
    .await;
    let columns: String = columns[0].get(0).unwrap();
    let mut number = 1;
    // Again and again: a worker that hears of the next event knows that wakes do arrive.
    let reason = until("a missing wake", async || {
        number += 1;
        let insert = format!(
            "INSERT INTO {events} (position, version, id, data, {columns}) \
             SELECT nextval(pg_get_serial_sequence('{events}', 'position')), {number}, \
             gen_random_uuid(), '{number}', {columns} FROM {events} WHERE version = 1"
        );
        query(&log, &insert, vec![]).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let cursors = status(&log, "orders").await.cursors;
        let reasons = cursors.into_iter().flat_map(|cursor| cursor.reasons);
        reasons.into_iter().find(|reason| matches!(reason, Reason::NoWake { .. }))
    })
    .await;
    assert!(reason.to_string().contains("found by polling"), "{reason}");
    running.stop().await;
}

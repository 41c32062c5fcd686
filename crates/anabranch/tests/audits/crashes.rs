//! Workers that crash, events that poison, and audits all the while. (`anabranch chaos` does the same to processes, by
//! kill -9, and audits them.)

use crate::on_both;
use crate::proofs::{STREAMS, proven};
use crate::support::{Db, Proof, fill, proof, start, until};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{HandlerError, Retry, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    crashes_and_poison_are_proven,
}

async fn crashes_and_poison_are_proven(db: Db) {
    let log = db.log().await;
    let calls = Arc::new(AtomicU64::new(0));
    // Some events fail now and then, and those of two orders for good.
    let hook = move |event: &Event| match (event.stream_id(), event.version() % 5) {
        ("3" | "11", 4) => Err(HandlerError::for_good("poison")),
        _ if calls.fetch_add(1, Ordering::Relaxed) % 29 == 28 => Err(HandlerError::new("again")),
        _ => Ok(()),
    };
    let retry = Retry::default().first(Duration::from_millis(1)).attempts(20);
    let settings = Settings::default().audit(true).batch_size(8).retry(retry);
    let recorder = db.recorder("orders").settings(settings).hook(hook);
    let table = recorder.table.clone();
    let set = || ReplicaSet::new("s").projection(recorder.clone()).lanes(2);
    // A crash is seen at once; only a worker that stands still is taken for dead by its lease.
    let tuning = Tuning::default().lease(Duration::from_secs(3));
    let set = || set().tuning(tuning.heartbeat(Duration::from_millis(100)));
    let mut workers = vec![start(&db.log().await, set()), start(&db.log().await, set())];
    let consumers = Consumers::new(&log);
    until("the consumer", async || consumers.status("orders").await.ok()).await;
    let mut handed = 0;
    for round in 0..6_u64 {
        fill(&log, 0..STREAMS, round * 10 + 1..=round * 10 + 10).await;
        workers.remove(0).crash();
        workers.push(start(&db.log().await, set()));
        handed += proven(&log, "orders").await.proven.handed;
        until("most of it", async || {
            let status = consumers.status("orders").await.ok()?;
            (status.lag_ready < 200).then_some(())
        })
        .await;
    }
    // Poison is left out, key by key, until there is none.
    let mut skipped = 0;
    until("the end", async || {
        for key in consumers.parked("orders").await.ok()? {
            let _ = consumers.skip_parked("orders", &key.key).await;
        }
        let audited = proven(&log, "orders").await.proven;
        handed += audited.handed;
        skipped += audited.skipped;
        let status = consumers.status("orders").await.ok()?;
        (status.lag == 0 && audited.aside == 0).then_some(())
    })
    .await;
    for worker in workers {
        worker.stop().await;
    }
    let last = proven(&log, "orders").await.proven;
    assert_eq!((last.aside, last.up_to), (0, log.head().await.unwrap()));
    // Of each of two orders every fifth is left out; and whatever else somebody asked for while it was set aside.
    assert!(skipped + last.skipped >= 24, "{skipped} {last:?}");
    assert_eq!(handed + last.handed + skipped + last.skipped, STREAMS * 60);
    let Proof { handled, doubled, .. } = proof(&log, &table).await;
    assert_eq!((handled as u64, doubled), (handed + last.handed, 0));
}

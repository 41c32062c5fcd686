//! A pool whose tasks all fail stops alone, and goes on when what they need is back.

use crate::ledger::*;
use crate::on_both;
use crate::support::*;
use anabranch::operate::{Consumers, Outage};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, OutsidePool, Run, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use anabranch::{Failure, HandlerError, Retry, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

on_both!(
    a_pool_that_is_to_stop_stops_alone_and_goes_on_when_cured,
    a_pool_whose_tasks_all_fail_is_tried_with_one_task,
    an_outside_pool_whose_tasks_all_fail_is_tried_with_one_task,
    a_broken_pool_is_noticed_however_many_lanes_share_its_keys,
    a_try_that_fails_for_good_ends_one_task,
    keys_that_fail_for_ever_keep_out_nobody,
    a_try_that_is_asked_for_patience_has_it,
);

const LONG: Duration = Duration::from_secs(60);

fn set() -> ReplicaSet {
    let quick = Tuning::default().probes(Duration::from_millis(20), Duration::from_millis(80));
    ReplicaSet::new("work").tuning(quick)
}

async fn tried(log: &Log, times: u64) -> Outage {
    until(&format!("{times} tries"), async || {
        let outage = Consumers::new(log).status("ledger").await.ok()?.outage;
        outage.filter(|outage| outage.probes >= times)
    })
    .await
}

async fn a_pool_that_is_to_stop_stops_alone_and_goes_on_when_cured(db: Db) {
    let log = db.log().await;
    let cured = Arc::new(AtomicBool::new(false));
    let settings = PoolSettings::default().retry(Retry::never().then(Failure::Stop));
    let is_cured = Arc::clone(&cured);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings).hook(move |task| {
        match task.payload::<i64>()? == 2 && !is_cured.load(Ordering::SeqCst) {
            true => Err(HandlerError::new("no account")),
            false => Ok(()),
        }
    });
    let orders = db.recorder("orders");
    let worker = start(&log, set().pool(ledger.clone()).projection(orders.clone()).lanes(2));
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(1, 3)).await.unwrap();
    let outage = tried(&log, 3).await;
    assert!(outage.error.contains("of key `key-0` failed: no account"), "{outage}");
    assert_eq!(ledger.of_key(&log, "key-0").await, [1], "nothing passes it");
    fill(&log, 0..20, 1..=1).await;
    until("the projection to go on", async || {
        (proof(&log, &orders.table).await.handled == 20).then_some(())
    })
    .await;
    cured.store(true, Ordering::SeqCst);
    for id in ids {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
    assert_eq!(ledger.of_key(&log, "key-0").await, [1, 2, 3]);
    until("no outage", async || status(&log, "ledger").await.outage.is_none().then_some(())).await;
    worker.stop().await;
}

/// Fails until it is cured, and counts.
#[derive(Clone, Default)]
struct Sick {
    cured: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

impl Sick {
    fn call(&self) -> HandlerResult {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match self.cured.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(HandlerError::new("connection refused")),
        }
    }

    /// Sees it stopped, counts its tries, cures it and sees it done.
    async fn is_tried_and_cured(&self, log: &Log) {
        let tasks = Tasks::new(log, "ledger");
        let ids = tasks.enqueue_all(counted(400, 2)).await.unwrap();
        tried(log, 2).await;
        let before = (tried(log, 0).await.probes, self.calls.load(Ordering::SeqCst));
        let probes = tried(log, before.0 + 8).await.probes - before.0;
        let calls = self.calls.load(Ordering::SeqCst) - before.1;
        assert!(calls <= probes + 1, "{calls} calls in {probes} tries");
        assert!(tasks.list(TaskState::Dead, 10).await.unwrap().is_empty());
        self.cured.store(true, Ordering::SeqCst);
        for id in ids {
            assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
        }
    }
}

fn patient() -> PoolSettings {
    let retry = Retry::default().first(Duration::from_millis(300)).attempts(50);
    PoolSettings::default().retry(retry.longest(Duration::from_secs(1)))
}

async fn a_pool_whose_tasks_all_fail_is_tried_with_one_task(db: Db) {
    let log = db.log().await;
    let sick = Sick::default();
    let call = sick.clone();
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(patient());
    let worker = start(&log, set().pool(ledger.clone().hook(move |_| call.call())));
    sick.is_tried_and_cured(&log).await;
    assert_eq!(ledger.proof(&log).await, (800, 0));
    worker.stop().await;
}

impl OutsidePool for Sick {
    type Output = ();

    fn name(&self) -> &str {
        "ledger"
    }

    fn settings(&self) -> PoolSettings {
        patient()
    }

    async fn run(&self, _: &Task, _: &mut Run) -> HandlerResult {
        self.call()
    }
}

async fn an_outside_pool_whose_tasks_all_fail_is_tried_with_one_task(db: Db) {
    let log = db.log().await;
    let sick = Sick::default();
    let worker = start(&log, set().outside_pool(sick.clone()));
    sick.is_tried_and_cured(&log).await;
    worker.stop().await;
}

/// Each lane has fewer keys than are too many; together they have more. None of their tasks is given up.
async fn a_broken_pool_is_noticed_however_many_lanes_share_its_keys(db: Db) {
    let log = db.log().await;
    let (sick, retry) = (Sick::default(), Retry::default().attempts(9));
    let retry = retry.first(LONG * 60).longest(LONG * 60);
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let ledger = ledger.settings(PoolSettings::default().retry(retry));
    let worker = start(&log, set().lanes(4).pool(ledger.hook(move |_| sick.call())));
    Tasks::new(&log, "ledger").enqueue_all(counted(150, 1)).await.unwrap();
    tried(&log, 1).await;
    worker.stop().await;
}

/// The world is broken, and some say that it is their task's fault.
async fn a_try_that_fails_for_good_ends_one_task(db: Db) {
    let log = db.log().await;
    let (cured, for_good) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (is_cured, is_for_good) = (Arc::clone(&cured), Arc::clone(&for_good));
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(patient()).hook(move |_| {
        match (is_cured.load(Ordering::SeqCst), is_for_good.load(Ordering::SeqCst)) {
            (true, _) => Ok(()),
            (false, true) => Err(HandlerError::for_good("404")),
            (false, false) => Err(HandlerError::new("502")),
        }
    });
    let worker = start(&log, set().pool(ledger));
    let tasks = Tasks::new(&log, "ledger");
    tasks.enqueue_all(counted(400, 1)).await.unwrap();
    let before = tried(&log, 1).await;
    for_good.store(true, Ordering::SeqCst);
    let now = tried(&log, before.probes + 6).await;
    assert_eq!(now.since, before.since, "it goes on");
    let dead = tasks.list(TaskState::Dead, 100).await.unwrap().len() as u64;
    let probes = tried(&log, 1).await.probes - before.probes;
    assert!(dead > 0 && dead <= probes + 1, "{dead} tasks after {probes} tries");
    cured.store(true, Ordering::SeqCst);
    until("no outage", async || status(&log, "ledger").await.outage.is_none().then_some(())).await;
    worker.stop().await;
}

/// The next try comes when a task said, and not after the short pauses; `resume` tries at once.
async fn a_try_that_is_asked_for_patience_has_it(db: Db) {
    let log = db.log().await;
    let half_an_hour = Duration::from_secs(1800);
    let (cured, asks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (is_cured, does_ask) = (Arc::clone(&cured), Arc::clone(&asks));
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(patient()).hook(move |_| {
        match (is_cured.load(Ordering::SeqCst), does_ask.load(Ordering::SeqCst)) {
            (true, _) => Ok(()),
            (false, true) => Err(HandlerError::try_after(half_an_hour, "503, come back later")),
            (false, false) => Err(HandlerError::new("502")),
        }
    });
    let worker = start(&log, set().pool(ledger.clone()));
    Tasks::new(&log, "ledger").enqueue_all(counted(400, 1)).await.unwrap();
    tried(&log, 1).await;
    asks.store(true, Ordering::SeqCst);
    let outage = until("patience", async || {
        let outage = status(&log, "ledger").await.outage?;
        outage.error.contains("come back later").then_some(outage)
    })
    .await;
    assert!((900_000..=1_800_000).contains(&outage.next_ms.unwrap()), "{outage}");
    cured.store(true, Ordering::SeqCst);
    Consumers::new(&log).resume("ledger").await.unwrap();
    until("all", async || (ledger.proof(&log).await == (400, 0)).then_some(())).await;
    worker.stop().await;
}

/// They stop the pool, since nothing else was there to show that it works; what comes then is found by its tries,
/// whichever lane of whichever worker owns it.
async fn keys_that_fail_for_ever_keep_out_nobody(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(patient()).hook(|task| match task
        .key()
        .starts_with("bad")
    {
        true => Err(HandlerError::new("this account is closed")),
        false => Ok(()),
    });
    let set = || set().pool(ledger.clone()).lanes(3);
    let (one, other) = (start(&log, set()), start(&db.log().await, set()));
    let tasks = Tasks::new(&log, "ledger");
    let bad = (0..60).map(|number| NewTask::new(format!("bad-{number}"), &1));
    tasks.enqueue_all(bad.collect()).await.unwrap();
    tried(&log, 2).await;
    let good = (0..20).map(|number| NewTask::new(format!("good-{number}"), &1));
    for task in tasks.enqueue_all(good.collect()).await.unwrap() {
        assert_eq!(tasks.wait(task.id, LONG).await.unwrap().state, TaskState::Done);
    }
    one.stop().await;
    other.stop().await;
}

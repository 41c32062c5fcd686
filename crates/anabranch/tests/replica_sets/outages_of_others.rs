//! Somebody else's outage: an endpoint that refuses connections, a worker whose handler alone fails, one
//! that dies while it tries. The rest of the fleet goes on, and so does everything when the world is back.

use crate::crew::{handlers, quick, until_proven, until_shared};
use crate::endpoint::{Caller, Endpoint};
use crate::on_both;
use crate::support::*;
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::workpool::PoolSettings;
use anabranch::workpool::{NewTask, Pool, Task, Tasks};
use anabranch::{HandlerError, Retry, RunError, Tuning};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

on_both! {
    an_endpoint_that_is_away_stops_its_subscriber_alone,
    one_bad_canary_stops_nobody_and_comes_back_when_cured,
    a_worker_that_dies_while_it_tries_holds_up_nobody,
    a_try_that_hangs_does_not_end_the_outage,
    what_fails_in_a_catch_up_is_done_by_others,
    a_catch_up_does_not_wait_for_those_who_never_own_its_slots,
}

const WORKERS: usize = 3;

fn tuning() -> Tuning {
    quick().probes(Duration::from_millis(30), Duration::from_millis(120))
}

/// A pool that counts what it has run.
struct Counted(Arc<AtomicU64>);

impl Pool for Counted {
    type Output = ();
    fn name(&self) -> &str {
        "counted"
    }
    fn settings(&self) -> PoolSettings {
        PoolSettings::default()
    }
    async fn run(&self, _: &Task, _: &mut Tx) -> HandlerResult {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

async fn an_endpoint_that_is_away_stops_its_subscriber_alone(db: Db) {
    let log = db.log().await;
    let mut endpoint = Endpoint::open().await;
    let (calls, ran) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let recorder = db.recorder("orders");
    let caller = Caller { port: endpoint.port, calls: Arc::clone(&calls) };
    let join = async || {
        let set = ReplicaSet::new("s").projection(recorder.clone()).subscriber(caller.clone());
        let set = set.pool(Counted(Arc::clone(&ran))).lanes(2).tuning(tuning());
        start(&db.log().await, set)
    };
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(join().await);
    }
    until_shared(&log, "caller", WORKERS).await;
    fill(&log, 0..800, 1..=1).await;
    until("the first calls", async || (endpoint.keys() == 800).then_some(())).await;
    endpoint.close().await;
    fill(&log, 0..800, 2..=3).await;
    let outage = async || status(&log, "caller").await.outage;
    until("an outage", async || outage().await.filter(|outage| outage.probes >= 2)).await;
    let said = outage().await.unwrap().to_string();
    assert!(said.contains("refused") && said.contains("stopped by itself"), "{said}");

    // One event each time, for the whole fleet, and for those who join it.
    let before = (outage().await.unwrap().probes, calls.load(Ordering::SeqCst));
    workers.push(join().await);
    until_shared(&log, "caller", WORKERS + 1).await;
    let now =
        until("ten tries", async || outage().await.filter(|outage| outage.probes >= before.0 + 10));
    let (probes, now) = (now.await.probes - before.0, calls.load(Ordering::SeqCst) - before.1);
    assert!(now <= probes + 1, "{now} calls in {probes} tries");

    // The others have gone on, and go on.
    fill(&log, 0..800, 4..=4).await;
    until_proven(&log, &recorder.table, 800, 4).await;
    let tasks = (0..50).map(|key| NewTask::new(format!("key-{key}"), &1)).collect();
    Tasks::new(&log, "counted").enqueue_all(tasks).await.unwrap();
    until("the tasks", async || (ran.load(Ordering::SeqCst) == 50).then_some(())).await;
    let now = status(&log, "caller").await;
    assert_eq!(now.parked_keys, 0);
    assert!(now.outage.is_some() && now.lag > 0);
    for name in ["orders", "counted"] {
        assert!(status(&log, name).await.outage.is_none());
    }
    assert!(workers.iter().all(|worker| !worker.has_ended()));

    endpoint.open_again().await;
    until("everything to arrive", async || {
        let all = (0..800).all(|key| endpoint.of_key(key) == [1, 2, 3, 4]);
        all.then_some(())
    })
    .await;
    until("no outage", async || outage().await.is_none().then_some(())).await;
    for worker in workers {
        worker.stop().await;
    }
}

/// The handler of one worker fails for a reason of its own.
async fn one_bad_canary_stops_nobody_and_comes_back_when_cured(db: Db) {
    let log = db.log().await;
    let cured = Arc::new(AtomicBool::new(false));
    let retry = Retry::default().first(Duration::from_millis(2)).longest(Duration::from_millis(9));
    let settings = Settings::default().retry(retry.attempts(100));
    let recorder = db.recorder("orders").settings(settings);
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let mut recorder = recorder.clone().worker(format!("worker {worker}"));
        if worker == 0 {
            let cured = Arc::clone(&cured);
            recorder = recorder.hook(move |_| match cured.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err(HandlerError::new("no route to the bank")),
            });
        }
        let set = ReplicaSet::new("s").projection(recorder).tuning(tuning());
        workers.push(start(&db.log().await, set));
    }
    until_shared(&log, "orders", WORKERS).await;
    let watch = {
        let log = db.log().await;
        let seen = Arc::new(AtomicBool::new(false));
        let (saw, consumers) = (Arc::clone(&seen), Consumers::new(&log));
        let task = tokio::spawn(async move {
            loop {
                let outage = consumers.status("orders").await.unwrap().outage;
                saw.fetch_or(outage.is_some(), Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        (seen, task)
    };
    fill(&log, 0..900, 1..=1).await;
    let unable = until("the canary to say so", async || {
        let runners = Consumers::new(&log).status("orders").await.unwrap().runners;
        runners.into_iter().find_map(|runner| runner.unable)
    })
    .await;
    assert!(unable.contains("its handler fails here: no route to the bank"), "{unable}");
    until_proven(&log, &recorder.table, 900, 1).await;
    let others: BTreeSet<String> = ["worker 1", "worker 2"].map(str::to_owned).into();
    assert_eq!(handlers(&log, &recorder.table).await, others);
    fill(&log, 0..900, 2..=2).await;
    until_proven(&log, &recorder.table, 900, 2).await;
    assert!(!watch.0.load(Ordering::SeqCst), "it was never stopped");
    watch.1.abort();
    cured.store(true, Ordering::SeqCst);
    until_shared(&log, "orders", WORKERS).await;
    let mut number = 2;
    until("the canary to sing", async || {
        number += 1;
        fill(&log, 0..900, number..=number).await;
        until_proven(&log, &recorder.table, 900, number).await;
        handlers(&log, &recorder.table).await.contains("worker 0").then_some(())
    })
    .await;
    for worker in workers {
        worker.stop().await;
    }
}

/// Fails, hangs or works, as it is told; says which worker hangs.
#[derive(Clone)]
struct Moody {
    recorder: Recorder,
    worker: usize,
    mood: Arc<Mutex<Mood>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Fails,
    /// The next one hangs.
    Hangs,
    /// This worker does.
    HasHung(usize),
    Works,
}

impl Projection for Moody {
    fn name(&self) -> &str {
        "moody"
    }
    fn partition(&self) -> Partition {
        self.recorder.partition.clone()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let mood = *self.mood.lock().unwrap();
        match mood {
            Mood::Works => return self.recorder.handle(event, tx).await,
            Mood::Fails | Mood::HasHung(_) => return Err(HandlerError::new("in a bad mood")),
            Mood::Hangs => *self.mood.lock().unwrap() = Mood::HasHung(self.worker),
        }
        while *self.mood.lock().unwrap() == Mood::HasHung(self.worker) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.recorder.handle(event, tx).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        self.recorder.set_up(tx).await
    }
}

async fn a_worker_that_dies_while_it_tries_holds_up_nobody(db: Db) {
    let log = db.log().await;
    let mood = Arc::new(Mutex::new(Mood::Fails));
    let recorder = db.recorder("moody");
    let mut workers = Vec::new();
    for worker in 0..2 {
        let moody = Moody { recorder: recorder.clone(), worker, mood: Arc::clone(&mood) };
        let set = ReplicaSet::new("s").projection(moody).tuning(tuning());
        workers.push(Some(start(&db.log().await, set)));
    }
    until_shared(&log, "moody", 2).await;
    fill(&log, 0..900, 1..=1).await;
    until("an outage", async || status(&log, "moody").await.outage).await;
    *mood.lock().unwrap() = Mood::Hangs;
    let hung = until("one to hang", async || match *mood.lock().unwrap() {
        Mood::HasHung(worker) => Some(worker),
        _ => None,
    })
    .await;
    workers[hung].take().unwrap().crash();
    *mood.lock().unwrap() = Mood::Works;
    until_proven(&log, &recorder.table, 900, 1).await;
    assert!(status(&log, "moody").await.outage.is_none());
    for worker in workers.into_iter().flatten() {
        worker.stop().await;
    }
}

/// An endpoint that swallows what it is sent: before it answers nobody knows more, however long that takes.
async fn a_try_that_hangs_does_not_end_the_outage(db: Db) {
    let log = db.log().await;
    let mood = Arc::new(Mutex::new(Mood::Fails));
    let (recorder, lease) = (db.recorder("moody"), Duration::from_secs(2));
    // A try is its worker's for three heartbeats: long enough for a machine that is busy with other things.
    let tuning = tuning().lease(lease).heartbeat(lease / 4);
    let mut workers = Vec::new();
    for worker in 0..2 {
        let moody = Moody { recorder: recorder.clone(), worker, mood: Arc::clone(&mood) };
        let set = ReplicaSet::new("s").projection(moody).tuning(tuning);
        workers.push(start(&db.log().await, set));
    }
    until_shared(&log, "moody", 2).await;
    fill(&log, 0..900, 1..=1).await;
    let outage = async || status(&log, "moody").await.outage;
    // By then nobody calls the handler but to try.
    until("a try", async || outage().await.filter(|outage| outage.probes > 0)).await;
    *mood.lock().unwrap() = Mood::Hangs;
    until("one to hang", async || matches!(*mood.lock().unwrap(), Mood::HasHung(_)).then_some(()))
        .await;
    let (since, before) = (Instant::now(), outage().await.unwrap());
    until("six leases to pass", async || {
        let outage = outage().await.expect("an outage");
        assert_eq!((outage.since, outage.probes), (before.since, before.probes));
        (since.elapsed() > lease * 6).then_some(())
    })
    .await;
    *mood.lock().unwrap() = Mood::Works;
    until_proven(&log, &recorder.table, 900, 1).await;
    until("no outage", async || status(&log, "moody").await.outage.is_none().then_some(())).await;
    for worker in workers {
        worker.stop().await;
    }
}

/// A catch-up whose handler fails is a success if others handle what it cannot.
async fn what_fails_in_a_catch_up_is_done_by_others(db: Db) {
    let log = db.log().await;
    let retry = Retry::default().first(Duration::from_millis(2)).longest(Duration::from_millis(9));
    let settings = Settings::default().retry(retry.attempts(100)).batch_size(20);
    let recorder = db.recorder("orders").settings(settings);
    let slow = recorder.clone().hook(|_| {
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    let set = || ReplicaSet::new("s").tuning(tuning());
    let good = start(&db.log().await, set().projection(slow));
    until_shared(&log, "orders", 1).await;
    fill(&log, 0..900, 1..=3).await;
    let bad = recorder.clone().worker("bad").hook(|_| Err(HandlerError::new("not here")));
    let calls = Arc::new(AtomicU64::new(0));
    let bad = Recorder { handled: Arc::clone(&calls), ..bad };
    set().projection(bad).catch_up(&db.log().await).await.unwrap();
    assert!(calls.load(Ordering::SeqCst) > 0, "it has tried");
    until_proven(&log, &recorder.table, 900, 3).await;
    assert!(!handlers(&log, &recorder.table).await.contains("bad"));
    assert!(status(&log, "orders").await.outage.is_none());
    good.stop().await;
}

/// Somebody runs the consumer, but asks for other slots: nobody else is going to do what this one cannot.
async fn a_catch_up_does_not_wait_for_those_who_never_own_its_slots(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let set = || ReplicaSet::new("s").tuning(tuning());
    let half = set().projection(recorder.clone()).partition("0/2".parse().unwrap());
    let half = start(&db.log().await, half);
    until("the other one", async || Consumers::new(&log).workers().await.ok()?.pop()).await;
    fill(&log, 0..900, 1..=1).await;
    let bad = recorder.clone().hook(|_| Err(HandlerError::new("not here")));
    let caught_up = set().projection(bad).catch_up(&log);
    let error = tokio::time::timeout(PATIENCE, caught_up).await.expect("an end").unwrap_err();
    assert!(
        matches!(&error, RunError::Stopped { consumer, .. } if consumer == "orders"),
        "{error}"
    );
    half.stop().await;
}

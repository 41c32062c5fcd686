//! The limit of a pool holds for all its processes together, while they come, go, die and stand still.

use crate::crew::{LONG_LEASE, quick, until_shared};
use crate::ledger::*;
use crate::on_both;
use crate::permits::{Apart, Writes};
use crate::support::*;
use anabranch::operate::LimitStatus;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, OutsidePool, Run, Task, Tasks};
use anabranch::workpool::{PoolSettings, TaskState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both!(
    workers_that_come_go_and_die_share_one_limit,
    lanes_of_all_processes_share_one_limit,
    one_at_a_time_and_every_worker_has_its_turn,
    one_that_has_much_to_do_starves_nobody,
    whoever_has_nothing_to_do_holds_nothing,
    the_status_says_when_a_pool_is_at_its_limit,
    a_worker_that_stands_still_cannot_use_its_permit_any_more,
    the_lowest_limit_of_several_programs_holds,
    a_limit_beyond_all_numbers_is_none,
    a_pool_without_a_limit_writes_no_permits,
    workers_that_know_no_limit_are_named,
    a_limit_of_none_is_refused,
);

pub const LONG: Duration = Duration::from_secs(60);

/// How many run at the same time, in all workers of a test.
#[derive(Clone, Default)]
pub struct Gauge {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

/// One that runs, until it is dropped: with its task, whatever ends that.
struct Counted(Arc<AtomicUsize>);

impl Gauge {
    fn enter(&self) -> Counted {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Counted(Arc::clone(&self.now))
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tasks that take a while outside, and are counted while they do.
#[derive(Clone)]
pub struct Limited {
    pub limit: usize,
    pub gauge: Gauge,
    pub takes: Duration,
    /// Which worker this is.
    pub who: usize,
    /// Which worker has run each, in their order.
    pub by: Arc<Mutex<Vec<usize>>>,
}

impl Limited {
    pub fn new(limit: usize) -> Self {
        let takes = Duration::from_millis(4);
        Self { limit, gauge: Gauge::default(), takes, who: 0, by: Arc::default() }
    }

    pub async fn join(&self, db: &Db, who: usize) -> Running {
        let set = ReplicaSet::new("work").outside_pool(Self { who, ..self.clone() });
        start(&db.log().await, set.lanes(2).tuning(quick()))
    }

    pub fn ran(&self) -> usize {
        self.by.lock().unwrap().len()
    }
}

impl OutsidePool for Limited {
    type Output = ();

    fn name(&self) -> &str {
        "limited"
    }

    fn settings(&self) -> PoolSettings {
        PoolSettings::default().max_parallelism(self.limit)
    }

    async fn run(&self, _: &Task, _: &mut Run) -> HandlerResult {
        let _counted = self.gauge.enter();
        tokio::time::sleep(self.takes).await;
        self.by.lock().unwrap().push(self.who);
        Ok(())
    }
}

pub async fn all_done(tasks: &Tasks, ids: &[anabranch::workpool::Enqueued]) {
    for id in ids {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
}

async fn workers_that_come_go_and_die_share_one_limit(db: Db) {
    let log = db.log().await;
    let pool = Limited::new(3);
    let tasks = Tasks::new(&log, "limited");
    let ids = tasks.enqueue_all(counted(30, 20)).await.unwrap();
    let at = async |count| {
        until("some more", async || (pool.ran() >= count).then_some(())).await;
    };
    let first = pool.join(&db, 1).await;
    at(20).await;
    let (second, third) = (pool.join(&db, 2).await, pool.join(&db, 3).await);
    until_shared(&log, "limited", 3).await;
    at(pool.ran() + 50).await;
    second.crash();
    at(pool.ran() + 50).await;
    first.stop().await;
    let fourth = pool.join(&db, 4).await;
    at(pool.ran() + 50).await;
    third.crash();
    all_done(&tasks, &ids).await;
    assert_eq!(pool.gauge.most(), 3, "as many as may, and never more");
    fourth.stop().await;
}

async fn lanes_of_all_processes_share_one_limit(db: Db) {
    let log = db.log().await;
    let gauge = Gauge::default();
    let counting = gauge.clone();
    let settings = PoolSettings::default().max_parallelism(1).batch_size(5);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let ledger = ledger.hook(move |_| {
        let _counted = counting.enter();
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(40, 15)).await.unwrap();
    let join = async || {
        let set = ReplicaSet::new("work").pool(ledger.clone()).lanes(3).lease(LONG_LEASE);
        start(&db.log().await, set)
    };
    let (first, second) = (join().await, join().await);
    until_shared(&log, "ledger", 2).await;
    second.crash();
    let third = join().await;
    all_done(&tasks, &ids).await;
    assert_eq!(gauge.most(), 1);
    assert_eq!(ledger.proof(&log).await, (600, 0));
    first.stop().await;
    third.stop().await;
}

async fn one_at_a_time_and_every_worker_has_its_turn(db: Db) {
    let log = db.log().await;
    let pool = Limited::new(1);
    let mut workers = Vec::new();
    for who in 0..4 {
        workers.push(pool.join(&db, who).await);
    }
    until_shared(&log, "limited", 4).await;
    let tasks = Tasks::new(&log, "limited");
    let ids = tasks.enqueue_all(counted(40, 3)).await.unwrap();
    all_done(&tasks, &ids).await;
    assert_eq!(pool.gauge.most(), 1);
    let by = pool.by.lock().unwrap().clone();
    assert_eq!(by.len(), 120);
    // Who has had its turn is the last to have another one, as long as all of them have tasks of several keys.
    let turns_of = |who| {
        let by = &by;
        (0..by.len()).filter(move |turn| by[*turn] == who)
    };
    let all_busy = (0..4).filter_map(|who| turns_of(who).rev().nth(5)).min().unwrap();
    // They begin at different moments.
    let begun = (0..4).filter_map(|who| turns_of(who).next()).max().unwrap();
    assert!(begun < all_busy, "{by:?}");
    for turns in by[begun..=all_busy].windows(8) {
        for who in 0..4 {
            let had = turns.iter().filter(|by| **by == who).count();
            assert!((1..=3).contains(&had), "worker {who} had {had} of {turns:?} in {by:?}");
        }
    }
    for worker in workers {
        worker.stop().await;
    }
}

/// Keys of the two halves of all slots.
pub fn keys_of(log: &Log, part: u16, count: usize) -> Vec<String> {
    let is_of = |key: &String| log.hash_rule().slot(key).get() % 2 == part;
    (0..).map(|n| format!("key-{n}")).filter(is_of).take(count).collect()
}

pub fn part(part: u16) -> anabranch::FixedPartition {
    format!("{part}/2").parse().unwrap()
}

async fn one_that_has_much_to_do_starves_nobody(db: Db) {
    let log = db.log().await;
    let pool = Limited { takes: Duration::from_millis(20), ..Limited::new(1) };
    let mut workers = Vec::new();
    for of in 0..2 {
        let pool = Limited { who: of.into(), ..pool.clone() };
        let set = ReplicaSet::new("work").outside_pool(pool).partition(part(of));
        workers.push(start(&db.log().await, set.tuning(quick())));
    }
    until_shared(&log, "limited", 2).await;
    let tasks = Tasks::new(&log, "limited");
    let backlog = keys_of(&log, 0, 50)
        .into_iter()
        .flat_map(|key| (0..40).map(move |number| NewTask::new(key.clone(), &number)));
    tasks.enqueue_all(backlog.collect()).await.unwrap();
    until("a busy worker", async || (pool.ran() >= 5).then_some(())).await;
    // Tasks of different keys, so that all of them could be run at once.
    let few = keys_of(&log, 1, 3).into_iter().map(|key| NewTask::new(key, &1)).collect();
    let ids = tasks.enqueue_all(few).await.unwrap();
    all_done(&tasks, &ids).await;
    assert_eq!(pool.gauge.most(), 1);
    let by = pool.by.lock().unwrap().clone();
    assert!(by.len() < 50 * 40, "not after all of the other's");
    // From when it was known to wait, each had a turn in its turn: it is not the time that counts.
    let first = by.iter().position(|by| *by == 1).unwrap();
    let last = by.iter().rposition(|by| *by == 1).unwrap();
    assert!(last - first <= 6, "{by:?}");
    for worker in workers {
        worker.crash();
    }
}

pub async fn permits(log: &Log) -> Vec<(String, i64)> {
    let table = log.store().database().dialect().table("permits");
    let rows = query(log, &format!("SELECT worker, held FROM {table}"), vec![]).await;
    rows.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect()
}

async fn whoever_has_nothing_to_do_holds_nothing(db: Db) {
    let log = db.log().await;
    let pool = Limited::new(2);
    let worker = pool.join(&db, 1).await;
    let tasks = Tasks::new(&log, "limited");
    let ids = tasks.enqueue_all(counted(5, 2)).await.unwrap();
    all_done(&tasks, &ids).await;
    until("no permits", async || permits(&log).await.is_empty().then_some(())).await;
    worker.stop().await;
}

async fn the_status_says_when_a_pool_is_at_its_limit(db: Db) {
    let log = db.log().await;
    let pool = Limited { takes: LONG, ..Limited::new(2) };
    let worker = pool.join(&db, 1).await;
    let limit = async || status(&log, "limited").await.limit;
    until_shared(&log, "limited", 1).await;
    assert_eq!(limit().await, None, "nothing is in work");
    let tasks = Tasks::new(&log, "limited");
    tasks.enqueue_all(counted(2, 1)).await.unwrap();
    let two = until("two in work", async || {
        let is_so =
            |limit: &LimitStatus| (limit.held, limit.waiting, pool.gauge.most()) == (2, 0, 2);
        limit().await.filter(is_so)
    })
    .await;
    assert_eq!(two.most, 2);
    assert_eq!(two.to_string(), "2 of at most 2 in work");
    tasks.enqueue_all(counted(9, 1)).await.unwrap();
    let full = until("others that wait", async || limit().await.filter(|l| l.waiting > 0)).await;
    assert_eq!((full.most, full.held), (2, 2));
    let said = full.to_string();
    assert!(said.starts_with("at its limit of 2, "), "{said}");
    worker.crash();
}

/// It is in the middle of a task when its lease ends. Nobody takes its slots; but its permit is another's, so
/// what it has begun is not stored.
async fn a_worker_that_stands_still_cannot_use_its_permit_any_more(db: Db) {
    let log = db.log().await;
    let (calls, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (called, open) = (Arc::clone(&calls), Arc::clone(&gate));
    let settings = PoolSettings::default().max_parallelism(1);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings);
    let stalls = ledger.clone().hook(move |_| {
        called.fetch_add(1, Ordering::SeqCst);
        while !open.load(Ordering::SeqCst) {
            // Not `await`: nothing else of this process runs.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    let set = |of| ReplicaSet::new("work").lanes(1).partition(part(of));
    let zombie = set(0).pool(stalls).lease(Duration::from_secs(2));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (url, options) = (db.url.clone(), db.options.clone());
    let zombie = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let log = anabranch::connect_with(&url, &options).await.unwrap();
            zombie.run_until(&log, async { drop(stopped.await) }).await.unwrap();
        });
    });
    let tasks = Tasks::new(&log, "ledger");
    let ([first], [second]) = (&keys_of(&log, 0, 1)[..], &keys_of(&log, 1, 1)[..]) else {
        unreachable!()
    };
    let first = tasks.enqueue(NewTask::new(first, &1)).await.unwrap().id;
    until("a stalled task", async || (calls.load(Ordering::SeqCst) == 1).then_some(())).await;
    let other = start(&db.log().await, set(1).pool(ledger.clone()).lease(Duration::from_secs(2)));
    let second = tasks.enqueue(NewTask::new(second, &1)).await.unwrap().id;
    // By the permit of the one that stands still.
    assert_eq!(tasks.wait(second, LONG).await.unwrap().state, TaskState::Done);
    gate.store(true, Ordering::SeqCst);
    assert_eq!(tasks.wait(first, LONG).await.unwrap().state, TaskState::Done);
    assert_eq!(calls.load(Ordering::SeqCst), 2, "it was run again, under a permit of its own");
    assert_eq!(ledger.proof(&log).await, (2, 0));
    let _ = stop.send(());
    tokio::task::spawn_blocking(move || zombie.join().unwrap()).await.unwrap();
    other.stop().await;
}

/// It was written as a number that no database has, and no task ran.
async fn a_limit_beyond_all_numbers_is_none(db: Db) {
    let log = db.log().await;
    let pool = Limited::new(usize::MAX);
    let worker = pool.join(&db, 1).await;
    let tasks = Tasks::new(&log, "limited");
    let ids = tasks.enqueue_all(counted(5, 2)).await.unwrap();
    all_done(&tasks, &ids).await;
    worker.stop().await;
}

async fn the_lowest_limit_of_several_programs_holds(db: Db) {
    let log = db.log().await;
    let wide = Limited::new(8);
    let narrow = Limited { limit: 1, ..wide.clone() };
    let old = wide.join(&db, 1).await;
    let new = narrow.join(&db, 2).await;
    until_shared(&log, "limited", 2).await;
    let tasks = Tasks::new(&log, "limited");
    // Both have something to do.
    let ids = tasks.enqueue_all(counted(40, 10)).await.unwrap();
    until("the narrow one", async || wide.by.lock().unwrap().contains(&2).then_some(())).await;
    wide.gauge.most.store(0, Ordering::SeqCst);
    until("some more", async || (wide.ran() >= 100).then_some(())).await;
    assert_eq!(wide.gauge.most(), 1);
    all_done(&tasks, &ids).await;
    old.stop().await;
    new.stop().await;
}

async fn a_pool_without_a_limit_writes_no_permits(db: Db) {
    let log = db.log().await;
    let writes = Writes::of(&db, &log).await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(5, 20)).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()).outside_pool(Unlimited));
    all_done(&tasks, &ids).await;
    let tasks = Tasks::new(&log, "limited");
    let ids = tasks.enqueue_all(counted(5, 20)).await.unwrap();
    all_done(&tasks, &ids).await;
    worker.stop().await;
    assert_eq!(writes.count(&log).await, 0);
}

/// The pool of a program that knows no limit yet.
struct Unlimited;

impl OutsidePool for Unlimited {
    type Output = ();

    fn name(&self) -> &str {
        "limited"
    }

    async fn run(&self, _: &Task, _: &mut Run) -> HandlerResult {
        Ok(())
    }
}

/// A deploy that introduces a limit: it does not hold while old workers run, and both the status and the log say so.
async fn workers_that_know_no_limit_are_named(db: Db) {
    let log = db.log().await;
    let old =
        start(&db.log().await, ReplicaSet::new("work").outside_pool(Unlimited).tuning(quick()));
    until_shared(&log, "limited", 1).await;
    assert_eq!(status(&log, "limited").await.unlimited, None, "nobody knows one");
    let new = ReplicaSet::new("work").outside_pool(Limited::new(2)).tuning(quick());
    let new = Apart::start(&db, new);
    let unlimited = until("both", async || status(&log, "limited").await.unlimited).await;
    assert_eq!(unlimited.to_string(), "1 of 2 workers knows no limit");
    let mut limits: Vec<_> =
        status(&log, "limited").await.runners.iter().map(|runner| runner.limit).collect();
    limits.sort_unstable();
    assert_eq!(limits, [None, Some(2)]);
    new.until_said("1 of 2 workers knows no limit").await;
    old.stop().await;
    until("one", async || status(&log, "limited").await.unlimited.is_none().then_some(())).await;
    assert_eq!(new.has_said("no limit"), 1, "once");
    new.stop().await;
}

async fn a_limit_of_none_is_refused(db: Db) {
    let log = db.log().await;
    let set = ReplicaSet::new("work").outside_pool(Limited::new(0));
    let error = set.catch_up(&log).await.unwrap_err().to_string();
    assert!(error.contains("`limited` is refused") && error.contains("of 0; use 1"), "{error}");
}

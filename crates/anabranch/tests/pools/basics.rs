//! One worker: order, results, times, unique keys, cancelling, what follows.

use crate::ledger::*;
use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::workpool::{Completed, Outcome, PoolSettings, TaskState};
use anabranch::workpool::{NewTask, OutsidePool, Run, Task, Tasks};
use anabranch::{Failure, Retry};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

on_both!(
    tasks_of_a_key_run_in_order_exactly_once,
    a_task_that_waits_holds_back_its_key_and_nobody_else,
    a_task_runs_at_its_time_and_holds_back_nobody,
    a_unique_key_has_one_open_task,
    a_cancelled_task_is_not_run,
    a_dead_task_holds_its_key_until_it_is_retried_or_discarded,
    a_pool_may_go_on_without_a_dead_task,
    what_follows_is_told_how_it_ended,
    tasks_are_enqueued_with_the_effects_of_a_handler,
    outside_tasks_run_at_the_same_time,
    a_long_task_goes_on_from_its_checkpoint,
    a_pool_of_a_paused_consumer_waits,
);

const LONG: Duration = Duration::from_secs(60);

fn quick() -> PoolSettings {
    PoolSettings::default().retry(Retry::default().attempts(3).first(Duration::from_millis(20)))
}

async fn tasks_of_a_key_run_in_order_exactly_once(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let enqueued = tasks.enqueue_all(counted(30, 20)).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()).lanes(3));
    let last = tasks.wait(enqueued.last().unwrap().id, LONG).await.unwrap();
    assert_eq!(last.state, TaskState::Done);
    until("all tasks", async || (ledger.proof(&log).await.0 == 600).then_some(())).await;
    assert_eq!(ledger.proof(&log).await, (600, 0));
    assert_eq!(last.result::<i64>().unwrap(), Some(200));
    // What comes later is found too.
    let more: Vec<_> = (21..=25).map(|number| NewTask::new("key-3", &number)).collect();
    let more = tasks.enqueue_all(more).await.unwrap();
    tasks.wait(more[4].id, LONG).await.unwrap();
    assert_eq!(ledger.of_key(&log, "key-3").await, (1..=25).collect::<Vec<i64>>());
    worker.stop().await;
    assert!(tasks.status(uuid::Uuid::nil()).await.unwrap().is_none());
}

async fn a_task_that_waits_holds_back_its_key_and_nobody_else(db: Db) {
    let log = db.log().await;
    let open = Arc::new(AtomicU32::new(0));
    let (gate, patient) = (Arc::clone(&open), Retry::default().attempts(10_000));
    let retry = patient.first(Duration::from_millis(5)).longest(Duration::from_millis(5));
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let ledger = ledger.settings(PoolSettings::default().retry(retry)).hook(move |task| {
        match task.key() == "key-1" && gate.load(Ordering::SeqCst) == 0 {
            true => Err(anabranch::HandlerError::new("not yet")),
            false => Ok(()),
        }
    });
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(4, 5)).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    until("the others", async || (ledger.proof(&log).await.0 == 15).then_some(())).await;
    let status = tasks.status(ids[1].id).await.unwrap().unwrap();
    assert_eq!((status.state, status.key.as_str()), (TaskState::Ready, "key-1"));
    assert_eq!(ledger.of_key(&log, "key-1").await, Vec::<i64>::new());
    open.store(1, Ordering::SeqCst);
    tasks.wait(ids.last().unwrap().id, LONG).await.unwrap();
    until("the last", async || (ledger.proof(&log).await == (20, 0)).then_some(())).await;
    let status = tasks.status(ids[1].id).await.unwrap().unwrap();
    assert!(status.attempts > 0 && status.error.is_none(), "{status:?}");
    worker.stop().await;
}

async fn a_task_runs_at_its_time_and_holds_back_nobody(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let far = jiff::Timestamp::now() + Duration::from_secs(86_400);
    let delayed = NewTask::new("a", &1).run_after(Duration::from_millis(700));
    let enqueued = Instant::now();
    let all = vec![delayed, NewTask::new("a", &2), NewTask::new("a", &3).run_at(far)];
    let ids = tasks.enqueue_all(all).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    tasks.wait(ids[1].id, LONG).await.unwrap();
    let status = tasks.wait(ids[0].id, LONG).await.unwrap();
    assert_eq!(status.state, TaskState::Done);
    assert!(enqueued.elapsed() >= Duration::from_millis(700), "{:?}", enqueued.elapsed());
    let late = status.finished_at.unwrap().duration_since(status.run_at.unwrap());
    assert!(late.as_millis() < 1_000, "{late:?}");
    assert_eq!(ledger.of_key(&log, "a").await, [2, 1]);
    let status = tasks.status(ids[2].id).await.unwrap().unwrap();
    assert_eq!(status.state, TaskState::Scheduled);
    assert_eq!(status.run_at.unwrap().as_microsecond(), far.as_microsecond());
    worker.stop().await;
}

async fn a_unique_key_has_one_open_task(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let remind = || NewTask::new("a", &1).unique("reminder-1");
    let first = tasks.enqueue(remind()).await.unwrap();
    let second = tasks.enqueue(remind()).await.unwrap();
    assert_eq!((first.is_new, second.is_new, first.id), (true, false, second.id));
    // The same id is the same task, for as long as it is kept.
    let id = uuid::Uuid::now_v7();
    let with_id = || NewTask::new("b", &1).with_id(id);
    assert!(tasks.enqueue(with_id()).await.unwrap().is_new);
    assert!(!tasks.enqueue(with_id()).await.unwrap().is_new);
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    tasks.wait(first.id, LONG).await.unwrap();
    tasks.wait(id, LONG).await.unwrap();
    assert!(!tasks.enqueue(with_id()).await.unwrap().is_new);
    // It has ended, so the next one is another.
    let third = tasks.enqueue(NewTask::new("a", &2).unique("reminder-1")).await.unwrap();
    assert!(third.is_new && third.id != first.id);
    tasks.wait(third.id, LONG).await.unwrap();
    assert_eq!(ledger.proof(&log).await, (3, 0));
    worker.stop().await;
}

async fn a_cancelled_task_is_not_run(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let all = vec![NewTask::new("a", &7), NewTask::new("a", &1), NewTask::new("b", &1)];
    let ids = tasks.enqueue_all(all).await.unwrap();
    assert!(tasks.cancel(ids[0].id).await.unwrap());
    assert!(!tasks.cancel(ids[0].id).await.unwrap());
    // One is cancelled while it runs: what it wrote is not stored, what its neighbours wrote is.
    let (canceller, second) = (tasks.clone(), ids[1].id);
    let is_postgres = db.url.starts_with("postgres");
    let once = Arc::new(AtomicU32::new(0));
    let ledger = ledger.hook(move |task| {
        if is_postgres && task.id() == second && once.fetch_add(1, Ordering::SeqCst) == 0 {
            let tasks = canceller.clone();
            let cancel = async move { tasks.cancel(second).await };
            let cancelled =
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(cancel));
            assert!(cancelled.unwrap());
        }
        Ok(())
    });
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    tasks.wait(ids[2].id, LONG).await.unwrap();
    let second = tasks.wait(ids[1].id, LONG).await.unwrap();
    let expected = if is_postgres { TaskState::Cancelled } else { TaskState::Done };
    assert_eq!(second.state, expected);
    let numbers: &[i64] = if is_postgres { &[] } else { &[1] };
    assert_eq!(ledger.of_key(&log, "a").await, numbers);
    assert_eq!(ledger.of_key(&log, "b").await, [1]);
    assert!(!tasks.cancel(ids[2].id).await.unwrap(), "it is done");
    worker.stop().await;
}

async fn a_dead_task_holds_its_key_until_it_is_retried_or_discarded(db: Db) {
    let log = db.log().await;
    let broken = Arc::new(AtomicU32::new(1));
    let is_broken = Arc::clone(&broken);
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(quick()).hook(move |task| {
        let number: i64 = task.payload()?;
        let fails = number == 2 && is_broken.load(Ordering::SeqCst) == 1;
        match fails {
            true => Err(anabranch::HandlerError::new("no such account")),
            false => Ok(()),
        }
    });
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(2, 4)).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    let (a, b) = (ids[2].id, ids[3].id);
    for id in [a, b] {
        let dead = tasks.wait(id, LONG).await.unwrap();
        assert_eq!((dead.state, dead.attempts), (TaskState::Dead, 3));
        assert_eq!(dead.error.as_deref(), Some("no such account"));
    }
    until("what waits behind them", async || {
        (tasks.list(TaskState::Held, 10).await.unwrap().len() == 4).then_some(())
    })
    .await;
    assert_eq!(ledger.proof(&log).await, (2, 0));
    assert_eq!(tasks.list(TaskState::Dead, 10).await.unwrap().len(), 2);
    broken.store(0, Ordering::SeqCst);
    tasks.retry(a).await.unwrap();
    assert!(tasks.retry(a).await.is_err(), "it is not dead any more");
    tasks.wait(ids[6].id, LONG).await.unwrap();
    assert_eq!(ledger.of_key(&log, "key-0").await, [1, 2, 3, 4]);
    assert_eq!(ledger.of_key(&log, "key-1").await, [1]);
    tasks.discard(b).await.unwrap();
    assert!(tasks.discard(b).await.is_err());
    tasks.wait(ids[7].id, LONG).await.unwrap();
    assert_eq!(ledger.of_key(&log, "key-1").await, [1, 3, 4]);
    worker.stop().await;
}

async fn a_pool_may_go_on_without_a_dead_task(db: Db) {
    let log = db.log().await;
    let settings = PoolSettings::default().retry(Retry::never().then(Failure::Skip));
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings).hook(|task| {
        let number: i64 = task.payload()?;
        if number == 2 { panic!("a bad moment") } else { Ok(()) }
    });
    let tasks = Tasks::new(&log, "ledger");
    let ids = tasks.enqueue_all(counted(1, 3)).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.clone()));
    tasks.wait(ids[2].id, LONG).await.unwrap();
    assert_eq!(ledger.of_key(&log, "key-0").await, [1, 3]);
    let dead = tasks.status(ids[1].id).await.unwrap().unwrap();
    assert_eq!(dead.error.as_deref(), Some("the task panicked: a bad moment [handler_panicked]"));
    worker.stop().await;
    // The third policy stops the pool, and the set if that is wanted.
    let settings = PoolSettings::default().retry(Retry::never().then(Failure::Stop));
    tasks.enqueue(NewTask::new("key-0", &2)).await.unwrap();
    let worker = start(&log, ReplicaSet::new("work").pool(ledger.settings(settings)).fail_fast());
    let error = worker.ended().await.unwrap_err().to_string();
    assert!(error.contains("its policy is to stop") && error.contains("key-0"), "{error}");
}

/// Keeps what it is told.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Completed<String, i64>>>>);

impl OutsidePool for Listener {
    type Output = ();

    fn name(&self) -> &str {
        "listener"
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult {
        self.0.lock().unwrap().push(task.payload()?);
        Ok(())
    }
}

async fn what_follows_is_told_how_it_ended(db: Db) {
    let log = db.log().await;
    let settings = PoolSettings::default().retry(Retry::never().then(Failure::Skip));
    let ledger = Ledger::new(&db, &log, "ledger").await.settings(settings).hook(|task| match task
        .payload::<i64>(
    )? {
        3 => Err(anabranch::HandlerError::new("three")),
        _ => Ok(()),
    });
    let tasks = Tasks::new(&log, "ledger");
    let then = |number: i64| {
        NewTask::new("a", &number).on_complete("listener", "l", &format!("after {number}"))
    };
    let ids = tasks.enqueue_all(vec![then(1), then(2), then(3)]).await.unwrap();
    tasks.cancel(ids[1].id).await.unwrap();
    let listener = Listener::default();
    let set = ReplicaSet::new("work").pool(ledger).outside_pool(listener.clone());
    let worker = start(&log, set);
    until("three", async || (listener.0.lock().unwrap().len() == 3).then_some(())).await;
    worker.stop().await;
    let mut told = listener.0.lock().unwrap().clone();
    told.sort_by_key(|told| told.payload.clone());
    let ended: Vec<_> =
        told.iter().map(|told| (told.outcome, told.result, told.error.as_deref())).collect();
    let expected = [
        (Outcome::Done, Some(10), None),
        (Outcome::Cancelled, None, None),
        (Outcome::Dead, None, Some("three")),
    ];
    assert_eq!(ended, expected);
    assert_eq!(told[0].task, ids[0].id);
}

/// Enqueues a task for each event, and fails after the third event, once.
struct Outbox(Tasks, AtomicU32);

impl Projection for Outbox {
    fn name(&self) -> &str {
        "outbox"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let number: i64 = event.data()?;
        self.0.enqueue_in(tx, &[NewTask::new(event.stream_id(), &number)]).await?;
        match number == 3 && self.1.fetch_add(1, Ordering::SeqCst) == 0 {
            true => Err(anabranch::HandlerError::new("once")),
            false => Ok(()),
        }
    }
}

async fn tasks_are_enqueued_with_the_effects_of_a_handler(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=6).await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let outbox = Outbox(Tasks::new(&log, "ledger"), AtomicU32::new(0));
    let set = ReplicaSet::new("work").pool(ledger.clone()).projection(outbox);
    let worker = start(&log, set);
    until("all", async || (ledger.proof(&log).await.0 >= 30).then_some(())).await;
    assert_eq!(ledger.proof(&log).await, (30, 0));
    worker.stop().await;
}

/// Waits until so many of it run at the same time, and never two of a key.
#[derive(Clone)]
struct Together {
    wanted: usize,
    running: Arc<Mutex<Vec<String>>>,
    most: Arc<AtomicU32>,
}

impl OutsidePool for Together {
    type Output = ();

    fn name(&self) -> &str {
        "together"
    }

    fn settings(&self) -> PoolSettings {
        PoolSettings::default().in_flight_per_process(self.wanted)
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult {
        let count = {
            let mut running = self.running.lock().unwrap();
            assert!(!running.contains(&task.key().to_owned()), "two of {}", task.key());
            running.push(task.key().to_owned());
            running.len()
        };
        assert!(count <= self.wanted);
        self.most.fetch_max(count as u32, Ordering::SeqCst);
        let until = Instant::now() + LONG;
        while self.most.load(Ordering::SeqCst) < self.wanted as u32 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.running.lock().unwrap().retain(|key| key != task.key());
        Ok(())
    }
}

async fn outside_tasks_run_at_the_same_time(db: Db) {
    let log = db.log().await;
    let pool = Together { wanted: 7, running: Arc::default(), most: Arc::default() };
    let tasks = Tasks::new(&log, "together");
    let ids = tasks.enqueue_all(counted(10, 4)).await.unwrap();
    let set = ReplicaSet::new("work").outside_pool(pool.clone()).lanes(2);
    let worker = start(&log, set);
    for id in &ids {
        assert_eq!(tasks.wait(id.id, LONG).await.unwrap().state, TaskState::Done);
    }
    assert_eq!(pool.most.load(Ordering::SeqCst), 7);
    worker.stop().await;
}

/// Counts to ten, and dies on the way: by a panic at 4, by an error at 7.
#[derive(Clone, Default)]
struct Counter(Arc<Mutex<Vec<u32>>>);

impl OutsidePool for Counter {
    type Output = u32;

    fn name(&self) -> &str {
        "counter"
    }

    fn settings(&self) -> PoolSettings {
        quick()
    }

    async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult<u32> {
        let from: u32 = run.checkpoint()?.unwrap_or(0);
        for step in from + 1..=10 {
            self.0.lock().unwrap().push(step);
            match (step, task.attempt()) {
                (4, 1) => panic!("at 4"),
                (7, 2) => return Err(anabranch::HandlerError::new("at 7")),
                _ => run.save(&step).await?,
            }
        }
        Ok(task.attempt())
    }
}

async fn a_long_task_goes_on_from_its_checkpoint(db: Db) {
    let log = db.log().await;
    let counter = Counter::default();
    let tasks = Tasks::new(&log, "counter");
    let id = tasks.enqueue(NewTask::new("a", &())).await.unwrap().id;
    let set = ReplicaSet::new("work").outside_pool(counter.clone());
    let worker = start(&log, set);
    let status = tasks.wait(id, LONG).await.unwrap();
    assert_eq!(status.result::<u32>().unwrap(), Some(3));
    assert_eq!(*counter.0.lock().unwrap(), [1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10]);
    worker.stop().await;
}

async fn a_pool_of_a_paused_consumer_waits(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let tasks = Tasks::new(&log, "ledger");
    let set = || ReplicaSet::new("work").pool(ledger.clone());
    let id = tasks.enqueue(NewTask::new("a", &1)).await.unwrap().id;
    set().catch_up(&log).await.unwrap();
    assert_eq!(tasks.status(id).await.unwrap().unwrap().state, TaskState::Done);
    let consumers = anabranch::operate::Consumers::new(&log);
    consumers.pause("ledger").await.unwrap();
    let id = tasks.enqueue(NewTask::new("a", &2)).await.unwrap().id;
    let worker = start(&log, set());
    let status = consumers.status("ledger").await.unwrap();
    assert!(status.paused && status.kind == "pool" && status.lag == 1, "{status:?}");
    // A key of its own can be paused, too.
    tasks.pause_key("a").await.unwrap();
    consumers.resume("ledger").await.unwrap();
    let other = tasks.enqueue(NewTask::new("b", &1)).await.unwrap().id;
    tasks.wait(other, LONG).await.unwrap();
    assert_eq!(ledger.of_key(&log, "a").await, [1]);
    tasks.resume_key("a").await.unwrap();
    tasks.wait(id, LONG).await.unwrap();
    assert_eq!(ledger.of_key(&log, "a").await, [1, 2]);
    let error = consumers.replay("ledger", anabranch::operate::ReplayFrom::Start).await;
    assert!(error.is_err(), "a pool has no position");
    worker.stop().await;
}

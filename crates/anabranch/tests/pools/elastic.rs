//! Workers come, go and die while tasks flow: each task once, in the order of its key.

use crate::crew::{LONG_LEASE, quick, until_shared};
use crate::ledger::*;
use crate::on_both;
use crate::support::*;
use anabranch::operate::Owner;
use anabranch::prelude::*;
use anabranch::running::Rollout;
use anabranch::workpool::PoolSettings;
use anabranch::workpool::{NewTask, OutsidePool, Run, Task, Tasks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both!(
    workers_join_leave_and_die_while_tasks_flow,
    another_number_of_fixed_partitions_goes_on_where_the_last_one_was,
    recreate_waits_until_the_last_task_of_the_others_has_ended,
    a_long_task_holds_up_the_slot_of_its_key_only,
    a_task_that_never_ends_is_given_up_at_the_end_of_the_grace,
);

const KEYS: u64 = 30;

/// Enqueues the next task of each key, again and again.
struct Flow {
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<i64>,
}

impl Flow {
    fn start(log: &Log) -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let tasks = Tasks::new(log, "ledger");
        let task = tokio::spawn(async move {
            let mut number = 0;
            while stopped.try_recv().is_err() {
                number += 1;
                let of = |key| NewTask::new(format!("key-{key}"), &number);
                tasks.enqueue_all((0..KEYS).map(of).collect()).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            number
        });
        Self { stop, task }
    }

    /// Waits until all is run, and proves that it was once and in order.
    async fn end(self, log: &Log, ledger: &Ledger) {
        let _ = self.stop.send(());
        let each = self.task.await.unwrap();
        let all = each * KEYS as i64;
        until("all tasks", async || (ledger.proof(log).await.0 >= all).then_some(())).await;
        assert_eq!(ledger.proof(log).await, (all, 0));
    }
}

async fn workers_join_leave_and_die_while_tasks_flow(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let ledger = ledger.settings(PoolSettings::default().batch_size(50));
    let join = async || {
        let set = ReplicaSet::new("work").pool(ledger.clone()).lanes(2);
        start(&db.log().await, set.lease(LONG_LEASE))
    };
    let flow = Flow::start(&log);
    let first = join().await;
    until_shared(&log, "ledger", 1).await;
    let (second, third) = (join().await, join().await);
    until_shared(&log, "ledger", 3).await;
    second.crash();
    until_shared(&log, "ledger", 2).await;
    first.stop().await;
    until_shared(&log, "ledger", 1).await;
    let fourth = join().await;
    until_shared(&log, "ledger", 2).await;
    third.crash();
    until_shared(&log, "ledger", 1).await;
    flow.end(&log, &ledger).await;
    fourth.stop().await;
}

async fn another_number_of_fixed_partitions_goes_on_where_the_last_one_was(db: Db) {
    let log = db.log().await;
    let ledger = Ledger::new(&db, &log, "ledger").await;
    let flow = Flow::start(&log);
    for count in [2, 3, 1] {
        let mut workers = Vec::new();
        for part in 0..count {
            let set = ReplicaSet::new("work").pool(ledger.clone());
            let set = set.partition(format!("{part}/{count}").parse().unwrap());
            workers.push(start(&db.log().await, set));
        }
        until_shared(&log, "ledger", count).await;
        let before = ledger.proof(&log).await.0;
        until("some more", async || (ledger.proof(&log).await.0 > before + 200).then_some(()))
            .await;
        for worker in workers {
            worker.stop().await;
        }
    }
    let last = start(&db.log().await, ReplicaSet::new("work").pool(ledger.clone()));
    flow.end(&log, &ledger).await;
    last.stop().await;
}

/// Runs until it is let go.
#[derive(Clone, Default)]
struct Gated {
    entered: Arc<AtomicBool>,
    open: Arc<AtomicBool>,
}

impl OutsidePool for Gated {
    type Output = ();

    fn name(&self) -> &str {
        "gated"
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult {
        if task.key() == "gate" {
            self.entered.store(true, Ordering::SeqCst);
            while !self.open.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        Ok(())
    }
}

impl Gated {
    /// A worker in the middle of the task.
    async fn begin(&self, db: &Db, log: &Log, set: ReplicaSet) -> (Running, uuid::Uuid) {
        let set = set.outside_pool(self.clone()).lanes(1);
        let worker = start(&db.log().await, set);
        until_shared(log, "gated", 1).await;
        let id = Tasks::new(log, "gated").enqueue(NewTask::new("gate", &())).await.unwrap().id;
        until("the gate", async || self.entered.load(Ordering::SeqCst).then_some(())).await;
        (worker, id)
    }
}

async fn recreate_waits_until_the_last_task_of_the_others_has_ended(db: Db) {
    let log = db.log().await;
    let gated = Gated::default();
    let set = || ReplicaSet::new("work").rollout(Rollout::Recreate).tuning(quick());
    let (first, id) = gated.begin(&db, &log, set()).await;
    let second = start(&db.log().await, set().outside_pool(gated.clone()));
    until("slots that are free", async || {
        let cursors = status(&log, "gated").await.cursors;
        let free = cursors.iter().filter(|cursor| cursor.owner == Owner::Unassigned);
        (free.map(|cursor| cursor.slot_count).sum::<usize>() == 5039).then_some(())
    })
    .await;
    gated.open.store(true, Ordering::SeqCst);
    until_shared(&log, "gated", 2).await;
    let state = Tasks::new(&log, "gated").status(id).await.unwrap().unwrap();
    assert_eq!((state.state, state.attempts), (anabranch::workpool::TaskState::Done, 0));
    first.stop().await;
    second.stop().await;
}

async fn a_long_task_holds_up_the_slot_of_its_key_only(db: Db) {
    let log = db.log().await;
    let gated = Gated::default();
    let (first, id) = gated.begin(&db, &log, ReplicaSet::new("work").tuning(quick())).await;
    // A worker that wants the slot of the key, among half of all.
    let part = log.hash_rule().slot("gate").get() % 2;
    let fixed: anabranch::FixedPartition = format!("{part}/2").parse().unwrap();
    let set = ReplicaSet::new("work").tuning(quick()).partition(fixed);
    let second = start(&db.log().await, set.outside_pool(gated.clone()));
    let owned = async || crate::crew::owned(&log, "gated").await;
    until("all slots but one", async || {
        let mut slots: Vec<usize> = owned().await?.into_values().collect();
        slots.sort_unstable();
        (slots == [2519, 2521]).then_some(())
    })
    .await;
    let tasks = Tasks::new(&log, "gated");
    let others: Vec<NewTask> = (0..20).map(|n| NewTask::new(format!("key-{n}"), &())).collect();
    for other in tasks.enqueue_all(others).await.unwrap() {
        tasks.wait(other.id, Duration::from_secs(30)).await.unwrap();
    }
    assert!(tasks.status(id).await.unwrap().unwrap().state.is_open());
    gated.open.store(true, Ordering::SeqCst);
    until_shared(&log, "gated", 2).await;
    let status = tasks.wait(id, Duration::from_secs(30)).await.unwrap();
    assert_eq!((status.state, status.attempts), (anabranch::workpool::TaskState::Done, 0));
    first.stop().await;
    second.stop().await;
}

async fn a_task_that_never_ends_is_given_up_at_the_end_of_the_grace(db: Db) {
    let log = db.log().await;
    let gated = Gated::default();
    let set = || ReplicaSet::new("work").grace(Duration::from_millis(300));
    let (worker, id) = gated.begin(&db, &log, set()).await;
    tokio::time::timeout(Duration::from_secs(20), worker.stop()).await.unwrap();
    let tasks = Tasks::new(&log, "gated");
    let status = tasks.status(id).await.unwrap().unwrap();
    assert_eq!((status.state, status.attempts), (anabranch::workpool::TaskState::Ready, 0));
    gated.open.store(true, Ordering::SeqCst);
    let worker = start(&log, set().outside_pool(gated.clone()));
    let status = tasks.wait(id, Duration::from_secs(30)).await.unwrap();
    assert_eq!(status.state, anabranch::workpool::TaskState::Done);
    worker.stop().await;
}

//! Workers that die or hang: survivors take over, and a zombie writes nothing.

use crate::crew::*;
use crate::gates::*;
use crate::on_both;
use crate::on_postgres;
use crate::support::*;
use anabranch::backend::database::{End, Statement};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

on_both! {
    a_process_that_is_gone_is_noticed_before_its_lease_is_over,
    all_but_one_die_at_once,
    a_busy_handler_keeps_its_lease,
}

on_postgres! {
    a_blocked_process_with_row_locks_is_taken_over_from,
    an_heir_sees_a_commit_that_was_in_flight_at_the_death,
}

/// The lease is minutes long, so only the sign of life can have told of the death.
async fn a_process_that_is_gone_is_noticed_before_its_lease_is_over(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders").settings(Settings::default().batch_size(20));
    let table = recorder.table.clone();
    let join = async |worker: &str| {
        let set = ReplicaSet::new("s").projection(recorder.clone().worker(worker)).lanes(2);
        start(&db.log().await, set.lease(LONG_LEASE))
    };
    let appender = Appender::start(&log);
    let (survivor, victim) = (join("survivor").await, join("victim").await);
    until_shared(&log, "orders", 2).await;
    victim.crash();
    until_shared(&log, "orders", 1).await;
    let newest = generations(&log).await.remove(0);
    assert!(newest.reason.ends_with("died"), "{}", newest.reason);
    let each = appender.finish().await;
    until_proven(&log, &table, Appender::STREAMS, each).await;
    survivor.stop().await;
}

/// Each watches one other, and those who watched the dead are dead too.
async fn all_but_one_die_at_once(db: Db) {
    let log = db.log().await;
    let join = async || {
        let set = ReplicaSet::new("s").projection(db.recorder("orders"));
        start(&db.log().await, set.lease(LONG_LEASE))
    };
    let mut crew = Vec::new();
    for _ in 0..5 {
        crew.push(join().await);
    }
    until_shared(&log, "orders", 5).await;
    let survivor = crew.remove(2);
    crew.into_iter().for_each(Running::crash);
    until_shared(&log, "orders", 1).await;
    survivor.stop().await;
    let left = Consumers::new(&log).workers().await.unwrap();
    assert!(left.is_empty(), "nobody is left behind: {left:?}");
}

async fn a_busy_handler_keeps_its_lease(db: Db) {
    /// Takes several leases for one event, and does not hold a transaction open meanwhile.
    struct Slow;
    impl Projection for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(())
        }
    }
    let log = db.log().await;
    let lease = Duration::from_secs(2);
    let set = || ReplicaSet::new("s").projection(Slow).lease(lease);
    let busy = start(&db.log().await, set());
    let before = until_shared(&log, "slow", 1).await;
    fill(&log, 0..1, 1..=1).await;
    // A second one wants half of the slots, and may not take those of the busy lane by force.
    let second = start(&db.log().await, set());
    until("the event", async || (status(&log, "slow").await.lag == 0).then_some(())).await;
    let after = until_shared(&log, "slow", 2).await;
    assert!(before.is_subset(&after), "{before:?} is still among {after:?}");
    busy.stop().await;
    second.stop().await;
}

/// A worker whose whole runtime is blocked, in the middle of a transaction that holds row locks which
/// its heir needs: its lease runs out, its session is ended, and when it wakes up it writes nothing and
/// joins again under another name.
async fn a_blocked_process_with_row_locks_is_taken_over_from(db: Db) {
    #[derive(Clone)]
    struct Locker {
        table: String,
        blocks: bool,
        inside: Arc<AtomicBool>,
        wake: Arc<AtomicBool>,
    }
    impl Projection for Locker {
        fn name(&self) -> &str {
            "locker"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
            let lock = format!("SELECT n FROM {} FOR UPDATE", self.table);
            tx.query(lock, vec![]).await?;
            if self.blocks && !self.wake.load(Ordering::SeqCst) {
                self.inside.store(true, Ordering::SeqCst);
                // Not `await`: nothing else of this process runs, as if it were stopped.
                while !self.wake.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            let add = format!("UPDATE {} SET n = n + $1", self.table);
            tx.execute(add, params![event.data::<i64>()?]).await
        }
        async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
            tx.execute(format!("CREATE TABLE {} (n BIGINT)", self.table), vec![]).await?;
            tx.execute(format!("INSERT INTO {} VALUES (0)", self.table), vec![]).await
        }
    }
    let log = db.log().await;
    let locker = Locker {
        table: db.table("locker"),
        blocks: true,
        inside: Arc::default(),
        wake: Arc::default(),
    };
    let lease = Duration::from_secs(2);
    let (own, zombie) = (locker.clone(), ReplicaSet::new("s").lease(lease));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let zombie_log = db.url.clone();
    let options = db.options.clone();
    let zombie = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let log = anabranch::connect_with(&zombie_log, &options).await.unwrap();
            let stop = async {
                let _ = stopped.await;
            };
            zombie.projection(own).run_until(&log, stop).await.unwrap()
        })
    });
    let first = until_shared(&log, "locker", 1).await;
    fill(&log, 0..1, 1..=1).await;
    until("the lock", async || locker.inside.load(Ordering::SeqCst).then_some(())).await;
    let heir = Locker { blocks: false, ..locker.clone() };
    let heir = start(&db.log().await, ReplicaSet::new("s").projection(heir).lease(lease));
    let total = format!("SELECT n FROM {}", locker.table);
    // The reader does not wait for row locks; the heir would, if nobody ended the session.
    until("its heir", async || (number(&log, &total).await == 1).then_some(())).await;
    assert!(!locker.wake.load(Ordering::SeqCst));
    locker.wake.store(true, Ordering::SeqCst);
    let both = until_shared(&log, "locker", 2).await;
    assert!(first.is_disjoint(&both), "it has joined again under another name");
    fill(&log, 0..20, 1..=1).await;
    until("all", async || (status(&log, "locker").await.lag == 0).then_some(())).await;
    let _ = stop.send(());
    tokio::task::spawn_blocking(move || zombie.join().unwrap()).await.unwrap();
    heir.stop().await;
    assert_eq!(number(&log, &total).await, 21, "every event once");
}

/// The dead worker's last commit has moved its cursor, and is not visible yet when its heir claims.
async fn an_heir_sees_a_commit_that_was_in_flight_at_the_death(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let gate = Gate::default();
    let set = |recorder| ReplicaSet::new("s").projection(recorder).lease(LONG_LEASE);
    let dies = start(&db.log().await, set(recorder.clone().hook(gate.hook())));
    until_shared(&log, "orders", 1).await;
    one(&log, "gate", numbered(1)).await;
    fill(&log, 0..10, 1..=1).await;
    gate.is_met().await;
    let head = log.head().await.unwrap();
    let other = db.log().await;
    let mut commit = other.store().database().begin();
    let cursors = table_of(&log, "cursors");
    let moves = Statement::new(format!("UPDATE {cursors} SET position = {head}"), vec![]);
    let open = End::Open { idle: Duration::from_secs(120) };
    commit.run(vec![moves], open).await.unwrap();
    dies.crash();
    let heir = start(&db.log().await, set(recorder.clone()));
    until_blocked(&log, &db).await;
    commit.run(vec![], End::Commit).await.unwrap();
    until_shared(&log, "orders", 1).await;
    fill(&log, 0..10, 2..=2).await;
    until("what came later", async || (proof(&log, &table).await.handled >= 10).then_some(()))
        .await;
    gate.open();
    heir.stop().await;
    let handled = proof(&log, &table).await.handled;
    assert_eq!(handled, 10, "what that commit had passed is not handled again");
}

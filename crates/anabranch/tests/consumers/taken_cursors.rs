//! Cursors that change hands at a bad moment: what their former owner does is void.

use crate::gates::*;
use crate::support::*;
use crate::{on_both, on_postgres};
use anabranch::backend::database::{End, Statement};
use anabranch::operate::{Consumers, Rebuild};
use anabranch::prelude::*;
use anabranch::{HandlerError, Retry};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

on_both! {
    a_commit_of_another_epoch_is_rolled_back,
    a_parked_key_is_drained_under_the_fence,
    a_drain_whose_answer_was_lost_is_not_repeated,
    a_cursor_that_was_taken_is_not_absorbed,
    cursors_that_come_later_to_one_place_are_fenced_together,
}

on_postgres! {
    skip_to_head_repeats_nothing,
    an_old_version_gets_no_cursor_of_the_new_one,
    a_consumer_that_is_forgotten_during_a_claim_is_gone,
}

/// The position is right, the epoch is not.
async fn a_commit_of_another_epoch_is_rolled_back(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let gate = Gate::default();
    let recorder = db.recorder("orders").hook(gate.hook());
    let (table, calls) = (recorder.table.clone(), Arc::clone(&recorder.handled));
    one(&log, "gate", numbered(1)).await;
    let running = start(&log, ReplicaSet::new("s").projection(recorder));
    gate.is_met().await;
    raise_epochs(&other, "").await;
    gate.open();
    until("the event", async || (proof(&log, &table).await.handled > 0).then_some(())).await;
    running.stop().await;
    assert_eq!(calls.load(Ordering::Relaxed), 2, "the first time was rolled back");
    assert_eq!(proof(&log, &table).await, Proof { handled: 1, doubled: 0, keys: 1, wrong: 0 });
}

/// A parked event is being tried again; statements are run meanwhile, and then its handler goes on.
async fn while_it_drains(db: &Db, log: &Log, sql: &[String]) -> (Running, String, Arc<AtomicU32>) {
    let gate = Gate::default();
    let calls = Arc::new(AtomicU32::new(0));
    let hook = {
        let (gate, calls) = (gate.clone(), Arc::clone(&calls));
        move |event: &Event| {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(HandlerError::new("not yet"));
            }
            gate.pass(event);
            Ok(())
        }
    };
    let retry = Retry::default().first(Duration::from_millis(1));
    let recorder = db.recorder("orders").hook(hook).settings(Settings::default().retry(retry));
    let table = recorder.table.clone();
    one(log, "gate", numbered(1)).await;
    let running = start(log, ReplicaSet::new("s").projection(recorder));
    gate.is_met().await;
    let statements = sql.iter().map(|sql| Statement::new(sql.clone(), vec![])).collect();
    let other = db.log().await;
    other.store().database().begin().run(statements, End::Commit).await.unwrap();
    gate.open();
    (running, table, calls)
}

/// The effects of parked events move no cursor, and are fenced all the same.
async fn a_parked_key_is_drained_under_the_fence(db: Db) {
    let log = db.log().await;
    let raise = format!("UPDATE {} SET epoch = epoch + 1", table_of(&log, "cursors"));
    let (running, table, calls) = while_it_drains(&db, &log, &[raise]).await;
    until("the event", async || (proof(&log, &table).await.handled > 0).then_some(())).await;
    running.stop().await;
    assert_eq!(calls.load(Ordering::SeqCst), 3, "failed, rolled back, done");
    assert_eq!(proof(&log, &table).await, Proof { handled: 1, doubled: 0, keys: 1, wrong: 0 });
}

/// What waits behind the key is gone, as after a commit whose answer was lost: it is not done again.
async fn a_drain_whose_answer_was_lost_is_not_repeated(db: Db) {
    let log = db.log().await;
    let gone = ["parked_events", "parked_keys"];
    let gone = gone.map(|table| format!("DELETE FROM {}", table_of(&log, table)));
    let (running, table, calls) = while_it_drains(&db, &log, &gone).await;
    one(&log, "after", numbered(1)).await;
    until("the lane to go on", async || {
        (proof(&log, &table).await.handled > 0 && calls.load(Ordering::SeqCst) >= 3).then_some(())
    })
    .await;
    running.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 1, doubled: 0, keys: 1, wrong: 0 });
}

/// Two cursors of a lane have met and are about to be one; somebody takes one of them. What was read
/// may be of one of them only, so it is tried until a batch was of both.
async fn a_cursor_that_was_taken_is_not_absorbed(db: Db) {
    let log = db.log().await;
    for which in ["min", "max"] {
        let mut attempts = 0;
        while !is_rolled_back_once_taken(&db, &log, which, attempts).await {
            attempts += 1;
            assert!(attempts < 20, "{which}: no event at the gate was ever rolled back");
        }
    }
}

/// Says whether the event at the gate was rolled back.
async fn is_rolled_back_once_taken(db: &Db, log: &Log, which: &str, attempt: u32) -> bool {
    let other = db.log().await;
    let gate = Gate::default();
    let name = format!("orders_{which}_{attempt}");
    let recorder = db.recorder(&name).hook(gate.hook()).partition(Partition::entities());
    let (table, calls) = (recorder.table.clone(), Arc::clone(&recorder.handled));
    // Half of the slots stand at the head, the others at the beginning.
    let half = anabranch::FixedPartition::new(0, 2).unwrap();
    fill(log, 0..10, 1..=1).await;
    gate.open();
    let set = ReplicaSet::new("s").projection(recorder.clone());
    set.partition(half).catch_up(log).await.unwrap();
    let running = start(log, ReplicaSet::new("s").projection(recorder));
    until("both at one place", async || (status(log, &name).await.lag == 0).then_some(())).await;
    gate.open.store(false, Ordering::SeqCst);
    gate.met.store(false, Ordering::SeqCst);
    one(log, "gate", numbered(1)).await;
    let events = log.read(Query::all()).collect().await.unwrap().len() as i64;
    gate.is_met().await;
    let cursors = table_of(log, "cursors");
    let two = format!("SELECT count(*) FROM {cursors} WHERE consumer = '{name}'");
    assert_eq!(number(&other, &two).await, 2);
    let of = format!("consumer = '{name}'");
    let only = format!("WHERE id = (SELECT {which}(id) FROM {cursors} WHERE {of})");
    raise_epochs(&other, &only).await;
    gate.open();
    until("the rest", async || (proof(log, &table).await.handled == events).then_some(())).await;
    running.stop().await;
    assert_eq!(proof(log, &table).await.doubled, 0);
    let is_rolled_back = calls.load(Ordering::Relaxed) > events as u64;
    if is_rolled_back {
        assert_eq!(number(&other, &two).await, 1, "they are one after all");
    }
    is_rolled_back
}

/// A lane gets more slots at the place where it stands: what is read for both is fenced by both.
async fn cursors_that_come_later_to_one_place_are_fenced_together(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    for which in ["min", "max"] {
        let gate = Gate::default();
        let name = format!("orders_{which}");
        let settings = Settings::default().start(anabranch::Start::Head);
        let recorder = db.recorder(&name).hook(gate.hook()).settings(settings);
        let table = recorder.table.clone();
        let half = anabranch::FixedPartition::new(0, 2).unwrap();
        let set = || ReplicaSet::new("s").projection(recorder.clone());
        let owners = async || {
            let status = Consumers::new(&log).status(&name).await.ok()?;
            let owner = |cursor: &anabranch::operate::CursorStatus| match &cursor.owner {
                anabranch::operate::Owner::Worker(worker) => Some(worker.id.clone()),
                _ => None,
            };
            status.cursors.iter().map(owner).collect::<Option<BTreeSet<_>>>()
        };
        let first = start(&other, set().partition(half));
        until("the first", async || {
            let status = Consumers::new(&log).status(&name).await.ok()?;
            let owned = |c: &&anabranch::operate::CursorStatus| {
                c.owner != anabranch::operate::Owner::Unassigned
            };
            (status.cursors.iter().filter(owned).count() == 1).then_some(())
        })
        .await;
        let second = start(&log, set());
        until("two owners", async || (owners().await?.len() == 2).then_some(())).await;
        first.stop().await;
        until("one owner", async || (owners().await?.len() == 1).then_some(())).await;
        // The streams 0 to 9 lie in both halves.
        let mut append = Append::new().to(
            &StreamId::new("Order", "gate").unwrap(),
            Expected::Any,
            [numbered(1)],
        );
        for stream in 0..10 {
            let id = StreamId::new("Order", format!("{which}-{stream}")).unwrap();
            append = append.to(&id, Expected::Any, [numbered(1)]);
        }
        log.append_all(append).await.unwrap();
        gate.is_met().await;
        let cursors = table_of(&log, "cursors");
        let of = format!("consumer = '{name}'");
        let only = format!("WHERE id = (SELECT {which}(id) FROM {cursors} WHERE {of})");
        raise_epochs(&other, &only).await;
        gate.open();
        until("all", async || (proof(&log, &table).await.handled >= 11).then_some(())).await;
        until("all of it", async || (status(&log, &name).await.lag == 0).then_some(())).await;
        second.stop().await;
        assert_eq!(proof(&log, &table).await.doubled, 0, "{which}");
        assert_eq!(proof(&log, &table).await.handled, 11, "{which}");
    }
}

/// Events are appended and handled after it has looked up the head, before it moves the cursors.
async fn skip_to_head_repeats_nothing(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    fill(&log, 0..5, 1..=2).await;
    let running = start(&log, ReplicaSet::new("s").projection(recorder));
    let handled = async |count: i64| {
        until("the events", async || {
            let known = Consumers::new(&log).list().await.unwrap();
            known.first()?;
            (proof(&log, &table).await.handled >= count).then_some(())
        })
        .await;
    };
    handled(10).await;
    let lock = format!("SELECT name FROM {} FOR UPDATE", table_of(&log, "consumers"));
    let held = hold(&other, lock).await;
    let skip = {
        let log = db.log().await;
        tokio::spawn(async move { Consumers::new(&log).skip_to_head("orders").await })
    };
    until_blocked(&other, &db).await;
    fill(&log, 0..5, 3..=3).await;
    handled(15).await;
    drop(held);
    skip.await.unwrap().unwrap();
    fill(&log, 0..5, 4..=4).await;
    handled(20).await;
    running.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 20, doubled: 0, keys: 5, wrong: 0 });
}

#[derive(Clone)]
struct Factors {
    table: &'static str,
    version: u32,
}

impl Projection for Factors {
    fn name(&self) -> &str {
        "factors"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().version(self.version)
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let insert =
            format!("INSERT INTO {} (position, version) VALUES ($1, $2)", tx.table(self.table));
        tx.execute(insert, params![event.position(), self.version]).await
    }
    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let table = tx.table(self.table);
        tx.execute(format!("CREATE TABLE {table} (position BIGINT, version BIGINT)"), vec![]).await
    }
}

/// A worker of the old version is fenced by the switch before it hears of it. What it claims then is
/// the new version's.
async fn an_old_version_gets_no_cursor_of_the_new_one(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    fill(&log, 0..5, 1..=2).await;
    let table: &'static str = Box::leak(db.table("factors").into_boxed_str());
    let old = Factors { table, version: 1 };
    let set = ReplicaSet::new("s").projection(old).lease(Duration::from_secs(60));
    let running = start(&log, set);
    until("the old version", async || {
        (Consumers::new(&other).status("factors").await.ok()?.lag == 0).then_some(())
    })
    .await;
    ReplicaSet::new("r").rebuild(Factors { table, version: 2 }).catch_up(&other).await.unwrap();
    // Its sign of life is slow.
    let held =
        hold(&other, format!("SELECT id FROM {} FOR UPDATE", table_of(&log, "workers"))).await;
    until("the switch", async || {
        let switched = Rebuild::new(&other, "factors", &[table]).switch().await;
        switched.is_ok().then_some(())
    })
    .await;
    fill(&other, 0..5, 3..=3).await;
    let done = format!("SELECT count(*) FROM {table} WHERE position > 10 AND version = 1");
    let claimed = async || {
        let cursors = status(&other, "factors").await.cursors;
        cursors.iter().any(|cursor| cursor.owner != anabranch::operate::Owner::Unassigned)
    };
    // The lane has been fenced once its worker has asked for the cursors again, or was refused.
    let seen = tokio::time::timeout(Duration::from_secs(5), async {
        while number(&other, &done).await == 0 && !claimed().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let got = seen.await.is_ok();
    drop(held);
    let _ = running.ended().await;
    assert!(!got, "{} events by the old code in the new table", number(&other, &done).await);
}

/// A claim divides cursors while somebody forgets the consumer.
async fn a_consumer_that_is_forgotten_during_a_claim_is_gone(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let set = || ReplicaSet::new("s").projection(db.recorder("orders"));
    set().catch_up(&log).await.unwrap();
    let (consumers, cursors) = (table_of(&log, "consumers"), table_of(&log, "cursors"));
    // What a claim does: lock the consumer, lock its cursors, write one and add one.
    let mut claim = hold(&log, format!("SELECT name FROM {consumers} FOR UPDATE")).await;
    let split = vec![
        Statement::query(format!("SELECT id FROM {cursors} FOR UPDATE"), vec![]),
        Statement::new(
            format!(
                "INSERT INTO {cursors} (consumer, position, epoch, slots) \
                 SELECT consumer, position, epoch + 1, slots FROM {cursors}"
            ),
            vec![],
        ),
    ];
    let open = End::Open { idle: Duration::from_secs(60) };
    claim.run(split, open).await.unwrap();
    let forget = {
        let log = db.log().await;
        tokio::spawn(async move { Consumers::new(&log).forget("orders").await })
    };
    until_blocked(&other, &db).await;
    claim.run(vec![], End::Commit).await.unwrap();
    forget.await.unwrap().unwrap();
    let left = number(&log, &format!("SELECT count(*) FROM {cursors}")).await;
    assert_eq!(left, 0, "cursors of nobody: the name can never be used again");
}

//! Rare interleavings and odd handlers: what must hold when things go wrong at a bad moment.

use crate::on_both;
use crate::support::{Db, Proof, Recorder, fill, number, numbered, proof, start, status, until};
use anabranch::database::{End, Session, Statement};
use anabranch::prelude::*;
use anabranch::{Consumers, HandlerError, Rebuild, ReplayFrom, Retry, ViewReader};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    a_statement_that_was_given_up_half_way_takes_nothing_with_it,
    one_wish_to_skip_skips_one_event,
    a_forgotten_view_begins_anew,
    a_replay_after_a_position_keeps_what_was_parked_before_it,
    a_handler_that_panics_ends_a_catch_up_with_an_error,
    a_handler_that_panics_on_one_of_two_lanes_is_noticed,
    a_key_function_that_panics_is_noticed,
    a_state_that_cannot_be_written_parks_its_own_key,
    many_failing_keys_among_good_ones_do_not_stop_a_consumer,
    a_wish_survives_a_crash,
    a_set_up_may_fill_the_table_that_it_makes,
    a_transaction_that_is_held_for_too_long_is_its_handlers_failure,
    workers_that_died_are_not_kept_for_ever,
    a_commit_of_another_epoch_is_rolled_back,
    a_parked_key_is_drained_under_the_fence,
    a_cursor_that_was_taken_is_not_absorbed,
    cursors_that_come_later_to_one_place_are_fenced_together,
    a_view_is_replayed_while_it_runs,
    events_without_a_key_are_met_by_one_of_several_partitions,
    slow_handlers_commit_in_between_and_leave_nothing_out,
    a_worker_whose_lease_is_over_begins_anew,
}

mod on_postgres {
    macro_rules! cases {
        ($($case:ident),* $(,)?) => {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case(crate::support::Db::postgres()).await; })*
        };
    }
    cases! {
        a_value_that_does_not_fit_fails_its_event,
        skip_to_head_repeats_nothing,
        an_old_version_gets_no_cursor_of_the_new_one,
        a_parked_key_is_tried_while_an_unrelated_append_is_in_flight,
        handlers_that_hold_all_sessions_do_not_look_dead,
        an_error_with_a_nul_in_it_parks_its_key,
        a_consumer_that_is_forgotten_during_a_claim_is_gone,
        a_lock_of_somebody_else_does_not_outlast_the_grace_time,
        a_table_may_get_a_column_while_it_is_read,
        an_append_in_flight_is_not_passed,
    }
}

fn never() -> Settings {
    Settings::default().retry(Retry::never())
}

fn table_of(log: &Log, name: &str) -> String {
    log.store().database().dialect().table(name)
}

async fn one(log: &Log, stream: &str, event: NewEvent) {
    let stream = StreamId::new("Order", stream).unwrap();
    log.append(&stream, Expected::Any, [event]).await.unwrap();
}

/// A transaction that stays open and holds what the statement locks.
async fn hold(log: &Log, sql: String) -> Box<dyn Session> {
    let mut session = log.store().database().begin();
    let open = End::Open { idle: Duration::from_secs(120) };
    session.run(vec![Statement::query(sql, vec![])], open).await.unwrap();
    session
}

/// Waits until a statement of this case waits for a lock.
async fn until_blocked(log: &Log, db: &Db) {
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
         AND query LIKE '%{}%' AND pid <> pg_backend_pid()",
        db.own
    );
    until("a statement that waits for a lock", async || {
        (number(log, &waiting).await > 0).then_some(())
    })
    .await;
}

/// A handler writes, then gives up a read half-way (as a timeout would) and goes on. What it wrote
/// must be stored, or the event must count as failed.
async fn a_statement_that_was_given_up_half_way_takes_nothing_with_it(db: Db) {
    struct Impatient(String);
    impl Projection for Impatient {
        fn name(&self) -> &str {
            "impatient"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, event: &Event, tx: &mut Tx<'_>) -> Result<()> {
            let insert = format!("INSERT INTO {} (position) VALUES ($1)", self.0);
            tx.execute(insert, params![event.position()]).await?;
            if event.stream_id() == "3" {
                tokio::select! {
                    biased;
                    _ = tx.query("SELECT 1 AS one", vec![]) => {}
                    () = std::future::ready(()) => {}
                }
            }
            Ok(())
        }
        async fn set_up(&self, tx: &mut Tx<'_>) -> Result<()> {
            tx.execute(format!("CREATE TABLE {} (position BIGINT)", self.0), vec![]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..6, 1..=1).await;
    let table = db.table("impatient");
    ReplicaSet::new("s").projection(Impatient(table.clone())).catch_up(&log).await.unwrap();
    let parked = status(&log, "impatient").await.parked_events as i64;
    let stored = number(&log, &format!("SELECT count(*) FROM {table}")).await;
    assert_eq!(stored + parked, 6, "{stored} stored, {parked} parked");
}

/// Blocks the lane that meets stream `gate` until it is opened.
#[derive(Clone, Default)]
struct Gate {
    met: Arc<AtomicBool>,
    open: Arc<AtomicBool>,
}

impl Gate {
    fn pass(&self, event: &Event) {
        if event.stream_id() == "gate" {
            self.met.store(true, Ordering::SeqCst);
            tokio::task::block_in_place(|| {
                while !self.open.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
    }

    async fn is_met(&self) {
        until("the gate", async || self.met.load(Ordering::SeqCst).then_some(())).await;
    }

    fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }
}

/// Waits until a worker has given so many signs of life.
async fn until_beats(log: &Log, count: usize) {
    let select = format!("SELECT lease_us FROM {}", table_of(log, "workers"));
    let mut seen = BTreeSet::new();
    until("signs of life", async || {
        seen.insert(number(log, &select).await);
        (seen.len() > count).then_some(())
    })
    .await;
}

/// Takes cursors from their owner as a claim does, wherever they stand.
async fn raise_epochs(log: &Log, only: &str) {
    let raise = format!("UPDATE {} SET epoch = epoch + 1 {only}", table_of(log, "cursors"));
    let raise = Statement::new(raise, vec![]);
    log.store().database().begin().run(vec![raise], End::Commit).await.unwrap();
}

/// The position is right, the epoch is not.
async fn a_commit_of_another_epoch_is_rolled_back(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let gate = Gate::default();
    let hook = {
        let gate = gate.clone();
        move |event: &Event| {
            gate.pass(event);
            Ok(())
        }
    };
    let recorder = db.recorder("orders").hook(hook);
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

/// The effects of parked events move no cursor, and are fenced all the same.
async fn a_parked_key_is_drained_under_the_fence(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
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
    one(&log, "gate", numbered(1)).await;
    let running = start(&log, ReplicaSet::new("s").projection(recorder));
    gate.is_met().await;
    raise_epochs(&other, "").await;
    gate.open();
    until("the event", async || (proof(&log, &table).await.handled > 0).then_some(())).await;
    running.stop().await;
    assert_eq!(calls.load(Ordering::SeqCst), 3, "failed, rolled back, done");
    assert_eq!(proof(&log, &table).await, Proof { handled: 1, doubled: 0, keys: 1, wrong: 0 });
}

/// Two cursors of a lane have met and are about to be one; somebody takes one of them.
async fn a_cursor_that_was_taken_is_not_absorbed(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    for which in ["min", "max"] {
        let gate = Gate::default();
        let hook = {
            let gate = gate.clone();
            move |event: &Event| {
                gate.pass(event);
                Ok(())
            }
        };
        let name = format!("orders_{which}");
        let recorder = db.recorder(&name).hook(hook).partition(Partition::entities());
        let (table, calls) = (recorder.table.clone(), Arc::clone(&recorder.handled));
        // Half of the slots stand at the head, the others at the beginning.
        let half = anabranch::FixedPartition::new(0, 2).unwrap();
        fill(&log, 0..10, 1..=1).await;
        gate.open();
        let set = ReplicaSet::new("s").projection(recorder.clone());
        set.partition(half).catch_up(&log).await.unwrap();
        let before = calls.load(Ordering::Relaxed);
        let running = start(&log, ReplicaSet::new("s").projection(recorder));
        until("both at one place", async || (status(&log, &name).await.lag == 0).then_some(()))
            .await;
        gate.open.store(false, Ordering::SeqCst);
        gate.met.store(false, Ordering::SeqCst);
        one(&log, "gate", numbered(1)).await;
        let events = log.read(Query::all()).collect().await.unwrap().len() as i64;
        gate.is_met().await;
        let cursors = table_of(&log, "cursors");
        let two = format!("SELECT count(*) FROM {cursors} WHERE consumer = '{name}'");
        assert_eq!(number(&other, &two).await, 2);
        let of = format!("consumer = '{name}'");
        let only = format!("WHERE id = (SELECT {which}(id) FROM {cursors} WHERE {of})");
        raise_epochs(&other, &only).await;
        gate.open();
        until("the rest", async || (proof(&log, &table).await.handled == events).then_some(()))
            .await;
        running.stop().await;
        let calls = calls.load(Ordering::Relaxed) - before;
        let rest = events as u64 - before;
        assert!(calls > rest, "{which}: the event at the gate was rolled back once");
        assert_eq!(proof(&log, &table).await.doubled, 0);
        assert_eq!(number(&other, &two).await, 1, "they are one after all");
    }
}

/// A lane gets more slots at the place where it stands: what is read for both is fenced by both.
async fn cursors_that_come_later_to_one_place_are_fenced_together(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    for which in ["min", "max"] {
        let gate = Gate::default();
        let hook = {
            let gate = gate.clone();
            move |event: &Event| {
                gate.pass(event);
                Ok(())
            }
        };
        let name = format!("orders_{which}");
        let settings = Settings::default().start(anabranch::Start::Head);
        let recorder = db.recorder(&name).hook(hook).settings(settings);
        let table = recorder.table.clone();
        let half = anabranch::FixedPartition::new(0, 2).unwrap();
        let set = || ReplicaSet::new("s").projection(recorder.clone());
        let owners = async || {
            let status = Consumers::of(&log).status(&name).await.ok()?;
            let owner = |cursor: &anabranch::CursorStatus| match &cursor.owner {
                anabranch::Owner::Worker(worker) => Some(worker.id.clone()),
                _ => None,
            };
            status.cursors.iter().map(owner).collect::<Option<BTreeSet<_>>>()
        };
        let first = start(&other, set().partition(half));
        until("the first", async || {
            let status = Consumers::of(&log).status(&name).await.ok()?;
            let owned = |c: &&anabranch::CursorStatus| c.owner != anabranch::Owner::Unassigned;
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

/// The lane that folds it again must not go on with what it remembers.
async fn a_view_is_replayed_while_it_runs(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=10).await;
    let view = Sums::default();
    let running = start(&log, ReplicaSet::new("s").view(view.clone()));
    let applied = async |count: u64| {
        until("the events", async || {
            let known = Consumers::of(&log).status("sums").await.ok()?;
            let done = view.applied.load(Ordering::Relaxed) >= count && known.lag == 0;
            (done && known.replay_from.is_none()).then_some(())
        })
        .await;
    };
    applied(50).await;
    Consumers::of(&log).replay("sums", ReplayFrom::Start).await.unwrap();
    applied(100).await;
    running.stop().await;
    let reader = ViewReader::new(&log, &view);
    assert_eq!(reader.get("3").await.unwrap().unwrap().total, 55);
}

async fn events_without_a_key_are_met_by_one_of_several_partitions(db: Db) {
    let log = db.log().await;
    for number in 1..=4 {
        one(&log, "keyless", numbered(number)).await;
        let keyed = numbered(number).with_customer("c").with_correlation("c");
        one(&log, "keyed", keyed).await;
    }
    for (name, partition) in [("customers", Partition::customer()), ("sagas", Partition::saga())] {
        let recorder = db.recorder(name).partition(partition).settings(never());
        for index in 0..3 {
            let fixed = anabranch::FixedPartition::new(index, 3).unwrap();
            let set = ReplicaSet::new("s").projection(recorder.clone()).partition(fixed).lanes(2);
            set.catch_up(&log).await.unwrap();
        }
        assert_eq!(proof(&log, &recorder.table).await.handled, 4, "{name}");
        let status = status(&log, name).await;
        assert_eq!((status.parked_keys, status.parked_events), (1, 4), "{name}");
    }
}

/// A batch is cut where it takes long; what is behind the cut comes next.
async fn slow_handlers_commit_in_between_and_leave_nothing_out(db: Db) {
    #[derive(Clone, Default)]
    struct Slow(Arc<std::sync::Mutex<Vec<u64>>>);
    impl Slow {
        async fn see(&self, event: &Event) {
            tokio::time::sleep(Duration::from_millis(300)).await;
            self.0.lock().unwrap().push(event.position().get());
        }
    }
    impl Projection for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, event: &Event, _: &mut Tx<'_>) -> Result<()> {
            self.see(event).await;
            Ok(())
        }
    }
    impl Subscriber for Slow {
        fn name(&self) -> &str {
            "slow_outside"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn deliver(&self, delivery: &anabranch::Delivery<'_>) -> Result<()> {
            self.see(delivery.event()).await;
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let (inside, outside) = (Slow::default(), Slow::default());
    let set = ReplicaSet::new("s").projection(inside.clone()).subscriber(outside.clone());
    set.catch_up(&log).await.unwrap();
    assert_eq!(*inside.0.lock().unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(*outside.0.lock().unwrap(), [1, 2, 3, 4, 5]);
}

/// Somebody may have begun to take its cursors: a lease that is over is never renewed.
async fn a_worker_whose_lease_is_over_begins_anew(db: Db) {
    let log = db.log().await;
    let recorder = db.recorder("orders");
    let table = recorder.table.clone();
    let set = ReplicaSet::new("s").projection(recorder).lease(Duration::from_secs(2));
    let running = start(&log, set);
    let alive = async || {
        let workers = Consumers::of(&log).workers().await.unwrap();
        workers.into_iter().find(|worker| worker.is_alive).map(|worker| worker.id)
    };
    let first = until("a worker", alive).await;
    let workers = table_of(&log, "workers");
    let end = Statement::new(format!("UPDATE {workers} SET lease_us = 0"), vec![]);
    log.store().database().begin().run(vec![end], End::Commit).await.unwrap();
    let second = until("a worker again", alive).await;
    assert_ne!(first, second);
    fill(&log, 0..5, 1..=2).await;
    until("the events", async || (proof(&log, &table).await.handled == 10).then_some(())).await;
    running.stop().await;
    assert_eq!(proof(&log, &table).await, Proof { handled: 10, doubled: 0, keys: 5, wrong: 0 });
}

/// The lane is busy while the wish is made, so that it hears of it more than once.
async fn one_wish_to_skip_skips_one_event(db: Db) {
    // The gate holds the writer of SQLite in no way: nothing is read in the transaction.
    let log = db.log().await;
    let gate = Gate::default();
    let hook = {
        let gate = gate.clone();
        move |event: &Event| {
            gate.pass(event);
            match event.stream_id() {
                "3" if event.version() > 1 => Err(HandlerError::new("never")),
                _ => Ok(()),
            }
        }
    };
    let recorder = db.recorder("orders").hook(hook).settings(never());
    let table = recorder.table.clone();
    fill(&log, 0..5, 1..=10).await;
    let set = ReplicaSet::new("s").projection(recorder).lease(Duration::from_millis(500));
    let running = start(&log, set);
    let consumers = Consumers::of(&log);
    let waiting = async || consumers.parked("orders").await.ok()?.pop().map(|key| key.events);
    until("nine events", async || (waiting().await? == 9).then_some(())).await;
    until("the others", async || (proof(&log, &table).await.handled == 41).then_some(())).await;
    one(&log, "gate", numbered(1)).await;
    gate.is_met().await;
    consumers.skip_parked("orders", "Order:3").await.unwrap();
    until_beats(&log, 6).await;
    gate.open();
    until("the wish", async || {
        consumers.parked("orders").await.ok()?.pop()?.asked.is_none().then_some(())
    })
    .await;
    one(&log, "after", numbered(1)).await;
    until("the lane to go on", async || (proof(&log, &table).await.handled == 43).then_some(()))
        .await;
    running.stop().await;
    assert_eq!(waiting().await, Some(8), "one event is left out, not more");
}

#[derive(Clone, Default, Debug, PartialEq, serde::Deserialize)]
struct Sum {
    total: i64,
    broken: bool,
}

impl serde::Serialize for Sum {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeStruct};
        if self.broken {
            return Err(S::Error::custom("cannot be written"));
        }
        let mut sum = to.serialize_struct("Sum", 2)?;
        sum.serialize_field("total", &self.total)?;
        sum.serialize_field("broken", &self.broken)?;
        sum.end()
    }
}

#[derive(Clone, Default)]
struct Sums {
    /// The stream whose state cannot be written.
    broken: Option<&'static str>,
    applied: Arc<AtomicU64>,
}

impl View for Sums {
    type State = Sum;
    fn name(&self) -> &str {
        "sums"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    fn apply(&self, sum: &mut Sum, event: &Event) -> Result<()> {
        self.applied.fetch_add(1, Ordering::Relaxed);
        sum.total += event.data::<i64>()?;
        sum.broken = self.broken == Some(event.stream_id());
        Ok(())
    }
}

/// Its table is the view's own: one that begins again must not find the states of before.
async fn a_forgotten_view_begins_anew(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=10).await;
    let view = Sums::default();
    ReplicaSet::new("s").view(view.clone()).catch_up(&log).await.unwrap();
    let reader = ViewReader::new(&log, &view);
    assert_eq!(reader.get("3").await.unwrap().unwrap().total, 55);
    Consumers::of(&log).forget("sums").await.unwrap();
    ReplicaSet::new("s").view(view).catch_up(&log).await.unwrap();
    assert_eq!(reader.get("3").await.unwrap().unwrap().total, 55);
}

/// A table that can be put back to any position.
struct Rows {
    table: String,
    fails: Arc<AtomicBool>,
}

impl Projection for Rows {
    fn name(&self) -> &str {
        "rows"
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx<'_>) -> Result<()> {
        if self.fails.load(Ordering::SeqCst) && event.stream_id() == "3" && event.version() >= 2 {
            return Err(HandlerError::new("not yet"));
        }
        let insert = format!("INSERT INTO {} (position) VALUES ($1)", self.table);
        tx.execute(insert, params![event.position()]).await
    }
    async fn set_up(&self, tx: &mut Tx<'_>) -> Result<()> {
        tx.execute(format!("CREATE TABLE {} (position BIGINT)", self.table), vec![]).await
    }
    async fn reset(&self, to: Position, tx: &mut Tx<'_>) -> Result<()> {
        let undo = format!("DELETE FROM {} WHERE position > $1", self.table);
        tx.execute(undo, params![to]).await
    }
}

async fn a_replay_after_a_position_keeps_what_was_parked_before_it(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=10).await;
    let (table, fails) = (db.table("rows"), Arc::new(AtomicBool::new(true)));
    let rows = || Rows { table: table.clone(), fails: Arc::clone(&fails) };
    ReplicaSet::new("s").projection(rows()).catch_up(&log).await.unwrap();
    assert_eq!(status(&log, "rows").await.parked_events, 9);
    let consumers = Consumers::of(&log);
    consumers.replay("rows", ReplayFrom::After(Position::new(25))).await.unwrap();
    fails.store(false, Ordering::SeqCst);
    ReplicaSet::new("s").projection(rows()).catch_up(&log).await.unwrap();
    let stored = number(&log, &format!("SELECT count(DISTINCT position) FROM {table}")).await;
    let parked = status(&log, "rows").await.parked_events as i64;
    assert_eq!(stored + parked, 50, "{stored} stored, {parked} parked: the rest is lost");
}

fn panicking(db: &Db) -> Recorder {
    db.recorder("orders").hook(|event| match event.stream_id() {
        "3" => panic!("a handler that panics"),
        _ => Ok(()),
    })
}

async fn a_handler_that_panics_ends_a_catch_up_with_an_error(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let recorder = panicking(&db);
    let table = recorder.table.clone();
    let result = ReplicaSet::new("s").projection(recorder).catch_up(&log).await;
    let handled = proof(&log, &table).await.handled;
    let parked = status(&log, "orders").await.parked_events as i64;
    assert!(
        result.is_err() || handled + parked == 5,
        "it says that all is done, and {handled} of 5 are handled, {parked} parked"
    );
}

/// Ends by itself, or shows it in the status: anything but silence.
async fn is_noticed(log: &Log, set: ReplicaSet, total: i64, table: &str) {
    let running = start(log, set);
    let ended = tokio::time::timeout(Duration::from_secs(10), running.ended()).await;
    let status = status(log, "orders").await;
    let handled = proof(log, table).await.handled;
    assert!(
        ended.is_ok() || handled + status.parked_events as i64 == total,
        "it runs on, and {handled} of {total} are handled: {status:?}"
    );
}

async fn a_handler_that_panics_on_one_of_two_lanes_is_noticed(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let recorder = panicking(&db);
    let table = recorder.table.clone();
    is_noticed(&log, ReplicaSet::new("s").projection(recorder).lanes(2), 5, &table).await;
}

async fn a_key_function_that_panics_is_noticed(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let partition = Partition::custom("odd", |event| match event.stream_id() {
        "3" => panic!("a key function that panics"),
        id => Some(id.to_owned()),
    });
    let recorder = db.recorder("orders").partition(partition);
    let table = recorder.table.clone();
    is_noticed(&log, ReplicaSet::new("s").projection(recorder), 5, &table).await;
}

/// The state of one key cannot be written; its neighbours in the batch are not to blame.
async fn a_state_that_cannot_be_written_parks_its_own_key(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let view = Sums { broken: Some("2"), ..Sums::default() };
    let running = start(&log, ReplicaSet::new("s").view(view.clone()));
    let consumers = Consumers::of(&log);
    until("a parked key, or the same again and again", async || {
        let parked = !consumers.parked("sums").await.ok()?.is_empty();
        (parked || view.applied.load(Ordering::Relaxed) > 200).then_some(())
    })
    .await;
    running.stop().await;
    let parked = consumers.parked("sums").await.unwrap();
    let keys: Vec<_> = parked.iter().map(|key| key.key.as_str()).collect();
    assert_eq!(keys, ["Order:2"]);
}

/// Every second key fails; nothing is wrong with the others, and so not with the handler.
async fn many_failing_keys_among_good_ones_do_not_stop_a_consumer(db: Db) {
    let log = db.log().await;
    fill(&log, 0..260, 1..=1).await;
    let hook = |event: &Event| match event.stream_id().parse::<u64>().unwrap() % 2 {
        1 => Err(HandlerError::new("odd")),
        _ => Ok(()),
    };
    let recorder = db.recorder("orders").hook(hook).settings(never());
    let table = recorder.table.clone();
    let result = ReplicaSet::new("s").projection(recorder).catch_up(&log).await;
    assert!(result.is_ok(), "{}", result.unwrap_err());
    assert_eq!(proof(&log, &table).await.handled, 130);
    assert_eq!(status(&log, "orders").await.parked_keys, 130);
}

/// Somebody asks for a key to be tried again, and the process dies while it tries.
async fn a_wish_survives_a_crash(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=3).await;
    let fixed = Arc::new(AtomicBool::new(false));
    let meets = Arc::new(AtomicU32::new(0));
    let recorder = |dies: bool| {
        let (fixed, meets) = (Arc::clone(&fixed), Arc::clone(&meets));
        let hook = move |event: &Event| {
            if event.stream_id() != "3" {
                return Ok(());
            }
            if !fixed.load(Ordering::SeqCst) {
                return Err(HandlerError::new("not yet"));
            }
            if dies {
                meets.fetch_add(1, Ordering::SeqCst);
                tokio::task::block_in_place(|| std::thread::sleep(Duration::from_secs(2)));
            }
            Ok(())
        };
        db.recorder("orders").settings(never()).hook(hook)
    };
    let table = recorder(false).table;
    let lease = Duration::from_millis(300);
    let set = |dies| ReplicaSet::new("s").projection(recorder(dies)).lease(lease);
    set(false).catch_up(&log).await.unwrap();
    assert_eq!(status(&log, "orders").await.parked_events, 3);
    fixed.store(true, Ordering::SeqCst);
    let consumers = Consumers::of(&log);
    consumers.retry_parked("orders", "Order:3").await.unwrap();
    let other = db.log().await;
    let running = start(&other, set(true));
    until("the key to be tried", async || (meets.load(Ordering::SeqCst) > 0).then_some(())).await;
    running.crash();
    let heir = start(&log, set(false));
    let moved = async || {
        let parked = consumers.parked("orders").await.ok()?;
        let is_due = parked.iter().all(|key| key.asked.is_some() || key.retry_in.is_some());
        (parked.is_empty() || !is_due).then_some(parked.len())
    };
    until("the heir to own everything", async || {
        let owned =
            |cursor: &anabranch::CursorStatus| matches!(&cursor.owner, anabranch::Owner::Worker(_));
        status(&log, "orders").await.cursors.iter().all(owned).then_some(())
    })
    .await;
    let left = until("the key to be done or forgotten", moved).await;
    heir.stop().await;
    assert_eq!(left, 0, "nobody will try the key again");
    assert_eq!(proof(&log, &table).await, Proof { handled: 15, doubled: 0, keys: 5, wrong: 0 });
}

async fn a_set_up_may_fill_the_table_that_it_makes(db: Db) {
    struct Seeded(String);
    impl Projection for Seeded {
        fn name(&self) -> &str {
            "seeded"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, _: &Event, tx: &mut Tx<'_>) -> Result<()> {
            tx.execute(format!("UPDATE {} SET events = events + 1", self.0), vec![]).await
        }
        async fn set_up(&self, tx: &mut Tx<'_>) -> Result<()> {
            tx.execute(format!("CREATE TABLE {} (events BIGINT)", self.0), vec![]).await?;
            tx.execute(format!("INSERT INTO {} (events) VALUES ($1)", self.0), params![0]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let table = db.table("seeded");
    ReplicaSet::new("s").projection(Seeded(table.clone())).catch_up(&log).await.unwrap();
    assert_eq!(number(&log, &format!("SELECT events FROM {table}")).await, 3);
}

/// A handler that reads, and then thinks for longer than a transaction may stay open, will do so each
/// time: it is a failing event and no outage.
async fn a_transaction_that_is_held_for_too_long_is_its_handlers_failure(db: Db) {
    struct Thinker(Arc<AtomicU32>);
    impl Projection for Thinker {
        fn name(&self) -> &str {
            "thinker"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, _: &Event, tx: &mut Tx<'_>) -> Result<()> {
            self.0.fetch_add(1, Ordering::SeqCst);
            tx.query("SELECT 1 AS one", vec![]).await?;
            tokio::time::sleep(Duration::from_secs(6)).await;
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let calls = Arc::new(AtomicU32::new(0));
    let running = start(&log, ReplicaSet::new("s").projection(Thinker(Arc::clone(&calls))));
    let consumers = Consumers::of(&log);
    let parked = async || consumers.parked("thinker").await.is_ok_and(|keys| !keys.is_empty());
    until("a parked key, or a third call", async || {
        (parked().await || calls.load(Ordering::SeqCst) > 2).then_some(())
    })
    .await;
    assert!(parked().await, "called {} times with one attempt", calls.load(Ordering::SeqCst));
    running.stop().await;
}

async fn workers_that_died_are_not_kept_for_ever(db: Db) {
    let log = db.log().await;
    let lease = Duration::from_millis(200);
    let set = |worker: &str| {
        ReplicaSet::new("s").projection(db.recorder("orders").worker(worker)).lease(lease)
    };
    let consumers = Consumers::of(&log);
    for _ in 0..2 {
        let other = db.log().await;
        let running = start(&other, set("crashes"));
        until("a worker", async || {
            consumers.workers().await.unwrap().iter().any(|w| w.is_alive).then_some(())
        })
        .await;
        running.crash();
        until("its end", async || {
            consumers.workers().await.unwrap().iter().all(|w| !w.is_alive).then_some(())
        })
        .await;
    }
    set("last").catch_up(&log).await.unwrap();
    let left = consumers.workers().await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// The driver finds that a value does not fit before it sends it. The rest of the batch must not be
/// committed without it.
async fn a_value_that_does_not_fit_fails_its_event(db: Db) {
    struct Amounts(String);
    impl Projection for Amounts {
        fn name(&self) -> &str {
            "amounts"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, event: &Event, tx: &mut Tx<'_>) -> Result<()> {
            let amount = if event.stream_id() == "3" { "three" } else { "7" };
            let insert = format!("INSERT INTO {} (key, amount) VALUES ($1, $2)", self.0);
            tx.execute(insert, params![event.stream_id(), amount]).await
        }
        async fn set_up(&self, tx: &mut Tx<'_>) -> Result<()> {
            tx.execute(format!("CREATE TABLE {} (key TEXT, amount BIGINT)", self.0), vec![]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..6, 1..=1).await;
    let table = db.table("amounts");
    ReplicaSet::new("s").projection(Amounts(table.clone())).catch_up(&log).await.unwrap();
    let parked = Consumers::of(&log).parked("amounts").await.unwrap();
    let keys: Vec<_> = parked.iter().map(|key| key.key.as_str()).collect();
    let stored = number(&log, &format!("SELECT count(*) FROM {table}")).await;
    assert_eq!((stored, keys), (5, vec!["Order:3"]));
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
            let known = Consumers::of(&log).list().await.unwrap();
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
        tokio::spawn(async move { Consumers::of(&log).skip_to_head("orders").await })
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
    async fn handle(&self, event: &Event, tx: &mut Tx<'_>) -> Result<()> {
        let insert =
            format!("INSERT INTO {} (position, version) VALUES ($1, $2)", tx.table(self.table));
        tx.execute(insert, params![event.position(), self.version]).await
    }
    async fn set_up(&self, tx: &mut Tx<'_>) -> Result<()> {
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
        (Consumers::of(&other).status("factors").await.ok()?.lag == 0).then_some(())
    })
    .await;
    ReplicaSet::new("r").rebuild(Factors { table, version: 2 }).catch_up(&other).await.unwrap();
    // Its sign of life is slow.
    let held =
        hold(&other, format!("SELECT id FROM {} FOR UPDATE", table_of(&log, "workers"))).await;
    until("the switch", async || {
        let switched = Rebuild::of(&other, "factors", &[table]).switch().await;
        switched.is_ok().then_some(())
    })
    .await;
    fill(&other, 0..5, 3..=3).await;
    let done = format!("SELECT count(*) FROM {table} WHERE position > 10 AND version = 1");
    let claimed = async || {
        let cursors = status(&other, "factors").await.cursors;
        cursors.iter().any(|cursor| cursor.owner != anabranch::Owner::Unassigned)
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

/// The consumer reads some types only, so an append of another type does not hold it up; nor may it
/// when a parked event is read again.
async fn a_parked_key_is_tried_while_an_unrelated_append_is_in_flight(db: Db) {
    use anabranch::postgres::{Postgres, tokio_postgres};
    let log = db.log().await;
    let (mut client, connection) =
        tokio_postgres::connect(&db.url, tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    let stream = StreamId::new("Import", "1").unwrap();
    let unrelated = Append::new().to(&stream, Expected::Any, [NewEvent::new("Imported", 1)]);
    log.backend::<Postgres>().unwrap().append_in(&tx, unrelated).await.unwrap();
    fill(&log, 0..3, 1..=1).await;
    let fails = Arc::new(AtomicU32::new(1));
    let hook = move |event: &Event| match event.stream_id() {
        "1" if fails.swap(0, Ordering::SeqCst) == 1 => Err(HandlerError::new("not yet")),
        _ => Ok(()),
    };
    let retry = Retry::default().first(Duration::from_millis(1));
    let settings = Settings::default().retry(retry).scope(Scope::types(["Numbered"]));
    let recorder = db.recorder("orders").hook(hook).settings(settings);
    let table = recorder.table.clone();
    let running = start(&log, ReplicaSet::new("s").projection(recorder));
    let ended = tokio::time::timeout(Duration::from_secs(10), running.ended()).await;
    let handled = proof(&log, &table).await.handled;
    tx.rollback().await.unwrap();
    driver.abort();
    assert!(ended.is_err(), "it ended: {:?}", ended.unwrap());
    assert_eq!(handled, 3);
}

/// Law 4 for reads that the server filters. Another consumer, which the append does not concern, shows
/// that time passes.
async fn an_append_in_flight_is_not_passed(db: Db) {
    use anabranch::postgres::{Postgres, tokio_postgres};
    let log = db.log().await;
    let (mut client, connection) =
        tokio_postgres::connect(&db.url, tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let orders = db.recorder("orders");
    let scope = Settings::default().scope(Scope::types(["Other"]));
    let others = db.recorder("others").partition(Partition::entities()).settings(scope);
    let tables = [orders.table.clone(), others.table.clone()];
    let set = || ReplicaSet::new("s").projection(orders.clone()).projection(others.clone());
    set().catch_up(&log).await.unwrap();
    let tx = client.transaction().await.unwrap();
    let stream = StreamId::new("Order", "slow").unwrap();
    let slow = Append::new().to(&stream, Expected::Any, [numbered(1)]);
    log.backend::<Postgres>().unwrap().append_in(&tx, slow).await.unwrap();
    let running = start(&log, set().lanes(2));
    for number in 1..=10 {
        fill(&log, 0..5, number..=number).await;
        let stream = StreamId::new("Other", "1").unwrap();
        log.append(&stream, Expected::Any, [NewEvent::new("Other", number)]).await.unwrap();
        until("the other consumer", async || {
            (proof(&log, &tables[1]).await.handled == number as i64).then_some(())
        })
        .await;
    }
    assert_eq!(proof(&log, &tables[0]).await.handled, 0, "nothing passes it");
    tx.commit().await.unwrap();
    until("all", async || (proof(&log, &tables[0]).await.handled == 51).then_some(())).await;
    running.stop().await;
    driver.abort();
    assert_eq!(proof(&log, &tables[0]).await, Proof { handled: 51, doubled: 0, keys: 6, wrong: 0 });
}

/// All sessions are in the hands of handlers that have read and now wait.
async fn handlers_that_hold_all_sessions_do_not_look_dead(db: Db) {
    struct Waiter(Arc<AtomicU32>, Arc<tokio::sync::Semaphore>);
    impl Projection for Waiter {
        fn name(&self) -> &str {
            "waiter"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, _: &Event, tx: &mut Tx<'_>) -> Result<()> {
            tx.query("SELECT 1 AS one", vec![]).await?;
            self.0.fetch_add(1, Ordering::SeqCst);
            drop(self.1.acquire().await);
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..60, 1..=1).await;
    let sessions = db.options.sessions;
    let worker_log = db.log().await;
    let (inside, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let waiter = Waiter(Arc::clone(&inside), Arc::clone(&gate));
    let lease = Duration::from_millis(500);
    let set = ReplicaSet::new("s").projection(waiter).lanes(10).lease(lease);
    let running = start(&worker_log, set);
    until("handlers in all sessions", async || {
        (inside.load(Ordering::SeqCst) as usize >= sessions).then_some(())
    })
    .await;
    let select = format!("SELECT lease_us FROM {}", table_of(&log, "workers"));
    let mut seen = BTreeSet::new();
    let alive = until("signs of life, or its end", async || {
        seen.insert(number(&log, &select).await);
        let alive = Consumers::of(&log).workers().await.unwrap().iter().any(|w| w.is_alive);
        (!alive || seen.len() > 5).then_some(alive)
    })
    .await;
    gate.add_permits(1000);
    running.stop().await;
    assert!(alive, "its lease is over, though it only waits");
}

async fn an_error_with_a_nul_in_it_parks_its_key(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let hook = |event: &Event| match event.stream_id() {
        "3" => Err(HandlerError::new("cannot read `a\0b`")),
        _ => Ok(()),
    };
    let recorder = db.recorder("orders").hook(hook).settings(never());
    let result = ReplicaSet::new("s").projection(recorder).catch_up(&log).await;
    assert!(result.is_ok(), "{}", result.unwrap_err());
    assert_eq!(status(&log, "orders").await.parked_keys, 1);
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
        tokio::spawn(async move { Consumers::of(&log).forget("orders").await })
    };
    until_blocked(&other, &db).await;
    claim.run(vec![], End::Commit).await.unwrap();
    forget.await.unwrap().unwrap();
    let left = number(&log, &format!("SELECT count(*) FROM {cursors}")).await;
    assert_eq!(left, 0, "cursors of nobody: the name can never be used again");
}

/// Told to stop while its consumer is locked, a worker ends within its grace time, more or less.
async fn a_lock_of_somebody_else_does_not_outlast_the_grace_time(db: Db) {
    let (log, other) = (db.log().await, db.log().await);
    let set = || ReplicaSet::new("s").projection(db.recorder("orders"));
    set().catch_up(&log).await.unwrap();
    let lock = format!("SELECT name FROM {} FOR UPDATE", table_of(&log, "consumers"));
    let running = start(&log, set().grace(Duration::from_millis(200)));
    until("a worker", async || Consumers::of(&other).workers().await.unwrap().first().map(drop))
        .await;
    let held = hold(&other, lock).await;
    let ended = tokio::time::timeout(Duration::from_secs(15), running.stop()).await;
    drop(held);
    assert!(ended.is_ok(), "it still waits");
}

/// A column is added to a table that handlers read with `SELECT *`.
async fn a_table_may_get_a_column_while_it_is_read(db: Db) {
    struct Prices(String, Arc<AtomicU32>);
    impl Projection for Prices {
        fn name(&self) -> &str {
            "prices"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            never()
        }
        async fn handle(&self, _: &Event, tx: &mut Tx<'_>) -> Result<()> {
            tx.query(format!("SELECT * FROM {}", self.0), vec![]).await?;
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
        async fn set_up(&self, tx: &mut Tx<'_>) -> Result<()> {
            tx.execute(format!("CREATE TABLE {} (price BIGINT)", self.0), vec![]).await
        }
    }
    let log = db.log().await;
    let (table, handled) = (db.table("prices"), Arc::new(AtomicU32::new(0)));
    fill(&log, 0..1, 1..=1).await;
    let set = ReplicaSet::new("s").projection(Prices(table.clone(), Arc::clone(&handled)));
    let running = start(&log, set);
    let other = db.log().await;
    // One after the other, so that each session of the pool has its turn.
    for number in 1..=20 {
        until("it", async || (handled.load(Ordering::SeqCst) == number).then_some(())).await;
        fill(&log, 0..1, 1..=1).await;
    }
    until("the first", async || (handled.load(Ordering::SeqCst) == 21).then_some(())).await;
    let alter = Statement::new(format!("ALTER TABLE {table} ADD COLUMN vat BIGINT"), vec![]);
    until("the column", async || {
        let done = other.store().database().begin().run(vec![alter.clone()], End::Commit).await;
        done.is_ok().then_some(())
    })
    .await;
    let parked = async || Consumers::of(&log).parked("prices").await.unwrap();
    for number in 22..=31 {
        fill(&log, 0..1, 1..=1).await;
        until("it, or a parked key", async || {
            let done = handled.load(Ordering::SeqCst) >= number;
            (done || !parked().await.is_empty()).then_some(())
        })
        .await;
    }
    running.stop().await;
    assert!(parked().await.is_empty(), "{:?}", parked().await);
}

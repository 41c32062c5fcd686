//! Permits come back, whatever fails meanwhile, and are not asked for in vain.

use crate::crew::{quick, until_shared};
use crate::ledger::counted;
use crate::limits::{LONG, Limited, all_done, keys_of, part, permits};
use crate::on_both;
use crate::support::*;
use anabranch::RunError;
use anabranch::backend::{Holding, RowConsumer};
use anabranch::operate::Consumers;
use anabranch::partitioning::SlotSet;
use anabranch::prelude::*;
use anabranch::workpool::TaskState;
use anabranch::workpool::{NewTask, OutsidePool, Run, Task, Tasks};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

on_both!(
    a_permit_comes_back_though_giving_it_back_has_failed,
    a_long_task_writes_nothing_while_it_runs,
    a_task_takes_one_permit_and_no_second,
    a_busy_pool_need_not_ask_for_each_task,
    a_broken_consumer_gives_its_permit_back_and_ends_nobody,
    a_pool_that_is_forgotten_leaves_no_permits,
);

/// What a worker writes into its log.
#[derive(Clone, Default)]
pub struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A worker on a thread of its own, so that its log is its own.
pub struct Apart {
    said: Said,
    stop: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Apart {
    pub fn start(db: &Db, set: ReplicaSet) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (url, options, said) = (db.url.clone(), db.options.clone(), Said::default());
        let writer = said.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let fmt = tracing_subscriber::fmt().with_ansi(false);
            let subscriber = fmt.with_writer(move || writer.clone()).finish();
            let _guard = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
            runtime.unwrap().block_on(async {
                let log = anabranch::connect_with(&url, &options).await.unwrap();
                set.run_until(&log, async { drop(stopped.await) }).await.unwrap();
            });
        });
        Self { said, stop, thread }
    }

    /// How often it has said something.
    pub fn has_said(&self, part: &str) -> usize {
        String::from_utf8_lossy(&self.said.0.lock().unwrap()).matches(part).count()
    }

    pub async fn until_said(&self, part: &str) {
        until(part, async || (self.has_said(part) > 0).then_some(())).await;
    }

    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        tokio::task::spawn_blocking(move || self.thread.join().unwrap()).await.unwrap();
    }
}

/// Refuses an operation on the table of permits, until it is allowed again.
pub struct Refused {
    name: String,
    table: String,
    is_sqlite: bool,
}

impl Refused {
    pub async fn on(db: &Db, log: &Log, operation: &str) -> Self {
        let database = log.store().database();
        let dialect = database.dialect();
        let (name, table) = (db.table("refused"), dialect.table("permits"));
        let is_sqlite = dialect.name() == "sqlite";
        let trigger = format!("CREATE TRIGGER {name} BEFORE {operation} ON {table}");
        if is_sqlite {
            let raise = format!("{trigger} BEGIN SELECT RAISE(ABORT, 'refused'); END");
            query(log, &raise, vec![]).await;
        } else {
            let raise = "BEGIN RAISE EXCEPTION 'refused'; END";
            let function =
                format!("CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${raise}$$");
            query(log, &function, vec![]).await;
            let each = format!("{trigger} FOR EACH ROW EXECUTE FUNCTION {name}()");
            query(log, &each, vec![]).await;
        }
        Self { name, table, is_sqlite }
    }

    pub async fn allow(self, log: &Log) {
        let Self { name, table, is_sqlite } = self;
        let of = if is_sqlite { String::new() } else { format!(" ON {table}") };
        query(log, &format!("DROP TRIGGER {name}{of}"), vec![]).await;
    }
}

/// Counts what is written to the table of permits.
pub struct Writes(String);

impl Writes {
    pub async fn of(db: &Db, log: &Log) -> Self {
        let database = log.store().database();
        let dialect = database.dialect();
        let (writes, table) = (db.table("writes"), dialect.table("permits"));
        query(log, &format!("CREATE TABLE {writes} (held BIGINT)"), vec![]).await;
        let insert = |held: &str| format!("INSERT INTO {writes} VALUES ({held})");
        if dialect.name() == "sqlite" {
            for (operation, held) in
                [("INSERT", "NEW.held"), ("UPDATE", "NEW.held"), ("DELETE", "0")]
            {
                let trigger = format!("CREATE TRIGGER {writes}_{operation} AFTER {operation}");
                let insert = insert(held);
                query(log, &format!("{trigger} ON {table} BEGIN {insert}; END"), vec![]).await;
            }
        } else {
            let insert = insert("CASE WHEN TG_OP = 'DELETE' THEN 0 ELSE NEW.held END");
            let function = format!("CREATE FUNCTION {writes}() RETURNS trigger LANGUAGE plpgsql");
            let body = format!("BEGIN {insert}; RETURN NULL; END");
            query(log, &format!("{function} AS $${body}$$"), vec![]).await;
            let trigger = format!("CREATE TRIGGER {writes} AFTER INSERT OR UPDATE OR DELETE");
            let each = format!("{trigger} ON {table} FOR EACH ROW EXECUTE FUNCTION {writes}()");
            query(log, &each, vec![]).await;
        }
        Self(writes)
    }

    pub async fn count(&self, log: &Log) -> i64 {
        number(log, &format!("SELECT count(*) FROM {}", self.0)).await
    }

    /// The most that one worker ever held.
    pub async fn most(&self, log: &Log) -> i64 {
        number(log, &format!("SELECT coalesce(max(held), 0) FROM {}", self.0)).await
    }
}

/// Short tasks of a pool without a limit, one after the other.
struct Steps;

impl OutsidePool for Steps {
    type Output = ();

    fn name(&self) -> &str {
        "steps"
    }

    async fn run(&self, _: &Task, _: &mut Run) -> HandlerResult {
        tokio::time::sleep(Duration::from_millis(40)).await;
        Ok(())
    }
}

/// One of the workers that share a pool, each with half of the slots.
fn half(pool: &Limited, of: u16) -> ReplicaSet {
    ReplicaSet::new("work").outside_pool(pool.clone()).partition(part(of)).tuning(quick())
}

/// The last task of a worker ends, and the database does not take its permit back at first.
async fn a_permit_comes_back_though_giving_it_back_has_failed(db: Db) {
    let log = db.log().await;
    let pool = Limited::new(1);
    let first = Apart::start(&db, half(&pool, 0));
    let second = start(&db.log().await, half(&pool, 1));
    until_shared(&log, "limited", 2).await;
    let tasks = Tasks::new(&log, "limited");
    let refused = Refused::on(&db, &log, "DELETE").await;
    let id = tasks.enqueue(NewTask::new(&keys_of(&log, 0, 1)[0], &1)).await.unwrap().id;
    assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Done);
    first.until_said("cannot ask for permits").await;
    refused.allow(&log).await;
    let id = tasks.enqueue(NewTask::new(&keys_of(&log, 1, 1)[0], &1)).await.unwrap().id;
    assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Done);
    until("no permits", async || permits(&log).await.is_empty().then_some(())).await;
    first.stop().await;
    second.stop().await;
}

/// While one runs and nobody else wants anything, there is nothing to say: the rest of a block lies still.
async fn a_long_task_writes_nothing_while_it_runs(db: Db) {
    let log = db.log().await;
    let writes = Writes::of(&db, &log).await;
    let pool = Limited { takes: LONG, ..Limited::new(100) };
    let set = ReplicaSet::new("work").outside_pool(pool.clone()).outside_pool(Steps);
    let worker = start(&log, set.tuning(quick()));
    until_shared(&log, "limited", 1).await;
    Tasks::new(&log, "limited").enqueue_all(counted(1, 1)).await.unwrap();
    until("a long task", async || (pool.gauge.most() == 1).then_some(())).await;
    let steps = Tasks::new(&log, "steps");
    let ids = steps.enqueue_all(counted(1, 40)).await.unwrap();
    all_done(&steps, &ids).await;
    assert_eq!(writes.count(&log).await, 1);
    worker.crash();
}

async fn a_task_takes_one_permit_and_no_second(db: Db) {
    let log = db.log().await;
    let writes = Writes::of(&db, &log).await;
    let worker = Limited::new(10).join(&db, 1).await;
    until_shared(&log, "limited", 1).await;
    let tasks = Tasks::new(&log, "limited");
    for number in 0..30 {
        let id = tasks.enqueue(NewTask::new("key", &number)).await.unwrap().id;
        assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Done);
    }
    assert_eq!(writes.most(&log).await, 1);
    worker.stop().await;
}

async fn a_busy_pool_need_not_ask_for_each_task(db: Db) {
    let log = db.log().await;
    let writes = Writes::of(&db, &log).await;
    let tasks = Tasks::new(&log, "limited");
    let pool = Limited::new(24);
    let ids = tasks.enqueue_all(counted(200, 5)).await.unwrap();
    let worker = pool.join(&db, 1).await;
    all_done(&tasks, &ids).await;
    let (written, ran) = (writes.count(&log).await, pool.ran());
    assert!(written * 5 < 1000, "{written} writes for {ran} tasks");
    worker.stop().await;
}

/// Takes the one permit that there is, and keeps it until it breaks. It breaks once, and wants nothing then.
#[derive(Clone, Default)]
struct Brittle {
    has_permit: Arc<AtomicBool>,
    is_broken: Arc<AtomicBool>,
    breaks: Arc<Notify>,
}

impl RowConsumer for Brittle {
    fn name(&self) -> &str {
        "brittle"
    }

    fn max_parallelism(&self) -> Option<usize> {
        Some(1)
    }

    async fn look_after(&self, holding: &mut Holding) -> Result<(), RunError> {
        let mut permits = holding.permits();
        permits.wants(usize::from(!self.is_broken.load(Ordering::SeqCst)));
        let (mut waiting, mut permit) = (Box::pin(permits.next()), None);
        while !holding.is_stopping() {
            holding.let_go(&SlotSet::empty()).await?;
            tokio::select! {
                got = &mut waiting, if permit.is_none() => {
                    permit = Some(got);
                    self.has_permit.store(true, Ordering::SeqCst);
                }
                () = holding.news() => {}
                () = self.breaks.notified() => {
                    self.is_broken.store(true, Ordering::SeqCst);
                    return Err(holding.refuse("its table is gone"));
                }
            }
        }
        Ok(())
    }
}

/// The database refuses to take it back at first. What else the worker runs goes on.
async fn a_broken_consumer_gives_its_permit_back_and_ends_nobody(db: Db) {
    let log = db.log().await;
    let pauses = quick().probes(Duration::from_millis(20), Duration::from_millis(80));
    let set = |rows: &Brittle, of| {
        ReplicaSet::new("work").rows(rows.clone()).partition(part(of)).tuning(pauses)
    };
    let has = async |rows: &Brittle| {
        until("a permit", async || rows.has_permit.load(Ordering::SeqCst).then_some(())).await;
    };
    let (one, other) = (Brittle::default(), Brittle::default());
    let first = Apart::start(&db, set(&one, 0).outside_pool(Steps));
    has(&one).await;
    let second = start(&db.log().await, set(&other, 1));
    until("one that waits", async || {
        status(&log, "brittle").await.limit.filter(|limit| limit.waiting == 1)
    })
    .await;
    let refused = Refused::on(&db, &log, "DELETE").await;
    one.breaks.notify_one();
    until("a give-back that fails", async || {
        assert!(!first.has_ended(), "the others go on");
        (first.has_said("cannot give its permits back") > 0).then_some(())
    })
    .await;
    let steps = Tasks::new(&log, "steps");
    let id = steps.enqueue(NewTask::new(&keys_of(&log, 0, 1)[0], &1)).await.unwrap().id;
    assert_eq!(steps.wait(id, LONG).await.unwrap().state, TaskState::Done);
    assert!(!other.has_permit.load(Ordering::SeqCst));
    refused.allow(&log).await;
    has(&other).await;
    first.stop().await;
    second.stop().await;
}

async fn a_pool_that_is_forgotten_leaves_no_permits(db: Db) {
    let log = db.log().await;
    let pool = Limited { takes: LONG, ..Limited::new(2) };
    let worker = pool.join(&db, 1).await;
    until_shared(&log, "limited", 1).await;
    Tasks::new(&log, "limited").enqueue_all(counted(1, 1)).await.unwrap();
    until("a permit", async || (permits(&log).await.len() == 1).then_some(())).await;
    worker.crash();
    Consumers::new(&log).forget("limited").await.unwrap();
    assert_eq!(permits(&log).await, []);
}

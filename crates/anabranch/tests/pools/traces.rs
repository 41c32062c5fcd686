//! The trace of whoever enqueues a task goes on in its handler, and in what follows it.

use crate::on_both;
use crate::support::*;
use anabranch::Options;
use anabranch::prelude::*;
use anabranch::trace::{TraceContext, current, within};
use anabranch::workpool::{NewTask, OutsidePool, Pool, Run, Task, TaskState, Tasks};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both!(
    a_task_runs_in_the_trace_of_whoever_enqueued_it,
    a_handler_hands_the_trace_of_each_event_to_its_tasks,
    a_task_that_is_there_keeps_its_first_trace,
    an_older_log_has_no_room_for_traces,
);

const LONG: Duration = Duration::from_secs(60);

fn context(number: u8) -> TraceContext {
    TraceContext::new([number; 16], [number; 8], 1).unwrap()
}

/// What was run, and where in a trace: in the code, and as the task says.
type Seen = Arc<Mutex<Vec<(String, Option<TraceContext>, Option<TraceContext>)>>>;

fn see(seen: &Seen, task: &Task) {
    let what = format!("{}:{}", task.key(), task.payload_json());
    seen.lock().unwrap().push((what, current(), task.trace()));
}

/// Where it stood in a trace, if that is what the task said too.
fn trace_of(seen: &Seen, what: &str) -> Option<TraceContext> {
    let seen = seen.lock().unwrap();
    let (_, code, task) = seen.iter().find(|(it, ..)| it == what).unwrap();
    assert_eq!(code, task, "{what}");
    *code
}

/// Its effects are in the database: an event, and a task of the other pool.
struct In(Log, Seen);

impl Pool for In {
    type Output = ();

    fn name(&self) -> &str {
        "in"
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
        see(&self.1, task);
        let stream = StreamId::new("Ran", task.key())?;
        tx.append(&stream, Expected::Any, [NewEvent::new("Ran", task.key())])?;
        let next = NewTask::new(task.key(), &"next");
        Tasks::new(&self.0, "out").enqueue_in(tx, &[next]).await
    }
}

/// Its effects are outside.
struct Out(Log, Seen);

impl OutsidePool for Out {
    type Output = ();

    fn name(&self) -> &str {
        "out"
    }

    async fn run(&self, task: &Task, run: &mut Run) -> HandlerResult {
        see(&self.1, task);
        if task.payload_json() == "\"next\"" {
            let stream = StreamId::new("Called", task.key())?;
            let called = NewEvent::new("Called", task.key());
            self.0.append(&stream, Expected::Any, [called]).await?;
            run.then("out", NewTask::new(task.key(), &"last"));
        }
        Ok(())
    }
}

fn both(log: &Log) -> (ReplicaSet, Seen) {
    let seen = Seen::default();
    let set = ReplicaSet::new("work").pool(In(log.clone(), Arc::clone(&seen)));
    (set.outside_pool(Out(log.clone(), Arc::clone(&seen))).lanes(2), seen)
}

async fn a_task_runs_in_the_trace_of_whoever_enqueued_it(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "in");
    let mut ids = Vec::new();
    for number in 1..=3 {
        let task =
            NewTask::new(format!("k{number}"), &number).on_complete("out", "followed", &number);
        ids.push(within(context(number), tasks.enqueue(task)).await.unwrap().id);
    }
    // One that says it itself, one that wants none, and one outside of any, all of one statement.
    let own = NewTask::new("k4", &4).with_trace(context(4));
    let none = NewTask::new("k5", &5).without_trace();
    let all = tasks.enqueue_all(vec![own, none]);
    ids.extend(within(context(9), all).await.unwrap().iter().map(|it| it.id));
    ids.push(tasks.enqueue(NewTask::new("k6", &6)).await.unwrap().id);
    let (set, seen) = both(&log);
    let worker = start(&log, set);
    for id in ids {
        assert_eq!(tasks.wait(id, LONG).await.unwrap().state, TaskState::Done);
    }
    // A task of each pool for each key, what follows that, and what follows three of them when they end.
    until("all tasks", async || (seen.lock().unwrap().len() == 6 * 3 + 3).then_some(())).await;
    worker.stop().await;
    for number in 1..=6u8 {
        let trace = Some(context(number)).filter(|_| number < 5);
        for what in [number.to_string(), "\"next\"".to_owned(), "\"last\"".to_owned()] {
            assert_eq!(trace_of(&seen, &format!("k{number}:{what}")), trace, "k{number} {what}");
        }
        for category in ["Ran", "Called"] {
            let stream = StreamId::new(category, format!("k{number}")).unwrap();
            let events = log.read_stream(&stream).collect().await.unwrap();
            assert_eq!(events[0].trace(), trace, "{stream}");
        }
    }
    let mut followed: Vec<_> = seen.lock().unwrap().clone();
    followed.retain(|(what, ..)| what.starts_with("followed"));
    let mut traces: Vec<_> = followed.iter().map(|(_, code, _)| code.unwrap().span_id()).collect();
    traces.sort_unstable();
    assert_eq!(traces, [1, 2, 3].map(|number| context(number).span_id()));
}

/// Enqueues a task for each event.
struct Asks(Tasks);

impl Projection for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.0.enqueue_in(tx, &[NewTask::new(event.stream_id(), &"asked")]).await
    }
}

async fn a_handler_hands_the_trace_of_each_event_to_its_tasks(db: Db) {
    let log = db.log().await;
    for number in 1..=5u8 {
        let stream = StreamId::new("Order", number.to_string()).unwrap();
        let append = log.append(&stream, Expected::Any, [NewEvent::new("OrderPlaced", ())]);
        match number {
            5 => append.await.unwrap(),
            _ => within(context(number), append).await.unwrap(),
        };
    }
    // One lane: all of them are one batch.
    let asks = ReplicaSet::new("asks").projection(Asks(Tasks::new(&log, "out"))).lanes(1);
    asks.catch_up(&log).await.unwrap();
    let (set, seen) = both(&log);
    let worker = start(&log, set);
    until("all tasks", async || (seen.lock().unwrap().len() == 5).then_some(())).await;
    worker.stop().await;
    for number in 1..=5u8 {
        let trace = Some(context(number)).filter(|_| number < 5);
        assert_eq!(trace_of(&seen, &format!("{number}:\"asked\"")), trace);
    }
}

async fn a_task_that_is_there_keeps_its_first_trace(db: Db) {
    let log = db.log().await;
    let tasks = Tasks::new(&log, "out");
    let id = uuid::Uuid::now_v7();
    let by_id = || tasks.enqueue(NewTask::new("id", &1).with_id(id));
    let by_name = || tasks.enqueue(NewTask::new("name", &1).unique("once"));
    for number in 1..=2 {
        let enqueued = within(context(number), by_id()).await.unwrap();
        assert_eq!(enqueued.is_new, number == 1);
        let enqueued = within(context(number), by_name()).await.unwrap();
        assert_eq!(enqueued.is_new, number == 1);
    }
    let (set, seen) = both(&log);
    let worker = start(&log, set);
    until("both tasks", async || (seen.lock().unwrap().len() == 2).then_some(())).await;
    worker.stop().await;
    assert_eq!(trace_of(&seen, "id:1"), Some(context(1)));
    assert_eq!(trace_of(&seen, "name:1"), Some(context(1)));
}

/// A program that does not migrate works on a log of the schema before: its tasks have no trace.
async fn an_older_log_has_no_room_for_traces(db: Db) {
    let log = db.log().await;
    let (tasks, events) = (
        log.store().database().dialect().table("tasks"),
        log.store().database().dialect().table("events"),
    );
    for table in [tasks, events] {
        query(&log, &format!("ALTER TABLE {table} DROP COLUMN trace"), vec![]).await;
    }
    let migrations = log.store().database().dialect().table("migrations");
    query(&log, &format!("DELETE FROM {migrations} WHERE version > 10"), vec![]).await;
    drop(log);
    let namespace = db.options.namespace.clone();
    let options = Options { namespace, migrate: false, take_older: true, ..Options::default() };
    let old = anabranch::connect_with(&db.url, &options).await.unwrap();
    let tasks = Tasks::new(&old, "in");
    let enqueued = within(context(1), tasks.enqueue(NewTask::new("k", &1))).await.unwrap();
    let status = tasks.status(enqueued.id).await.unwrap().unwrap();
    assert_eq!(status.state, TaskState::Ready);
    // It reads the row of a task, without the column.
    assert!(tasks.cancel(enqueued.id).await.unwrap());
    let stream = StreamId::new("Order", "1").unwrap();
    let placed = NewEvent::new("OrderPlaced", ());
    within(context(1), old.append(&stream, Expected::Any, [placed])).await.unwrap();
    assert_eq!(old.read_stream(&stream).collect().await.unwrap()[0].trace(), None);
}

//! Tasks: run in the trace of whoever enqueued them, with the commit of their ends.

use crate::support::{Db, end_of, start, until};
use crate::traced::{Traced, placed, request};
use crate::traced_on_both;
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, OutsidePool, Pool, Run, Task, TaskState, Tasks};
use anabranch::{HandlerError, Retry};
use std::time::Duration;

traced_on_both!(
    tasks_of_both_kinds_go_on_with_the_trace,
    a_task_that_fails_is_tried_again_in_the_same_trace,
    tasks_of_several_traces_share_a_commit,
    tasks_of_one_trace_share_a_commit_in_it,
);

/// Enqueues a task for each order.
struct Asks(Tasks);

impl Projection for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.0.enqueue_in(tx, &[NewTask::new(event.stream_id(), &"ship")]).await
    }
}

/// Its effects are in the database: it asks the other pool.
struct Ship(Tasks);

impl Pool for Ship {
    type Output = ();

    fn name(&self) -> &str {
        "ship"
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult {
        self.0.enqueue_in(tx, &[NewTask::new(task.key(), &"call")]).await
    }
}

/// Its effects are outside: it appends, and fails as often as the payload says.
struct Call(Log);

impl OutsidePool for Call {
    type Output = ();

    fn name(&self) -> &str {
        "call"
    }

    fn settings(&self) -> anabranch::workpool::PoolSettings {
        let retry = Retry::default().first(Duration::from_millis(20));
        anabranch::workpool::PoolSettings::default().retry(retry)
    }

    async fn run(&self, task: &Task, _: &mut Run) -> HandlerResult {
        if task.attempt() == 1 && task.key() == "fails" {
            return Err(HandlerError::new("nobody answers"));
        }
        let stream = StreamId::new("Called", task.key())?;
        self.0.append(&stream, Expected::Any, [NewEvent::new("Called", ())]).await?;
        Ok(())
    }
}

async fn tasks_of_both_kinds_go_on_with_the_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    placed(&log, "o-1").await;
    let (ship, call) = (Tasks::new(&log, "ship"), Tasks::new(&log, "call"));
    let set = ReplicaSet::new("main").projection(Asks(ship)).lanes(1);
    let running = start(&log, set.pool(Ship(call.clone())).outside_pool(Call(log.clone())));
    let called = StreamId::new("Called", "o-1").unwrap();
    until("the call", async || log.read_stream(&called).collect().await.unwrap().pop()).await;
    until("its end", async || {
        let done = call.list(TaskState::Done, 10).await.unwrap();
        (done.len() == 1).then_some(())
    })
    .await;
    running.stop().await;
    traced.sent().until("all of the trace", |spans| {
        let request = spans.one("o-1")?;
        let handle = spans.one("handle asks")?;
        let (ship, call) = (spans.one("task ship")?, spans.one("task call")?);
        assert_eq!((&ship.parent, &call.parent), (&handle.id, &ship.id));
        // Its end is stored within it.
        assert_eq!(spans.below(ship, "commit").len(), 1);
        assert_eq!(spans.below(call, "commit").len(), 1);
        assert_eq!(spans.below(call, "append").len(), 1);
        assert!(spans.0.iter().all(|span| span.trace == request.trace));
        assert_eq!(call.attributes["anabranch.consumer"], "call");
        assert_eq!(call.attributes["anabranch.set"], "main");
        Some(())
    });
}

async fn a_task_that_fails_is_tried_again_in_the_same_trace(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let tasks = Tasks::new(&log, "call");
    let enqueued = request("asked", tasks.enqueue(NewTask::new("fails", &()))).await.unwrap();
    let running = start(&log, ReplicaSet::new("main").outside_pool(Call(log.clone())));
    end_of(&tasks, enqueued.id).await;
    running.stop().await;
    traced.sent().until("both attempts", |spans| {
        let asked = spans.one("asked")?;
        let [first, second] = spans.below(asked, "task call")[..] else { return None };
        assert!(first.error.as_deref()?.contains("nobody answers"), "{first:?}");
        assert!(second.error.is_none() && spans.below(second, "commit").len() == 1);
        Some(())
    });
}

async fn tasks_of_several_traces_share_a_commit(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let (tasks, next) = (Tasks::new(&log, "ship"), Tasks::new(&log, "next"));
    for key in ["a", "b", "c"] {
        request(key, tasks.enqueue(NewTask::new(key, &()))).await.unwrap();
    }
    ReplicaSet::new("main").pool(Ship(next)).lanes(1).catch_up(&log).await.unwrap();
    traced.sent().until("the commit", |spans| {
        let commit = spans.one("commit")?;
        assert_eq!((commit.parent.as_str(), commit.links.len()), ("", 3));
        for key in ["a", "b", "c"] {
            let task = spans.below(spans.one(key)?, "task ship");
            assert!(commit.links_to(task[0]));
        }
        Some(())
    });
}

async fn tasks_of_one_trace_share_a_commit_in_it(db: Db) {
    let (traced, log) = (Traced::begin(), db.log().await);
    let (tasks, next) = (Tasks::new(&log, "ship"), Tasks::new(&log, "next"));
    let all = async {
        for key in ["a", "b"] {
            tasks.enqueue(NewTask::new(key, &())).await.unwrap();
        }
    };
    request("all", all).await;
    ReplicaSet::new("main").pool(Ship(next)).lanes(1).catch_up(&log).await.unwrap();
    traced.sent().until("the commit", |spans| {
        let (all, commit) = (spans.one("all")?, spans.one("commit")?);
        let [one, other] = spans.below(all, "task ship")[..] else { return None };
        let (of, linked) = if commit.parent == one.id { (one, other) } else { (other, one) };
        assert_eq!((&commit.parent, &commit.trace), (&of.id, &all.trace));
        assert!(commit.links.len() == 1 && commit.links_to(linked), "{commit:?}");
        Some(())
    });
}

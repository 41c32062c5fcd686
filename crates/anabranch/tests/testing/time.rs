//! Time that a test moves.

use crate::support::{Caller, Counter, Outside, in_memory, once, three_events};
use anabranch::Retry;
use anabranch::prelude::*;
use anabranch::testing::TestKit;
use anabranch::workpool::{NewTask, OutsidePool, Run, Task, Tasks};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn nothing_is_tried_again_before_its_time() {
    let mut kit = in_memory().await;
    let counter = Counter::of(&kit);
    let retry = Retry::default().attempts(3).first(2 * MINUTE).longest(2 * MINUTE);
    let counter = Counter { settings: counter.settings.clone().retry(retry), ..counter };
    three_events(&kit).await;
    kit.fail_after(1, "no");
    assert_eq!(kit.try_run(counter.clone()).await.unwrap().retrying(), 1);
    let tries = || counter.outside.done().iter().filter(|done| *done == "Order:1@1").count();
    let first = tries();
    // The wait is between half and all of two minutes.
    kit.advance(MINUTE - Duration::from_micros(1)).unwrap();
    assert_eq!(kit.try_run(counter.clone()).await.unwrap().retrying(), 1);
    assert_eq!(tries(), first);
    kit.advance(MINUTE + Duration::from_micros(1)).unwrap();
    kit.run(counter.clone()).await.unwrap();
    assert_eq!(tries(), first + 1);
    assert_eq!(counter.counts(&kit).await, once());
}

#[tokio::test]
async fn when_all_attempts_are_used_up_the_key_is_parked() {
    let mut kit = in_memory().await;
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    for attempt in 1..=3 {
        kit.fail_when(|event| match event.stream_id() {
            "1" => Err(HandlerError::new("no")),
            _ => Ok(()),
        });
        let ran = kit.try_run(counter.clone()).await.unwrap();
        let state = (ran.retrying(), ran.parked());
        assert_eq!(state, if attempt < 3 { (1, 0) } else { (0, 1) }, "attempt {attempt}");
        kit.advance(MINUTE).unwrap();
    }
    assert_eq!(kit.try_run(counter.clone()).await.unwrap().parked(), 1, "for good");
}

#[tokio::test]
async fn tasks_for_later_are_run_when_they_are_due() {
    let mut kit = in_memory().await;
    let (caller, tasks) = (Caller::default(), Tasks::new(kit.log(), "caller"));
    tasks.enqueue(NewTask::new("a", &()).run_after(DAY)).await.unwrap();
    let at = kit.now() + 2 * DAY;
    tasks.enqueue(NewTask::new("b", &()).run_at(at)).await.unwrap();
    for done in [0, 1, 2] {
        kit.run(caller.clone()).await.unwrap();
        assert_eq!(caller.0.done().len(), done);
        kit.advance(DAY).unwrap();
    }
}

#[tokio::test]
async fn a_task_that_failed_is_tried_again_when_it_is_due() {
    let mut kit = in_memory().await;
    let (caller, tasks) = (Caller::default(), Tasks::new(kit.log(), "caller"));
    tasks.enqueue(NewTask::new("a", &())).await.unwrap();
    kit.fail_at(1, HandlerError::try_after(DAY, "come back tomorrow"));
    assert_eq!(kit.try_run(caller.clone()).await.unwrap().retrying(), 1);
    kit.advance(DAY - MINUTE).unwrap();
    assert_eq!(kit.try_run(caller.clone()).await.unwrap().retrying(), 1);
    kit.advance(MINUTE).unwrap();
    kit.run(caller.clone()).await.unwrap();
    assert_eq!(caller.0.done().len(), 1);
}

#[tokio::test]
async fn events_have_the_time_of_the_kit() {
    let mut kit = TestKit::starting_at("2026-01-01T00:00:00Z".parse().unwrap()).await.unwrap();
    kit.given([("Order:1", NewEvent::new("Happened", ()))]).await.unwrap();
    kit.advance(DAY).unwrap();
    kit.given([("Order:1", NewEvent::new("Happened", ()))]).await.unwrap();
    let events = kit.log().read(Query::all()).collect().await.unwrap();
    let times: Vec<String> = events.iter().map(|event| event.recorded_at().to_string()).collect();
    assert_eq!(times, ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]);
}

/// Takes its time with order 2: what fails meanwhile could be tried again, if time went on by itself.
#[derive(Clone)]
struct Slow(Outside);

impl Slow {
    async fn work(&self, key: &str) {
        self.0.does(key);
        if key == "2" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Subscriber for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn settings(&self) -> Settings {
        Settings::default().batch_size(1)
    }

    async fn deliver(&self, delivery: &anabranch::Delivery<'_>) -> HandlerResult {
        self.work(delivery.event().stream_id()).await;
        Ok(())
    }
}

struct SlowPool(Slow);

impl OutsidePool for SlowPool {
    type Output = ();

    fn name(&self) -> &str {
        "slow-pool"
    }

    async fn run(&self, task: &Task, _run: &mut Run) -> HandlerResult {
        self.0.work(task.key()).await;
        Ok(())
    }
}

#[tokio::test]
async fn nothing_becomes_due_while_a_run_goes_on() {
    let mut kit = in_memory().await;
    let slow = Slow(Outside::default());
    let happened = || NewEvent::new("Happened", ());
    kit.given(["1", "2", "2", "2"].map(|id| (format!("Order:{id}"), happened()))).await.unwrap();
    let soon = || HandlerError::try_after(Duration::from_millis(1), "in a moment");
    kit.fail_at(1, soon());
    assert_eq!(kit.try_run(slow.clone()).await.unwrap().retrying(), 1);
    assert_eq!(slow.0.done(), ["2"; 3]);
}

#[tokio::test]
async fn nor_does_a_task() {
    let mut kit = in_memory().await;
    let (tasks, slow) = (Tasks::new(kit.log(), "slow-pool"), Slow(Outside::default()));
    let each = ["1", "2", "2", "2"].map(|key| NewTask::new(key, &()));
    tasks.enqueue_all(each.into()).await.unwrap();
    kit.fail_at(1, HandlerError::try_after(Duration::from_millis(1), "in a moment"));
    assert_eq!(kit.try_run(SlowPool(slow.clone())).await.unwrap().retrying(), 1);
    assert_eq!(slow.0.done().len(), 3);
}

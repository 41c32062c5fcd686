//! Time that a test moves.

use crate::support::{Caller, Counter, in_memory, once, three_events};
use anabranch::Retry;
use anabranch::prelude::*;
use anabranch::testing::TestKit;
use anabranch::workpool::{NewTask, Tasks};
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

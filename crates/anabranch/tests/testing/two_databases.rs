//! The kit on a log whose consumers are in another database: it acts on that one.

use crate::support::{Caller, Counter, in_memory, once, three_events};
use anabranch::testing::TestKit;
use anabranch::workpool::{NewTask, Tasks};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

async fn apart() -> TestKit {
    let (events, home) = (in_memory().await, in_memory().await);
    TestKit::with_log(events.log().with_database(home.log()).await.unwrap())
}

#[tokio::test]
async fn slots_are_taken_away_at_home() {
    let mut kit = apart().await;
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.deliver_again(2);
    assert_eq!(kit.run(counter.clone()).await.unwrap(), 3);
    assert_eq!(counter.counts(&kit).await, once());
    assert_eq!(counter.outside.done().len(), 6, "the whole batch came again");
}

#[tokio::test]
async fn the_clock_is_that_of_the_home() {
    let mut kit = apart().await;
    let (caller, tasks) = (Caller::default(), Tasks::new(kit.log(), "caller"));
    tasks.enqueue(NewTask::new("a", &()).run_after(DAY)).await.unwrap();
    kit.run(caller.clone()).await.unwrap();
    assert_eq!(caller.0.done().len(), 0);
    kit.advance(2 * DAY).unwrap();
    kit.run(caller.clone()).await.unwrap();
    assert_eq!(caller.0.done().len(), 1);
}

//! A process that dies between two events.

use crate::on_both;
use crate::support::{Caller, Clerk, Counter, Mailer, once, three_events};
use anabranch::prelude::*;
use anabranch::testing::TestKit;
use anabranch::workpool::{NewTask, Tasks};
use anabranch::{Rollup, RollupReader, ViewReader};
use serde::{Deserialize, Serialize};

async fn the_next_run_goes_on_where_the_last_one_stopped(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    assert_eq!(kit.run(counter.clone()).await.unwrap(), 3);
    assert_eq!(kit.run(counter.clone()).await.unwrap(), 0);
    kit.given([("Order:2", NewEvent::new("Happened", ()))]).await.unwrap();
    assert_eq!(kit.run(counter.clone()).await.unwrap(), 1);
    assert_eq!(counter.counts(&kit).await, [("1".to_owned(), 2), ("2".to_owned(), 2)]);
    assert_eq!(counter.outside.done().len(), 4, "nothing came twice");
}

/// What is inside the transaction is there once; what is not is done twice.
async fn effects_inside_happen_once_and_others_again(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.crash_after(2);
    assert!(kit.try_run(counter.clone()).await.unwrap().crashed());
    assert_eq!(counter.outside.done().len(), 2);
    assert_eq!(counter.counts(&kit).await, [], "it is rolled back");

    assert_eq!(kit.run(counter.clone()).await.unwrap(), 3);
    assert_eq!(counter.counts(&kit).await, once());
    assert_eq!(counter.outside.done().len(), 5, "two of them twice");
}

async fn what_was_committed_before_a_crash_stays(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    let counter = Counter { settings: counter.settings.clone().batch_size(1), ..counter };
    three_events(&kit).await;
    kit.crash_after(2);
    assert!(kit.try_run(counter.clone()).await.unwrap().crashed());
    assert_eq!(counter.counts(&kit).await, [("1".to_owned(), 1)]);
    assert_eq!(kit.run(counter.clone()).await.unwrap(), 2);
    assert_eq!(counter.counts(&kit).await, once());
}

async fn a_subscriber_delivers_at_least_once_under_the_same_key(mut kit: TestKit) {
    let mailer = Mailer::default();
    three_events(&kit).await;
    kit.crash_after(1);
    assert!(kit.try_run(mailer.clone()).await.unwrap().crashed());
    kit.run(mailer.clone()).await.unwrap();
    let keys = mailer.outside.done();
    assert_eq!((keys.len(), &keys[0]), (4, &keys[1]), "{keys:?}");
}

async fn or_at_most_once_if_it_wants_that(mut kit: TestKit) {
    let mailer = Mailer { at_most_once: true, ..Mailer::default() };
    three_events(&kit).await;
    kit.crash_after(1);
    assert!(kit.try_run(mailer.clone()).await.unwrap().crashed());
    let handled = kit.run(mailer.clone()).await.unwrap();
    assert_eq!(handled, 0, "they were committed before they were delivered");
    assert_eq!(mailer.outside.done().len(), 1);
}

async fn tasks_of_a_pool_are_run_again(mut kit: TestKit) {
    let (clerk, caller) = (Clerk::of(&kit).await, Caller::default());
    let task = || NewTask::new("k", &());
    Tasks::new(kit.log(), "clerk").enqueue(task()).await.unwrap();
    Tasks::new(kit.log(), "caller").enqueue(task()).await.unwrap();
    kit.crash_after(1);
    assert!(kit.try_run(clerk.clone()).await.unwrap().crashed());
    kit.crash_after(1);
    assert!(kit.try_run(caller.clone()).await.unwrap().crashed());
    kit.run(clerk.clone()).await.unwrap();
    kit.run(caller.clone()).await.unwrap();
    let select = format!("SELECT events FROM {}", clerk.table);
    assert_eq!(kit.rows::<(i64,)>(select, params![]).await.unwrap(), [(1,)]);
    for outside in [&clerk.outside, &caller.0] {
        let done = outside.done();
        assert_eq!((done.len(), &done[0]), (2, &done[1]));
    }
}

#[derive(Clone)]
struct Totals;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Total {
    events: u64,
}

impl View for Totals {
    type State = Total;

    fn name(&self) -> &str {
        "totals"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn apply(&self, total: &mut Total, _event: &Event) -> HandlerResult {
        total.events += 1;
        Ok(())
    }
}

struct Sum;

impl Rollup for Sum {
    type State = Total;

    fn name(&self) -> &str {
        "sum"
    }

    fn group(&self, _event: &Event) -> HandlerResult<Option<String>> {
        Ok(Some("all".to_owned()))
    }

    fn apply(&self, total: &mut Total, _event: &Event) -> HandlerResult {
        total.events += 1;
        Ok(())
    }

    fn merge(&self, sum: &mut Total, part: &Total) {
        sum.events += part.events;
    }
}

async fn views_and_rollups_fold_each_event_once(mut kit: TestKit) {
    three_events(&kit).await;
    for call in 1..=3 {
        kit.crash_after(call);
        assert!(kit.try_run(Totals).await.unwrap().crashed());
        kit.crash_after(call);
        assert!(kit.try_run(Sum).await.unwrap().crashed());
    }
    kit.run(ReplicaSet::new("both").view(Totals).rollup(Sum).lanes(4)).await.unwrap();
    let reader = ViewReader::new(kit.log(), &Totals);
    assert_eq!(reader.get("1").await.unwrap(), Some(Total { events: 2 }));
    let sum = RollupReader::new(kit.log(), &Sum).get("all").await.unwrap();
    assert_eq!(sum, Some(Total { events: 3 }));
}

on_both!(
    the_next_run_goes_on_where_the_last_one_stopped,
    effects_inside_happen_once_and_others_again,
    what_was_committed_before_a_crash_stays,
    a_subscriber_delivers_at_least_once_under_the_same_key,
    or_at_most_once_if_it_wants_that,
    tasks_of_a_pool_are_run_again,
    views_and_rollups_fold_each_event_once,
);

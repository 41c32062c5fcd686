//! Handlers that fail, as if they had returned an error.

use crate::on_both;
use crate::support::{Caller, Counter, Mailer, once, three_events};
use anabranch::Failure;
use anabranch::Retry;
use anabranch::prelude::*;
use anabranch::testing::{TestError, TestKit};
use anabranch::workpool::{NewTask, Tasks};
use std::time::Duration;

/// On a clock that goes on by itself the run waits for the next attempt; by hand it is for the next one.
async fn what_failed_is_tried_again(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.fail_at(1, "no stock");
    let ran = kit.try_run(counter.clone()).await.unwrap();
    if kit.advance(Duration::from_secs(1)).is_ok() {
        assert_eq!((ran.retrying(), ran.parked()), (1, 0));
        assert_eq!(ran.first_error(), Some("no stock"));
        assert_eq!(counter.counts(&kit).await, [("2".to_owned(), 1)], "its key waits, no other");
        assert_eq!(counter.outside.done(), ["Order:2@1"], "the handler was not called");
    }
    kit.run(counter.clone()).await.unwrap();
    assert_eq!(counter.counts(&kit).await, once());
}

async fn what_fails_for_good_is_parked(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.fail_at(2, HandlerError::for_good("bad data"));
    let ran = kit.try_run(counter.clone()).await.unwrap();
    assert_eq!((ran.parked(), ran.retrying(), ran.first_error()), (1, 0, Some("bad data")));
    assert_eq!(counter.counts(&kit).await, [("1".to_owned(), 2)]);

    let error = kit.run(counter.clone()).await.unwrap_err();
    assert!(matches!(error, TestError::Left(_)), "{error}");
    assert!(error.to_string().contains("bad data"), "{error}");
    assert!(error.to_string().contains("call try_run"), "{error}");

    let consumers = anabranch::operate::Consumers::new(kit.log());
    let parked = consumers.parked("counter").await.unwrap();
    consumers.retry_parked("counter", &parked[0].key).await.unwrap();
    kit.run(counter.clone()).await.unwrap();
    assert_eq!(counter.counts(&kit).await, once());
}

async fn or_skipped_if_the_policy_is_that(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    let retry = Retry::never().then(Failure::Skip);
    let counter = Counter { settings: counter.settings.clone().retry(retry), ..counter };
    three_events(&kit).await;
    kit.fail_when(|event| match event.version() {
        2 => Err(HandlerError::new("not that one")),
        _ => Ok(()),
    });
    kit.run(counter.clone()).await.unwrap();
    assert_eq!(counter.counts(&kit).await, [("1".to_owned(), 1), ("2".to_owned(), 1)]);
}

async fn what_fails_afterwards_has_had_its_effects_outside(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.fail_after(3, HandlerError::for_good("late"));
    assert_eq!(kit.try_run(counter.clone()).await.unwrap().parked(), 1);
    assert_eq!(counter.counts(&kit).await, [("1".to_owned(), 1), ("2".to_owned(), 1)]);
    let again = counter.outside.done().iter().filter(|done| *done == "Order:1@2").count();
    assert_eq!(again, 1, "it was called");
}

async fn deliveries_and_tasks_fail_alike(mut kit: TestKit) {
    let (mailer, caller) = (Mailer::default(), Caller::default());
    three_events(&kit).await;
    kit.fail_at(1, HandlerError::for_good("no such address"));
    assert_eq!(kit.try_run(mailer.clone()).await.unwrap().parked(), 1);
    assert_eq!(mailer.outside.done().len(), 1, "order 1 waits, as one");

    Tasks::new(kit.log(), "caller").enqueue(NewTask::new("k", &())).await.unwrap();
    kit.fail_after(1, HandlerError::for_good("no answer"));
    let ran = kit.try_run(caller.clone()).await.unwrap();
    assert_eq!((ran.parked(), ran.first_error()), (1, Some("no answer")));
    assert_eq!(caller.0.done().len(), 1);
}

on_both!(
    what_failed_is_tried_again,
    what_fails_for_good_is_parked,
    or_skipped_if_the_policy_is_that,
    what_fails_afterwards_has_had_its_effects_outside,
    deliveries_and_tasks_fail_alike,
);

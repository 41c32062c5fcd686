//! A process that hangs while another one takes over: its late commit is fenced.

use crate::on_both;
use crate::support::{Caller, Clerk, Counter, Mailer, once, three_events};
use anabranch::prelude::*;
use anabranch::testing::TestKit;
use anabranch::workpool::{NewTask, Tasks};

async fn a_late_commit_of_a_projection_is_fenced(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.deliver_again(2);
    assert_eq!(kit.run(counter.clone()).await.unwrap(), 3);
    assert_eq!(counter.counts(&kit).await, once());
    assert_eq!(counter.outside.done().len(), 6, "the whole batch came again");
}

/// A transaction is fenced once, for all the calls that it holds.
async fn two_calls_of_one_batch_are_fenced_together(mut kit: TestKit) {
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.deliver_again(1);
    kit.deliver_again(3);
    assert_eq!(kit.run(counter.clone()).await.unwrap(), 3);
    assert_eq!(counter.counts(&kit).await, once());
    assert_eq!(counter.outside.done().len(), 6, "the batch came again, once");
}

async fn a_subscriber_delivers_again_under_the_same_keys(mut kit: TestKit) {
    let mailer = Mailer::default();
    three_events(&kit).await;
    kit.deliver_again(1);
    kit.run(mailer.clone()).await.unwrap();
    let keys = mailer.outside.done();
    assert_eq!(keys.len(), 6, "{keys:?}");
    assert_eq!(keys[..3], keys[3..]);
}

async fn a_task_inside_counts_once_and_one_outside_is_called_again(mut kit: TestKit) {
    let (clerk, caller) = (Clerk::of(&kit).await, Caller::default());
    let task = || NewTask::new("k", &());
    Tasks::new(kit.log(), "clerk").enqueue(task()).await.unwrap();
    Tasks::new(kit.log(), "caller").enqueue(task()).await.unwrap();
    kit.deliver_again(1);
    kit.run(clerk.clone()).await.unwrap();
    kit.deliver_again(1);
    kit.run(caller.clone()).await.unwrap();
    let select = format!("SELECT events FROM {}", clerk.table);
    assert_eq!(kit.rows::<(i64,)>(select, params![]).await.unwrap(), [(1,)]);
    for outside in [&clerk.outside, &caller.0] {
        let done = outside.done();
        assert_eq!((done.len(), &done[0]), (2, &done[1]), "{done:?}");
    }
}

on_both!(
    a_late_commit_of_a_projection_is_fenced,
    two_calls_of_one_batch_are_fenced_together,
    a_subscriber_delivers_again_under_the_same_keys,
    a_task_inside_counts_once_and_one_outside_is_called_again,
);

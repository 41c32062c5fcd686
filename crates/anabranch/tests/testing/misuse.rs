//! A kit that is used wrongly says so, and what to do.

use crate::support::{Counter, Mailer, in_memory, on_postgres, three_events};
use anabranch::prelude::*;
use anabranch::testing::TestError;
use std::time::Duration;

#[tokio::test]
async fn what_never_comes_to_pass_is_an_error() {
    let mut kit = in_memory().await;
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.crash_after(4);
    let error = kit.try_run(counter.clone()).await.unwrap_err();
    let said = "crash_after(4) never came to pass: in that run handlers were called 3 times";
    assert!(error.to_string().starts_with(said), "{error}");

    kit.fail_when(|_| Ok(()));
    let error = kit.try_run(counter).await.unwrap_err();
    assert!(matches!(error, TestError::NeverReached { calls: 0, .. }), "{error}");
}

/// Its commit is before its deliveries: fenced, none of them would have been made.
#[tokio::test]
async fn what_is_delivered_at_most_once_never_comes_again() {
    let mut kit = in_memory().await;
    let mailer = Mailer { at_most_once: true, ..Mailer::default() };
    three_events(&kit).await;
    kit.deliver_again(2);
    let error = kit.run(mailer.clone()).await.unwrap_err();
    let said = "deliver_again(2) does not apply to a subscriber with Guarantee::AtMostOnce";
    assert!(error.to_string().starts_with(said), "{error}");
    assert_eq!(mailer.outside.done().len(), 3);

    kit.deliver_again(4);
    let error = kit.run(mailer).await.unwrap_err();
    assert!(matches!(error, TestError::NeverReached { calls: 0, .. }), "{error}");
}

#[tokio::test]
#[should_panic(expected = "calls are counted from 1")]
async fn there_is_no_call_0() {
    in_memory().await.fail_at(0, "no");
}

#[tokio::test]
async fn a_crash_is_an_error_where_nobody_looks() {
    let mut kit = in_memory().await;
    let counter = Counter::of(&kit);
    three_events(&kit).await;
    kit.crash_after(1);
    let error = kit.run(counter).await.unwrap_err();
    assert!(matches!(error, TestError::Crashed), "{error}");
}

#[tokio::test]
async fn time_that_goes_on_by_itself_cannot_be_moved() {
    let mut kit = on_postgres().await;
    let error = kit.advance(Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("use TestKit::new"), "{error}");
}

#[tokio::test]
async fn columns_are_counted() {
    let kit = in_memory().await;
    let error = kit.rows::<(i64,)>("SELECT 1 AS a, 2 AS b", params![]).await.unwrap_err();
    assert!(matches!(error, TestError::Columns { found: 2, wanted: 1 }), "{error}");
    let rows: Vec<anabranch::Row> = kit.rows("SELECT 1 AS a", params![]).await.unwrap();
    assert_eq!(rows[0].get::<i64>("a").unwrap(), 1);
}

struct Hangs;

impl Projection for Hangs {
    fn name(&self) -> &str {
        "hangs"
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_run_that_does_not_end_is_an_error() {
    let mut kit = in_memory().await.patience(Duration::from_millis(300));
    three_events(&kit).await;
    let error = kit.run(Hangs).await.unwrap_err();
    assert!(matches!(error, TestError::TooLong(_)), "{error}");
}

#[tokio::test]
async fn a_stream_without_a_name_is_an_error() {
    let kit = in_memory().await;
    let error = kit.given([("no colon", NewEvent::new("Happened", ()))]).await.unwrap_err();
    assert!(matches!(error, TestError::Input(_)), "{error}");
}

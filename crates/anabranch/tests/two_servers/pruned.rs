//! People delete what is old. That is no wind-back.

use crate::on_all_pairs;
use crate::pair::*;
use crate::support::*;

on_all_pairs! {
    events_that_are_deleted_from_the_beginning_do_not_stop_it,
    a_log_of_which_all_was_deleted_does_not_stop_it,
}

async fn goes_on_without(pair: Pair, deleted: u64) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    pair.set().catch_up(&log).await.unwrap();
    let (worker, table) = (start(&pair.log().await, pair.set()), pair.recorder().table);
    let events = log.store().database().dialect().table("events");
    in_log(&log, &[format!("DELETE FROM {events} WHERE position <= {deleted}")]).await;
    fill(&log, 0..4, 6..=7).await;
    until("what came since", async || (proof(&log, &table).await.handled == 28).then_some(()))
        .await;
    worker.stop().await;
    in_log(&log, &[format!("DELETE FROM {events} WHERE position <= 28")]).await;
    pair.set().catch_up(&log).await.unwrap();
    fill(&log, 0..4, 8..=8).await;
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 8).await;
    assert_eq!(status(&log, "orders").await.problem, None);
}

async fn events_that_are_deleted_from_the_beginning_do_not_stop_it(pair: Pair) {
    goes_on_without(pair, 12).await;
}

async fn a_log_of_which_all_was_deleted_does_not_stop_it(pair: Pair) {
    goes_on_without(pair, 20).await;
}

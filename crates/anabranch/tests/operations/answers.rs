//! Commits whose answer was lost: found, and never taken for another one's or repeated.

use crate::many::{is_odd, parked, stages};
use crate::meddled::Meddling;
use crate::on_both;
use crate::support::*;
use crate::{asked, handled, operations, pause};
use anabranch::operate::ParkedAction;
use anabranch::operations::{JournalFilter, PlanState, Stage};

on_both! {
    a_change_whose_answer_was_lost_is_the_callers_own,
    steps_whose_answer_was_lost_are_done_once,
}

async fn a_change_whose_answer_was_lost_is_the_callers_own(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 2, |_| false).await;
    let plan = operations(&log).plan(&pause("orders")).await.unwrap();
    let lost = Meddling::unanswered("SET state = 'done', began_us");
    let done = operations(&lost.with(&log)).apply(plan.id, |_| {}).await.unwrap();
    assert!(lost.is_over());
    assert_eq!((done.state, done.done), (PlanState::Done, 1));
    assert!(status(&log, "orders").await.paused);
    assert_eq!(operations(&log).journal(&JournalFilter::default()).await.unwrap().len(), 1);
}

async fn steps_whose_answer_was_lost_are_done_once(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 12, is_odd).await;
    // Its beginning, a step, and its end.
    for text in
        ["SET state = 'running', began_us", "SET done = done +", "SET state = 'done', ended_us"]
    {
        let request = parked(ParkedAction::Retry, Default::default(), None);
        let plan = operations(&log).plan(&request).await.unwrap();
        let (lost, before) = (Meddling::unanswered(text), stages(&log).await.len());
        let done = operations(&lost.with(&log)).apply(plan.id, |_| {}).await.unwrap();
        assert!(lost.is_over(), "{text}");
        assert_eq!((done.state, done.done, done.gone), (PlanState::Done, 6, 0), "{text}");
        assert_eq!(asked(&log).await, 6);
        assert_eq!(stages(&log).await[before..], [Stage::Began, Stage::Done], "{text}");
    }
}

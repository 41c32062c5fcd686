//! What is stored of a plan and cannot be true, or cannot be read, is never taken for done, and hides nothing.

use crate::many::{is_odd, parked};
use crate::on_both;
use crate::support::*;
use crate::{asked, handled, operations, pause, table};
use anabranch::errors::ErrorCode;
use anabranch::operate::ParkedAction;
use anabranch::operations::{Begin, JournalFilter, Plan, PlanState, Request, Stage};
use anabranch::prelude::*;
use anabranch::workpool::{NewTask, TaskAction, Tasks};
use serde_json::{Value, json};

on_both! {
    a_plan_without_its_bound_is_not_done,
    a_plan_that_does_not_say_how_far_it_is_never_begins_again,
    a_plan_of_another_version_hides_no_other_and_is_not_applied,
}

async fn set(log: &Log, plan: &Plan, column: &str, text: &str) {
    let plans = table(log, "plans");
    let update = format!("UPDATE {plans} SET {column} = $2 WHERE id = $1");
    query(log, &update, params![plan.id.to_string(), text]).await;
}

async fn unbound(log: &Log, plan: &Plan) {
    let plans = table(log, "plans");
    let select = format!("SELECT basis FROM {plans} WHERE id = $1");
    let rows = query(log, &select, params![plan.id.to_string()]).await;
    let mut basis: Value = serde_json::from_str(&rows[0].get::<String>(0).unwrap()).unwrap();
    basis["bound"] = json!("none");
    set(log, plan, "basis", &basis.to_string()).await;
}

async fn a_plan_without_its_bound_is_not_done(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 6, is_odd).await;
    Tasks::new(&log, "mails").enqueue(NewTask::new("k", &1)).await.unwrap();
    let replay = Request::Replay {
        consumer: "orders".to_owned(),
        from: Begin::Start,
        accept_missing: false,
        new_ids: false,
    };
    let tasks = Request::Tasks {
        action: TaskAction::Cancel,
        state: None,
        conditions: vec!["pool=mails".to_owned()],
        per_second: None,
    };
    let before = status(&log, "orders").await;
    for (request, left) in [
        (replay, PlanState::Open),
        (Request::SkipToHead { consumer: "orders".to_owned() }, PlanState::Open),
        (parked(ParkedAction::Retry, Default::default(), None), PlanState::Failed),
        (tasks, PlanState::Failed),
    ] {
        let plan = operations(&log).plan(&request).await.unwrap();
        unbound(&log, &plan).await;
        let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
        assert!(error.to_string().contains("has no bound"), "{error}");
        assert_eq!(operations(&log).get(plan.id).await.unwrap().state, left, "{request:?}");
    }
    let after = status(&log, "orders").await;
    assert_eq!((after.position, after.replay_from), (before.position, None));
    assert_eq!((after.parked_keys, asked(&log).await), (before.parked_keys, 0));
    let open = Tasks::counts(&log).await.unwrap();
    assert_eq!(open[0].count(anabranch::workpool::TaskState::Ready), 1);
    let all = operations(&log).journal(&JournalFilter::default()).await.unwrap();
    assert!(all.iter().all(|entry| ![Stage::Applied, Stage::Done].contains(&entry.stage)));
}

async fn a_plan_that_does_not_say_how_far_it_is_never_begins_again(db: Db) {
    let log = db.log().await;
    for _ in 0..3 {
        Tasks::new(&log, "mails").enqueue(NewTask::new("k", &1)).await.unwrap();
    }
    let request = Request::Tasks {
        action: TaskAction::Cancel,
        state: None,
        conditions: vec!["pool=mails".to_owned()],
        per_second: None,
    };
    let plan = operations(&log).plan(&request).await.unwrap();
    let plans = table(&log, "plans");
    let left = format!(
        "UPDATE {plans} SET state = 'running', began_us = made_us, runner = 'x', runner_until_us = 0, after = 'here' \
         WHERE id = $1"
    );
    query(&log, &left, params![plan.id.to_string()]).await;
    let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("does not say how far it is"), "{error}");
    assert_eq!(operations(&log).get(plan.id).await.unwrap().state, PlanState::Failed);
    let open = Tasks::counts(&log).await.unwrap();
    assert_eq!(open[0].count(anabranch::workpool::TaskState::Ready), 3, "nothing was done");
}

async fn a_plan_of_another_version_hides_no_other_and_is_not_applied(db: Db) {
    let log = db.log().await;
    handled(&db, &log, 2, |_| false).await;
    let good = operations(&log).plan(&pause("orders")).await.unwrap();
    for (column, text) in [
        ("request", r#"{"do": "explode", "consumer": "orders"}"#),
        ("request", r#"{"do": "pause", "consumer": "orders", "softly": true}"#),
        ("basis", r#"{"consumers": [], "bound": {"moon": "full"}}"#),
        ("effect", r#"{"says": 7}"#),
    ] {
        let plan = operations(&log).plan(&pause("orders")).await.unwrap();
        set(&log, &plan, column, text).await;
        let all = operations(&log).plans(Some("orders"), 10).await.unwrap();
        let ids: Vec<_> = all.iter().map(|plan| plan.id).collect();
        assert!(ids.contains(&good.id) && ids.contains(&plan.id), "{column}: {ids:?}");
        let shown = operations(&log).get(plan.id).await.unwrap();
        assert_eq!((shown.request.is_none(), &*shown.target), (column == "request", "orders"));
        let note = shown.effect.notes.last().unwrap();
        assert!(note.contains(&format!("cannot read its {column}")), "{note}");
        let error = operations(&log).apply(plan.id, |_| {}).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PlanUnreadable, "{error}");
        let cancelled = operations(&log).cancel(plan.id).await.unwrap();
        assert_eq!(cancelled.state, PlanState::Cancelled);
    }
    assert!(!status(&log, "orders").await.paused);
    operations(&log).apply(good.id, |_| {}).await.unwrap();
    assert!(status(&log, "orders").await.paused);
}

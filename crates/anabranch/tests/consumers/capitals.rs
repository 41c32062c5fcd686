//! Names of consumers may have capitals, and names that differ in nothing else are refused.

use crate::on_both;
use crate::support::{Db, fill, number, proof};
use anabranch::operate::{Consumers, Import, ImportError, Rebuild};
use anabranch::prelude::*;
use anabranch::{Rollup, RunError, ViewReader};
use std::sync::Arc;
use tokio::sync::Barrier;

on_both! {
    a_projection_a_view_and_a_rollup_have_capitals,
    a_view_with_capitals_is_rebuilt,
    names_that_differ_in_capitals_only_are_refused,
    of_two_that_register_at_the_same_moment_one_is_refused,
    positions_are_not_imported_beside_a_twin,
}

const ORDERS: u64 = 6;

fn set() -> ReplicaSet {
    ReplicaSet::new("Reports").lanes(2)
}

/// Counts the events of each order.
struct Counts(&'static str, u32);

impl View for Counts {
    type State = u64;
    fn name(&self) -> &str {
        self.0
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        Settings::default().version(self.1)
    }
    fn apply(&self, count: &mut u64, _: &Event) -> HandlerResult {
        *count += u64::from(self.1);
        Ok(())
    }
    fn columns(&self) -> Vec<ViewColumn<u64>> {
        vec![ViewColumn::int("events", |count: &u64| *count as i64)]
    }
}

/// Counts all events.
struct Total(&'static str);

impl Rollup for Total {
    type State = u64;
    fn name(&self) -> &str {
        self.0
    }
    fn group(&self, _: &Event) -> HandlerResult<Option<String>> {
        Ok(Some("all".to_owned()))
    }
    fn apply(&self, part: &mut u64, _: &Event) -> HandlerResult {
        *part += 1;
        Ok(())
    }
    fn merge(&self, sum: &mut u64, part: &u64) {
        *sum += part;
    }
    fn columns(&self) -> Vec<ViewColumn<u64>> {
        vec![ViewColumn::int("events", |count: &u64| *count as i64)]
    }
}

/// A table of the log, written as a user writes it: without quotes.
fn own(log: &Log, table: &str) -> String {
    log.store().database().dialect().table(table)
}

async fn a_projection_a_view_and_a_rollup_have_capitals(db: Db) {
    let log = db.log().await;
    fill(&log, 0..ORDERS, 1..=3).await;
    let all = || {
        let recorder = db.recorder("OrderSummary");
        set().projection(recorder).view(Counts("OrderCounts", 1)).rollup(Total("AllOrders"))
    };
    all().catch_up(&log).await.unwrap();
    // It goes on where it stopped, under the same name.
    fill(&log, 0..ORDERS, 4..=4).await;
    all().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &db.recorder("OrderSummary").table).await.handled, 4 * ORDERS as i64);
    let reader = ViewReader::new(&log, &Counts("OrderCounts", 1));
    assert_eq!(reader.get("0").await.unwrap(), Some(4));
    for table in ["view_OrderCounts", "view_ordercounts", "view_AllOrders"] {
        let sum = format!("SELECT sum(events) FROM {}", own(&log, table));
        assert_eq!(number(&log, &sum).await, 4 * ORDERS as i64, "{table}");
    }
    let listed = Consumers::new(&log).list().await.unwrap();
    let names: Vec<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["AllOrders", "OrderCounts", "OrderSummary"]);
    assert!(listed.iter().all(|status| status.lag == 0), "{listed:?}");
}

async fn a_view_with_capitals_is_rebuilt(db: Db) {
    let log = db.log().await;
    fill(&log, 0..ORDERS, 1..=2).await;
    set().view(Counts("Counts", 1)).catch_up(&log).await.unwrap();
    set().rebuild_view(Counts("Counts", 2)).catch_up(&log).await.unwrap();
    Rebuild::for_view(&log, "Counts").switch().await.unwrap();
    let sum = format!("SELECT sum(events) FROM {}", own(&log, "view_Counts"));
    assert_eq!(number(&log, &sum).await, 4 * ORDERS as i64);
}

async fn refusal(log: &Log, set: ReplicaSet) -> String {
    match set.catch_up(log).await {
        Err(error @ RunError::Refused { .. }) => error.to_string(),
        other => panic!("it should have been refused: {other:?}"),
    }
}

fn has_remedy(error: &str, name: &str, twin: &str) {
    for part in [name, twin, "differ only in capital letters", "rename it"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

async fn names_that_differ_in_capitals_only_are_refused(db: Db) {
    let log = db.log().await;
    let both = set().view(Counts("Orders", 1)).rollup(Total("orders"));
    let refused = both.check();
    assert_eq!(refused.len(), 1, "{refused:?}");
    has_remedy(&refused[0].to_string(), "`orders`", "`Orders`");
    set().view(Counts("Orders", 1)).catch_up(&log).await.unwrap();
    for name in ["orders", "ORDERS"] {
        let checked = set().rollup(Total(name)).check_on(&log).await.unwrap();
        has_remedy(&checked.refused[0].to_string(), name, "`Orders`");
        has_remedy(&refusal(&log, set().rollup(Total(name))).await, name, "`Orders`");
        has_remedy(&refusal(&log, set().projection(db.recorder(name))).await, name, "`Orders`");
    }
    assert_eq!(Consumers::new(&log).list().await.unwrap().len(), 1, "nothing is left of them");
    // As the remedy says.
    Consumers::new(&log).forget("Orders").await.unwrap();
    set().view(Counts("orders", 1)).catch_up(&log).await.unwrap();
    has_remedy(&refusal(&log, set().view(Counts("Orders", 1))).await, "`Orders`", "`orders`");
}

/// Each by a connection of its own, as two processes have them.
async fn of_two_that_register_at_the_same_moment_one_is_refused(db: Db) {
    db.log().await;
    for (number, names) in
        [["Aa", "aa"], ["bb", "Bb"], ["cC", "Cc"]].into_iter().cycle().take(9).enumerate()
    {
        let names = names.map(|name| format!("{name}{number}"));
        let begin = Arc::new(Barrier::new(2));
        let tasks = names.clone().map(|name| {
            let (begin, recorder) = (Arc::clone(&begin), db.recorder(&name));
            let (url, options) = (db.url.clone(), db.options.clone());
            tokio::spawn(async move {
                let log = anabranch::connect_with(&url, &options).await.unwrap();
                let set = ReplicaSet::new(recorder.name.clone()).projection(recorder);
                begin.wait().await;
                set.catch_up(&log).await
            })
        });
        let mut refused = Vec::new();
        for task in tasks {
            refused.extend(task.await.unwrap().err().map(|error| error.to_string()));
        }
        assert_eq!(refused.len(), 1, "{names:?}: {refused:?}");
        has_remedy(&refused[0], &names[0], &names[1]);
        let listed = Consumers::new(&db.log().await).list().await.unwrap();
        assert_eq!(
            listed.len(),
            number + 1,
            "one is there, and no row that only locked: {listed:?}"
        );
    }
}

async fn positions_are_not_imported_beside_a_twin(db: Db) {
    let log = db.log().await;
    set().view(Counts("Orders", 1)).catch_up(&log).await.unwrap();
    let import = Import::new("orders").checkpoint(0, 0);
    let plan = import.check(&log).await.unwrap();
    has_remedy(&plan.refusals[0].to_string(), "Orders", "`Orders`");
    let Err(ImportError::Refused { refusals, .. }) = import.apply(&log).await else {
        panic!("it should have been refused");
    };
    has_remedy(&refusals[0].to_string(), "Orders", "`Orders`");
}

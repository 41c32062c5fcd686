//! Names of categories, types and tenants that no event of the log has: somebody must hear of it.

use crate::on_both;
use crate::said::Said;
use crate::support::*;
use anabranch::operate::Consumers;
use anabranch::prelude::*;

on_both! {
    a_category_that_no_event_has_is_said_once_with_its_neighbours,
    a_type_that_no_event_has_is_said,
    a_tenant_that_no_event_has_is_said,
    names_that_never_meet_are_said,
    what_is_there_is_no_typo,
    an_empty_log_is_no_typo,
}

const NOTHING: &str = "there is nothing for it to handle";

async fn one(log: &Log, stream: &str, event: NewEvent) {
    log.append(&stream.parse().unwrap(), Expected::Any, [event]).await.unwrap();
}

/// Orders, and carts of tenant acme.
async fn filled(db: &Db) -> Log {
    let log = db.log().await;
    fill(&log, 0..4, 1..=3).await;
    for cart in ["1", "2"] {
        one(&log, &format!("Cart:{cart}"), NewEvent::new("CartOpened", 1).with_tenant("acme"))
            .await;
    }
    log
}

/// What is said when a consumer runs.
async fn heard(db: &Db, log: &Log, name: &str, partition: Partition, scope: Scope) -> Vec<String> {
    let (said, _guard) = Said::listen();
    let settings = Settings::default().scope(scope);
    let recorder = db.recorder(name).partition(partition).settings(settings);
    let set = ReplicaSet::new("s").projection(recorder);
    set.catch_up(log).await.unwrap();
    said.lines(NOTHING)
}

async fn unmatched(log: &Log, name: &str) -> Option<String> {
    Consumers::new(log).unmatched(name).await.unwrap().map(|unmatched| unmatched.to_string())
}

async fn a_category_that_no_event_has_is_said_once_with_its_neighbours(db: Db) {
    let log = filled(&db).await;
    let asked =
        [("a", "Ordr", "Order, Cart"), ("b", "order", "Order, Cart"), ("c", "cart", "Cart, Order")];
    for (name, category, nearest) in asked {
        let run = || heard(&db, &log, name, Partition::entity(category), Scope::all());
        let lines = run().await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        let words = format!("no event of the log is of category {category}; there are {nearest}");
        assert!(lines[0].contains("WARN") && lines[0].contains(&words), "{lines:?}");
        assert!(lines[0].contains(&format!("consumer=\"{name}\"")), "{lines:?}");
        assert_eq!(run().await, [""; 0], "not again");
        assert_eq!(unmatched(&log, name).await, Some(words));
    }
    let stream = format!("Ordr:{}", db.own);
    one(&log, &stream, numbered(1)).await;
    assert_eq!(unmatched(&log, "a").await, None, "now there is one");
}

async fn a_type_that_no_event_has_is_said(db: Db) {
    let log = filled(&db).await;
    let scope = Scope::types(["Numberd", "Nomber"]);
    let lines = heard(&db, &log, "a", Partition::entity("Order"), scope).await;
    let words = "no event of the log is of type Nomber or Numberd; there are Numbered, CartOpened";
    assert!(lines.len() == 1 && lines[0].contains(words), "{lines:?}");
    // One of several may be still to come.
    let scope = Scope::types(["Numbered", "Cancelled"]);
    assert_eq!(heard(&db, &log, "b", Partition::entity("Order"), scope).await, [""; 0]);
}

async fn a_tenant_that_no_event_has_is_said(db: Db) {
    let log = filled(&db).await;
    let scope = Scope::all().tenants(["acmee"]);
    let lines = heard(&db, &log, "a", Partition::entities(), scope).await;
    let words = "no event of the log is of tenant acmee; there are acme";
    assert!(lines.len() == 1 && lines[0].contains(words), "{lines:?}");
    let scope = Scope::all().tenants(["acme"]);
    assert_eq!(heard(&db, &log, "b", Partition::entity("Cart"), scope).await, [""; 0]);
}

async fn names_that_never_meet_are_said(db: Db) {
    let log = filled(&db).await;
    let asked = [Scope::types(["CartOpened"]), Scope::all().tenants(["acme"])];
    for (name, scope) in ["a", "b"].into_iter().zip(asked) {
        let lines = heard(&db, &log, name, Partition::entity("Order"), scope).await;
        let words = "no event of the log matches (";
        assert!(lines.len() == 1 && lines[0].contains(words), "{lines:?}");
    }
}

async fn what_is_there_is_no_typo(db: Db) {
    let log = filled(&db).await;
    let scopes = [
        Scope::all(),
        Scope::types(["Numbered"]),
        Scope::matching(Query::types(["Missing"]).or(Query::tags(["to-come"]))),
        Scope::all().tagged(["to-come"]),
    ];
    for (number, scope) in scopes.into_iter().enumerate() {
        let name = format!("c{number}");
        assert_eq!(heard(&db, &log, &name, Partition::entity("Order"), scope).await, [""; 0]);
        assert_eq!(unmatched(&log, &name).await, None);
    }
}

async fn an_empty_log_is_no_typo(db: Db) {
    let log = db.log().await;
    let scope = Scope::types(["Numbered"]).tenants(["acme"]);
    assert_eq!(heard(&db, &log, "a", Partition::entity("Order"), scope).await, [""; 0]);
    assert_eq!(unmatched(&log, "a").await, None);
}

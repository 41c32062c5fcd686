//! What identifies a consumer is stored and compared: a change that would lose or double events is
//! refused, and says so.

use crate::on_both;
use crate::support::{Db, fill, number, proof, query, start, until};
use anabranch::RunError;
use anabranch::errors::ErrorCode;
use anabranch::operate::Consumers;
use anabranch::prelude::*;

on_both! {
    another_partition_under_the_same_name_is_refused,
    another_kind_under_the_same_name_is_refused,
    another_scope_says_what_it_leaves_out_and_asks,
    workers_with_the_old_scope_stop_when_the_new_one_is_accepted,
    a_scope_is_not_accepted_while_a_worker_of_the_last_version_lives,
    what_a_scope_leaves_out_is_counted_in_its_category,
    a_scope_that_is_asked_for_no_more_cannot_be_accepted,
    what_failed_is_tried_again_though_the_scope_has_become_narrower,
    a_key_that_no_database_takes_stops_nobody,
    the_order_of_names_in_a_scope_is_no_change,
    a_function_that_answers_otherwise_is_noticed,
    keys_are_kept_while_it_runs_and_bounded,
    what_the_last_version_stored_is_adopted,
}

/// By a function of the event's number.
fn by(name: &'static str, parts: u64) -> Partition {
    Partition::custom(name, move |event| {
        let number: u64 = event.data().ok()?;
        Some(format!("key-{}", number % parts))
    })
}

async fn refusal(log: &Log, set: ReplicaSet) -> String {
    match set.catch_up(log).await {
        Err(error @ RunError::Refused { .. }) => error.to_string(),
        other => panic!("it should have been refused: {other:?}"),
    }
}

fn set() -> ReplicaSet {
    ReplicaSet::new("s").lanes(4)
}

fn scoped(scope: Scope) -> Settings {
    Settings::default().scope(scope)
}

async fn another_partition_under_the_same_name_is_refused(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=4).await;
    let cases = [
        ("category", Partition::entity("Order"), Partition::entity("Payment")),
        ("any_category", Partition::entity("Order"), Partition::entities()),
        ("custom", by("by-day", 3), by("by-n", 3)),
        ("scope", Partition::dcb("x"), Partition::dcb("y")),
    ];
    for (name, before, after) in cases {
        let was = before.identity(log.hash_rule());
        let is = after.identity(log.hash_rule());
        // Events without a key are parked; they do not matter here.
        let _ = set().projection(db.recorder(name).partition(before.clone())).catch_up(&log).await;
        let error = refusal(&log, set().projection(db.recorder(name).partition(after))).await;
        assert!(error.contains(&format!("partitioned by {was} and now is by {is}")), "{error}");
        assert!(error.contains("give it a new name and tables of its own"), "{error}");
        let again = set().projection(db.recorder(name).partition(before)).catch_up(&log).await;
        assert!(!matches!(again, Err(RunError::Refused { .. })), "the old one runs: {again:?}");
    }
}

/// Counts the events of each order.
pub struct Folded(pub String);

impl View for Folded {
    type State = u64;
    fn name(&self) -> &str {
        &self.0
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn apply(&self, count: &mut u64, _: &Event) -> HandlerResult {
        *count += 1;
        Ok(())
    }
}

async fn another_kind_under_the_same_name_is_refused(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    set().projection(db.recorder("a")).catch_up(&log).await.unwrap();
    let error = refusal(&log, set().view(Folded("a".to_owned()))).await;
    assert!(error.contains("it was a projection and now is a view"), "{error}");
}

async fn another_scope_says_what_it_leaves_out_and_asks(db: Db) {
    let log = db.log().await;
    let append = |kind: &'static str, stream: &'static str| {
        let (log, id) = (log.clone(), StreamId::new("Order", stream).unwrap());
        async move { log.append(&id, Expected::Any, [NewEvent::new(kind, 1)]).await.unwrap() }
    };
    for number in ["1", "2", "3"] {
        append("Placed", number).await;
    }
    append("Paid", "4").await;
    append("Paid", "5").await;
    let recorder = |scope: Scope| db.recorder("a").settings(scoped(scope));
    let table = db.recorder("a").table;
    let (placed, both) = (Scope::types(["Placed"]), Scope::types(["Placed", "Paid"]));
    set().projection(recorder(placed.clone())).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await.handled, 3);

    let error = refusal(&log, set().projection(recorder(both.clone()))).await;
    assert!(
        error.contains(
            "its scope was (type Placed, of category Order) and now is (type Paid or Placed, "
        ),
        "{error}"
    );
    assert!(error.contains("2 events up to there match only now"), "{error}");
    assert!(error.contains("the first at position 4"), "{error}");
    assert!(error.contains("anabranch accept-scope a"), "{error}");
    set().projection(recorder(placed.clone())).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await.handled, 3, "nothing has changed yet");
    refusal(&log, set().projection(recorder(both.clone()))).await;

    let consumers = Consumers::new(&log);
    let change = consumers.scope_change("a").await.unwrap().expect("a program has asked");
    assert_eq!((change.left_out, change.is_counted), (2, true));
    consumers.accept_scope(&change).await.unwrap();
    assert!(consumers.scope_change("a").await.unwrap().is_none());
    let stale = consumers.accept_scope(&change).await.unwrap_err();
    assert_eq!(stale.code(), ErrorCode::ScopeChanged);
    let stale = stale.to_string();
    assert!(stale.contains("look again"), "{stale}");

    append("Paid", "6").await;
    set().projection(recorder(both)).catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &table).await.handled, 4, "it goes on from where it was");
    let error = refusal(&log, set().projection(recorder(placed))).await;
    assert!(error.contains("no event is left out"), "{error}");
}

async fn workers_with_the_old_scope_stop_when_the_new_one_is_accepted(db: Db) {
    let log = db.log().await;
    fill(&log, 0..4, 1..=1).await;
    let recorder = |scope: Scope| db.recorder("a").settings(scoped(scope));
    let old = || recorder(Scope::types(["Numbered"]));
    set().projection(old()).catch_up(&log).await.unwrap();
    let (old, table) = (start(&log, set().projection(old())), db.recorder("a").table);
    fill(&log, 4..8, 1..=1).await;
    until("the first events", async || (proof(&log, &table).await.handled == 8).then_some(()))
        .await;
    refusal(&log, set().projection(recorder(Scope::all()))).await;
    assert!(!old.has_ended(), "asking stops nobody");
    let consumers = Consumers::new(&log);
    let change = consumers.scope_change("a").await.unwrap().unwrap();
    consumers.accept_scope(&change).await.unwrap();
    let error = old.ended().await.unwrap_err().to_string();
    assert!(
        error.contains("its scope is (every event, of category Order) since that was accepted"),
        "{error}"
    );
    set().projection(recorder(Scope::all())).catch_up(&log).await.unwrap();
}

/// Such a worker does not look at scopes, and would claim again.
async fn a_scope_is_not_accepted_while_a_worker_of_the_last_version_lives(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    let recorder = |scope: Scope| db.recorder("a").settings(scoped(scope));
    set().projection(recorder(Scope::types(["Numbered"]))).catch_up(&log).await.unwrap();
    refusal(&log, set().projection(recorder(Scope::all()))).await;
    let workers = log_table(&log, "workers");
    let insert = format!(
        "INSERT INTO {workers} (id, replica_set, host, pid, runs, lanes, started_us, lease_us) \
         VALUES ('w', 's', 'old-host', 7, 'a share', 1, 0, 9000000000000000) RETURNING id"
    );
    query(&log, &insert, vec![]).await;
    let consumers = Consumers::new(&log);
    let change = consumers.scope_change("a").await.unwrap().unwrap();
    let error = consumers.accept_scope(&change).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::OldWorkers);
    let error = error.to_string();
    assert!(error.contains("workers of an older version"), "{error}");
    assert!(error.contains("s on old-host, pid 7"), "{error}");
    query(&log, &format!("DELETE FROM {workers} RETURNING id"), vec![]).await;
    consumers.accept_scope(&change).await.unwrap();
}

async fn what_a_scope_leaves_out_is_counted_in_its_category(db: Db) {
    let log = db.log().await;
    for (category, kind) in [("Order", "A"), ("Payment", "B"), ("Payment", "B"), ("Order", "A")] {
        let stream = StreamId::new(category, "1").unwrap();
        log.append(&stream, Expected::Any, [NewEvent::new(kind, 1)]).await.unwrap();
    }
    let recorder = |scope: Scope| db.recorder("a").settings(scoped(scope));
    set().projection(recorder(Scope::types(["A"]))).catch_up(&log).await.unwrap();
    let error = refusal(&log, set().projection(recorder(Scope::types(["A", "B"])))).await;
    assert!(error.contains("no event is left out"), "{error}");
    assert!(!error.contains("anabranch replay"), "there is nothing to replay: {error}");
}

async fn a_scope_that_is_asked_for_no_more_cannot_be_accepted(db: Db) {
    let log = db.log().await;
    let recorder = |scope: Scope| db.recorder("a").settings(scoped(scope));
    let stored = || set().projection(recorder(Scope::types(["Numbered"])));
    stored().catch_up(&log).await.unwrap();
    refusal(&log, set().projection(recorder(Scope::all()))).await;
    let consumers = Consumers::new(&log);
    assert!(consumers.scope_change("a").await.unwrap().is_some());
    stored().catch_up(&log).await.unwrap();
    assert!(consumers.scope_change("a").await.unwrap().is_none(), "the right program is back");
}

async fn what_failed_is_tried_again_though_the_scope_has_become_narrower(db: Db) {
    let log = db.log().await;
    for (stream, kind) in [("1", "B"), ("2", "A")] {
        let stream = StreamId::new("Order", stream).unwrap();
        log.append(&stream, Expected::Any, [NewEvent::new(kind, 1)]).await.unwrap();
    }
    let recorder = |scope: Scope, fails: bool| {
        let hook = move |event: &Event| match fails && event.event_type() == "B" {
            true => Err(anabranch::HandlerError::new("not yet")),
            false => Ok(()),
        };
        let settings = scoped(scope).retry(anabranch::Retry::never());
        db.recorder("a").settings(settings).hook(hook)
    };
    let both = set().projection(recorder(Scope::types(["A", "B"]), true));
    both.catch_up(&log).await.unwrap_err();
    let narrow = || set().projection(recorder(Scope::types(["A"]), false));
    refusal(&log, narrow()).await;
    let consumers = Consumers::new(&log);
    let change = consumers.scope_change("a").await.unwrap().unwrap();
    consumers.accept_scope(&change).await.unwrap();
    consumers.retry_parked("a", "Order:1").await.unwrap();
    narrow().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &db.recorder("a").table).await.handled, 2);
}

async fn a_key_that_no_database_takes_stops_nobody(db: Db) {
    struct Nothing;
    impl Projection for Nothing {
        fn name(&self) -> &str {
            "nothing"
        }
        fn partition(&self) -> Partition {
            Partition::custom("by-nul", |event| Some(format!("a\0{}", event.stream_id())))
        }
        async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..5, 1..=2).await;
    let progress = set().projection(Nothing).catch_up(&log).await.unwrap();
    assert_eq!(progress.consumers[0].handled, 10);
}

async fn the_order_of_names_in_a_scope_is_no_change(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    for scope in [
        Scope::types(["Numbered", "Other"]).tenants(["a", "b"]),
        Scope::types(["Other", "Numbered"]).tenants(["b", "a"]).categories(["Order", "Order"]),
    ] {
        let recorder = db.recorder("a").settings(scoped(scope));
        set().projection(recorder).catch_up(&log).await.unwrap();
    }
}

async fn a_function_that_answers_otherwise_is_noticed(db: Db) {
    let log = db.log().await;
    fill(&log, 0..50, 1..=20).await;
    let lanes = |parts| set().projection(db.recorder("a").partition(by("by-day", parts)));
    lanes(7).catch_up(&log).await.unwrap();
    let error = refusal(&log, lanes(6)).await;
    assert!(error.contains("answers otherwise than it did"), "{error}");
    assert!(error.contains("had `key-"), "{error}");
    let none = Partition::custom("by-day", |_| None);
    let error = refusal(&log, set().projection(db.recorder("a").partition(none))).await;
    assert!(error.contains("now has no key"), "{error}");
    lanes(7).catch_up(&log).await.unwrap();
}

async fn keys_are_kept_while_it_runs_and_bounded(db: Db) {
    let log = db.log().await;
    let samples = format!("SELECT count(*) FROM {}", log_table(&log, "key_samples"));
    let one = |parts| {
        let settings = Settings::default().batch_size(5);
        db.recorder("a").partition(by("by-day", parts)).settings(settings)
    };
    let running = start(&log, set().projection(one(7)));
    // It began on an empty log, and must know the keys of what came later all the same.
    fill(&log, 0..10, 1..=5).await;
    until("samples", async || (number(&log, &samples).await >= 8).then_some(())).await;
    running.stop().await;
    let other = Partition::custom("by-day", |event| Some(event.stream_id().to_owned()));
    refusal(&log, set().projection(one(7).partition(other))).await;
    for round in 2..8 {
        fill(&log, 0..40, round * 5 + 1..=round * 5 + 5).await;
        set().projection(one(7)).catch_up(&log).await.unwrap();
    }
    set().projection(one(7)).catch_up(&log).await.unwrap();
    let kept = number(&log, &samples).await;
    assert!((24..=96).contains(&kept), "{kept}");
    let entities = ReplicaSet::new("t").projection(db.recorder("b"));
    entities.catch_up(&log).await.unwrap();
    let others = format!("{samples} WHERE consumer = 'b'");
    assert_eq!(number(&log, &others).await, 0, "only a function needs them");
    Consumers::new(&log).forget("a").await.unwrap();
    assert_eq!(number(&log, &samples).await, 0);
}

async fn what_the_last_version_stored_is_adopted(db: Db) {
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    set().projection(db.recorder("a")).catch_up(&log).await.unwrap();
    let consumers = log_table(&log, "consumers");
    query(
        &log,
        &format!("UPDATE {consumers} SET partition = NULL, scope = NULL RETURNING name"),
        vec![],
    )
    .await;
    let otherwise = set().projection(db.recorder("a").partition(Partition::customer()));
    let error = refusal(&log, otherwise).await;
    assert!(error.contains("was partitioned by entity, fnv1a and now is by customer"), "{error}");
    set().projection(db.recorder("a")).catch_up(&log).await.unwrap();
    let kept = query(&log, &format!("SELECT partition FROM {consumers}"), vec![]).await;
    assert_eq!(kept[0].get::<String>(0).unwrap(), "entity \"Order\", fnv1a");
}

fn log_table(log: &Log, name: &str) -> String {
    log.store().database().dialect().table(name)
}

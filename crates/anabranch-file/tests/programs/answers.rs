//! What fails for one event, and what a program says of it.

use crate::on_both;
use crate::script::Script;
use crate::support::{Db, fill, left_by, number, proof, query, start, until};
use anabranch::operate::{Consumers, Parked};
use anabranch::prelude::*;
use anabranch::{Retry, Settings};
use std::time::Duration;

on_both! {
    a_refused_statement_fails_its_event_only,
    a_query_is_told_that_its_batch_is_lost,
    failed_fails_its_event_only,
    failed_without_an_event_is_found_by_halving,
    failed_says_whether_to_try_again,
    a_conflict_of_what_is_expected_fails_its_event,
    what_ends_the_transaction_is_refused,
}

/// Runs it on ten keys with six events each, of which the third of key 5 fails: what is parked, after everything else
/// is proven to be done, and in how many batches that was.
async fn one_fails(db: &Db, body: &str) -> (Parked, usize) {
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 0..10, 1..=6).await;
    let settings = Settings::default().retry(Retry::never());
    let projection = script.projection(db, &log, "p").with_settings(settings);
    let left = left_by(ReplicaSet::new("s").projection(projection).lanes(1), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 4), "{left:?}");
    let proof = proof(&log, &db.table("p")).await;
    assert_eq!((proof.handled, proof.doubled, proof.wrong), (56, 0, 0), "{left:?}");
    let parked = Consumers::new(&log).parked("p").await.unwrap().remove(0);
    assert_eq!(parked.key, "Order:5");
    (parked, script.note("batches").unwrap().lines().count())
}

/// All events, those before the one that fails, and those after it; it may be read in two pages.
const WITHOUT_HALVING: usize = 4;

const IS_BAD: &str = "is_bad = lambda event: key_of(event) == '5' and event['data'] == 3";

async fn a_refused_statement_fails_its_event_only(db: Db) {
    let body = r#"
def handle(n, event):
    record(n, event)
    execute(f"INSERT INTO {TABLE}_keys VALUES ($1, 'x', 0)" if is_bad(event) else "SELECT $1", [key_of(event)], n)
serve(handle)
"#;
    let body =
        body.replace("SELECT $1\"", "DELETE FROM {TABLE} WHERE worker = $1\".format(TABLE=TABLE)");
    let (parked, batches) = one_fails(&db, &format!("{IS_BAD}{body}")).await;
    assert!(batches <= WITHOUT_HALVING, "{batches}");
    // PostgreSQL refuses the text, SQLite the second row of the key.
    assert!(parked.error.contains("_keys"), "{}", parked.error);
}

async fn a_query_is_told_that_its_batch_is_lost(db: Db) {
    let body = r#"
def handle(n, event):
    record(n, event)
    if is_bad(event):
        execute(f"INSERT INTO {TABLE}_nowhere VALUES (1)", [], n)
        try:
            query("SELECT 1", [], n)
        except Abandoned as abandoned:
            note("abandoned", f"{os.getpid()} {abandoned}")
            raise
serve(handle)
"#;
    let (log, script) = (db.log().await, Script::new(&format!("{IS_BAD}{body}")));
    fill(&log, 0..10, 1..=6).await;
    let settings = Settings::default().retry(Retry::never());
    let projection = script.projection(&db, &log, "p").with_settings(settings);
    left_by(ReplicaSet::new("s").projection(projection), &log).await;
    let abandoned = script.note("abandoned").unwrap();
    assert!(abandoned.contains("_nowhere"), "{abandoned}");
    // It was not started anew for that.
    let workers =
        query(&log, &format!("SELECT DISTINCT worker FROM {}", db.table("p")), vec![]).await;
    assert_eq!(workers.len(), 1);
    assert!(abandoned.starts_with(&workers[0].get::<String>(0).unwrap()));
    assert_eq!(proof(&log, &db.table("p")).await.handled, 56);
}

async fn failed_fails_its_event_only(db: Db) {
    let body = r#"
greet()
while True:
    batch = read()
    bad = [n for n, event in enumerate(batch["events"]) if is_bad(event)]
    for n, event in enumerate(batch["events"]):
        record(n, event)
    if bad:
        say(failed=batch["batch"], event=bad[0], error="no such card")
    else:
        say(done=batch["batch"])
    sys.stdout.flush()
"#;
    let (parked, batches) = one_fails(&db, &format!("{IS_BAD}{body}")).await;
    assert_eq!(parked.error, "no such card");
    assert!(batches <= WITHOUT_HALVING, "{batches}");
}

async fn failed_without_an_event_is_found_by_halving(db: Db) {
    let body = r#"
def finish(batch):
    if any(is_bad(event) for event in batch["events"]):
        say(failed=batch["batch"], error="one of them")
        sys.stdout.flush()
        raise Abandoned
serve(record, finish)
"#;
    let (parked, batches) = one_fails(&db, &format!("{IS_BAD}{body}")).await;
    assert_eq!(parked.error, "one of them");
    assert!(batches > WITHOUT_HALVING, "{batches}");
}

async fn failed_says_whether_to_try_again(db: Db) {
    let body = r#"
def handle(n, event):
    again = {"1": "never", "2": 3600, "3": None}[key_of(event)]
    say(failed=BATCH, event=n, error="no", again=again)
    sys.stdout.flush()
    raise Abandoned
serve(handle)
"#;
    let (log, script) = (db.log().await, Script::new(body));
    fill(&log, 1..4, 1..=1).await;
    let retry = Retry::default().attempts(3).first(Duration::from_millis(1));
    let settings = Settings::default().retry(retry);
    let projection = script.projection(&db, &log, "p").with_settings(settings);
    let worker = start(&log, ReplicaSet::new("s").projection(projection).lanes(1));
    let keys = until("three keys that have failed", async || {
        let keys = Consumers::new(&log).parked("p").await.ok()?;
        let of = |key: &str| keys.iter().find(|parked| parked.key == key).cloned();
        let (never, later, as_set) = (of("Order:1")?, of("Order:2")?, of("Order:3")?);
        (as_set.retry_in.is_none()).then_some([never, later, as_set])
    })
    .await;
    let [never, later, as_set] = keys;
    assert_eq!((never.attempts, never.retry_in), (1, None));
    assert_eq!(later.attempts, 1);
    assert!(later.retry_in.unwrap() > Duration::from_secs(3_000), "{later:?}");
    assert_eq!(as_set.attempts, 3);
    worker.stop().await;
}

async fn a_conflict_of_what_is_expected_fails_its_event(db: Db) {
    let body = r#"
def handle(n, event):
    record(n, event)
    say(append={"stream": "Copy:" + key_of(event), "type": "Copied", "data": None,
                "expected": 7 if is_bad(event) else event["data"] - 1}, event=n)
serve(handle)
"#;
    let (parked, _) = one_fails(&db, &format!("{IS_BAD}{body}")).await;
    assert!(parked.error.contains("Copy:5"), "{}", parked.error);
    let log = db.log().await;
    let copies = format!("SELECT count(*) FROM {}", log.database().dialect().table("events"));
    assert_eq!(number(&log, &copies).await, 60 + 56);
}

async fn what_ends_the_transaction_is_refused(db: Db) {
    let body = r#"
def handle(n, event):
    record(n, event)
    if is_bad(event):
        execute("COMMIT", [], n)
serve(handle)
"#;
    let (parked, _) = one_fails(&db, &format!("{IS_BAD}{body}")).await;
    assert!(parked.error.contains("must not use COMMIT"), "{}", parked.error);
}

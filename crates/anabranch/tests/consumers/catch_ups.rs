//! Catching up: it says so if something is left, and its last word is true.

use crate::on_both;
use crate::support::*;
use anabranch::prelude::*;
use anabranch::{HandlerError, Progress, Retry};
use std::sync::{Arc, Mutex};
use std::time::Duration;

on_both! {
    a_table_that_is_missing_is_no_success,
    a_key_that_fails_is_no_success_and_the_last_word_is_true,
    the_last_word_of_a_success_is_true,
}

fn quick() -> Settings {
    let retry = Retry::default().first(Duration::from_millis(2)).longest(Duration::from_millis(10));
    Settings::default().retry(retry)
}

/// Fails for one key, from its second event on.
fn failing(db: &Db) -> Recorder {
    let hook = |event: &Event| match event.stream_id() {
        "3" if event.version() > 1 => Err(HandlerError::new("three is broken")),
        _ => Ok(()),
    };
    db.recorder("orders").hook(hook).settings(quick())
}

/// The last thing that an observer hears.
fn last_word(set: ReplicaSet) -> (ReplicaSet, Arc<Mutex<Progress>>) {
    let heard = Arc::new(Mutex::new(Progress::default()));
    let hears = Arc::clone(&heard);
    (set.observe(move |now: &Progress| *hears.lock().unwrap() = now.clone()), heard)
}

/// Few keys, so that it is not the handler that counts as broken.
async fn a_table_that_is_missing_is_no_success(db: Db) {
    struct NoTable(String);
    impl Projection for NoTable {
        fn name(&self) -> &str {
            "no_table"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        fn settings(&self) -> Settings {
            quick()
        }
        async fn handle(&self, event: &Event, tx: &mut Tx<'_>) -> Result<()> {
            let insert = format!("INSERT INTO {} (position) VALUES ($1)", self.0);
            tx.execute(insert, params![event.position()]).await
        }
    }
    let log = db.log().await;
    fill(&log, 0..3, 1..=2).await;
    let missing = NoTable(db.table("missing"));
    let error = ReplicaSet::new("s").projection(missing).catch_up(&log).await.unwrap_err();
    let error = error.to_string();
    for part in ["`no_table`", "6 events of 3 keys", "missing_", "anabranch parked list no_table"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

async fn a_key_that_fails_is_no_success_and_the_last_word_is_true(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=4).await;
    let (set, heard) = last_word(ReplicaSet::new("s").projection(failing(&db)).lanes(2));
    let error = set.catch_up(&log).await.unwrap_err().to_string();
    assert!(error.contains("3 events of 1 key") && error.contains("three is broken"), "{error}");
    let heard = heard.lock().unwrap().consumers[0].clone();
    assert_eq!((heard.position, heard.head, heard.handled, heard.parked), (20, 20, 17, 1));
    let status = status(&log, "orders").await;
    assert_eq!((status.position.get(), status.lag), (20, 3), "what is parked is not handled");
    assert_eq!((status.parked_keys, status.parked_events), (1, 3));
}

async fn the_last_word_of_a_success_is_true(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=4).await;
    let (set, heard) = last_word(ReplicaSet::new("s").projection(db.recorder("orders")));
    let last = set.catch_up(&log).await.unwrap();
    for said in [&last, &*heard.lock().unwrap()] {
        let said = &said.consumers[0];
        assert_eq!((said.position, said.head, said.handled, said.parked), (20, 20, 20, 0));
    }
    // Without an observer, too; and when there was nothing to do.
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    let last = set.catch_up(&log).await.unwrap().consumers.remove(0);
    assert_eq!((last.position, last.head, last.handled), (20, 20, 0));
}

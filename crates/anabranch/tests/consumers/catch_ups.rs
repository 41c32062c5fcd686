//! Catching up: it says so if something is left, and its last word is true.

use crate::gates::*;
use crate::on_both;
use crate::said::Said;
use crate::support::*;
use anabranch::operate::{Consumers, KeyState, Reason};
use anabranch::prelude::*;
use anabranch::running::Progress;
use anabranch::{FixedPartition, HandlerError, Retry, RunError};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

on_both! {
    a_table_that_is_missing_is_no_success,
    a_key_that_fails_is_no_success_and_the_last_word_is_true,
    the_last_word_of_a_success_is_true,
    it_waits_for_the_next_attempt,
    a_key_that_waits_for_its_next_attempt_is_not_parked,
    told_to_stop_it_is_no_success_and_goes_on_the_next_time,
    what_another_has_parked_counts,
    what_fails_behind_the_target_does_not_count,
    a_worker_that_leaves_says_how_far_it_got,
    paused_in_the_middle_it_ends_with_an_error,
}

/// On one thread, whose log is heard.
mod words {
    #[tokio::test]
    async fn of_a_failure_on_sqlite() {
        super::the_log_says_parked_when_it_is(crate::support::Db::sqlite()).await;
    }

    #[tokio::test]
    async fn of_a_failure_on_postgres() {
        super::the_log_says_parked_when_it_is(crate::support::Db::postgres()).await;
    }
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
    (set.on_progress(move |now: &Progress| *hears.lock().unwrap() = now.clone()), heard)
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
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
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
    assert_eq!(
        (heard.position.get(), heard.head.get(), heard.handled, heard.parked),
        (20, 20, 17, 1)
    );
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
        assert_eq!(
            (said.position.get(), said.head.get(), said.handled, said.parked),
            (20, 20, 20, 0)
        );
    }
    // Without an observer, too; and when there was nothing to do.
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    let last = set.catch_up(&log).await.unwrap().consumers.remove(0);
    assert_eq!((last.position.get(), last.head.get(), last.handled), (20, 20, 0));
}

async fn it_waits_for_the_next_attempt(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=4).await;
    let calls = Arc::new(AtomicU32::new(0));
    let hook = move |event: &Event| match (event.stream_id(), event.version()) {
        ("3", 2) if calls.fetch_add(1, Ordering::SeqCst) < 3 => Err(HandlerError::new("not yet")),
        _ => Ok(()),
    };
    let recorder = db.recorder("orders").hook(hook).settings(quick());
    let table = recorder.table.clone();
    let progress = ReplicaSet::new("s").projection(recorder).catch_up(&log).await.unwrap();
    let last = &progress.consumers[0];
    assert_eq!((last.handled, last.parked, last.retrying), (20, 0, 0));
    assert_eq!(proof(&log, &table).await, Proof { handled: 20, doubled: 0, keys: 5, wrong: 0 });
}

/// The next attempt is an hour away: the key is retrying, in every count and word.
async fn a_key_that_waits_for_its_next_attempt_is_not_parked(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=4).await;
    let hour = Duration::from_secs(3600);
    let settings = Settings::default().retry(Retry::default().first(hour).longest(hour));
    let set = || ReplicaSet::new("s").projection(failing(&db).settings(settings.clone()));
    let (stop, stopped) = oneshot::channel::<()>();
    let told = async { drop(stopped.await) };
    let (running, heard) = last_word(set());
    let run = tokio::spawn({
        let log = log.clone();
        async move { running.catch_up_until(&log, told).await }
    });
    until("a key that waits", async || {
        let said = heard.lock().unwrap().consumers.first()?.clone();
        (said.position.get() == 20 && said.retrying == 1 && said.parked == 0).then_some(())
    })
    .await;
    until("all others", async || {
        let now = status(&log, "orders").await;
        (now.lag == 3).then_some(())
    })
    .await;
    let now = status(&log, "orders").await;
    assert_eq!((now.lag, now.lag_ready, now.position.get()), (3, 3, 20), "a worker will do it");
    assert_eq!((now.parked_keys, now.parked_events), (0, 0));
    assert_eq!((now.retrying_keys, now.retrying_events), (1, 3));
    let reasons = &now.cursors[0].reasons;
    assert!(reasons.contains(&Reason::RetryingKeys { keys: 1 }), "{reasons:?}");
    let consumers = Consumers::new(&log);
    let key = consumers.parked("orders").await.unwrap().remove(0);
    assert_eq!((key.state, key.attempts), (KeyState::Retrying, 1));
    let offsets = consumers.offsets("orders", None).await.unwrap();
    assert_eq!((offsets.lag, offsets.lag_ready), (3, 3));
    assert!(!run.is_finished(), "it waits for the next attempt");

    stop.send(()).unwrap();
    let error = run.await.unwrap().unwrap_err();
    let RunError::Incomplete(left) = &error else { panic!("{error}") };
    assert!(left.was_stopped && left.left[0].unseen == 0, "{left:?}");
    assert_eq!((left.left[0].retrying_keys, left.left[0].retrying_events), (1, 3));
    assert!(
        error.to_string().contains("3 events of 1 key waiting for the next attempt"),
        "{error}"
    );
    let last = heard.lock().unwrap().clone();
    assert!(last.has_ended);
    let last = &last.consumers[0];
    assert_eq!((last.position.get(), last.parked, last.retrying), (20, 0, 1));

    // Somebody asks for it: a worker has to do it, whatever its time was.
    let settings = Settings::default().retry(Retry::never());
    let running = start(&log, ReplicaSet::new("s").projection(failing(&db).settings(settings)));
    consumers.retry_parked("orders", "Order:3").await.unwrap();
    until("it is parked", async || (status(&log, "orders").await.parked_keys == 1).then_some(()))
        .await;
    running.stop().await;
    let now = status(&log, "orders").await;
    assert_eq!((now.lag, now.lag_ready, now.retrying_keys), (3, 0, 0));
    consumers.retry_parked("orders", "Order:3").await.unwrap();
    let now = status(&log, "orders").await;
    assert_eq!((now.lag, now.lag_ready, now.retrying_keys), (3, 3, 1), "asked for, so to be done");
}

async fn told_to_stop_it_is_no_success_and_goes_on_the_next_time(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=2).await;
    one(&log, "gate", numbered(1)).await;
    fill(&log, 0..3, 3..=4).await;
    let gate = Gate::default();
    let settings = Settings::default().batch_size(1);
    let recorder = db.recorder("orders").hook(gate.hook()).settings(settings);
    let table = recorder.table.clone();
    let set = || ReplicaSet::new("s").projection(recorder.clone());
    let (running, heard) = last_word(set());
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn({
        let log = log.clone();
        async move { running.catch_up_until(&log, async { drop(stopped.await) }).await }
    });
    gate.is_met().await;
    stop.send(()).unwrap();
    // Its lanes have been told when it says that it leaves.
    until("it leaves", async || {
        let workers = Consumers::new(&log).workers().await.unwrap();
        workers.iter().any(|worker| worker.runs == "leaving").then_some(())
    })
    .await;
    gate.open();
    let ended = run.await.unwrap();
    let error = ended.unwrap_err();
    let RunError::Incomplete(left) = &error else { panic!("{error}") };
    assert!(left.was_stopped && left.target.get() == 13, "{left:?}");
    let handled = proof(&log, &table).await.handled as u64;
    assert_eq!(left.left[0].unseen, 13 - handled);
    let words = error.to_string();
    assert!(words.contains("was told to stop") && words.contains("start it again"), "{words}");
    let last = heard.lock().unwrap().consumers[0].clone();
    assert_eq!((last.position.get(), last.head.get(), last.handled), (handled, 13, handled));
    let rest = set().catch_up(&log).await.unwrap().consumers.remove(0);
    assert_eq!((rest.position.get(), rest.handled), (13, 13 - handled));
    // Told to stop when there is nothing left to do: nothing is wrong with that.
    set().catch_up_until(&log, std::future::ready(())).await.unwrap();
}

/// Parked by a worker of another partition, or in another run: it is not handled.
async fn what_another_has_parked_counts(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=4).await;
    let set = || ReplicaSet::new("s").projection(failing(&db).settings(never()));
    assert_eq!(left_by(set(), &log).await.parked_events, 3);
    let left = left_by(set(), &log).await;
    assert_eq!((left.consumer.as_str(), left.parked_events), ("orders", 3), "nothing was to do");
    // A fixed partition speaks for itself only.
    let key = Consumers::new(&log).parked("orders").await.unwrap().remove(0);
    for index in 0..2 {
        let fixed = FixedPartition::new(index, 2).unwrap();
        let ended = set().partition(fixed).catch_up(&log).await;
        assert_eq!(ended.is_err(), fixed.slots().contains(key.slot), "{ended:?}");
    }
    // While another worker of the set holds the key.
    let other = db.log().await;
    let running = start(&other, set());
    until("it runs", async || {
        let owned = |cursor: &anabranch::operate::CursorStatus| {
            matches!(&cursor.owner, anabranch::operate::Owner::Worker(_))
        };
        status(&log, "orders").await.cursors.iter().any(owned).then_some(())
    })
    .await;
    assert_eq!(left_by(set(), &log).await.parked_events, 3);
    running.stop().await;
    Consumers::new(&log).skip_all_parked("orders", "Order:3").await.unwrap();
    set().catch_up(&log).await.unwrap();
}

async fn what_fails_behind_the_target_does_not_count(db: Db) {
    let log = db.log().await;
    one(&log, "gate", numbered(1)).await;
    let gate = Gate::default();
    let passes = gate.hook();
    let hook = move |event: &Event| match event.stream_id() {
        "late" => Err(HandlerError::new("late")),
        _ => passes(event),
    };
    let recorder = db.recorder("orders").hook(hook).settings(never());
    let set = ReplicaSet::new("s").projection(recorder);
    let later = async {
        gate.is_met().await;
        one(&log, "late", numbered(1)).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(set.catch_up(&log), later);
    let last = ended.unwrap().consumers.remove(0);
    assert_eq!((last.handled, last.head.get()), (1, 2));
}

/// A worker that is told to stop, and has a share only.
async fn a_worker_that_leaves_says_how_far_it_got(db: Db) {
    let log = db.log().await;
    fill(&log, 0..20, 1..=2).await;
    let other = db.log().await;
    let set = || ReplicaSet::new("s").projection(failing(&db).settings(never()));
    let workers = [start(&log, set()), start(&other, set())];
    until("both have their share, and all is done", async || {
        let now = Consumers::new(&log).status("orders").await.ok()?;
        let done = now.lag_ready == 0 && now.parked_events == 1 && now.cursors.len() >= 2;
        done.then_some(())
    })
    .await;
    let mut parked = 0;
    for worker in workers {
        let last = worker.stop().await;
        assert!(last.has_ended);
        let last = &last.consumers[0];
        assert_eq!((last.position.get(), last.head.get()), (40, 40));
        parked = parked.max(last.parked);
    }
    assert_eq!(parked, 1);
}

async fn the_log_says_parked_when_it_is(db: Db) {
    let (said, _guard) = Said::listen();
    let log = db.log().await;
    fill(&log, 0..5, 1..=4).await;
    let retry = Retry::default().attempts(3).first(Duration::from_millis(20)).factor(1);
    let recorder = failing(&db).settings(Settings::default().retry(retry));
    left_by(ReplicaSet::new("s").projection(recorder), &log).await;
    let text = said.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("three is broken")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    for (attempt, line) in lines.iter().enumerate() {
        let is_last = attempt == 2;
        assert_eq!(line.contains("will be tried again in "), !is_last, "{line}");
        assert_eq!(line.contains("parked a key"), is_last, "{line}");
        assert!(line.contains(&format!("attempts={}", attempt + 1)), "{line}");
    }
}

/// It would wait for ever.
async fn paused_in_the_middle_it_ends_with_an_error(db: Db) {
    let log = db.log().await;
    one(&log, "gate", numbered(1)).await;
    fill(&log, 0..4, 1..=2).await;
    let gate = Gate::default();
    let recorder =
        db.recorder("orders").hook(gate.hook()).settings(Settings::default().batch_size(1));
    let (other, set) = (db.log().await, ReplicaSet::new("s").projection(recorder));
    let task = tokio::spawn(async move { set.catch_up(&other).await });
    gate.is_met().await;
    let consumers = Consumers::new(&log);
    consumers.pause("orders").await.unwrap();
    until("it to leave", async || {
        let workers = consumers.workers().await.unwrap();
        workers.iter().all(|worker| worker.runs == "leaving").then_some(())
    })
    .await;
    gate.open();
    let error = task.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("it is paused"), "{error}");
}

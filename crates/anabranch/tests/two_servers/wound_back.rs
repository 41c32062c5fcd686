//! Logs that were wound back, or that another one has taken the place of: nothing is skipped in silence.

use crate::on_all_pairs;
use crate::pair::*;
use crate::support::*;
use anabranch::errors::ErrorCode;
use anabranch::operate::{Consumers, Reason, ReplayFrom};
use anabranch::prelude::*;
use anabranch::{RunError, StoreError};

on_all_pairs! {
    a_log_that_was_wound_back_and_filled_again_pauses_its_consumer,
    a_running_worker_notices_a_log_that_was_wound_back,
    what_was_found_is_kept_until_somebody_says_where_to_go_on,
    what_a_running_worker_found_is_kept_too,
    an_event_that_is_sent_again_with_its_id_hides_nothing,
    offsets_of_a_log_that_was_wound_back_are_refused,
    skip_to_head_goes_on_with_a_log_that_was_wound_back,
    a_parked_event_of_a_lost_tail_is_not_taken_for_another,
    another_log_pauses_its_consumer,
}

fn is_wound_back(error: &RunError) -> bool {
    let store = match error {
        RunError::Broken { error, .. } | RunError::Store(error) => error,
        _ => return false,
    };
    matches!(store, StoreError::WoundBack { .. })
}

/// A log of which a consumer has handled forty events, then lost the last twenty and got others in their place.
async fn wound_back(pair: &Pair) -> Log {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    let backup = Backup::of(&log).await;
    fill(&log, 0..4, 6..=10).await;
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 10).await;
    backup.restore(&log).await;
    fill(&log, 0..4, 6..=11).await;
    assert_eq!(log.read(Query::all()).collect().await.unwrap().len(), 44);
    log
}

async fn delete_up_to(log: &Log, position: u64) {
    let events = log.store().database().dialect().table("events");
    in_log(log, &[format!("DELETE FROM {events} WHERE position <= {position}")]).await;
}

fn reason(standing: &anabranch::operate::ConsumerStatus) -> String {
    let first = standing.cursors.iter().flat_map(|cursor| &cursor.reasons).next();
    first.map(ToString::to_string).unwrap_or_default()
}

async fn a_log_that_was_wound_back_and_filled_again_pauses_its_consumer(pair: Pair) {
    let log = wound_back(&pair).await;
    for _ in 0..2 {
        let error = pair.set().catch_up(&log).await.unwrap_err();
        assert!(is_wound_back(&error), "{error}");
        let said = error.to_string();
        for part in [
            "orders",
            "the log was wound back: event ",
            "at position 40 is not there any more",
            "anabranch replay CONSUMER --from-start",
            "anabranch skip-to-head CONSUMER",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let standing = status(&log, "orders").await;
        assert!(reason(&standing).contains("the log was wound back"), "{standing:?}");
        assert!(standing.lag > 0, "no plain 0");
        // Nothing is handled, and nothing moves.
        pair.is_whole(&log, 4, 10).await;
        assert_eq!(standing.position.get(), 40);
    }
    Consumers::new(&log).replay("orders", ReplayFrom::Start).await.unwrap();
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 11).await;
    assert_eq!(status(&log, "orders").await.lag, 0);
}

async fn a_running_worker_notices_a_log_that_was_wound_back(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    let backup = Backup::of(&log).await;
    fill(&log, 0..4, 6..=10).await;
    let other = pair.home.recorder("others");
    let set = || pair.set().projection(other.clone());
    set().catch_up(&log).await.unwrap();
    let worker = start(&pair.log().await, set());
    until("a worker", async || {
        let standing = status(&log, "orders").await;
        standing.runners.first().filter(|runner| runner.slots == 5040).map(drop)
    })
    .await;
    backup.restore(&log).await;
    fill(&log, 0..4, 6..=11).await;
    until("the pause", async || {
        let standing = Consumers::new(&log).list().await.unwrap();
        standing.iter().all(|one| reason(one).contains("wound back")).then_some(())
    })
    .await;
    // It may have looked before the log was filled again.
    let ended = worker.ended().await.unwrap_err();
    let is_beyond = matches!(ended, RunError::BeyondLog { .. });
    assert!(is_beyond || is_wound_back(&ended), "{ended}");
    pair.is_whole(&log, 4, 10).await;
    // A worker that comes later finds what is asked for.
    Consumers::new(&log).replay("orders", ReplayFrom::Start).await.unwrap();
    Consumers::new(&log).replay("others", ReplayFrom::Start).await.unwrap();
    set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 11).await;
}

async fn what_was_found_is_kept_until_somebody_says_where_to_go_on(pair: Pair) {
    let log = wound_back(&pair).await;
    assert!(is_wound_back(&pair.set().catch_up(&log).await.unwrap_err()));
    // The beginning is deleted, and with it what it was found out by.
    delete_up_to(&log, 40).await;
    let error = pair.set().catch_up(&log).await.unwrap_err();
    assert!(is_wound_back(&error), "{error}");
    assert!(reason(&status(&log, "orders").await).contains("the log was wound back"));
    pair.is_whole(&log, 4, 10).await;
}

async fn what_a_running_worker_found_is_kept_too(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    let backup = Backup::of(&log).await;
    fill(&log, 0..4, 6..=10).await;
    pair.set().catch_up(&log).await.unwrap();
    let worker = start(&pair.log().await, pair.set());
    until("a worker", async || {
        let standing = status(&log, "orders").await;
        standing.runners.first().filter(|runner| runner.slots == 5040).map(drop)
    })
    .await;
    backup.replace_tail(&log).await;
    fill(&log, 0..4, 11..=11).await;
    let ended = worker.ended().await.unwrap_err();
    assert!(is_wound_back(&ended), "{ended}");
    delete_up_to(&log, 40).await;
    let error = pair.set().catch_up(&log).await.unwrap_err();
    assert!(is_wound_back(&error), "{error}");
    assert!(reason(&status(&log, "orders").await).contains("the log was wound back"));
    pair.is_whole(&log, 4, 10).await;
}

/// A producer gives its events ids of its own, and sends the last one again, since the log does not have it.
async fn an_event_that_is_sent_again_with_its_id_hides_nothing(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    let backup = Backup::of(&log).await;
    let append = async |stream: &str, id: u128| {
        let event = numbered(1).with_id(uuid::Uuid::from_u128(id));
        let stream = StreamId::new("Order", stream).unwrap();
        log.append(&stream, Expected::Any, [event]).await.unwrap().position()
    };
    append("a", 1).await;
    let lost = append("b", 2).await;
    pair.set().catch_up(&log).await.unwrap();
    backup.restore(&log).await;
    append("c", 3).await;
    assert_eq!(append("b", 2).await, lost);
    fill(&log, 0..4, 6..=6).await;
    let error = pair.set().catch_up(&log).await.unwrap_err();
    assert!(is_wound_back(&error), "{error}");
    assert!(error.to_string().contains("is there a second time"), "{error}");
}

/// People delete old events by them.
async fn offsets_of_a_log_that_was_wound_back_are_refused(pair: Pair) {
    let log = wound_back(&pair).await;
    let consumers = Consumers::new(&log);
    for _ in 0..2 {
        let error = consumers.offsets("orders", None).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::LogWoundBack);
        for part in ["`orders`", "the log was wound back", "replay", "skip-to-head"] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        let error = consumers.rescale("orders", 2, 3).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::LogWoundBack);
        // The second time by what is stored.
        assert!(is_wound_back(&pair.set().catch_up(&log).await.unwrap_err()));
    }
    consumers.replay("orders", ReplayFrom::Start).await.unwrap();
    pair.set().catch_up(&log).await.unwrap();
    assert_eq!(consumers.offsets("orders", None).await.unwrap().minimum.get(), 44);
}

async fn skip_to_head_goes_on_with_a_log_that_was_wound_back(pair: Pair) {
    let log = wound_back(&pair).await;
    assert!(is_wound_back(&pair.set().catch_up(&log).await.unwrap_err()));
    let head = log.head().await.unwrap();
    assert_eq!(Consumers::new(&log).skip_to_head("orders").await.unwrap(), head);
    fill(&log, 0..4, 12..=12).await;
    pair.set().catch_up(&log).await.unwrap();
    assert_eq!(proof(&log, &pair.recorder().table).await.handled, 44);
}

async fn a_parked_event_of_a_lost_tail_is_not_taken_for_another(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    let backup = Backup::of(&log).await;
    fill(&log, 0..4, 6..=6).await;
    let broken = |event: &Event| match event.version() == 6 && event.stream_id() == "2" {
        true => Err(HandlerError::for_good("no")),
        false => Ok(()),
    };
    let set = ReplicaSet::new("s").projection(pair.recorder().hook(broken)).lanes(2);
    assert_eq!(left_by(set, &log).await.parked_keys, 1);
    backup.restore(&log).await;
    // Others stand where the parked one was.
    fill(&log, 4..8, 1..=2).await;
    Consumers::new(&log).retry_parked("orders", "Order:2").await.unwrap();
    assert!(is_wound_back(&pair.set().catch_up(&log).await.unwrap_err()));
    let whole = Proof { handled: 23, doubled: 0, keys: 4, wrong: 0 };
    assert_eq!(proof(&log, &pair.recorder().table).await, whole);
}

/// Another log under the same URL.
async fn another_log_pauses_its_consumer(pair: Pair) {
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    pair.set().catch_up(&log).await.unwrap();
    let settings = log.store().database().dialect().table("settings");
    let other = "11111111111111111111111111111111";
    in_log(&log, &[format!("UPDATE {settings} SET value = '{other}' WHERE name = 'identity'")])
        .await;
    fill(&log, 0..4, 6..=6).await;
    let error = pair.set().catch_up(&log).await.unwrap_err();
    assert!(error.code() == ErrorCode::OtherLog, "{error}");
    let standing = status(&log, "orders").await;
    let is_other = |reason: &Reason| matches!(reason, Reason::OtherLog { .. });
    assert!(standing.cursors[0].reasons.iter().any(is_other), "{standing:?}");
    pair.is_whole(&log, 4, 5).await;
    Consumers::new(&log).replay("orders", ReplayFrom::Start).await.unwrap();
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 6).await;
}

/// Whether this process has a file open, where the system says so.
fn is_open(file: &std::path::Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    open.any(|path| path.to_string_lossy().starts_with(&*file.to_string_lossy()))
}

/// As it happens to people: the file is put back while nobody runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_file_of_the_log_pauses_its_consumer() {
    let pair = Pair::sqlite();
    let copy = pair.file().with_extension("backup");
    let log = pair.log().await;
    fill(&log, 0..4, 1..=5).await;
    let backup = format!("VACUUM INTO '{}'", copy.display());
    let connection = anabranch::sqlite::rusqlite::Connection::open(pair.file()).unwrap();
    connection.execute_batch(&backup).unwrap();
    fill(&log, 0..4, 6..=10).await;
    pair.set().catch_up(&log).await.unwrap();
    drop(connection);
    log.close().await;
    // Its threads may still be closing it: what they write would be of the file that is put there.
    until("the file to be closed", async || (!is_open(&pair.file())).then_some(())).await;
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", pair.file().display()));
    }
    std::fs::rename(copy, pair.file()).unwrap();
    let log = pair.log().await;
    fill(&log, 0..4, 6..=11).await;
    let error = pair.set().catch_up(&log).await.unwrap_err();
    assert!(is_wound_back(&error), "{error}");
    pair.is_whole(&log, 4, 10).await;
    Consumers::new(&log).replay("orders", ReplayFrom::Start).await.unwrap();
    pair.set().catch_up(&log).await.unwrap();
    pair.is_whole(&log, 4, 11).await;
}

//! Observers that are slow, block or panic, and what they are given.

use crate::on_both;
use crate::records::Records;
use crate::said::Said;
use crate::seen::Seen;
use crate::support::*;
use anabranch::Retry;
use anabranch::events::{EngineEvent, Happening, Observer};
use anabranch::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tracing_subscriber::util::SubscriberInitExt;

on_both! {
    one_that_blocks_holds_up_nobody_and_learns_what_it_missed,
    one_that_panics_harms_nobody,
    one_whose_panic_panics_again_goes_on,
    a_run_ends_when_a_slow_one_has_seen_its_end,
    a_batch_ends_when_a_slow_one_has_seen_its_rows,
    one_of_a_log_sees_all_that_runs_on_it,
    one_of_a_set_sees_nothing_of_another,
}

/// Blocks until it is let go, and counts what it gets.
#[derive(Default)]
struct Blocks {
    is_open: Mutex<bool>,
    opened: Condvar,
    got: AtomicU64,
    dropped: AtomicU64,
}

impl Observer for Blocks {
    fn observe(&self, event: &EngineEvent) {
        let wait = self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open);
        drop(wait.unwrap());
        match event.what {
            Happening::Dropped { count, .. } => self.dropped.fetch_add(count, Ordering::SeqCst),
            _ => self.got.fetch_add(1, Ordering::SeqCst),
        };
    }
}

async fn one_that_blocks_holds_up_nobody_and_learns_what_it_missed(db: Db) {
    const STREAMS: u64 = 50;
    const EACH: u64 = 120;
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=EACH).await;
    let (blocks, seen) = (Arc::new(Blocks::default()), Seen::default());
    // A transaction for each event: more events of the engine than fit into a queue.
    let recorder = db.recorder("orders").settings(Settings::default().batch_size(1));
    let table = recorder.table.clone();
    let set = ReplicaSet::new("s").projection(recorder).observer(Arc::clone(&blocks));
    let progress = set.observer(seen.clone()).catch_up(&log).await.unwrap();
    // It ends although the observer has not taken a single one.
    assert_eq!(progress.consumers[0].handled, STREAMS * EACH);
    assert_eq!(blocks.got.load(Ordering::SeqCst), 0);
    assert_eq!(proof(&log, &table).await.handled, (STREAMS * EACH) as i64);
    assert_eq!(seen.handled("orders"), STREAMS * EACH, "its neighbour misses nothing");
    *blocks.is_open.lock().unwrap() = true;
    blocks.opened.notify_all();
    let emitted = seen.all().len() as u64;
    until("every event, got or counted", async || {
        let (got, dropped) = (&blocks.got, &blocks.dropped);
        let sum = got.load(Ordering::SeqCst) + dropped.load(Ordering::SeqCst);
        (sum == emitted).then_some(())
    })
    .await;
    assert!(blocks.dropped.load(Ordering::SeqCst) > 1_000, "it has missed many");
}

async fn one_that_panics_harms_nobody(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=5).await;
    let (calls, seen) = (Arc::new(AtomicU64::new(0)), Seen::default());
    let counted = Arc::clone(&calls);
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    let set = set.observer(move |_: &EngineEvent| {
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("an observer panics, as a test wants it")
    });
    let progress = set.observer(seen.clone()).catch_up(&log).await.unwrap();
    assert_eq!((progress.consumers[0].handled, seen.handled("orders")), (50, 50));
    assert_eq!(calls.load(Ordering::SeqCst), seen.all().len() as u64, "it gets all the same");
}

/// What a panic carries, and panics itself when it is dropped; what that carries does so again.
struct Bomb(u8);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Bomb(self.0 - 1));
        }
    }
}

async fn one_whose_panic_panics_again_goes_on(db: Db) {
    let log = db.log().await;
    fill(&log, 0..10, 1..=5).await;
    let (calls, seen) = (Arc::new(AtomicU64::new(0)), Seen::default());
    let counted = Arc::clone(&calls);
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    let set = set.observer(move |_: &EngineEvent| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any(Bomb(2))
    });
    set.observer(seen.clone()).catch_up(&log).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), seen.all().len() as u64, "it gets all the same");
}

/// On one thread, whose log it is.
#[tokio::test]
async fn a_subscriber_of_the_log_whose_panic_panics_again_harms_nobody() {
    let lines = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&lines);
    let writer = move || -> std::io::Sink {
        counted.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any(Bomb(2))
    };
    let _guard = tracing_subscriber::fmt().with_writer(writer).set_default();
    let db = Db::sqlite();
    let log = db.log().await;
    fill(&log, 0..2, 1..=1).await;
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    assert_eq!(set.catch_up(&log).await.unwrap().consumers[0].handled, 2);
    assert!(lines.load(Ordering::SeqCst) > 0, "something was logged");
}

/// Takes its time for one kind of event, and sees it after that.
fn slow_for(name: &'static str, seen: &Seen) -> impl Observer + use<> {
    let seen = seen.clone();
    move |event: &EngineEvent| {
        if event.what.name() == name {
            std::thread::sleep(Duration::from_millis(100));
        }
        seen.observe(event);
    }
}

async fn a_run_ends_when_a_slow_one_has_seen_its_end(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let seen = Seen::default();
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    set.observer(slow_for("worker_left", &seen)).catch_up(&log).await.unwrap();
    assert_eq!(seen.of("worker_left").len(), 1);
}

async fn a_batch_ends_when_a_slow_one_has_seen_its_rows(db: Db) {
    let seen = Seen::default();
    let log = db.log().await.with_observer(slow_for("batch_handled", &seen));
    let records = Records::new(&db, &log, 1..=2).await;
    records.batch().run(&log, records.clone()).await.unwrap();
    let rows = seen.of("batch_handled").into_iter().map(|event| match event.what {
        Happening::BatchHandled { events, .. } => events,
        other => panic!("{other:?}"),
    });
    assert_eq!(rows.sum::<usize>(), 2);
}

async fn one_of_a_log_sees_all_that_runs_on_it(db: Db) {
    let seen = Seen::default();
    let bare = db.log().await;
    let log = bare.clone().with_observer(seen.clone());
    fill(&log, 0..5, 1..=1).await;
    ReplicaSet::new("s").projection(db.recorder("orders")).catch_up(&log).await.unwrap();
    ReplicaSet::new("t").projection(db.recorder("others")).catch_up(&log).await.unwrap();
    assert_eq!((seen.handled("orders"), seen.handled("others")), (5, 5));
    let before = seen.all().len();
    // The handle without it is another one.
    ReplicaSet::new("u").projection(db.recorder("unseen")).catch_up(&bare).await.unwrap();
    let later = seen.all().split_off(before);
    assert!(later.iter().all(|event| event.set.is_none()), "{later:?}");
}

async fn one_of_a_set_sees_nothing_of_another(db: Db) {
    let log = db.log().await;
    fill(&log, 0..5, 1..=1).await;
    let (one, two) = (Seen::default(), Seen::default());
    let set = |name: &str, seen: &Seen| {
        ReplicaSet::new(name).projection(db.recorder(name)).observer(seen.clone())
    };
    let running = start(&log, set("first", &one));
    set("second", &two).catch_up(&log).await.unwrap();
    until("all of it", async || (one.handled("first") == 5).then_some(())).await;
    running.stop().await;
    assert_eq!((one.handled("second"), two.handled("first"), two.handled("second")), (0, 0, 5));
}

/// On one thread, whose log is heard.
#[tokio::test]
async fn a_line_is_an_event_and_can_be_turned_off() {
    for (is_on, lines) in [(true, 1), (false, 0)] {
        let (said, _guard) = Said::listen();
        let seen = Seen::default();
        let mut db = Db::sqlite();
        db.options.tracing = is_on;
        let log = db.log().await;
        fill(&log, 0..2, 1..=1).await;
        let hook = |_: &Event| Err(HandlerError::new("no such customer"));
        let retry = Settings::default().retry(Retry::never());
        let recorder = db.recorder("orders").hook(hook).settings(retry);
        let one = recorder.partition(Partition::global());
        let set = ReplicaSet::new("s").projection(one).observer(seen.clone());
        set.catch_up(&log).await.unwrap_err();
        assert_eq!(seen.of("event_parked").len(), 1);
        let parked = said.lines("parked a key: it waits for `anabranch parked retry` or `skip`");
        assert_eq!(parked.len(), lines, "{}", said.text());
        let is_whole = |line: &String| {
            line.contains("ERROR anabranch_runtime::lane::parking: ")
                && line.contains("consumer=\"orders\"")
                && line.contains("error=no such customer")
        };
        assert!(parked.iter().all(is_whole), "{parked:?}");
        if !is_on {
            assert_eq!(said.text(), "");
        }
    }
}

/// It is said once, however often it happens, by the thread that delivers: the log of the whole process is heard.
#[tokio::test]
async fn a_panic_is_said_once() {
    let said = Said::listen_everywhere();
    let db = Db::sqlite();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let log = db.log().await.with_observer(move |_: &EngineEvent| {
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("an observer whose panic is counted")
    });
    fill(&log, 0..2, 1..=1).await;
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    set.catch_up(&log).await.unwrap();
    assert!(calls.load(Ordering::SeqCst) > 1);
    let lines = said.lines("an observer whose panic is counted");
    assert!(lines.len() == 1 && lines[0].contains("ERROR anabranch_store::observe"), "{lines:?}");
}

/// A blocked observer may cost the end of a run no more than a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_run_does_not_wait_for_ever() {
    let db = Db::sqlite();
    let log = db.log().await;
    let blocks = Arc::new(Blocks::default());
    let set = ReplicaSet::new("s").projection(db.recorder("orders"));
    let run = set.observer(Arc::clone(&blocks)).catch_up(&log);
    tokio::time::timeout(Duration::from_secs(20), run).await.expect("it ends").unwrap();
    assert_eq!(blocks.got.load(Ordering::SeqCst), 0);
    *blocks.is_open.lock().unwrap() = true;
    blocks.opened.notify_all();
}

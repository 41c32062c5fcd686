//! Events that handlers append in their transaction: exactly once with the cursor.

use crate::gates::never;
use crate::support::{Db, PATIENCE, fill, start, status, until};
use crate::{on_both, on_postgres};
use anabranch::operate::{Consumers, ReplayFrom};
use anabranch::prelude::*;
use anabranch::{HandlerError, Retry};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

on_both! {
    each_event_is_made_into_one_whatever_happens,
    a_replay_finds_what_it_appended,
    a_new_version_beside_the_old_one_finds_it_as_well,
    another_body_fails_its_event_for_good,
    a_conflict_fails_the_event_that_asked,
    a_handler_that_fails_appends_nothing,
    what_is_refused_counts_even_if_the_handler_passes_over_it,
    a_batch_handler_says_for_which_event_it_appends,
}

on_postgres! {
    nobody_waits_for_a_handler_that_thinks,
}

const STREAMS: u64 = 20;

pub type Hook = Arc<dyn Fn(&Event, &mut Tx) -> HandlerResult + Send + Sync>;

/// Makes a copy of each event, in a stream of copies.
#[derive(Clone)]
pub struct Copier {
    pub name: &'static str,
    pub settings: Settings,
    pub hook: Hook,
}

impl Copier {
    pub fn new(hook: impl Fn(&Event, &mut Tx) -> HandlerResult + Send + Sync + 'static) -> Self {
        let quick = Retry::default().first(Duration::from_millis(2));
        let settings = Settings::default().retry(quick).batch_size(7);
        Self { name: "copier", settings, hook: Arc::new(hook) }
    }

    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }
}

pub fn copies(event: &Event) -> StreamId {
    StreamId::new("Copy", event.stream_id()).unwrap()
}

pub fn copy(event: &Event) -> NewEvent {
    NewEvent::new("Copied", event.data::<u64>().unwrap()).caused_by(event)
}

/// Two appends for each event.
fn twice(event: &Event, tx: &mut Tx) -> HandlerResult {
    tx.append(&copies(event), Expected::Any, [copy(event)])?;
    tx.append(&StreamId::new("All", "1")?, Expected::Any, [NewEvent::new("Counted", ())])
}

impl Projection for Copier {
    fn name(&self) -> &str {
        self.name
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        self.settings.clone()
    }
    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        (self.hook)(event, tx)
    }
    async fn reset(&self, _: Position, _: &mut Tx) -> HandlerResult {
        Ok(())
    }
}

/// The numbers that were copied, stream by stream, as the log has them; and how many were counted.
pub async fn copied(log: &Log) -> (BTreeMap<String, Vec<u64>>, usize) {
    let mut copies: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut counted = 0;
    for event in log.read(Query::all()).collect().await.unwrap() {
        match event.event_type() {
            "Copied" => {
                copies.entry(event.stream_id().to_owned()).or_default().push(event.data().unwrap());
            }
            "Counted" => counted += 1,
            _ => {}
        }
    }
    (copies, counted)
}

fn all(numbers: std::ops::RangeInclusive<u64>) -> (BTreeMap<String, Vec<u64>>, usize) {
    let each: Vec<u64> = numbers.collect();
    let counted = each.len() * STREAMS as usize;
    ((0..STREAMS).map(|stream| (stream.to_string(), each.clone())).collect(), counted)
}

/// Workers that crash, and events that fail now and then.
async fn each_event_is_made_into_one_whatever_happens(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=30).await;
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let copier = Copier::new(move |event, tx| {
        twice(event, tx)?;
        match counted.fetch_add(1, Ordering::Relaxed) % 50 {
            49 => Err(HandlerError::new("now and then")),
            _ => Ok(()),
        }
    });
    let set = || ReplicaSet::new("s").lanes(3).projection(copier.clone());
    for crash in 1..=3 {
        let one = start(&db.log().await, set());
        let enough = crash * 120;
        until("some", async || (calls.load(Ordering::Relaxed) >= enough).then_some(())).await;
        one.crash();
    }
    let (one, other) = (start(&log, set()), start(&db.log().await, set()));
    fill(&log, 0..STREAMS, 31..=40).await;
    until("all copies", async || (copied(&log).await == all(1..=40)).then_some(())).await;
    until("no lag", async || (status(&log, "copier").await.lag == 0).then_some(())).await;
    one.stop().await;
    other.stop().await;
    assert_eq!(copied(&log).await, all(1..=40));
}

async fn a_replay_finds_what_it_appended(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=5).await;
    let set = || ReplicaSet::new("s").lanes(2).projection(Copier::new(twice));
    set().catch_up(&log).await.unwrap();
    assert_eq!(copied(&log).await, all(1..=5));
    let before = log.head().await.unwrap();
    Consumers::new(&log).replay("copier", ReplayFrom::Start).await.unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let again = Copier::new(move |event, tx| {
        counted.fetch_add(1, Ordering::Relaxed);
        twice(event, tx)
    });
    ReplicaSet::new("s").projection(again).catch_up(&log).await.unwrap();
    assert!(calls.load(Ordering::Relaxed) >= 5 * STREAMS, "all of it came again");
    assert_eq!(log.head().await.unwrap(), before, "and nothing is in the log twice");
    fill(&log, 0..STREAMS, 6..=6).await;
    set().catch_up(&log).await.unwrap();
    assert_eq!(copied(&log).await, all(1..=6));
    // Another consumer that does the same appends its own.
    let other = Copier { name: "other", ..Copier::new(twice) };
    ReplicaSet::new("o").projection(other).catch_up(&log).await.unwrap();
    assert_eq!(copied(&log).await.1, all(1..=6).1 * 2);
}

async fn a_new_version_beside_the_old_one_finds_it_as_well(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=5).await;
    ReplicaSet::new("s").projection(Copier::new(twice)).catch_up(&log).await.unwrap();
    let before = log.head().await.unwrap();
    let next = Copier::new(twice).settings(Settings::default().version(2));
    ReplicaSet::new("s").rebuild(next).catch_up(&log).await.unwrap();
    assert_eq!(status(&log, "copier.next").await.lag, 0);
    assert_eq!(log.head().await.unwrap(), before);
}

async fn another_body_fails_its_event_for_good(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    ReplicaSet::new("s").projection(Copier::new(twice)).catch_up(&log).await.unwrap();
    Consumers::new(&log).replay("copier", ReplayFrom::Start).await.unwrap();
    let other = Copier::new(|event, tx| {
        let other = NewEvent::new("Copied", if event.stream_id() == "1" { 99 } else { 1 });
        tx.append(&copies(event), Expected::Any, [other.caused_by(event)])
    });
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let other = Copier::new(move |event, tx| {
        counted.fetch_add(u64::from(event.stream_id() == "1"), Ordering::Relaxed);
        (other.hook)(event, tx)
    });
    let left = crate::support::left_by(ReplicaSet::new("s").projection(other), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 1));
    let parked = Consumers::new(&log).parked("copier").await.unwrap();
    assert_eq!(parked[0].key, "Order:1");
    let said = &parked[0].error;
    assert!(said.starts_with("append the same for the same event"), "{said}");
    for part in
        ["its data, which was 1 and now is 99", "another name", "version 1 of stream Copy:1"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("an id of its own"), "that would append it twice: {said}");
    // In the batch, and alone.
    assert!(calls.load(Ordering::Relaxed) <= 3, "it is not tried again and again");
}

async fn a_conflict_fails_the_event_that_asked(db: Db) {
    let log = db.log().await;
    fill(&log, 0..STREAMS, 1..=1).await;
    let taken = StreamId::new("Copy", "7").unwrap();
    log.append(&taken, Expected::Any, [NewEvent::new("Taken", ())]).await.unwrap();
    let copier =
        Copier::new(|event, tx| tx.append(&copies(event), Expected::NoStream, [copy(event)]));
    let left = crate::support::left_by(ReplicaSet::new("s").projection(copier), &log).await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 1));
    let parked = Consumers::new(&log).parked("copier").await.unwrap();
    assert_eq!((parked[0].key.as_str(), parked[0].attempts), ("Order:7", 5));
    assert!(parked[0].error.contains("conflict on stream Copy:7"), "{}", parked[0].error);
    let (copies, _) = copied(&log).await;
    assert_eq!(copies.len() as u64, STREAMS - 1, "all others are there");
}

async fn a_handler_that_fails_appends_nothing(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=2).await;
    let copier = Copier::new(|event, tx| {
        twice(event, tx)?;
        match event.stream_id() {
            "1" => Err(HandlerError::new("no")),
            _ => Ok(()),
        }
    });
    let left =
        crate::support::left_by(ReplicaSet::new("s").projection(copier.settings(never())), &log)
            .await;
    assert_eq!((left.parked_keys, left.parked_events), (1, 2));
    let (copies, counted) = copied(&log).await;
    assert_eq!(copies.keys().collect::<Vec<_>>(), ["0", "2"]);
    assert_eq!(counted, 4);
}

async fn what_is_refused_counts_even_if_the_handler_passes_over_it(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let copier = Copier::new(|event, tx| {
        if event.stream_id() == "1" {
            let empty = tx.append(&copies(event), Expected::Any, []).unwrap_err();
            assert!(empty.to_string().contains("has no events"), "{empty}");
        }
        tx.append(&copies(event), Expected::Any, [copy(event)])
    });
    let left = crate::support::left_by(ReplicaSet::new("s").projection(copier), &log).await;
    assert_eq!(left.parked_keys, 1);
    assert_eq!(copied(&log).await.0.len(), 2);
}

type BatchHook = Box<dyn Fn(&[Event], &mut Tx) -> HandlerResult + Send + Sync>;

/// Appends for the events of a batch together.
pub struct InBatches {
    name: &'static str,
    hook: BatchHook,
}

impl InBatches {
    pub fn new(
        name: &'static str,
        hook: impl Fn(&[Event], &mut Tx) -> HandlerResult + Send + Sync + 'static,
    ) -> Self {
        Self { name, hook: Box::new(hook) }
    }
}

impl Projection for InBatches {
    fn name(&self) -> &str {
        self.name
    }
    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }
    fn settings(&self) -> Settings {
        never()
    }
    async fn handle(&self, _: &Event, _: &mut Tx) -> HandlerResult {
        Ok(())
    }
    async fn handle_batch(&self, events: &[Event], tx: &mut Tx) -> HandlerResult {
        (self.hook)(events, tx)
    }
}

/// Appends for events of a batch, with or without saying for which.
fn summing(says: bool) -> InBatches {
    InBatches::new(if says { "says" } else { "says_not" }, move |events, tx| {
        for (number, event) in events.iter().enumerate() {
            if says {
                tx.for_event(number);
            }
            tx.append(&copies(event), Expected::Any, [copy(event)])?;
        }
        Ok(())
    })
}

async fn a_batch_handler_says_for_which_event_it_appends(db: Db) {
    let log = db.log().await;
    fill(&log, 0..3, 1..=1).await;
    let set = |says| ReplicaSet::new("s").projection(summing(says));
    crate::support::left_by(set(false), &log).await;
    let parked = Consumers::new(&log).parked("says_not").await.unwrap();
    assert!(parked[0].error.contains("Tx::for_event"), "{}", parked[0].error);
    assert_eq!(copied(&log).await.0.len(), 0);
    set(true).catch_up(&log).await.unwrap();
    assert_eq!(copied(&log).await.0.len(), 3);
}

/// While a handler thinks, with appends queued and its transaction open, others append to the same stream and
/// readers pass.
async fn nobody_waits_for_a_handler_that_thinks(db: Db) {
    struct Thinks {
        met: Arc<AtomicBool>,
        go_on: Arc<AtomicBool>,
    }
    impl Projection for Thinks {
        fn name(&self) -> &str {
            "thinks"
        }
        fn partition(&self) -> Partition {
            Partition::entity("Order")
        }
        async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
            tx.append(&copies(event), Expected::Any, [copy(event)])?;
            let deadline = std::time::Instant::now() + PATIENCE;
            while !self.go_on.load(Ordering::SeqCst) && std::time::Instant::now() < deadline {
                tx.query("SELECT 1 AS one", vec![]).await?;
                self.met.store(true, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        }
    }
    let log = db.log().await;
    fill(&log, 0..1, 1..=1).await;
    let (met, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let thinks = Thinks { met: Arc::clone(&met), go_on: Arc::clone(&go_on) };
    let running = start(&log, ReplicaSet::new("s").projection(thinks));
    until("it thinks", async || met.load(Ordering::SeqCst).then_some(())).await;
    let stream = StreamId::new("Copy", "0").unwrap();
    let appended = log.append(&stream, Expected::NoStream, [NewEvent::new("Mine", ())]);
    let appended = tokio::time::timeout(Duration::from_secs(5), appended).await.unwrap().unwrap();
    let mut follow = log.subscribe(Query::types(["Mine"]), Position::START);
    let next = futures_util::StreamExt::next(&mut follow);
    let seen = tokio::time::timeout(Duration::from_secs(5), next).await.unwrap().unwrap().unwrap();
    assert_eq!(seen.position(), appended.position());
    go_on.store(true, Ordering::SeqCst);
    until("its copy", async || (copied(&log).await.0.len() == 1).then_some(())).await;
    running.stop().await;
}

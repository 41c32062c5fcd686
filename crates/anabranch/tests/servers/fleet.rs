//! Two workers and an appender, on whatever servers a test has.

use crate::crew::until_shared;
use crate::support::*;
use anabranch::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const LEASE: Duration = Duration::from_secs(2);

/// Two workers, each with connections of its own, and events that come all the time.
pub struct Fleet {
    db: Db,
    table: String,
    workers: [Running; 2],
    appender: Persistent,
    /// Why workers waited.
    reasons: Told,
    /// How many events somebody else has appended to a stream of its own.
    aside: u64,
}

/// What was said, each once.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn add(&self, said: String) {
        let mut told = self.0.lock().unwrap();
        if !told.contains(&said) {
            told.push(said);
        }
    }

    fn has(&self, what: &str) -> bool {
        self.0.lock().unwrap().iter().any(|said| said.contains(what))
    }
}

impl Fleet {
    /// Each of the two workers connects by a URL of its own; so does the appender.
    pub async fn start(db: Db, workers: [&str; 2], appender: &str) -> Self {
        let recorder = db.recorder("orders");
        let table = recorder.table.clone();
        let connect = async |url: &str| anabranch::connect_with(url, &db.options).await.unwrap();
        let log = connect(appender).await;
        let reasons = Told::default();
        let start = async |name: &str, url: &str| {
            let set = ReplicaSet::new("s").projection(recorder.clone().worker(name)).lanes(2);
            let reasons = reasons.clone();
            let set = set.on_progress(move |progress| {
                let why = progress.consumers.iter().filter_map(|consumer| consumer.away.clone());
                why.for_each(|why| reasons.add(why));
            });
            start(&connect(url).await, set.lease(LEASE))
        };
        let workers = [start("one", workers[0]).await, start("two", workers[1]).await];
        let appender = Persistent::start(&log);
        until_shared(&log, "orders", 2).await;
        let fleet = Self { db, table, workers, appender, reasons, aside: 0 };
        fleet.until_more(&log).await;
        fleet
    }

    /// Waits until both workers handle events that are appended from now on, as seen by a URL.
    pub async fn until_further(&self, url: &str) {
        self.until_more(&anabranch::connect_with(url, &self.db.options).await.unwrap()).await;
    }

    async fn until_more(&self, log: &Log) {
        let last = format!("SELECT coalesce(max(position), 0) FROM {}", self.table);
        let seen = number(log, &last).await;
        let since =
            format!("SELECT count(DISTINCT worker) FROM {} WHERE position > $1", self.table);
        until("events that both handle", async || {
            let workers = query(log, &since, params![seen]).await;
            (workers[0].get::<i64>(0).unwrap() == 2).then_some(())
        })
        .await;
    }

    /// Waits until the appender is told something, and workers wait for the same reason. Somebody else can
    /// still append, so that they have something to do.
    pub async fn until_refused(&mut self, what: &str, other: &str) {
        let other = anabranch::connect_with(other, &self.db.options).await.unwrap();
        let (reasons, appender) = (&self.reasons, &self.appender);
        let (workers, aside) = (&self.workers, &mut self.aside);
        until(what, async || {
            *aside += 1;
            fill(&other, Persistent::STREAMS..Persistent::STREAMS + 1, *aside..=*aside).await;
            assert!(!workers.iter().any(Running::has_ended), "a worker has ended");
            (appender.refusals.has(what) && reasons.has(what)).then_some(())
        })
        .await;
    }

    /// Whether no append was refused.
    pub fn is_unrefused(&self) -> bool {
        self.appender.refusals.0.lock().unwrap().is_empty()
    }

    /// Both workers handle events again and have all the slots; then everything that was acknowledged
    /// is handled, once and in order.
    pub async fn end(self, url: &str) {
        let log = anabranch::connect_with(url, &self.db.options).await.unwrap();
        until_shared(&log, "orders", 2).await;
        self.until_more(&log).await;
        let each = self.appender.finish().await;
        let events = (Persistent::STREAMS * each + self.aside) as i64;
        let streams = Persistent::STREAMS + self.aside.min(1);
        let handled = async || (proof(&log, &self.table).await.handled >= events).then_some(());
        until("all events", handled).await;
        let all = Proof { handled: events, doubled: 0, keys: streams as i64, wrong: 0 };
        assert_eq!(proof(&log, &self.table).await, all);
        assert_eq!(log.read(Query::all()).collect().await.unwrap().len() as i64, events);
        for worker in self.workers {
            worker.stop().await;
        }
    }
}

/// Appends to the same streams for as long as it lives, each append again until it is acknowledged: the ids
/// of its events make that safe.
struct Persistent {
    stop: watch::Sender<bool>,
    task: JoinHandle<u64>,
    refusals: Told,
}

impl Persistent {
    const STREAMS: u64 = 40;

    fn start(log: &Log) -> Self {
        let (stop, stopped) = watch::channel(false);
        let refusals = Told::default();
        let (log, told) = (log.clone(), refusals.clone());
        let task = tokio::spawn(async move {
            let mut number = 0;
            while !*stopped.borrow() {
                number += 1;
                let append = (0..Self::STREAMS).fold(Append::new(), |append, stream| {
                    let id = StreamId::new("Order", stream.to_string()).unwrap();
                    let event = numbered(number).with_id(uuid::Uuid::now_v7());
                    append.to(&id, Expected::Any, [event])
                });
                while let Err(error) = log.append_all(append.clone()).await {
                    told.add(error.to_string());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            number
        });
        Self { stop, task, refusals }
    }

    /// How many events each stream has.
    async fn finish(self) -> u64 {
        self.stop.send_replace(true);
        self.task.await.unwrap()
    }
}

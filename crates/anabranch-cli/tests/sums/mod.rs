//! A log with a projection that runs in this process, so that there is something to operate.

use crate::process;
use anabranch::Options;
use anabranch::operate::{ConsumerStatus, Consumers};
use anabranch::prelude::*;
use anabranch::running::{ConsumerProgress, Progress};
use anabranch::{Failure, HandlerError, Namespace, Retry};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A lease that is over soon enough for a test.
const LEASE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// A row for each event; fails for order 1 while orders are broken.
#[derive(Clone)]
struct Sums {
    table: &'static str,
    version: u32,
    retry: Retry,
    is_broken: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

impl Projection for Sums {
    fn name(&self) -> &str {
        crate::NAME
    }

    fn partition(&self) -> Partition {
        Partition::entity("Order")
    }

    fn settings(&self) -> Settings {
        Settings::default().retry(self.retry).version(self.version)
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let order = event.stream_id();
        if order == "1" && self.is_broken.load(Ordering::SeqCst) {
            return Err(HandlerError::new(format!("order 1 is broken in call {call}")));
        }
        let insert = format!("INSERT INTO {} VALUES ($1, $2, $3)", tx.table(self.table));
        tx.execute(insert, params![event.position(), order, self.version]).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let columns = "position BIGINT, order_id TEXT, factor BIGINT";
        tx.execute(format!("CREATE TABLE {} ({columns})", tx.table(self.table)), vec![]).await
    }

    async fn reset(&self, to: Position, tx: &mut Tx) -> HandlerResult {
        let delete = format!("DELETE FROM {} WHERE position > $1", tx.table(self.table));
        tx.execute(delete, params![to]).await
    }
}

/// A log of its own, and the command that works on it.
pub struct Bench {
    url: String,
    pub namespace: String,
    sums: Sums,
    directory: tempfile::TempDir,
}

impl Bench {
    pub fn sqlite() -> Self {
        Self::new("sqlite:anabranch.db".to_owned())
    }

    pub fn postgres(url: String) -> Self {
        Self::new(url)
    }

    fn new(url: String) -> Self {
        let namespace = format!("op_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
        let sums = Sums {
            table: Box::leak(format!("sums_{namespace}").into_boxed_str()),
            version: 1,
            retry: Retry::never(),
            is_broken: Arc::default(),
            calls: Arc::default(),
        };
        Self { url, namespace, sums, directory: tempfile::tempdir().unwrap() }
    }

    /// What fails is tried again, in an hour.
    pub fn patient(mut self) -> Self {
        let hour = Duration::from_secs(3600);
        self.sums.retry = Retry::default().first(hour).longest(hour);
        self
    }

    /// What fails must not be passed.
    pub fn strict(mut self) -> Self {
        self.sums.retry = Retry::never().then(Failure::Stop);
        self
    }

    pub fn table(&self) -> &'static str {
        self.sums.table
    }

    pub async fn log(&self) -> Log {
        let path = |file: &str| format!("sqlite:{}", self.path().join(file).display());
        let url = self.url.strip_prefix("sqlite:").map_or_else(|| self.url.clone(), path);
        let options = Options { namespace: self.namespace(), ..Options::default() };
        anabranch::connect_with(&url, &options).await.unwrap()
    }

    pub fn namespace(&self) -> Namespace {
        Namespace::new(self.namespace.clone()).unwrap()
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn command(&self, arguments: &[&str]) -> Output {
        self.process(arguments).output().unwrap()
    }

    /// The command, to be started.
    pub fn process(&self, arguments: &[&str]) -> Command {
        let mut command = process::anabranch(self.path());
        command.env("ANABRANCH_URL", &self.url).env("ANABRANCH_NAMESPACE", &self.namespace);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Appends so many events to each of some orders.
    pub async fn fill(&self, log: &Log, orders: RangeInclusive<u64>, each: usize) {
        for order in orders {
            let stream = StreamId::new("Order", order.to_string()).unwrap();
            let events = (0..each).map(|_| NewEvent::new("LineAdded", ()));
            log.append(&stream, Expected::Any, events).await.unwrap();
        }
    }

    pub fn break_orders(&self, is_broken: bool) {
        self.sums.is_broken.store(is_broken, Ordering::SeqCst);
    }

    /// How often the handler was called.
    pub fn calls(&self) -> u64 {
        self.sums.calls.load(Ordering::SeqCst)
    }

    /// How many rows there are.
    pub async fn handled(&self, log: &Log) -> i64 {
        use anabranch::backend::database::{End, Statement};
        let count = Statement::query(format!("SELECT count(*) FROM {}", self.table()), vec![]);
        let answers = log.store().database().begin().run(vec![count], End::Commit).await;
        answers.unwrap()[0].rows[0].get(0).unwrap()
    }

    /// Why the first parked key is parked.
    pub async fn error(&self, log: &Log) -> String {
        Consumers::new(log).parked(crate::NAME).await.unwrap()[0].error.clone()
    }

    pub async fn status(&self, log: &Log) -> ConsumerStatus {
        Consumers::new(log).status(crate::NAME).await.unwrap()
    }

    fn set(&self) -> ReplicaSet {
        ReplicaSet::new("bench").lease(LEASE)
    }

    pub async fn catch_up(&self, log: &Log) {
        self.set().projection(self.sums.clone()).catch_up(log).await.unwrap();
    }

    /// Builds a new version beside the old one.
    pub async fn rebuild(&self, log: &Log, version: u32) {
        let next = Sums { version, ..self.sums.clone() };
        self.set().rebuild(next).catch_up(log).await.unwrap();
    }

    /// Runs the projection until it is stopped. It is registered when this returns.
    pub async fn start(&self, log: &Log) -> Running {
        self.run(log, self.set().projection(self.sums.clone())).await
    }

    /// The same for a new version; it has all slots when this returns.
    pub async fn start_rebuild(&self, log: &Log, version: u32) -> Running {
        let next = Sums { version, ..self.sums.clone() };
        let running = self.run(log, self.set().rebuild(next)).await;
        until("it holds all", async || running.holds_all()).await;
        running
    }

    /// The same as a fixed partition, such as `1/3`.
    pub async fn start_partition(&self, log: &Log, partition: &str) -> Running {
        let set = self.set().partition(partition.parse().unwrap());
        self.run(log, set.projection(self.sums.clone())).await
    }

    async fn run(&self, log: &Log, set: ReplicaSet) -> Running {
        let progress = Arc::new(Mutex::new(Progress::default()));
        let (seen, log) = (Arc::clone(&progress), log.clone());
        let observe = move |now: &Progress| *seen.lock().unwrap() = now.clone();
        let set = set.on_progress(observe);
        let (stop, stopped) = oneshot::channel::<()>();
        let run = async move {
            let told = async { drop(stopped.await) };
            set.run_until(&log, told).await.unwrap();
        };
        let running = Running { task: tokio::spawn(run), stop, progress };
        until("it runs", async || running.any(|_| true)).await;
        running
    }
}

/// A projection that runs.
pub struct Running {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    progress: Arc<Mutex<Progress>>,
}

impl Running {
    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    /// Ends it as a crash would: nothing is released.
    pub fn crash(self) {
        self.task.abort();
    }

    pub fn is_paused(&self) -> bool {
        self.any(|consumer| consumer.paused)
    }

    pub fn holds_all(&self) -> bool {
        self.any(|consumer| consumer.slots == consumer.wanted)
    }

    fn any(&self, check: impl Fn(&ConsumerProgress) -> bool) -> bool {
        self.progress.lock().unwrap().consumers.iter().any(check)
    }
}

/// Waits for a condition, not for time.
pub async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("waited a minute for: {what}"));
}

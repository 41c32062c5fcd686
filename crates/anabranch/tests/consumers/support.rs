//! A log and tables of its own for each case, on both databases, and a projection that writes down
//! what it sees.

use anabranch::Options;
use anabranch::backend::database::{End, Statement};
use anabranch::operate::{ConsumerStatus, Consumers};
use anabranch::prelude::*;
use anabranch::workpool::Tasks;
use anabranch::workpool::{TaskState, TaskStatus};
use anabranch::{Namespace, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// How long a case waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One database for one case.
pub struct Db {
    pub url: String,
    pub options: Options,
    /// A suffix for tables that no other case has.
    pub own: String,
    _directory: Option<TempDir>,
}

impl Db {
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("log.db").display());
        Self::new(url, Some(directory))
    }

    pub fn postgres() -> Self {
        let url = std::env::var("ANABRANCH_TEST_POSTGRES")
            .expect("these tests need PostgreSQL: run `cargo xtask test`");
        Self::at(url)
    }

    /// On a server of its own.
    pub fn at(url: String) -> Self {
        Self::new(url, None)
    }

    fn new(url: String, directory: Option<TempDir>) -> Self {
        let own = format!("t_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
        let namespace = Namespace::new(own.clone()).unwrap();
        let options = Options { namespace, ..Options::default() };
        Self { url, options, own, _directory: directory }
    }

    /// A connection of its own, as another process would have.
    pub async fn log(&self) -> Log {
        anabranch::connect_with(&self.url, &self.options).await.unwrap()
    }

    /// The same on PostgreSQL, with sessions that can be told from others'.
    pub async fn log_named(&self, name: &str) -> Log {
        let sign = if self.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{sign}application_name={}_{name}", self.url, self.own);
        anabranch::connect_with(&url, &self.options).await.unwrap()
    }

    pub fn table(&self, name: &str) -> String {
        format!("{name}_{}", self.own)
    }

    /// A projection that writes down what it sees.
    pub fn recorder(&self, name: &str) -> Recorder {
        Recorder {
            name: name.to_owned(),
            table: self.table(name),
            partition: Partition::entity("Order"),
            settings: Settings::default(),
            worker: "w".to_owned(),
            hook: None,
            handled: Arc::default(),
        }
    }
}

/// Runs each case on both databases.
#[macro_export]
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::support::Db::sqlite()).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::support::Db::postgres()).await; })*
        }
    };
}

/// Runs each case on PostgreSQL, for what SQLite's one writer rules out.
#[macro_export]
macro_rules! on_postgres {
    ($($case:ident),* $(,)?) => {
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() { super::$case($crate::support::Db::postgres()).await; })*
        }
    };
}

type Hook = Arc<dyn Fn(&Event) -> HandlerResult + Send + Sync>;

/// Writes a row for each event, and for each key the last version with a count of what was out of
/// order: a lost, doubled or swapped event shows in it.
#[derive(Clone)]
pub struct Recorder {
    pub name: String,
    pub table: String,
    pub partition: Partition,
    pub settings: Settings,
    pub worker: String,
    pub hook: Option<Hook>,
    /// How often `handle` was called.
    pub handled: Arc<AtomicU64>,
}

impl Recorder {
    pub fn partition(mut self, partition: Partition) -> Self {
        self.partition = partition;
        self
    }

    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    pub fn worker(mut self, worker: impl Into<String>) -> Self {
        self.worker = worker.into();
        self
    }

    pub fn hook(mut self, hook: impl Fn(&Event) -> HandlerResult + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }
}

impl Projection for Recorder {
    fn name(&self) -> &str {
        &self.name
    }

    fn partition(&self) -> Partition {
        self.partition.clone()
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        self.handled.fetch_add(1, Ordering::Relaxed);
        let (table, worker) = (&self.table, &self.worker);
        let key = self.partition.key(event)?.into_owned();
        tx.execute(
            format!("INSERT INTO {table} (position, key, worker) VALUES ($1, $2, $3)"),
            params![event.position(), &key, worker],
        )
        .await?;
        let number: u64 = event.data()?;
        tx.execute(
            format!(
                "INSERT INTO {table}_keys (key, number, wrong) \
                 VALUES ($1, $2, $3) \
                 ON CONFLICT (key) DO UPDATE SET number = excluded.number, \
                 wrong = {table}_keys.wrong \
                 + CASE WHEN excluded.number = {table}_keys.number + 1 THEN 0 ELSE 1 END"
            ),
            params![key, number, i64::from(number != 1)],
        )
        .await?;
        self.hook.as_ref().map_or(Ok(()), |hook| hook(event))
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        let table = &self.table;
        tx.execute(
            format!("CREATE TABLE {table} (position BIGINT, key TEXT, worker TEXT)"),
            vec![],
        )
        .await?;
        tx.execute(
            format!(
                "CREATE TABLE {table}_keys (key TEXT PRIMARY KEY, number BIGINT, wrong BIGINT)"
            ),
            vec![],
        )
        .await
    }

    async fn reset(&self, to: Position, tx: &mut Tx) -> HandlerResult {
        assert_eq!(to, Position::START);
        let table = &self.table;
        tx.execute(format!("DELETE FROM {table}"), vec![]).await?;
        tx.execute(format!("DELETE FROM {table}_keys"), vec![]).await
    }
}

/// An event whose data is its number for its key, from 1.
pub fn numbered(number: u64) -> NewEvent {
    NewEvent::new("Numbered", number)
}

/// Appends `each` events to each of `streams` orders, interleaved.
pub async fn fill(
    log: &Log,
    streams: std::ops::Range<u64>,
    numbers: std::ops::RangeInclusive<u64>,
) {
    for number in numbers {
        let mut append = Append::new();
        for stream in streams.clone() {
            let id = StreamId::new("Order", stream.to_string()).unwrap();
            append = append.to(&id, Expected::Any, [numbered(number)]);
        }
        log.append_all(append).await.unwrap();
    }
}

/// The first column of the first row.
pub async fn number(log: &Log, sql: &str) -> i64 {
    let rows = query(log, sql, vec![]).await;
    rows.first().map_or(0, |row| row.get(0).unwrap())
}

pub async fn query(log: &Log, sql: &str, values: Vec<Value>) -> Vec<anabranch::Row> {
    let statement = Statement::query(sql.to_owned(), values);
    let database = log.database();
    let answers = database.begin().run(vec![statement], End::Commit).await.unwrap();
    answers.into_iter().next().unwrap().rows
}

/// What the tables of a recorder prove.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof {
    pub handled: i64,
    pub doubled: i64,
    pub keys: i64,
    pub wrong: i64,
}

pub async fn proof(log: &Log, table: &str) -> Proof {
    Proof {
        handled: number(log, &format!("SELECT count(*) FROM {table}")).await,
        doubled: number(log, &format!("SELECT count(*) - count(DISTINCT position) FROM {table}"))
            .await,
        keys: number(log, &format!("SELECT count(*) FROM {table}_keys")).await,
        wrong: number(log, &format!("SELECT coalesce(sum(wrong), 0) FROM {table}_keys")).await,
    }
}

/// Waits for a condition, not for time.
pub async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = check().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(found) => found,
        Err(_) => panic!("waited a minute for: {what}"),
    }
}

/// How a task stands when it has ended, well or badly.
pub async fn end_of(tasks: &Tasks, id: uuid::Uuid) -> TaskStatus {
    until("the end of a task", async || {
        let task = tasks.status(id).await.unwrap()?;
        matches!(task.state, TaskState::Done | TaskState::Dead).then_some(task)
    })
    .await
}

pub async fn status(log: &Log, name: &str) -> ConsumerStatus {
    Consumers::new(log).status(name).await.unwrap()
}

/// What a consumer has left behind, by a catch-up that is no success.
pub async fn left_by(set: ReplicaSet, log: &Log) -> anabranch::running::Left {
    match set.catch_up(log).await.unwrap_err() {
        anabranch::RunError::Incomplete(mut incomplete) => incomplete.left.remove(0),
        error => panic!("{error}"),
    }
}

/// A replica set that runs until it is told to stop.
pub struct Running {
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<anabranch::running::Progress, anabranch::RunError>>,
}

pub fn start(log: &Log, set: ReplicaSet) -> Running {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let log = log.clone();
    let task = tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        set.run_until(&log, stop).await
    });
    Running { stop, task }
}

impl Running {
    pub async fn stop(self) -> anabranch::running::Progress {
        let _ = self.stop.send(());
        self.task.await.unwrap().unwrap()
    }

    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// How it ended by itself.
    pub async fn ended(self) -> Result<anabranch::running::Progress, anabranch::RunError> {
        self.task.await.unwrap()
    }

    /// Ends it as a crash would: nothing is finished, nothing released.
    pub fn crash(self) {
        self.task.abort();
    }
}

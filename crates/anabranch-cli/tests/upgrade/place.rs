//! A log of its own for each test, looked at by plain drivers.

use crate::crew::Worker;
use crate::{last_version, process};
use anabranch::operate::{Consumers, Owner};
use anabranch::postgres::tokio_postgres::{self, NoTls};
use anabranch::sqlite::rusqlite::Connection;
use anabranch::{Log, Namespace, Options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const FILE: &str = "log.db";

pub struct Place {
    url: String,
    pub namespace: String,
    pub directory: tempfile::TempDir,
    /// The programs of the last version, and of this one.
    pub old: PathBuf,
    pub new: PathBuf,
}

impl Place {
    pub fn sqlite() -> Self {
        Self::new(format!("sqlite:{FILE}"))
    }

    pub fn postgres() -> Self {
        Self::new(process::postgres())
    }

    fn new(url: String) -> Self {
        let namespace = format!("upgrade_{:016x}", uuid::Uuid::now_v7().as_u64_pair().1);
        let (directory, old) = (tempfile::tempdir().unwrap(), last_version::program());
        let new = Path::new(env!("CARGO_BIN_EXE_anabranch")).to_owned();
        Self { url, namespace, directory, old, new }
    }

    pub fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// A program that works on the log.
    pub fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory.path())
            .args(arguments)
            .args(["--namespace", &self.namespace])
            .env("ANABRANCH_URL", &self.url)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        self.command(program, arguments).output().unwrap()
    }

    /// The name of one of the log's tables.
    pub fn table(&self, name: &str) -> String {
        let dot = if self.is_sqlite() { '_' } else { '.' };
        format!("{}{dot}{name}", self.namespace)
    }

    /// The newest migration of the log.
    pub async fn schema(&self) -> i64 {
        self.number(&format!("SELECT max(version) FROM {}", self.table("migrations"))).await
    }

    /// The log, for this process.
    pub async fn log(&self) -> Log {
        let url = match self.is_sqlite() {
            true => format!("sqlite:{}", self.directory.path().join(FILE).display()),
            false => self.url.clone(),
        };
        let namespace = Namespace::new(&self.namespace).unwrap();
        let options = Options { namespace, ..Options::default() };
        anabranch::connect_with(&url, &options).await.unwrap()
    }

    /// Waits until so many living workers own all slots of a consumer, each some; or the same of all.
    pub async fn is_shared(&self, consumer: &str, workers: usize) {
        self.are_owned(consumer, workers, 5040).await;
    }

    pub async fn is_shared_evenly(&self, consumer: &str, workers: usize) {
        self.are_owned(consumer, workers, 5040 / workers).await;
    }

    async fn are_owned(&self, consumer: &str, workers: usize, most: usize) {
        let log = self.log().await;
        until(&format!("{workers} workers share all slots of {consumer}"), async || {
            // There is none before it first runs.
            let Ok(status) = Consumers::new(&log).status(consumer).await else { return false };
            let mut owned = BTreeMap::<String, usize>::new();
            for cursor in status.cursors {
                let Owner::Worker(worker) = cursor.owner else { return false };
                *owned.entry(worker.id).or_default() += cursor.slot_count;
            }
            owned.len() == workers && owned.values().all(|slots| *slots <= most)
        })
        .await;
    }

    /// Waits for the ledger's tables, which the first worker that runs makes.
    pub async fn ledger_is_there(&self, worker: &mut Worker) {
        let is_there = match self.is_sqlite() {
            true => format!(
                "SELECT count(*) FROM sqlite_schema WHERE name = '{}'",
                self.table("handled")
            ),
            false => format!(
                "SELECT count(*) FROM pg_tables WHERE schemaname = '{}' AND tablename = 'handled'",
                self.namespace
            ),
        };
        until("there is a ledger", async || {
            worker.is_running();
            self.number(&is_there).await > 0
        })
        .await;
    }

    /// A number that is never NULL.
    pub async fn number(&self, sql: &str) -> i64 {
        if self.is_sqlite() {
            let connection = Connection::open(self.directory.path().join(FILE)).unwrap();
            return connection.query_row(sql, (), |row| row.get(0)).unwrap();
        }
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let sql = format!("SELECT CAST(({sql}) AS bigint)");
        let number = client.query_one(&sql, &[]).await.unwrap().get(0);
        drop(client);
        connection.await.unwrap().unwrap();
        number
    }
}

/// Waits for something that must come.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < PATIENCE, "it never came that {what}");
        tokio::time::sleep(LOOK).await;
    }
}

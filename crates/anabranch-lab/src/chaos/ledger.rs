//! The ledger: a row for each event that was handled, and a count for each key. What is proven and
//! measured is read from it.

use anabranch::backend::database::{End, Statement, Who};
use anabranch::operate::Consumers;
use anabranch::prelude::*;
use anabranch::{Row, Value};
use std::time::{Duration, Instant};

/// How long a database may be away before whoever asks gives up.
const PATIENCE: Duration = Duration::from_secs(90);
const RETRY: Duration = Duration::from_millis(20);
const PAGE: i64 = 20_000;

/// One event that was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) position: i64,
    pub(crate) key: i64,
    pub(crate) version: i64,
    pub(crate) worker: i64,
    /// Both by the database's clock.
    pub(crate) recorded_us: i64,
    pub(crate) handled_us: i64,
}

/// The names of the tables, and who reads them.
#[derive(Clone)]
pub(crate) struct Ledger {
    log: Log,
    entries: String,
    counts: String,
}

impl Ledger {
    /// The ledger beside a log.
    pub(crate) fn of(log: &Log) -> Self {
        let database = log.database();
        let dialect = database.dialect();
        Self {
            log: log.clone(),
            entries: dialect.table("handled"),
            counts: dialect.table("counted"),
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.log.database().dialect().name() == "postgres"
    }

    /// All entries, in the order in which the database took them.
    pub(crate) async fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        let page = format!(
            "SELECT number, position, key, version, worker, recorded_us, handled_us FROM {} \
             WHERE number > $1 ORDER BY number LIMIT {PAGE}",
            self.entries
        );
        let (mut entries, mut last) = (Vec::new(), -1i64);
        loop {
            let rows = self.ask(&page, params![last]).await?;
            for row in &rows {
                last = row.get("number")?;
                entries.push(Entry {
                    position: row.get("position")?,
                    key: row.get("key")?,
                    version: row.get("version")?,
                    worker: row.get("worker")?,
                    recorded_us: row.get("recorded_us")?,
                    handled_us: row.get("handled_us")?,
                });
            }
            if rows.is_empty() {
                return Ok(entries);
            }
        }
    }

    /// How many events the counts of all keys add up to.
    pub(crate) async fn counted(&self) -> anyhow::Result<u64> {
        let sum = format!("SELECT CAST(coalesce(sum(events), 0) AS BIGINT) FROM {}", self.counts);
        self.number(&sum, vec![]).await.map(i64::unsigned_abs)
    }

    /// How many entries there are.
    pub(crate) async fn handled(&self) -> anyhow::Result<u64> {
        let count = format!("SELECT count(*) FROM {}", self.entries);
        self.number(&count, vec![]).await.map(i64::unsigned_abs)
    }

    /// The number of the last entry.
    pub(crate) async fn last_number(&self) -> anyhow::Result<i64> {
        let last = format!("SELECT coalesce(max(number), 0) FROM {}", self.entries);
        self.number(&last, vec![]).await
    }

    /// How many workers have handled something since an entry.
    pub(crate) async fn workers_since(&self, number: i64) -> anyhow::Result<usize> {
        let workers =
            format!("SELECT count(DISTINCT worker) FROM {} WHERE number > $1", self.entries);
        Ok(self.number(&workers, params![number]).await?.unsigned_abs() as usize)
    }

    /// The key that a worker has handled last.
    pub(crate) async fn last_key(&self, worker: i64) -> anyhow::Result<Option<i64>> {
        let last = format!(
            "SELECT key FROM {} WHERE worker = $1 ORDER BY number DESC LIMIT 1",
            self.entries
        );
        let rows = self.ask(&last, params![worker]).await?;
        Ok(rows.first().map(|row| row.get(0)).transpose()?)
    }

    /// The database's clock.
    pub(crate) async fn now_us(&self) -> anyhow::Result<i64> {
        let now = self.log.database().dialect().now_us();
        self.number(&format!("SELECT {now}"), vec![]).await
    }

    /// Ends sessions of a worker process, as an administrator does: all of them, or one. What it has
    /// open, and its sign of life, go by the worker's name, the others by that of its connections.
    pub(crate) async fn cut(
        &self,
        application: &str,
        process: Option<u32>,
        all: bool,
    ) -> anyhow::Result<()> {
        let workers = Consumers::new(&self.log).workers().await.unwrap_or_default();
        let worker = workers.iter().find(|worker| Some(worker.pid) == process);
        let prefix = worker.map_or_else(|| application.to_owned(), |w| Who::prefix(&w.id));
        let limit = if all { "ALL" } else { "1" };
        let cut = format!(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity \
             WHERE application_name = $1 OR starts_with(application_name, $2) \
             ORDER BY random() LIMIT {limit}) AS sessions"
        );
        self.ask(&cut, params![application, prefix]).await.map(drop)
    }

    async fn number(&self, sql: &str, values: Vec<Value>) -> anyhow::Result<i64> {
        let rows = self.ask(sql, values).await?;
        Ok(rows.first().map(|row| row.get(0)).transpose()?.unwrap_or(0))
    }

    /// Asks until the database answers: it may be away for a while, since it is hit too.
    async fn ask(&self, sql: &str, values: Vec<Value>) -> anyhow::Result<Vec<Row>> {
        let (database, started) = (self.log.database(), Instant::now());
        loop {
            let query = Statement::query(sql.to_owned(), values.clone());
            match database.begin().rows(query, End::Commit).await {
                Ok(rows) => return Ok(rows),
                Err(failed) if failed.is_transient() && started.elapsed() < PATIENCE => {
                    tokio::time::sleep(RETRY).await;
                }
                Err(failed) => return Err(failed.into_store_error(database.at()).into()),
            }
        }
    }
}

/// The statements of whoever writes the ledger. They live as long as the program, as literals would.
pub(crate) struct Statements {
    pub(crate) enter: &'static str,
    /// The same with a number of one's own.
    pub(crate) enter_as: &'static str,
    pub(crate) count: &'static str,
    pub(crate) look: &'static str,
    set_up: [String; 2],
}

impl Statements {
    pub(crate) fn of(log: &Log) -> Self {
        let Ledger { entries, counts, .. } = Ledger::of(log);
        let database = log.database();
        let dialect = database.dialect();
        let now = dialect.now_us();
        let number = match dialect.name() {
            "postgres" => "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
            _ => "INTEGER PRIMARY KEY",
        };
        let columns = "position, key, version, worker, slot, recorded_us, handled_us";
        let enter =
            format!("INSERT INTO {entries} ({columns}) VALUES ($1, $2, $3, $4, $5, $6, {now})");
        let enter_as = format!(
            "INSERT INTO {entries} ({columns}, number) VALUES ($1, $2, $3, $4, $5, $6, {now}, $7)"
        );
        let count = format!(
            "INSERT INTO {counts} (key, events) VALUES ($1, 1) \
             ON CONFLICT (key) DO UPDATE SET events = {counts}.events + 1"
        );
        let look = format!("SELECT events FROM {counts} WHERE key = $1");
        // No unique key on positions: what is handled twice must show.
        let set_up = [
            format!(
                "CREATE TABLE {entries} (number {number}, position BIGINT NOT NULL, \
                 key BIGINT NOT NULL, version BIGINT NOT NULL, worker BIGINT NOT NULL, \
                 slot BIGINT NOT NULL, recorded_us BIGINT NOT NULL, handled_us BIGINT NOT NULL)"
            ),
            format!("CREATE TABLE {counts} (key BIGINT PRIMARY KEY, events BIGINT NOT NULL)"),
        ];
        Self {
            enter: enter.leak(),
            enter_as: enter_as.leak(),
            count: count.leak(),
            look: look.leak(),
            set_up,
        }
    }

    pub(crate) async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        for table in &self.set_up {
            tx.execute(table.clone(), vec![]).await?;
        }
        Ok(())
    }
}

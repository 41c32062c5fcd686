//! A pool that writes down what it runs: a lost, doubled or swapped task shows in it.

use crate::support::*;
use anabranch::prelude::*;
use anabranch::workpool::PoolSettings;
use anabranch::workpool::{NewTask, Pool, Task};
use std::sync::Arc;

type Hook = Arc<dyn Fn(&Task) -> HandlerResult + Send + Sync>;

/// Writes a row for each task, in the transaction of its end. A payload is its number for its key.
#[derive(Clone)]
pub struct Ledger {
    pub name: String,
    pub table: String,
    pub settings: PoolSettings,
    pub hook: Option<Hook>,
}

impl Ledger {
    /// A pool with a table of its own.
    pub async fn new(db: &Db, log: &Log, name: &str) -> Self {
        let table = db.table("ledger");
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {table} (key TEXT, number BIGINT, wrong BIGINT, \
             at BIGINT, who TEXT)"
        );
        query(log, &create, vec![]).await;
        Self { name: name.to_owned(), table, settings: PoolSettings::default(), hook: None }
    }

    pub fn settings(mut self, settings: PoolSettings) -> Self {
        self.settings = settings;
        self
    }

    pub fn hook(mut self, hook: impl Fn(&Task) -> HandlerResult + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// The numbers of a key, in the order in which they were run.
    pub async fn of_key(&self, log: &Log, key: &str) -> Vec<i64> {
        let sql = format!("SELECT number FROM {} WHERE key = $1 ORDER BY at", self.table);
        let rows = query(log, &sql, params![key]).await;
        rows.iter().map(|row| row.get(0).unwrap()).collect()
    }

    /// How many rows there are, and how many of them were out of order.
    pub async fn proof(&self, log: &Log) -> (i64, i64) {
        let sql = format!("SELECT count(*), coalesce(sum(wrong), 0) FROM {}", self.table);
        let rows = query(log, &sql, vec![]).await;
        (rows[0].get(0).unwrap(), rows[0].get(1).unwrap())
    }
}

impl Pool for Ledger {
    type Output = i64;

    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> PoolSettings {
        self.settings
    }

    async fn run(&self, task: &Task, tx: &mut Tx) -> HandlerResult<i64> {
        let number: i64 = task.payload()?;
        let table = &self.table;
        tx.execute(
            format!(
                "INSERT INTO {table} (key, number, wrong, at, who) SELECT $1, CAST($2 AS BIGINT), \
                 CASE WHEN (SELECT coalesce(max(number), 0) FROM {table} WHERE key = $1) = CAST($2 AS BIGINT) - 1 \
                 THEN 0 ELSE 1 END, (SELECT count(*) FROM {table}), $3"
            ),
            params![task.key(), number, "w"],
        )
        .await?;
        self.hook.as_ref().map_or(Ok(()), |hook| hook(task))?;
        Ok(number * 10)
    }
}

/// Tasks 1, 2, … of some keys, mixed.
pub fn counted(keys: u64, each: i64) -> Vec<NewTask> {
    let of = |number: i64| (0..keys).map(move |key| NewTask::new(format!("key-{key}"), &number));
    (1..=each).flat_map(of).collect()
}

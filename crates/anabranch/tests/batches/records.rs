//! A table of records, and a handler that copies them: a lost or doubled row shows in the copy.

use crate::support::*;
use anabranch::batch::{Batch, Record, RowHandler, Source};
use anabranch::prelude::*;
use std::sync::Arc;

type Hook = Arc<dyn Fn(&Record) -> HandlerResult + Send + Sync>;

/// The tables of one case.
#[derive(Clone)]
pub struct Records {
    pub source: String,
    pub copy: String,
    pub log_table: String,
    hook: Option<Hook>,
}

impl Records {
    /// A source with integer keys, and an empty copy.
    pub async fn new(db: &Db, log: &Log, keys: impl IntoIterator<Item = i64>) -> Self {
        let records = Self::of(db);
        let create = format!("CREATE TABLE {} (id BIGINT PRIMARY KEY, body TEXT)", records.source);
        query(log, &create, vec![]).await;
        records.create_copy(log).await;
        records.add(log, keys).await;
        records
    }

    /// A source whose key may be there more than once, or not at all.
    pub async fn without_unique_key(
        db: &Db,
        log: &Log,
        keys: impl IntoIterator<Item = i64>,
    ) -> Self {
        Self::with_key(db, log, "alike", "id BIGINT", keys).await
    }

    /// A source with a key as it is declared, under a name of its own.
    pub async fn with_key(
        db: &Db,
        log: &Log,
        name: &str,
        key: &str,
        keys: impl IntoIterator<Item = i64>,
    ) -> Self {
        let table = |what: &str| db.table(&format!("{what}_{name}"));
        let records = Self {
            source: table("records"),
            copy: table("copies"),
            log_table: table("plog"),
            hook: None,
        };
        let create = format!("CREATE TABLE {} ({key}, body TEXT)", records.source);
        query(log, &create, vec![]).await;
        records.create_copy(log).await;
        records.add(log, keys).await;
        records
    }

    /// A source with text keys.
    pub async fn with_text_keys(db: &Db, log: &Log, keys: &[String]) -> Self {
        let records = Self::of(db);
        let create = format!("CREATE TABLE {} (id TEXT PRIMARY KEY, body TEXT)", records.source);
        query(log, &create, vec![]).await;
        records.create_copy(log).await;
        for key in keys {
            let insert = format!("INSERT INTO {} VALUES ($1, $2)", records.source);
            query(log, &insert, params![key, format!("body {key}")]).await;
        }
        records
    }

    pub fn of(db: &Db) -> Self {
        let (source, copy) = (db.table("records"), db.table("copies"));
        Self { source, copy, log_table: db.table("plog"), hook: None }
    }

    pub async fn create_copy(&self, log: &Log) {
        // No key: a row that is handled twice is there twice.
        query(log, &format!("CREATE TABLE {} (id TEXT, body TEXT)", self.copy), vec![]).await;
    }

    pub async fn add(&self, log: &Log, keys: impl IntoIterator<Item = i64>) {
        let keys: Vec<i64> = keys.into_iter().collect();
        for keys in keys.chunks(500) {
            let rows: Vec<String> = keys.iter().map(|id| format!("({id}, 'body {id}')")).collect();
            let insert = format!("INSERT INTO {} VALUES {}", self.source, rows.join(", "));
            query(log, &insert, vec![]).await;
        }
    }

    pub fn hook(mut self, hook: impl Fn(&Record) -> HandlerResult + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    pub fn batch(&self) -> Batch {
        let source = Source::table(&self.source, "id");
        Batch::new("copy", source).log_table(&self.log_table)
    }

    /// How many rows were copied, and how many of those more than once.
    pub async fn copied(&self, log: &Log) -> (i64, i64) {
        let copy = &self.copy;
        let all = number(log, &format!("SELECT count(*) FROM {copy}")).await;
        let distinct = number(log, &format!("SELECT count(DISTINCT id) FROM {copy}")).await;
        (all, all - distinct)
    }
}

impl RowHandler for Records {
    async fn handle(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        let body: String = record.get("body")?;
        let insert = format!("INSERT INTO {} VALUES ($1, $2)", self.copy);
        tx.execute(insert, params![record.key(), body]).await?;
        self.hook.as_ref().map_or(Ok(()), |hook| hook(record))
    }
}

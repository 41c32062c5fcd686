//! A table that old runners have begun and the new consumer goes on with.

use crate::support::{Db, number, query};
use anabranch::backend::database::{End, Statement};
use anabranch::operate::Import;
use anabranch::prelude::*;
use anabranch::{FixedPartition, HashRule, Value};

const STREAMS: u64 = 30;
pub const EVENTS: u64 = 300;

/// A table that the old runners wrote and the new consumer goes on with. It has no key, so that an event
/// that is handled twice stands in it twice.
#[derive(Clone)]
pub struct Ledger {
    pub table: String,
    pub partition: Partition,
}

impl Projection for Ledger {
    fn name(&self) -> &str {
        "ledger"
    }

    fn partition(&self) -> Partition {
        self.partition.clone()
    }

    async fn handle(&self, event: &Event, tx: &mut Tx) -> HandlerResult {
        tx.execute(entry(&self.table), params![event.position(), event.stream_id(), "new"]).await
    }

    async fn set_up(&self, tx: &mut Tx) -> HandlerResult {
        for table in tables(&self.table) {
            tx.execute(table, vec![]).await?;
        }
        tx.execute(format!("INSERT INTO {}_set_ups VALUES (1)", self.table), vec![]).await
    }
}

fn tables(table: &str) -> [String; 2] {
    [
        format!("CREATE TABLE IF NOT EXISTS {table} (position BIGINT, stream TEXT, who TEXT)"),
        format!("CREATE TABLE IF NOT EXISTS {table}_set_ups (one BIGINT)"),
    ]
}

fn entry(table: &str) -> String {
    format!("INSERT INTO {table} (position, stream, who) VALUES ($1, $2, $3)")
}

pub async fn execute(log: &Log, sql: String, values: Vec<Value>) {
    let mut session = log.store().database().begin();
    session.run(vec![Statement::new(sql, values)], End::Commit).await.unwrap();
}

impl Ledger {
    pub fn new(db: &Db) -> Self {
        Self { table: db.table("ledger"), partition: Partition::entity("Order") }
    }

    pub fn by(db: &Db, rule: HashRule) -> Self {
        Self { partition: Partition::entity("Order").with_rule(rule), ..Self::new(db) }
    }

    /// What old runners do that take `hash(id) % N`: each handles its events up to a position of its own.
    pub async fn run_old(&self, log: &Log, hash: fn(&str) -> u128, stops: &[u64]) {
        let mut statements: Vec<_> =
            tables(&self.table).into_iter().map(|table| Statement::new(table, vec![])).collect();
        for event in log.read(Query::all()).collect().await.unwrap() {
            let index = (hash(event.stream_id()) % stops.len() as u128) as usize;
            if event.position().get() <= stops[index] {
                let who = FixedPartition::new(index as u16, stops.len() as u16).unwrap();
                let values = params![event.position(), event.stream_id(), who.to_string()];
                statements.push(Statement::new(entry(&self.table), values));
            }
        }
        log.store().database().begin().run(statements, End::Commit).await.unwrap();
    }

    /// Each event once; and how many of them by the new consumer.
    pub async fn check(&self, log: &Log) -> u64 {
        let table = &self.table;
        let rows = query(log, &format!("SELECT position, who FROM {table}"), vec![]).await;
        let mut found: Vec<u64> = rows.iter().map(|row| row.get(0).unwrap()).collect();
        found.sort_unstable();
        let all = log.read(Query::all()).collect().await.unwrap();
        let expected: Vec<u64> = all.iter().map(|event| event.position().get()).collect();
        assert_eq!(found, expected, "every event once");
        rows.iter().filter(|row| row.get::<String>(1).unwrap() == "new").count() as u64
    }

    pub async fn set_ups(&self, log: &Log) -> i64 {
        number(log, &format!("SELECT count(*) FROM {}_set_ups", self.table)).await
    }

    pub fn set(&self) -> ReplicaSet {
        ReplicaSet::new("s").projection(self.clone())
    }
}

pub fn fnv1a(id: &str) -> u128 {
    HashRule::fnv1a32(id).into()
}

pub fn import(stops: &[u64]) -> Import {
    let stops = stops.iter().enumerate().map(|(i, stop)| (i as u16, Position::new(*stop)));
    Import::new("ledger").partitions(stops.len() as u16).checkpoints(stops)
}

/// Orders `ord-0`, `ord-1`, …, interleaved.
pub async fn fill(log: &Log) {
    fill_named(log, "ord-").await;
}

/// The same with ids that begin otherwise.
pub async fn fill_named(log: &Log, prefix: &str) {
    for round in 0..EVENTS / STREAMS {
        let mut append = Append::new();
        for number in 0..STREAMS {
            let order =
                StreamId::new("Order", format!("{prefix}{}", number * 7 % STREAMS)).unwrap();
            append = append.to(&order, Expected::Any, [NewEvent::new("Touched", round)]);
        }
        log.append_all(append).await.unwrap();
    }
}

/// A log with events, of which three old runners have handled what they stand for.
pub async fn with_old(db: &Db, ledger: &Ledger, stops: [u64; 3]) -> Log {
    let log = db.log().await;
    fill(&log).await;
    ledger.run_old(&log, fnv1a, &stops).await;
    log
}

/// Where three old runners stopped.
pub const STOPS: [u64; 3] = [120, 0, 277];

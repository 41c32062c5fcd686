//! Rows of a table: what more instances are worth when rows wait, and how many a second go through when
//! they only do SQL.

use super::own_log::OwnLog;
use super::report::{self, Case, Rates};
use super::{Measured, Side};
use crate::throwaway;
use anabranch::backend::database::{End, Statement};
use anabranch::batch::{Batch, Record, RowHandler, Source, SqlHandler};
use anabranch::{HandlerResult, Row, Tx, Value, params};
use clap::Args;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// How long a row waits.
const WAIT: Duration = Duration::from_millis(40);
/// How many rows are inserted, or handled by hand, in one transaction.
const PAGE: u64 = 1_000;

/// Rows of a table, by one instance and by three
///
/// First rows that wait 40 ms each: three instances of 4 workers, with connections of their own, against
/// one. Then rows that insert a row into another table each, by one instance; the limit is the same rows
/// read and inserted by hand in one task, 1000 in a transaction, without claims or a log. Each run is
/// verified: no collision, nothing missing. Works in tables of its own and removes them at the end.
#[derive(Args)]
pub(crate) struct BenchBatch {
    #[command(flatten)]
    database: Measured,

    /// How many rows wait
    #[arg(long, default_value_t = 2_400, value_parser = clap::value_parser!(u64).range(1..))]
    waiting: u64,

    /// How many rows do SQL
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,

    /// How many rows an instance handles at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=256))]
    workers: u64,

    /// How many rows an instance claims at a time, at most
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch_size: u64,

    /// How often each measurement is repeated; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
}

/// Does nothing, slowly.
#[derive(Clone)]
struct Wait;

impl RowHandler for Wait {
    async fn handle(&self, _: &Record, _: &mut Tx) -> HandlerResult {
        tokio::time::sleep(WAIT).await;
        Ok(())
    }
}

impl BenchBatch {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let measure = async |made: &_| self.measure(&OwnLog::create(made, "batch").await?).await;
        self.database.run(measure).await
    }

    async fn measure(&self, own: &OwnLog) -> anyhow::Result<()> {
        let at = own.log.at().to_owned();
        self.database.say(|| format!("{at}: {} repeats, the median counts", self.repeats));
        let (waiting, rows) = (create(own, "waiting").await?, create(own, "rows").await?);
        fill(own, waiting, self.waiting).await?;
        fill(own, rows, self.rows).await?;
        let (mut wait, mut sql) = (Rates::default(), Rates::default());
        // The first to read rows pays for it: they are not in memory, or not known to be committed.
        self.by_hand(own, rows, create(own, "warm_up").await?).await?;
        self.by_job(own, rows, 0).await?;
        for repeat in 1..=self.repeats {
            for side in self.database.turns(repeat) {
                let (instances, rates) = match side {
                    Side::Ours => (3, &mut wait.ours),
                    Side::Limit => (1, &mut wait.bare),
                };
                let job = format!("waiting_{instances}_{repeat}");
                let rate = self.rate(own, &job, waiting, instances, Wait).await?;
                self.database.say(|| {
                    format!("repeat {repeat}, waiting: {rate:.0} rows/s, instances: {instances}")
                });
                rates.push(rate);
            }
            for side in self.database.turns(repeat) {
                if side == Side::Limit {
                    let effects = create(own, &format!("by_hand_{repeat}")).await?;
                    sql.bare.push(self.by_hand(own, rows, effects).await?);
                } else {
                    sql.ours.push(self.by_job(own, rows, repeat).await?);
                }
            }
            if let (Some(ours), Some(by_hand)) = (sql.ours.last(), sql.bare.last()) {
                self.database.say(|| {
                    format!("repeat {repeat}, SQL: {ours:.0} rows/s, {by_hand:.0} by hand")
                });
            }
        }
        if !self.database.json {
            report::print_header("batch")?;
        }
        let workers = self.workers as usize;
        let what = "rows that wait 40 ms each, by three instances; limit: by one";
        Case::new("batch", "three-instances", workers, what, wait).print(self.database.json)?;
        let what =
            "rows that insert one each, by one instance; limit: the same by hand, without claims";
        Case::new("batch", "sql", workers, what, sql).print(self.database.json)
    }

    /// Inserts a row for each, and checks that they are there; returns how many rows a second.
    async fn by_job(&self, own: &OwnLog, rows: &str, repeat: u64) -> anyhow::Result<f64> {
        let effects = create(own, &format!("effects_{repeat}")).await?;
        let insert = format!("INSERT INTO {effects} (id, name) VALUES (:id, :name)");
        let handler = SqlHandler::parse(&insert).map_err(|error| anyhow::anyhow!("{error}"))?;
        let rate = self.rate(own, &format!("sql_{repeat}"), rows, 1, handler).await?;
        let count = format!("SELECT count(DISTINCT id) AS n, count(*) AS of FROM {effects}");
        let found = query(own, Statement::query(count, vec![])).await?;
        let found: Option<(u64, u64)> = found
            .first()
            .map(|row| Ok::<_, anyhow::Error>((row.get("n")?, row.get("of")?)))
            .transpose()?;
        anyhow::ensure!(
            found == Some((self.rows, self.rows)),
            "there are {found:?} effects of {} rows",
            self.rows
        );
        Ok(rate)
    }

    /// Runs a job by so many instances, each with connections of its own; returns how many rows a second
    /// they did, all together.
    async fn rate<H: RowHandler + Clone>(
        &self,
        own: &OwnLog,
        job: &str,
        table: &str,
        instances: usize,
        handler: H,
    ) -> anyhow::Result<f64> {
        let batch = Batch::new(job, Source::table(table, "id"))
            .log_table(own.table("log"))
            .workers(self.workers as usize)
            .batch_size(self.batch_size as usize);
        let mut logs = Vec::new();
        for _ in 0..instances {
            logs.push(throwaway::connect(&own.url, &own.namespace, false).await?);
        }
        let (mut running, started) = (JoinSet::new(), Instant::now());
        for log in logs {
            let (batch, handler) = (batch.clone(), handler.clone());
            running.spawn(async move { batch.run(&log, handler).await });
        }
        while let Some(ended) = running.join_next().await {
            ended??;
        }
        let elapsed = started.elapsed();
        let verified = batch.verify(&own.log).await?;
        let violations = verified.violations(true);
        anyhow::ensure!(violations.is_empty(), "{}", violations.join("; "));
        let shares = verified.sessions.iter().map(|session| session.rows.to_string());
        let shares: Vec<_> = shares.collect();
        self.database.say(|| format!("{job}: {} rows, no collision", shares.join(" + ")));
        Ok(verified.succeeded as f64 / elapsed.as_secs_f64())
    }

    /// What the handler does, without anything around it.
    async fn by_hand(&self, own: &OwnLog, table: &str, effects: &str) -> anyhow::Result<f64> {
        let select = format!("SELECT id, name FROM {table} WHERE id > $1 ORDER BY id LIMIT $2");
        let insert = format!("INSERT INTO {effects} (id, name) VALUES ($1, $2)");
        let (mut last, started) = (-1_i64, Instant::now());
        loop {
            let page = query(own, Statement::query(select.clone(), params![last, PAGE])).await?;
            let Some(end) = page.last() else { break };
            last = end.get("id")?;
            let mut inserts = Vec::with_capacity(page.len());
            for row in &page {
                let values = vec![row.get::<Value>("id")?, row.get::<Value>("name")?];
                inserts.push(Statement::new(insert.clone(), values));
            }
            own.log.database().begin().run(inserts, End::Commit).await?;
        }
        Ok(self.rows as f64 / started.elapsed().as_secs_f64())
    }
}

async fn create(own: &OwnLog, name: &str) -> anyhow::Result<&'static str> {
    let table = own.table(name);
    let create = format!("CREATE TABLE {table} (id bigint PRIMARY KEY, name text NOT NULL)");
    query(own, Statement::new(create, vec![])).await?;
    Ok(table)
}

async fn fill(own: &OwnLog, table: &str, rows: u64) -> anyhow::Result<()> {
    for first in (0..rows).step_by(PAGE as usize) {
        let values = (first..rows.min(first + PAGE)).map(|id| format!("({id}, 'name {id}')"));
        let values = values.collect::<Vec<_>>().join(", ");
        let insert = format!("INSERT INTO {table} (id, name) VALUES {values}");
        query(own, Statement::new(insert, vec![])).await?;
    }
    Ok(())
}

async fn query(own: &OwnLog, statement: Statement) -> anyhow::Result<Vec<Row>> {
    Ok(own.log.database().rows(statement).await?)
}

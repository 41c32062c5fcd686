//! What there is to look at without a [`Batch`](crate::Batch): the jobs of a processing log, who runs them, and rows that
//! have failed.
//!
//! Nothing is made, and nothing is counted: that takes a look at every row, and [`Batch::verify`](crate::Batch::verify)
//! does it.

use crate::ours;
use crate::progress::FailedRow;
use crate::tables::Tables;
use anabranch_core::{StoreError, time};
use anabranch_store::database::{End, Hint, Statement, column};
use anabranch_store::{Database, Log, Row};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// The processing log where a batch says nothing else.
pub const LOG_TABLE: &str = "processing_log";

/// How many sessions of a job are shown.
const SESSIONS: usize = 50;
/// How many entries of the log are looked at for a page of failed rows: it has no index of these.
const LOOKS_AT: usize = 50_000;

/// The jobs of a processing log.
///
/// ```
/// # use anabranch_batch::jobs::{Jobs, LOG_TABLE};
/// # async fn f(log: anabranch_store::Log) -> Result<(), anabranch_core::StoreError> {
/// for job in Jobs::new(&log, LOG_TABLE).list(None, 100).await? {
///     let alive = job.sessions.iter().filter(|session| session.is_alive).count();
///     println!("{}: {alive} run it", job.job);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Jobs {
    database: Arc<dyn Database>,
    tables: Tables,
}

/// A job of a processing log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Job {
    /// Its name.
    pub job: String,
    /// What it is of; none of jobs from before that was stored.
    pub of: Option<JobSource>,
    /// Who runs it or has run it: those that are alive, then the newest others, 50 at most.
    pub sessions: Vec<JobSession>,
    /// How many there are of them.
    pub session_count: u64,
}

/// What a job is of, as its first run has stored it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobSource {
    /// Whether it is a table or a query.
    pub kind: String,
    /// The table as the catalogue resolves it, or the text of the query.
    pub source: String,
    /// The column that tells its rows apart.
    pub key_column: String,
    /// Since when it is of this source, by the database's clock.
    pub since: Timestamp,
}

/// An instance that runs a job, or has run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobSession {
    /// Its id.
    pub id: String,
    /// Which rows it handles: a [`Part`](crate::Part), or `imported`.
    pub part: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When it began, by the database's clock.
    pub started_at: Timestamp,
    /// Until when its claims are its own; none of one that has ended by itself.
    pub lease_until: Option<Timestamp>,
    /// Whether it is alive, by the database's clock.
    pub is_alive: bool,
}

/// Rows that have failed, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedRows {
    /// The rows.
    pub rows: Vec<FailedRow>,
    /// After which key to go on; none at the end. A page is short, or empty, where failed rows are few.
    pub next: Option<String>,
}

impl Jobs {
    /// Those of the processing log of this name, with its schema before a dot if it has one.
    #[must_use]
    pub fn new(log: &Log, table: &str) -> Self {
        let database = log.database();
        let tables = Tables::of_log(&database, table);
        Self { database, tables }
    }

    /// Jobs by their names, after one of them. None where there is no processing log of that name, or where a table of
    /// somebody else has it.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Job>, StoreError> {
        if !ours::are_there(&self.database, &self.tables).await? {
            return Ok(Vec::new());
        }
        let rows = self.database.rows(self.tables.list_jobs(after, limit)).await?;
        let mut jobs = rows.iter().map(|row| self.job(row)).collect::<Result<Vec<_>, _>>()?;
        if jobs.is_empty() {
            return Ok(jobs);
        }
        let places: HashMap<String, usize> =
            jobs.iter().enumerate().map(|(place, job)| (job.job.clone(), place)).collect();
        let names: Vec<&str> = jobs.iter().map(|job| job.job.as_str()).collect();
        let sessions = self.tables.sessions_of(&names, SESSIONS);
        for row in &self.database.rows(sessions).await? {
            let name = column::<String>(self.database.at(), row, "job")?;
            if let Some(job) = places.get(&name).and_then(|place| jobs.get_mut(*place)) {
                job.session_count = column(self.database.at(), row, "n")?;
                job.sessions.push(self.session(row)?);
            }
        }
        Ok(jobs)
    }

    /// Rows of a job that have failed, by their keys, after one of these. None if there is no such job.
    ///
    /// It looks at 50,000 entries of the log at most: go on with `next` until there is none.
    pub async fn failed(
        &self,
        job: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Option<FailedRows>, StoreError> {
        let (database, at) = (&self.database, self.database.at());
        let tables = self.tables.of_job(job);
        if !ours::are_there(database, &tables).await?
            || database.rows(tables.any_sign()).await?.is_empty()
        {
            return Ok(None);
        }
        let end = self.by_key(tables.key_beyond(after, LOOKS_AT)).await?;
        let end: Option<String> = end.first().map(|row| column(at, row, "key")).transpose()?;
        // One more, to see whether there is one.
        let wanted = limit.saturating_add(1);
        let found = self.by_key(tables.failed_by_key(after, end.as_deref(), wanted)).await?;
        let rows = found.iter().map(|row| {
            FailedRow::of(row)
                .map_err(|error| StoreError::Corrupt { at: at.to_owned(), what: error.to_string() })
        });
        let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
        let is_more = rows.len() > limit;
        rows.truncate(limit);
        let next = if is_more { rows.last().map(|row| row.key.clone()) } else { end };
        Ok(Some(FailedRows { rows, next }))
    }

    /// The rows of a statement that goes by the keys of the log in their order. A planner without figures would sort all
    /// of them.
    async fn by_key(&self, statement: Statement) -> Result<Vec<Row>, StoreError> {
        let mut statements: Vec<_> =
            self.tables.dialect().hint(Hint::QueueInOrder).into_iter().collect();
        statements.push(statement);
        let done = self.database.begin().run(statements, End::Commit).await;
        let answers = done.map_err(|failed| failed.into_store_error(self.database.at()))?;
        Ok(answers.into_iter().next_back().map(|answer| answer.rows).unwrap_or_default())
    }

    fn job(&self, row: &Row) -> Result<Job, StoreError> {
        let at = self.database.at();
        let of = match column::<Option<String>>(at, row, "kind")? {
            None => None,
            Some(kind) => Some(JobSource {
                kind,
                source: column(at, row, "source")?,
                key_column: column(at, row, "key_column")?,
                since: time::from_micros(column(at, row, "stored_us")?),
            }),
        };
        Ok(Job { job: column(at, row, "job")?, of, sessions: Vec::new(), session_count: 0 })
    }

    fn session(&self, row: &Row) -> Result<JobSession, StoreError> {
        let at = self.database.at();
        let lease: i64 = column(at, row, "lease_us")?;
        Ok(JobSession {
            id: column(at, row, "id")?,
            part: column(at, row, "part")?,
            host: column(at, row, "host")?,
            pid: column(at, row, "pid")?,
            started_at: time::from_micros(column(at, row, "started_us")?),
            lease_until: (lease > 0).then(|| time::from_micros(lease)),
            is_alive: column(at, row, "is_alive")?,
        })
    }
}

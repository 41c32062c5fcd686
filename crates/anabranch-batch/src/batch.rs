//! A batch: what is to be done with which rows, and how it is run.

use crate::claimer::{Claimer, Seen};
use crate::columns;
use crate::error::BatchError;
use crate::handler::RowHandler;
use crate::identity;
use crate::jobs::LOG_TABLE;
use crate::keys::Keys;
use crate::ours;
use crate::pace::Pace;
use crate::part::{Part, uneven};
use crate::progress::{BatchProgress, Counts, FailedRow, Summary, failed_before};
use crate::rehearsal;
use crate::session::{LEASES, Session};
use crate::source::Source;
use crate::stuck::Stuck;
use crate::tables::Tables;
use crate::verify::{self, Verified};
use crate::worker::Shared;
use anabranch_core::{Happening, Notice};
use anabranch_core::{Retry, StoreError};
use anabranch_store::database::{End, Statement, column};
use anabranch_store::{Database, Log};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;

/// How often the tables are tried to be made.
const CREATE_ATTEMPTS: u32 = 5;
const MAX_WORKERS: usize = 256;
const MAX_BATCH_SIZE: usize = 10_000;

type Observer = Arc<dyn Fn(&BatchProgress) + Send + Sync>;

/// Handles every row of a source once, with any number of instances of it at the same time.
///
/// ```
/// # use anabranch_batch::{Batch, BatchError, RowHandler, Source};
/// # async fn f<H: RowHandler>(log: anabranch_store::Log, convert: H) -> Result<(), BatchError> {
/// let batch = Batch::new("convert", Source::table("applications", "id")).workers(4);
/// let summary = batch.run(&log, convert).await?;
/// println!("{} rows, {} failed", summary.succeeded, summary.failed);
/// assert!(batch.verify(&log).await?.is_sound());
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a batch does nothing until it is run"]
pub struct Batch {
    pub(crate) job: String,
    pub(crate) source: Source,
    pub(crate) is_assumed_unique: bool,
    pub(crate) accepts_source: bool,
    pub(crate) part: Part,
    pub(crate) workers: usize,
    pub(crate) batch_size: usize,
    pub(crate) limit: Option<usize>,
    pub(crate) retry_failed: bool,
    pub(crate) retry: Retry,
    pub(crate) continuous: Option<Duration>,
    pub(crate) lease: Duration,
    pub(crate) log_table: String,
    pub(crate) schema: Option<String>,
    pub(crate) observer: Option<Observer>,
}

impl Batch {
    /// A batch of this name over a source. Entries of its processing log are kept under the name. Its first run
    /// stores the source and the key with it; another source or key under the same name is refused.
    pub fn new(job: impl Into<String>, source: Source) -> Self {
        Self {
            job: job.into(),
            source,
            is_assumed_unique: false,
            accepts_source: false,
            part: Part::Elastic,
            workers: 4,
            batch_size: 100,
            limit: None,
            retry_failed: false,
            retry: Retry::never(),
            continuous: None,
            lease: Duration::from_secs(5),
            log_table: LOG_TABLE.to_owned(),
            schema: None,
            observer: None,
        }
    }

    /// Takes the key for unique, although the catalogue does not show it: for queries and views, which have no
    /// indexes, and for tables without one. Rows that share a key would be one to the batch, and all but one
    /// of them never handled; so it stops when it meets such rows, and [`verify`](Self::verify) finds them
    /// in any case.
    pub fn assume_unique(mut self) -> Self {
        self.is_assumed_unique = true;
        self
    }

    /// A run takes another source than the one that is stored with the job, and stores it instead: for a query
    /// that was edited, or a table that was renamed. Each key must still name the row that it named before:
    /// rows whose keys are done are not handled again. Another key column is refused all the same.
    pub fn accept_source(mut self, accept: bool) -> Self {
        self.accepts_source = accept;
        self
    }

    /// Handles only a part of the rows. Default: all that nobody else has claimed.
    pub fn part(mut self, part: Part) -> Self {
        self.part = part;
        self
    }

    /// How many rows are handled at the same time. Default 4.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How many rows are claimed at a time, and the most of one transaction. Default 100.
    pub fn batch_size(mut self, rows: usize) -> Self {
        self.batch_size = rows;
        self
    }

    /// Ends after so many rows.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = Some(rows);
        self
    }

    /// How often a row is tried whose handler fails, or whose statements the database refuses, before it is
    /// `failed`; what its error says ([`for_good`](anabranch_runtime::HandlerError::for_good),
    /// [`try_after`](anabranch_runtime::HandlerError::try_after)) counts. While it waits the row stays claimed
    /// and the others go on, until some dozens of each worker wait. Default: once.
    ///
    /// ```
    /// # use anabranch_batch::{Batch, Source};
    /// use anabranch_core::Retry;
    /// let batch = Batch::new("mails", Source::table("customers", "id")).retry(Retry::outside().attempts(10));
    /// ```
    ///
    /// For effects outside the database [`Retry::outside`] is a good choice; a batch ends when the last row has
    /// ended, so perhaps [`lasting`](Retry::lasting) less long.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Handles rows again that have failed before this run.
    pub fn retry_failed(mut self, retry: bool) -> Self {
        self.retry_failed = retry;
        self
    }

    /// Goes on when everything is done, and looks for new rows this often.
    pub fn continuous(mut self, every: Duration) -> Self {
        self.continuous = Some(every);
        self
    }

    /// How long others wait for an instance that shows no sign of life before they take over what it had
    /// claimed. Default 5 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The table of the processing log, with its schema before a dot if it has one. Default
    /// `processing_log`. Tables with `_history`, `_sessions` and `_jobs` behind that name belong to it.
    pub fn log_table(mut self, name: impl Into<String>) -> Self {
        self.log_table = name.into();
        self
    }

    /// The schema of the processing log, made if it is not there (PostgreSQL).
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = Some(name.into());
        self
    }

    /// Calls a function every now and then with how far it is.
    pub fn on_progress(
        mut self,
        observer: impl Fn(&BatchProgress) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Runs until every row is done, here or by others.
    pub async fn run(&self, log: &Log, handler: impl RowHandler) -> Result<Summary, BatchError> {
        self.run_until(log, handler, std::future::pending()).await
    }

    /// Runs until every row is done, or a future resolves: then it finishes the rows that it has begun.
    pub async fn run_until(
        &self,
        log: &Log,
        handler: impl RowHandler,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Summary, BatchError> {
        let ended = self.run_to_end(log, handler, stop).await;
        log.events().flush().await;
        ended
    }

    async fn run_to_end(
        &self,
        log: &Log,
        handler: impl RowHandler,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Summary, BatchError> {
        let started = Instant::now();
        let (database, tables) = self.prepare(log)?;
        let (keys, tables) = Keys::look(self, &database, tables).await?;
        columns::check(&self.job, &database, &self.source, handler.columns()).await?;
        rehearsal::check(&self.job, &database, &tables, &handler).await?;
        self.warn_if_uneven(&database, &tables, &keys).await?;
        self.create(&database, &tables).await?;
        identity::store(self, &database, &tables).await?;
        let session = Session::begin(self, &tables, &database).await?;
        let (part, id, workers) = (&self.part, session.id(), self.workers);
        let detail = format!("part={part} session={id} workers={workers}");
        tables.events.emit(Happening::noticed(Notice::BatchBegan, detail));
        let counts = Arc::new(Counts::new());
        let (rows, taken) = mpsc::channel(self.batch_size * 2);
        let (stopper, stopped) = watch::channel(false);
        let pace = Arc::new(Pace::new(self.batch_size));
        let shared = Arc::new(Shared {
            handler: Arc::new(handler),
            tables: tables.clone(),
            database: Arc::clone(&database),
            part: self.part.to_string(),
            rows: Mutex::new(taken),
            counts: Arc::clone(&counts),
            workers: self.workers,
            idle: self.lease / 2,
            pace: Arc::clone(&pace),
            retry: self.retry,
            stop: stopped.clone(),
        });
        let mut workers = JoinSet::new();
        for _ in 0..self.workers {
            workers.spawn(Arc::clone(&shared).work());
        }
        let mut claimer = Claimer {
            batch: self,
            tables: &tables,
            database: &database,
            session: &session,
            counts: &counts,
            rows: Some(rows),
            pace,
            stop: stopped,
            keys,
            claimed: 0,
            checked: None,
            stuck: Stuck::default(),
            seen: Seen::default(),
        };
        let ended = {
            let claiming = claimer.run();
            tokio::pin!(claiming, stop);
            tokio::select! {
                ended = &mut claiming => ended,
                failed = first_failure(&mut workers) => Err(failed.into()),
                () = &mut stop => {
                    stopper.send_replace(true);
                    tokio::select! {
                        ended = &mut claiming => ended,
                        failed = first_failure(&mut workers) => Err(failed.into()),
                    }
                }
            }
        };
        if ended.is_err() {
            stopper.send_replace(true);
        }
        claimer.rows = None;
        while let Some(worker) = workers.join_next().await {
            match worker {
                Ok(done) => done?,
                Err(error) => {
                    return Err(BatchError::refused(&self.job, format!("a worker ended: {error}")));
                }
            }
        }
        if let Some(observer) = &self.observer {
            observer(&claimer.look().await?);
        }
        let sessions = session.ids();
        session.end(!matches!(ended, Ok(true))).await?;
        ended?;
        let failed_before = failed_before(self.part, &database, &tables, &sessions).await?;
        let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Ok(Summary {
            succeeded: get(&counts.succeeded),
            failed: get(&counts.failed),
            failed_before,
            retried: get(&counts.retried),
            lost: get(&counts.lost),
            sessions,
            took_ms: started.elapsed().as_millis() as u64,
        })
    }

    /// The proof of what was done: by whom, whether in its own part, what is doubled or missing.
    pub async fn verify(&self, log: &Log) -> Result<Verified, BatchError> {
        let (database, tables) = self.prepare(log)?;
        self.create(&database, &tables).await?;
        identity::check(self, &database, &tables).await?;
        Ok(verify::verify(&tables, &database).await?)
    }

    /// Rows that have failed, the oldest first.
    pub async fn failed(&self, log: &Log, limit: usize) -> Result<Vec<FailedRow>, BatchError> {
        let (database, tables) = self.prepare(log)?;
        self.create(&database, &tables).await?;
        identity::check(self, &database, &tables).await?;
        let rows = database.rows(tables.failed(limit)).await?;
        let corrupt = |error: anabranch_store::value::ColumnError| StoreError::Corrupt {
            at: database.at().to_owned(),
            what: error.to_string(),
        };
        let failed = rows.iter().map(|row| FailedRow::of(row).map_err(corrupt));
        Ok(failed.collect::<Result<_, _>>()?)
    }

    /// Makes the tables of the log, unless they are somebody else's. Instances that start together may stand
    /// in each other's way.
    pub(crate) async fn create(
        &self,
        database: &Arc<dyn Database>,
        tables: &Tables,
    ) -> Result<(), BatchError> {
        ours::check(database, tables).await?;
        for _ in 0..CREATE_ATTEMPTS {
            if run(database, tables.create(self.schema.as_deref())).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(run(database, tables.create(self.schema.as_deref())).await?)
    }

    /// Refuses what can never run.
    pub(crate) fn prepare(&self, log: &Log) -> Result<(Arc<dyn Database>, Tables), BatchError> {
        let refuse = |problem: String| Err(BatchError::refused(&self.job, problem));
        if self.job.is_empty() || self.job.chars().any(char::is_control) || self.job.len() > 100 {
            return refuse("its name is empty, too long or not plain text; rename it".to_owned());
        }
        if self.workers == 0 || self.workers > MAX_WORKERS {
            return refuse(format!("it has {} workers; use 1 to {MAX_WORKERS}", self.workers));
        }
        if self.batch_size == 0 || self.batch_size > MAX_BATCH_SIZE {
            let size = self.batch_size;
            return refuse(format!("its batch size is {size}; use 1 to {MAX_BATCH_SIZE}"));
        }
        if !LEASES.contains(&self.lease) {
            return refuse(format!("its lease is {:?}; use 0.5 s to 1 h", self.lease));
        }
        if let Part::Fixed { id, count, .. } = self.part
            && let Err(error) = Part::new(Some(id), Some(count), false)
        {
            return refuse(error.to_string());
        }
        let database = log.database();
        let log_table = match &self.schema {
            Some(schema) if !self.log_table.contains('.') && database.catalogue().has_schemas() => {
                format!("{schema}.{}", self.log_table)
            }
            _ => self.log_table.clone(),
        };
        let mut tables = Tables::new(&database, self.source.clone(), &self.job, &log_table);
        tables.events = log.events().of(&self.job);
        Ok((database, tables))
    }

    /// Says so if the parts are uneven.
    async fn warn_if_uneven(
        &self,
        database: &Arc<dyn Database>,
        tables: &Tables,
        keys: &Keys,
    ) -> Result<(), StoreError> {
        let Part::Fixed { count, hashed: false, .. } = self.part else { return Ok(()) };
        if !keys.are_integers() {
            return Ok(());
        }
        let mut parts = vec![0_u64; count as usize];
        for row in database.rows(tables.parts(count)).await? {
            let part: usize = column(database.at(), &row, "part")?;
            if let Some(of) = parts.get_mut(part) {
                *of = column(database.at(), &row, "n")?;
            }
        }
        if let Some(said) = uneven(&parts) {
            tables.events.emit(Happening::noticed(Notice::BatchUneven, said));
        }
        Ok(())
    }
}

/// The first failure of a worker; never, if none fails.
async fn first_failure(workers: &mut JoinSet<Result<(), StoreError>>) -> StoreError {
    while let Some(ended) = workers.join_next().await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => return StoreError::Closed,
        }
    }
    std::future::pending().await
}

pub(crate) async fn run(
    database: &Arc<dyn Database>,
    statements: Vec<Statement>,
) -> Result<(), StoreError> {
    let done = database.begin().run(statements, End::Commit).await;
    done.map(drop).map_err(|failed| failed.into_store_error(database.at()))
}

/// The keys of an answer.
pub(crate) async fn keys_of(
    database: &Arc<dyn Database>,
    statement: Statement,
) -> Result<Vec<String>, StoreError> {
    let rows = database.rows(statement).await?;
    rows.iter().map(|row| column(database.at(), row, "key")).collect()
}

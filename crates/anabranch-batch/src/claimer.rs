//! Finds rows that nobody has claimed, claims them, and hands them to the workers.
//!
//! A pass goes through the table by key. Rows that appear late with lower keys are found by the next pass, and
//! the last one finds nothing. What instances have left behind that died is taken over; while others are at
//! work this instance waits for them, so that all is done when the last one ends.

use crate::batch::Batch;
use crate::claims::Claims;
use crate::error::BatchError;
use crate::keys::{Keyed, Keys};
use crate::pace::Pace;
use crate::part::Part;
use crate::progress::{BatchProgress, Counts};
use crate::record::{KEY_COLUMNS, Record};
use crate::session::Session;
use crate::stuck::{self, Stuck};
use crate::tables::{Left, Tables};
use anabranch_core::StoreError;
use anabranch_core::engine_event::OutageOf;
use anabranch_store::database::{Answer, End, Statement, column};
use anabranch_store::{Backoff, Database, Row, Value};
use futures_util::future::BoxFuture;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// How soon to look again at what others are at work on.
const LOOK: Duration = Duration::from_millis(50);
/// How long a pass that has found rows waits for their end, at most.
const SETTLE: Duration = Duration::from_secs(1);
/// How often an observer is told.
const OBSERVE: Duration = Duration::from_millis(500);

pub(crate) struct Claimer<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) tables: &'a Tables,
    pub(crate) database: &'a Arc<dyn Database>,
    pub(crate) session: &'a Session,
    pub(crate) counts: &'a Counts,
    /// Where they go; taken away when no more come.
    pub(crate) rows: Option<mpsc::Sender<Record>>,
    pub(crate) pace: Arc<Pace>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) keys: Keys,
    /// How many rows it has claimed.
    pub(crate) claimed: usize,
    /// How many rows it had claimed when all were done and checked last.
    pub(crate) checked: Option<usize>,
    pub(crate) stuck: Stuck,
    pub(crate) seen: Seen,
}

/// What was looked up of the whole.
#[derive(Default)]
pub(crate) struct Seen {
    at: Option<Instant>,
    took: Duration,
    done_at_first: Option<u64>,
}

/// What a pass through the table has found.
enum Pass {
    Claimed {
        took: Duration,
    },
    /// Nothing, but somebody is at work who may leave something behind.
    Nothing {
        took: Duration,
    },
    /// Nothing, and nobody is at work.
    AllDone,
}

impl Claimer<'_> {
    /// Claims until nothing is left, or enough is done, or it is told to stop. Says whether nothing is left: then
    /// it has no claims either.
    ///
    /// Boxed, so that it is compiled here and not in each program that has a batch.
    pub(crate) fn run(&mut self) -> BoxFuture<'_, Result<bool, BatchError>> {
        Box::pin(self.run_here())
    }

    async fn run_here(&mut self) -> Result<bool, BatchError> {
        let mut outage = Backoff::default();
        let mut is_first = true;
        let started_us = loop {
            match self.clock().await {
                Ok(now) => break now,
                Err(error) => self.wait_out(error, &mut outage).await?,
            }
        };
        while !self.is_over() {
            match self.pass(is_first, started_us).await {
                Ok(Pass::Claimed { took }) => self.settle(took.min(SETTLE)).await,
                Ok(Pass::AllDone) => {
                    if let Err(error) = self.check_all().await {
                        self.wait_out(error, &mut outage).await?;
                        continue;
                    }
                    match self.batch.continuous {
                        Some(pause) => self.pause(pause).await,
                        None => return Ok(true),
                    }
                }
                Ok(Pass::Nothing { took }) => {
                    if let Err(error) = self.wait_for_others(took * 10).await {
                        self.wait_out(error, &mut outage).await?;
                    }
                }
                Err(error) => {
                    self.wait_out(error, &mut outage).await?;
                    continue;
                }
            }
            self.tables.events.outage_over(&mut outage, OutageOf::Batch);
            is_first = false;
        }
        Ok(false)
    }

    /// Waits a while for the rows that it has handed out: a pass that begins before they have ended goes through the
    /// whole table, and cannot be the last.
    async fn settle(&mut self, a_while: Duration) {
        let until = Instant::now() + a_while;
        while !self.has_ended() && !self.is_over() && Instant::now() < until {
            let wait = LOOK.min(until.saturating_duration_since(Instant::now()));
            tokio::select! {
                () = self.pace.wait() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Whether all that it has claimed has ended.
    fn has_ended(&self) -> bool {
        self.counts.ended() >= self.claimed as u64
    }

    fn is_over(&self) -> bool {
        let is_enough = self.batch.limit.is_some_and(|limit| self.claimed >= limit);
        is_enough || *self.stop.borrow() || self.rows.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// How many rows to claim next: what the workers take, all together, so that an instance with slow rows
    /// does not sit on many.
    fn page(&self) -> usize {
        let left = self.batch.limit.map_or(usize::MAX, |limit| limit - self.claimed.min(limit));
        (self.pace.rows() * self.batch.workers).min(self.batch.batch_size).min(left)
    }

    /// Waits until the workers have taken most of what was claimed; says whether to go on.
    async fn has_room(&mut self) -> Result<bool, StoreError> {
        while let Some(rows) = &self.rows
            && !self.is_over()
        {
            if rows.max_capacity() - rows.capacity() < self.page() {
                return Ok(true);
            }
            let told = self.stop.wait_for(|stop| *stop);
            tokio::select! {
                () = self.pace.wait() => {}
                _ = told => {}
                () = tokio::time::sleep(OBSERVE) => {}
            }
            self.observe().await?;
        }
        Ok(false)
    }

    /// Refuses to say that all is done when rows were passed over. It is asked again when there was
    /// something to do since.
    async fn check_all(&mut self) -> Result<(), BatchError> {
        if self.checked == Some(self.claimed) {
            return Ok(());
        }
        if let Some(problem) = self.keys.passed_over(self.database, self.tables).await? {
            return Err(BatchError::stopped(&self.batch.job, problem));
        }
        self.checked = Some(self.claimed);
        Ok(())
    }

    /// Goes through the table once.
    async fn pass(&mut self, is_first: bool, started_us: i64) -> Result<Pass, BatchError> {
        let (before, started) = (self.claimed, Instant::now());
        // Asked first: what others give back after this is found by the pass.
        let claims = self.claims().await?;
        let is_quiet = claims.is_quiet();
        if claims.nobodys {
            self.take_up(Left::Behind).await?;
        }
        if is_quiet && claims.own {
            // The answer to a claim may have been lost with its connection.
            self.take_up(Left::Own).await?;
        }
        if self.batch.retry_failed && is_first {
            self.take_up(Left::FailedBefore(started_us)).await?;
        }
        // The last pass finds nothing: then one look at the whole is less than going through it by pages.
        let part = (self.batch.part, self.keys.are_integers());
        let mut is_last = !is_first && self.is_none_missing(part).await?;
        let mut after: Option<Value> = None;
        while !is_last && self.has_room().await? {
            let limit = self.page();
            // Of rows that may share a key, the first two are met together: in one page, or by a look at the
            // one behind it, which `after` would pass over.
            let more = usize::from(self.keys.is_assumed);
            let found = self.tables.unclaimed(after.as_ref(), part, limit + more);
            let mut found = self.keyed(self.ask(found).await?)?;
            is_last = found.len() < limit + more;
            found.truncate(limit);
            let Some(last) = found.last() else { break };
            if after.as_ref() == Some(&last.value) {
                let problem = stuck::problem_of(std::slice::from_ref(&last.key));
                return Err(BatchError::stopped(&self.batch.job, problem));
            }
            after = Some(last.value.clone());
            self.claim(found).await?;
            self.observe().await?;
        }
        let is_stuck = self.stuck.end_pass();
        if let Some(problem) = self.stuck.problem().filter(|_| is_quiet) {
            return Err(BatchError::stopped(&self.batch.job, problem));
        }
        Ok(match self.claimed == before {
            true if is_quiet && !is_stuck => Pass::AllDone,
            true => Pass::Nothing { took: started.elapsed() },
            false => Pass::Claimed { took: started.elapsed() },
        })
    }

    /// Rows with their keys; refuses those that cannot be told apart.
    fn keyed(&mut self, rows: Vec<Row>) -> Result<Vec<Keyed>, BatchError> {
        let corrupt = |error: anabranch_store::value::ColumnError| StoreError::Corrupt {
            at: self.database.at().to_owned(),
            what: error.to_string(),
        };
        let mut keyed = Vec::with_capacity(rows.len());
        for row in rows {
            let place = row.iter().count() - KEY_COLUMNS;
            let value = row.get(place).map_err(corrupt)?;
            let key: Option<String> = row.get(place + 1).map_err(corrupt)?;
            keyed.push(Keyed { value, key: key.unwrap_or_else(|| "NULL".to_owned()), row });
        }
        match self.keys.check(&keyed) {
            Some(problem) => Err(BatchError::stopped(&self.batch.job, problem)),
            None => Ok(keyed),
        }
    }

    /// Waits a while for those who are at work, here and elsewhere, and takes over from those who die. Going
    /// through large tables takes its time, so that is not done all the while.
    async fn wait_for_others(&mut self, a_while: Duration) -> Result<(), BatchError> {
        let (started, before) = (Instant::now(), self.claimed);
        let mut took = Duration::ZERO;
        loop {
            self.pause(LOOK.max(took * 10)).await;
            self.observe().await?;
            let looked = Instant::now();
            let claims = self.claims().await?;
            if claims.nobodys {
                self.take_up(Left::Behind).await?;
            }
            let is_enough = self.claimed > before || started.elapsed() > a_while;
            if is_enough || self.is_over() || claims.is_quiet() {
                return Ok(());
            }
            took = looked.elapsed();
        }
    }

    /// Claims again what is left of its part.
    async fn take_up(&mut self, left: Left) -> Result<(), BatchError> {
        let mut after: Option<String> = None;
        while self.has_room().await? {
            let (limit, part, session) = (self.page(), self.batch.part, self.session.id());
            let find = self.tables.find_left(left, &session, after.as_deref(), limit);
            let found = self.ask(vec![find]).await?;
            let is_last = found.len() < limit;
            let mut keys: Vec<String> = found
                .iter()
                .map(|row| column(self.database.at(), row, "key"))
                .collect::<Result<_, _>>()?;
            after = keys.last().cloned();
            keys.retain(|key| part.has(key));
            if !keys.is_empty() {
                let taken = self.ask(vec![self.tables.take(left, &session, part, &keys)]).await?;
                self.hand_out_taken(&session, &taken).await?;
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Claims rows and hands out those that it got.
    async fn claim(&mut self, found: Vec<Keyed>) -> Result<(), StoreError> {
        let part = self.batch.part;
        let found: Vec<Keyed> = found.into_iter().filter(|found| part.has(&found.key)).collect();
        if found.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = found.iter().map(|found| found.key.clone()).collect();
        let session = self.session.id();
        let got = self.ask(self.tables.claim(&session, part, &keys)).await?;
        let got: HashSet<String> = got
            .iter()
            .map(|row| column(self.database.at(), row, "key"))
            .collect::<Result<_, _>>()?;
        for Keyed { key, row, .. } in found {
            match got.contains(&key) {
                true => {
                    let record =
                        Record { key, row, attempts: 0, failed: 0, session: session.clone() };
                    self.hand_out(record).await;
                }
                false => self.stuck.not_got(&key),
            }
        }
        Ok(())
    }

    /// Reads rows that were taken over, and hands them out. Claims of rows that are not there are given back.
    async fn hand_out_taken(&mut self, session: &str, taken: &[Row]) -> Result<(), BatchError> {
        let mut attempts = HashMap::new();
        for row in taken {
            attempts.insert(
                column::<String>(self.database.at(), row, "key")?,
                column::<u32>(self.database.at(), row, "attempts")?,
            );
        }
        let keys = attempts.keys().map(|key| match key.parse::<i64>() {
            Ok(number) if self.keys.are_integers() => Value::Int(number),
            _ => Value::from(key),
        });
        let rows = self.ask(vec![self.tables.by_keys(keys.collect())]).await?;
        for Keyed { key, row, .. } in self.keyed(rows)? {
            // Others are not its own, though the database takes their keys for equal.
            if let Some(attempts) = attempts.remove(&key) {
                let session = session.to_owned();
                self.hand_out(Record { key, row, attempts, failed: 0, session }).await;
            }
        }
        let gone: Vec<String> = attempts.into_keys().collect();
        if !gone.is_empty() {
            self.ask(self.tables.give_back_keys(session, &gone)).await?;
        }
        Ok(())
    }

    async fn hand_out(&mut self, record: Record) {
        self.claimed += 1;
        let Some(rows) = &self.rows else { return };
        // If nobody takes it, the run is about to end, and its claim is given back.
        if let Err(mpsc::error::TrySendError::Full(record)) = rows.try_send(record) {
            tokio::select! {
                _ = rows.send(record) => {}
                _ = self.stop.wait_for(|stop| *stop) => {}
            }
        }
    }

    /// Who has claims on rows of its part.
    async fn claims(&self) -> Result<Claims, StoreError> {
        // What ends while it is asked for is a claim in the answer.
        let in_work = !self.has_ended();
        let rows = self.ask(vec![self.tables.claims(&self.session.id())]).await?;
        Claims::of(in_work, self.batch.part, self.database.at(), &rows)
    }

    /// Whether every row of a part has been claimed, as far as the database can tell parts.
    async fn is_none_missing(&self, part: (Part, bool)) -> Result<bool, StoreError> {
        let rows = self.ask(self.tables.missing(part)).await?;
        let missing = rows.first().map(|row| column::<u64>(self.database.at(), row, "n"));
        Ok(missing.transpose()? == Some(0))
    }

    async fn clock(&self) -> Result<i64, StoreError> {
        let rows = self.ask(vec![self.tables.clock()]).await?;
        rows.first().map_or(Ok(0), |row| column(self.database.at(), row, "now_us"))
    }

    /// Tells the observer, every now and then.
    pub(crate) async fn observe(&mut self) -> Result<(), StoreError> {
        let Some(observer) = &self.batch.observer else { return Ok(()) };
        // Counting a large table takes its time, so it is done the less often.
        let pause = OBSERVE.max(self.seen.took * 20);
        if self.seen.at.is_some_and(|at| at.elapsed() < pause) {
            return Ok(());
        }
        let (observer, started) = (Arc::clone(observer), Instant::now());
        let progress = self.look().await?;
        self.seen.took = started.elapsed();
        observer(&progress);
        Ok(())
    }

    /// How far the whole is.
    pub(crate) async fn look(&mut self) -> Result<BatchProgress, StoreError> {
        let rows = self.ask(vec![self.tables.counts()]).await?;
        let get =
            |name| rows.first().map_or(Ok(0), |row| column::<u64>(self.database.at(), row, name));
        let (done, claimed, missing) = (get("done")?, get("claimed")?, get("missing")?);
        let at_first = *self.seen.done_at_first.get_or_insert(done);
        self.seen.at = Some(Instant::now());
        Ok(self.counts.progress(done + claimed + missing, done, at_first))
    }

    async fn ask(&self, statements: Vec<Statement>) -> Result<Vec<Row>, StoreError> {
        let answers = self.ask_all(statements).await?;
        Ok(answers.into_iter().next_back().unwrap_or_default().rows)
    }

    async fn ask_all(&self, statements: Vec<Statement>) -> Result<Vec<Answer>, StoreError> {
        let answers = self.database.begin().run(statements, End::Commit).await;
        answers.map_err(|failed| failed.with_statement(self.database.at()))
    }

    async fn pause(&mut self, wait: Duration) {
        let _ = tokio::time::timeout(wait, self.stop.wait_for(|stop| *stop)).await;
    }

    async fn wait_out(
        &mut self,
        error: impl Into<BatchError>,
        outage: &mut Backoff,
    ) -> Result<(), BatchError> {
        let error = error.into();
        if !error.is_waited_for() || *self.stop.borrow() {
            return Err(error);
        }
        self.tables.events.outage(outage, OutageOf::Batch, &error);
        let wait = outage.wait();
        self.pause(wait).await;
        Ok(())
    }
}

//! Finds rows that nobody has claimed, claims them, and hands them to the workers.
//!
//! A pass goes through the table by key. Rows that appear late with lower keys are found by the next pass, and
//! the last one finds nothing. What instances have left behind that died is taken over; while others are at
//! work this instance waits for them, so that whoever is left at the end has done it all.

use crate::batch::Batch;
use crate::error::BatchError;
use crate::pace::Pace;
use crate::progress::{BatchProgress, Counts};
use crate::record::Record;
use crate::session::Session;
use crate::tables::{Left, Tables, state};
use anabranch_core::StoreError;
use anabranch_store::database::{Answer, End, Statement};
use anabranch_store::{Backoff, Database, Row, Value};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// How soon to look again at what others are at work on.
const LOOK: Duration = Duration::from_millis(50);
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
    /// Whether keys are whole numbers.
    pub(crate) is_integer: bool,
    /// How many rows it has claimed.
    pub(crate) claimed: usize,
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
    Claimed,
    /// Nothing, but somebody is at work who may leave something behind.
    Nothing {
        took: Duration,
    },
    /// Nothing, and nobody is at work.
    AllDone,
}

impl Claimer<'_> {
    /// Claims until nothing is left, or enough is done, or it is told to stop.
    pub(crate) async fn run(&mut self) -> Result<(), BatchError> {
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
                Ok(Pass::Claimed) => {}
                Ok(Pass::AllDone) => match self.batch.continuous {
                    Some(pause) => self.pause(pause).await,
                    None => return Ok(()),
                },
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
            outage.end();
            is_first = false;
        }
        Ok(())
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

    /// Goes through the table once.
    async fn pass(&mut self, is_first: bool, started_us: i64) -> Result<Pass, StoreError> {
        let (before, started) = (self.claimed, Instant::now());
        // Asked first: what others give back after this is found by the pass.
        let is_quiet = self.is_quiet().await?;
        self.take_up(Left::Behind).await?;
        if is_quiet {
            // The answer to a claim may have been lost with its connection.
            self.take_up(Left::Own).await?;
        }
        if self.batch.retry_failed && is_first {
            self.take_up(Left::FailedBefore(started_us)).await?;
        }
        let mut after: Option<Value> = None;
        while self.has_room().await? {
            let (limit, part) = (self.page(), (self.batch.part, self.is_integer));
            let found = self.ask(self.tables.unclaimed(after.as_ref(), part, limit)).await?;
            let Some(last) = found.last() else { break };
            after = Some(self.column(last, "batch_key")?);
            let is_last = found.len() < limit;
            self.claim(found).await?;
            self.observe().await?;
            if is_last {
                break;
            }
        }
        Ok(match self.claimed == before {
            true if is_quiet => Pass::AllDone,
            true => Pass::Nothing { took: started.elapsed() },
            false => Pass::Claimed,
        })
    }

    /// Waits a while for those who are at work, here and elsewhere, and takes over from those who die. Going
    /// through large tables takes its time, so that is not done all the while.
    async fn wait_for_others(&mut self, a_while: Duration) -> Result<(), StoreError> {
        let (started, before) = (Instant::now(), self.claimed);
        let mut took = Duration::ZERO;
        loop {
            self.pause(LOOK.max(took * 10)).await;
            self.observe().await?;
            let looked = Instant::now();
            self.take_up(Left::Behind).await?;
            let is_enough = self.claimed > before || started.elapsed() > a_while;
            if is_enough || self.is_over() || self.is_quiet().await? {
                return Ok(());
            }
            took = looked.elapsed();
        }
    }

    /// Whether nobody is at work on rows of its part, here or elsewhere.
    async fn is_quiet(&self) -> Result<bool, StoreError> {
        Ok(self.counts.ended() >= self.claimed as u64 && !self.are_in_work().await?)
    }

    /// Claims again what is left of its part.
    async fn take_up(&mut self, left: Left) -> Result<(), StoreError> {
        let mut after: Option<String> = None;
        while self.has_room().await? {
            let (limit, part, session) = (self.page(), self.batch.part, self.session.id());
            let find = self.tables.find_left(left, &session, after.as_deref(), limit);
            let found = self.ask(vec![find]).await?;
            let is_last = found.len() < limit;
            let mut keys: Vec<String> =
                found.iter().map(|row| self.column(row, "key")).collect::<Result<_, _>>()?;
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
    async fn claim(&mut self, found: Vec<Row>) -> Result<(), StoreError> {
        let mut keyed = Vec::with_capacity(found.len());
        for row in found {
            let key = key_text(&self.column::<Value>(&row, "batch_key")?);
            if self.batch.part.has(&key) {
                keyed.push((key, row));
            }
        }
        if keyed.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = keyed.iter().map(|(key, _)| key.clone()).collect();
        let session = self.session.id();
        let got = self.ask(self.tables.claim(&session, self.batch.part, &keys)).await?;
        let got: HashSet<String> =
            got.iter().map(|row| self.column(row, "key")).collect::<Result<_, _>>()?;
        for (key, row) in keyed.into_iter().filter(|(key, _)| got.contains(key)) {
            self.hand_out(Record { key, row, attempts: 0, session: session.clone() }).await;
        }
        Ok(())
    }

    /// Reads rows that were taken over, and hands them out.
    async fn hand_out_taken(&mut self, session: &str, taken: &[Row]) -> Result<(), StoreError> {
        let mut attempts = Vec::new();
        for row in taken {
            attempts
                .push((self.column::<String>(row, "key")?, self.column::<u32>(row, "attempts")?));
        }
        let keys = attempts.iter().map(|(key, _)| match key.parse::<i64>() {
            Ok(number) if self.is_integer => Value::Int(number),
            _ => Value::from(key),
        });
        let rows = self.ask(vec![self.tables.by_keys(keys.collect())]).await?;
        for row in rows {
            let key = key_text(&self.column::<Value>(&row, "batch_key")?);
            let found = attempts.iter().find(|(other, _)| *other == key);
            let attempts = found.map_or(0, |(_, attempts)| *attempts);
            self.hand_out(Record { key, row, attempts, session: session.to_owned() }).await;
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

    /// Whether others are at work on rows of its part.
    async fn are_in_work(&self) -> Result<bool, StoreError> {
        let rows = self.ask(vec![self.tables.in_work(&self.session.id())]).await?;
        for row in rows {
            if self.batch.part.has(&self.column::<String>(&row, "key")?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn clock(&self) -> Result<i64, StoreError> {
        let rows = self.ask(vec![self.tables.clock()]).await?;
        rows.first().map_or(Ok(0), |row| self.column(row, "now_us"))
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
        let [rows, states] = self.tables.counts();
        let answers = self.ask_all(vec![rows, states]).await?;
        let mut done = 0;
        for row in &answers[1].rows {
            if self.column::<String>(row, "state")? != state::CLAIMED {
                done += self.column::<u64>(row, "n")?;
            }
        }
        let rows = answers[0].rows.first().map_or(Ok(0), |row| self.column(row, "n"))?;
        let at_first = *self.seen.done_at_first.get_or_insert(done);
        self.seen.at = Some(Instant::now());
        Ok(self.counts.progress(rows, done, at_first))
    }

    async fn ask(&self, statements: Vec<Statement>) -> Result<Vec<Row>, StoreError> {
        let answers = self.ask_all(statements).await?;
        Ok(answers.into_iter().next_back().unwrap_or_default().rows)
    }

    async fn ask_all(&self, statements: Vec<Statement>) -> Result<Vec<Answer>, StoreError> {
        let answers = self.database.begin().run(statements, End::Commit).await;
        answers.map_err(|failed| failed.into_store_error(self.database.at()))
    }

    fn column<T: anabranch_store::value::FromValue>(
        &self,
        row: &Row,
        name: &str,
    ) -> Result<T, StoreError> {
        row.get(name).map_err(|error| StoreError::Corrupt {
            at: self.database.at().to_owned(),
            what: error.to_string(),
        })
    }

    async fn pause(&mut self, wait: Duration) {
        let _ = tokio::time::timeout(wait, self.stop.wait_for(|stop| *stop)).await;
    }

    async fn wait_out(
        &mut self,
        error: StoreError,
        outage: &mut Backoff,
    ) -> Result<(), BatchError> {
        if !error.is_transient() || *self.stop.borrow() {
            return Err(error.into());
        }
        if outage.complains() {
            tracing::warn!(%error, "a batch waits for its database");
        }
        let wait = outage.wait();
        self.pause(wait).await;
        Ok(())
    }
}

/// A key as text, as the database casts it.
pub(crate) fn key_text(key: &Value) -> String {
    match key {
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Uuid(id) => id.to_string(),
        other => other.to_json().to_string(),
    }
}

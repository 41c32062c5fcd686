//! Handles claimed rows, and stores their effects together with how they went.

use crate::error::is_waited_for;
use crate::handler::RowHandler;
use crate::later::Later;
use crate::pace::Pace;
use crate::progress::Counts;
use crate::record::Record;
use crate::tables::{Tables, state};
use anabranch_core::engine_event::{Happening, OutageOf};
use anabranch_core::{ErrorCode, Retry, StoreError};
use anabranch_runtime::{Commit, HandlerError, HandlerResult, RawTx, Tx};
use anabranch_store::database::End;
use anabranch_store::{Backoff, Database};
use futures_util::FutureExt;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc, watch};

/// How long one transaction takes rows from a handler that is slow: then it commits, so that a crash repeats
/// little and others see the effects.
const MAX_HANDLING: Duration = Duration::from_millis(500);

/// What the workers of an instance share.
pub(crate) struct Shared<H> {
    pub(crate) handler: Arc<H>,
    pub(crate) tables: Tables,
    pub(crate) database: Arc<dyn Database>,
    pub(crate) part: String,
    pub(crate) rows: Mutex<mpsc::Receiver<Record>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) workers: usize,
    /// How long a transaction may be open without a statement.
    pub(crate) idle: Duration,
    pub(crate) pace: Arc<Pace>,
    pub(crate) retry: Retry,
    /// Whether it is told to stop.
    pub(crate) stop: watch::Receiver<bool>,
}

impl<H: RowHandler> Shared<H> {
    /// Works until no rows come any more, and none waits for another attempt.
    pub(crate) async fn work(self: Arc<Self>) -> Result<(), StoreError> {
        let (mut later, mut stop, mut more) =
            (Later::new(self.retry, self.tables.events.clone()), self.stop.clone(), true);
        while more || !later.is_empty() {
            let page = tokio::select! {
                biased;
                () = later.due() => {
                    let page = later.take_due();
                    self.counts.try_again(page.len());
                    page
                }
                page = self.take(), if more && later.has_room() => {
                    more = page.is_some();
                    page.unwrap_or_default()
                }
                // What waits is given back, like what was not begun.
                () = shutdown_signal(&mut stop), if !later.is_empty() => {
                    self.counts.give_back(later.len());
                    return self.drain().await;
                }
            };
            self.handle(page, &mut later).await?;
        }
        Ok(())
    }

    /// Takes rows until none come any more, and handles none.
    async fn drain(&self) -> Result<(), StoreError> {
        while self.take().await.is_some() {}
        Ok(())
    }

    /// Takes its share of what is there.
    async fn take(&self) -> Option<Vec<Record>> {
        let mut rows = self.rows.lock().await;
        let first = rows.recv().await?;
        if self.is_stopping() {
            // What is claimed and not begun is given back.
            while rows.recv().await.is_some() {}
            return None;
        }
        let share = self.pace.share(rows.len(), self.workers);
        let mut page = vec![first];
        while page.len() < share
            && let Ok(more) = rows.try_recv()
        {
            page.push(more);
        }
        self.pace.moved();
        Some(page)
    }

    fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Handles rows to their end, or to their next attempt.
    async fn handle(&self, mut page: Vec<Record>, later: &mut Later) -> Result<(), StoreError> {
        let mut outage = Backoff::default();
        // So many in one transaction; one by one, once nobody knows which of them fails.
        let mut at_once = page.len();
        // So many the next time: those before one that was refused, or that one alone.
        let mut apart = None::<usize>;
        let mut is_first = true;
        // What is not begun when it is told to stop is given back.
        while !page.is_empty() && (is_first || !self.is_stopping()) {
            is_first = false;
            // Claims of one session commit together.
            let session = page[0].session.clone();
            let same = page.iter().take_while(|record| record.session == session).count();
            let count = same.min(apart.take().unwrap_or(at_once));
            let started = Instant::now();
            let (tx, outcomes) = self.call(&page[..count]).await;
            let Some(outcomes) = outcomes else {
                // Something was sent before one failed: the whole is rolled back.
                at_once = 1;
                continue;
            };
            let count = outcomes.len();
            let mut fence = Vec::new();
            let done = well(&page, &outcomes);
            fence.extend(self.tables.succeed(&session, &self.part, &done));
            // How long those wait that are tried again.
            let mut waits = vec![None; count];
            for (number, outcome) in outcomes.iter().enumerate() {
                let Err(error) = outcome else { continue };
                waits[number] = later.wait(&page[number], error);
                if waits[number].is_none() {
                    fence.push(self.tables.fail(&page[number], &error.to_string()));
                }
            }
            let again = waits.iter().flatten().count();
            let handler = started.elapsed();
            let committed = match again == count {
                true => Commit::Done, // Nothing of them is to be stored.
                false => tx.finish(fence).await,
            };
            match committed {
                Commit::Done => {
                    Counts::add(&self.counts.succeeded, done.len());
                    Counts::add(&self.counts.failed, count - done.len() - again);
                    Counts::add(&self.counts.waiting, again);
                    if again < count {
                        let commit = started.elapsed().saturating_sub(handler);
                        let what = Happening::batch_handled(count - again, None, handler, commit);
                        self.tables.events.emit(what);
                    }
                    for ((record, wait), outcome) in page.drain(..count).zip(waits).zip(outcomes) {
                        if let (Some(wait), Err(error)) = (wait, outcome) {
                            later.put(record, wait, &error);
                        }
                    }
                    self.pace.measured(count, started.elapsed());
                    self.tables.events.outage_over(&mut outage, OutageOf::BatchWorker);
                }
                // One of them is somebody else's by now, or the answer to its commit was lost.
                Commit::Lost if count > 1 => at_once = 1,
                Commit::Lost => {
                    self.settle(&session, &page[..1]).await?;
                    page.remove(0);
                }
                Commit::Away(error) if is_waited_for(&error) => {
                    self.tables.events.outage(&mut outage, OutageOf::BatchWorker, &error);
                    tokio::time::sleep(outage.wait()).await;
                }
                Commit::Away(error) => return Err(error),
                Commit::Refused { item: Some(item), .. } if count > 1 => {
                    apart = Some(item.clamp(1, count - 1));
                }
                Commit::Refused { .. } if count > 1 => at_once = 1,
                Commit::Refused { error, .. } => {
                    let record = page.remove(0);
                    match later.wait(&record, &error) {
                        Some(wait) => {
                            Counts::add(&self.counts.waiting, 1);
                            later.put(record, wait, &error);
                        }
                        None => self.fail(&record, &error.to_string()).await?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls the handler for rows, in one transaction; says how each went. Without an answer nobody can
    /// tell them apart.
    async fn call(&self, page: &[Record]) -> (Tx, Option<Vec<HandlerResult>>) {
        let mut tx = Tx::on(&self.database, self.idle);
        if let Some(outcomes) = self.handler.handle_page(page).await {
            let complete = outcomes.len() == page.len();
            let short = || Err(HandlerError::new("the handler left out rows of its page"));
            let outcomes = if complete { outcomes } else { page.iter().map(|_| short()).collect() };
            return (tx, Some(outcomes));
        }
        let started = Instant::now();
        let mut outcomes = Vec::with_capacity(page.len());
        for (number, record) in page.iter().enumerate() {
            tx.for_event(number);
            let mark = tx.mark();
            let outcome = self.guarded(record, &mut tx).await;
            if outcome.is_err() && !tx.undo(mark) {
                if page.len() > 1 {
                    return (tx, None);
                }
                // Alone: what it wrote is dropped with its transaction.
                tx = Tx::on(&self.database, self.idle);
            }
            outcomes.push(outcome);
            if started.elapsed() > MAX_HANDLING || self.is_stopping() {
                break;
            }
        }
        tx.for_several();
        (tx, Some(outcomes))
    }

    /// A handler that panics has failed like any other.
    async fn guarded(&self, record: &Record, tx: &mut Tx) -> HandlerResult {
        let handled = std::panic::AssertUnwindSafe(self.handler.handle(record, tx)).catch_unwind();
        handled.await.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
            let said = format!("the handler panicked: {}", said.unwrap_or_default());
            Err(HandlerError::with_code(ErrorCode::HandlerPanicked, said))
        })
    }

    /// A row was refused by the database: nothing of it is stored but that.
    async fn fail(&self, record: &Record, error: &str) -> Result<(), StoreError> {
        let mut outage = Backoff::default();
        loop {
            let fail = self.tables.fail(record, error);
            let tx = Tx::on(&self.database, self.idle);
            match tx.finish(vec![fail]).await {
                Commit::Done => {
                    Counts::add(&self.counts.failed, 1);
                    return Ok(());
                }
                Commit::Lost => {
                    return self.settle(&record.session, std::slice::from_ref(record)).await;
                }
                Commit::Away(error) if is_waited_for(&error) => {
                    tokio::time::sleep(outage.wait()).await;
                }
                Commit::Away(error) => return Err(error),
                Commit::Refused { error, .. } => {
                    let at = self.database.at().to_owned();
                    return Err(StoreError::Other { at, source: error.to_string().into() });
                }
            }
        }
    }

    /// Finds out what has become of rows that could not be stored.
    async fn settle(&self, session: &str, page: &[Record]) -> Result<(), StoreError> {
        let keys: Vec<&str> = page.iter().map(Record::key).collect();
        let select = self.tables.ended(session, &keys);
        let mut outage = Backoff::default();
        let answers = loop {
            match self.database.begin().run(vec![select.clone()], End::Commit).await {
                Ok(answers) => break answers,
                Err(failed) if failed.is_transient() => tokio::time::sleep(outage.wait()).await,
                Err(failed) => return Err(failed.into_store_error(self.database.at())),
            }
        };
        let mut ended: HashMap<String, usize> = HashMap::new();
        for row in answers.iter().flat_map(|answer| &answer.rows) {
            if let (Ok(state), Ok(rows)) = (row.get::<String>("state"), row.get::<usize>("n")) {
                ended.insert(state, rows);
            }
        }
        let of = |name: &str| ended.get(name).copied().unwrap_or(0);
        let (succeeded, failed) = (of(state::SUCCESS), of(state::FAILED));
        let add = |counter: &AtomicU64, rows| Counts::add(counter, rows);
        add(&self.counts.succeeded, succeeded);
        add(&self.counts.failed, failed);
        add(&self.counts.lost, page.len().saturating_sub(succeeded + failed));
        Ok(())
    }
}

async fn shutdown_signal(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending().await
    }
}

/// The rows that went well.
fn well<'a>(page: &'a [Record], outcomes: &[HandlerResult]) -> Vec<&'a Record> {
    let both = page.iter().zip(outcomes);
    both.filter(|(_, outcome)| outcome.is_ok()).map(|(record, _)| record).collect()
}

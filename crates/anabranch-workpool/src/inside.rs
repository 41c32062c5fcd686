//! A lane of a pool whose effects are in the database: tasks one after the other, in one transaction.

use crate::ending::{self, Done, Verdict};
use crate::pool::{Pool, PoolSettings, TaskGaveUp};
use crate::queue::Queue;
use crate::reader::Reader;
use crate::task::Task;
use crate::turns::Turns;
use anabranch_core::{ErrorCode, Happening, Notice, Retry, SlotSet, StoreError};
use anabranch_runtime::{Commit, HandlerError, Holding, RawTx, RowConsumer, RunError, Tx};
use anabranch_store::database::{End, column};
use anabranch_store::trace::{self, Work};
use futures_util::FutureExt;
use serde::Serialize;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// How long one transaction takes tasks: then it commits, so that others see the effects.
const MAX_RUNNING: Duration = Duration::from_millis(500);
/// How often to forget tasks that have ended, and how soon again if there are more of them.
pub(crate) const PRUNE: Duration = Duration::from_secs(30);
const PRUNE_ON: Duration = Duration::from_millis(200);
/// How many of them at a time.
const PRUNED: usize = 5_000;

/// A [`Pool`] as a replica set runs it.
pub(crate) struct Inside<P> {
    pool: P,
    settings: PoolSettings,
    retry: Retry,
    /// The turns of this process.
    turns: Arc<Semaphore>,
}

impl<P: Pool> Inside<P> {
    pub(crate) fn new(pool: P) -> Self {
        let settings = pool.settings();
        let turns = Arc::new(Semaphore::new(settings.in_flight_per_process));
        let retry = settings.retry.unwrap_or_default();
        Self { pool, settings, retry, turns }
    }
}

impl<P: Pool> RowConsumer for Inside<P> {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn kind(&self) -> &'static str {
        "pool"
    }

    fn code(&self) -> Option<&str> {
        self.pool.code()
    }

    fn max_parallelism(&self) -> Option<usize> {
        self.settings.max_parallelism
    }

    async fn look_after(&self, holding: &mut Holding) -> Result<(), RunError> {
        let reader = Reader::new(self.pool.name(), holding);
        let (queue, turns) = (Queue::new(true), Turns::new(&self.turns, holding));
        Lane { inside: self, holding, reader, queue, turns }.run().await
    }
}

struct Lane<'a, P> {
    inside: &'a Inside<P>,
    holding: &'a mut Holding,
    reader: Reader,
    queue: Queue,
    turns: Turns,
}

impl<P: Pool> Lane<'_, P> {
    async fn run(&mut self) -> Result<(), RunError> {
        let nothing = SlotSet::empty();
        let mut prune_at = Instant::now() + PRUNE;
        loop {
            self.holding.let_go(&nothing).await?;
            if self.holding.is_stopping() {
                return Ok(());
            }
            self.reader.follow(self.holding, &mut self.queue).await?;
            if Instant::now() >= prune_at {
                prune_at = prune(&self.reader, self.holding, &self.inside.settings).await;
            }
            self.turns.wants(usize::from(self.queue.has_turn()));
            if self.queue.has_turn() {
                let turn = tokio::select! {
                    biased;
                    turn = self.turns.next() => turn,
                    // A lane that waits for its turn releases slots, too.
                    () = self.holding.news() => continue,
                };
                let batch = match self.holding.is_trying() {
                    true => self.queue.take_untried(),
                    false => self.queue.take(self.inside.settings.batch_size),
                };
                self.run_batch(batch).await?;
                drop(turn);
                // Orders come in between.
                self.holding.news().now_or_never();
                continue;
            }
            tokio::select! {
                () = self.holding.news() => {}
                () = self.reader.wake(&self.queue) => {}
            }
        }
    }

    /// Runs tasks to their end, whatever fails in between.
    async fn run_batch(&mut self, mut batch: Vec<Task>) -> Result<(), RunError> {
        let tenure = self.holding.tenure();
        let mut count = batch.len();
        while !batch.is_empty() {
            let (tx, ran) = self.call(&batch[..count]).await;
            let (ran, outcome) = match ran {
                Ok(done) => {
                    let rest = batch[done.len()..].iter().map(|task| task.slot).collect();
                    (done.len(), self.store(tx, &done, &rest).await?)
                }
                Err(outcome) => {
                    // Rolled back before anything else is done: that needs a session, too, and perhaps there
                    // is only this one.
                    drop(tx);
                    (0, outcome)
                }
            };
            match outcome {
                Commit::Done => {
                    self.holding.events().emit(Happening::tasks_done(ran));
                    for task in batch.drain(..ran) {
                        self.holding.is_done(task.key(), task.slot);
                        self.queue.ended(&task);
                    }
                    if count > ran || self.holding.is_stopping() {
                        // It took long: the others' turn comes again.
                        self.queue.put_back(batch);
                        return Ok(());
                    }
                    count = batch.len();
                }
                Commit::Lost => {
                    self.lost();
                    return Ok(());
                }
                Commit::Away(error) => {
                    self.holding.wait_out(error).await?;
                    if self.holding.tenure() != tenure || self.holding.is_stopping() {
                        return Ok(());
                    }
                    // Perhaps it was stored, and only the answer was lost.
                    self.drop_ended(&mut batch).await?;
                    count = batch.len();
                }
                // What stands before it is stored first.
                Commit::Refused { item: Some(item), .. } if item > 0 => count = item,
                Commit::Refused { item: Some(_), error } => {
                    let rest = batch.split_off(1);
                    self.queue.put_back(rest);
                    return match batch.pop() {
                        Some(task) => self.fail(task, error).await,
                        None => Ok(()),
                    };
                }
                Commit::Refused { item: None, error } => {
                    // Somebody may have cancelled one; else nobody knows which it was: halve the batch
                    // until it is alone.
                    if self.drop_ended(&mut batch).await? {
                        count = batch.len();
                    } else if count > 1 {
                        count /= 2;
                    } else {
                        self.queue.put_back(batch.split_off(1));
                        if let Some(task) = batch.pop() {
                            self.fail(task, error).await?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs tasks in a transaction, one after the other. Says which are run, or why nothing of them can be stored.
    async fn call(&mut self, tasks: &[Task]) -> (Tx, Result<Vec<Done>, Commit>) {
        let mut tx = self.holding.begin_for(tasks.iter().map(|task| task.id));
        let calls = self.holding.calls();
        calls.begin(tasks.iter().map(Task::item)).await;
        let started = Instant::now();
        let mut done = Vec::with_capacity(tasks.len());
        for (number, task) in tasks.iter().enumerate() {
            tx.for_event(number);
            let began = Instant::now();
            let run = async { json(&self.inside.pool.run(task, &mut tx).await?) };
            let ran = calls.around(task.item(), run);
            let traced = Work::task(task.trace, self.holding.events());
            let ran = AssertUnwindSafe(trace::run(traced.as_ref(), ran)).catch_unwind().await;
            let result = ran.unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
            self.holding.events().emit(Happening::task_ran(began.elapsed()));
            let result = match self.holding.refusal(&mut tx) {
                Some(Commit::Refused { item, error }) => {
                    Err(Commit::Refused { item: item.or(Some(number)), error })
                }
                Some(refusal) => Err(refusal),
                None => result.map_err(|error| Commit::Refused { item: Some(number), error }),
            };
            match result {
                Ok(result) => done.push(Done::new(task.clone(), result, traced)),
                Err(outcome) => {
                    let tasks = done.iter().map(|done| done.traced.as_ref());
                    ending::mark_unstored(None, tasks.chain([traced.as_ref()]), &outcome);
                    return (tx, Err(outcome));
                }
            }
            let is_open =
                tx.open_limit().is_some() && !self.inside.pool.begins_in_open_transaction();
            if is_open || started.elapsed() > MAX_RUNNING {
                break;
            }
        }
        tx.for_several();
        (tx, Ok(done))
    }

    /// Stores the end of tasks; of the slots `busy` others are still to be run.
    async fn store(
        &mut self,
        mut tx: Tx,
        done: &[Done],
        busy: &SlotSet,
    ) -> Result<Commit, RunError> {
        let rule = self.holding.log().hash_rule();
        for statement in ending::done(&self.reader.tables, rule, done) {
            if tx.push(statement).await.is_err() {
                break; // The commit says why.
            }
        }
        let of = done.iter().map(|done| done.task.slot).collect();
        let traced = ending::commit(done);
        let commit = Box::pin(self.holding.commit(tx, &of, busy));
        let outcome = trace::run(traced.as_ref(), commit).await?;
        let tasks = done.iter().map(|done| done.traced.as_ref());
        ending::mark_unstored(traced.as_ref(), tasks, &outcome);
        Ok(outcome)
    }

    /// What it has read may be somebody else's.
    fn lost(&mut self) {
        self.queue.clear();
        self.reader.sight.forget();
    }

    /// Removes tasks that have ended meanwhile. Says whether there were any.
    async fn drop_ended(&mut self, batch: &mut Vec<Task>) -> Result<bool, RunError> {
        let open = match open(&self.reader, self.holding, batch.iter().map(|task| task.id)).await {
            Ok(open) => open,
            Err(error) => {
                self.holding.wait_out(error).await?;
                return Ok(false);
            }
        };
        let (still, ended): (Vec<_>, Vec<_>) =
            std::mem::take(batch).into_iter().partition(|task| open.contains(&task.id));
        *batch = still;
        ended.iter().for_each(|task| self.queue.ended(task));
        Ok(!ended.is_empty())
    }

    /// A task has failed.
    async fn fail(&mut self, task: Task, error: HandlerError) -> Result<(), RunError> {
        let (pool, retry) = (&self.inside.pool, &self.inside.retry);
        let gave_up = || pool.gave_up(&task, &error.to_string());
        let holding = &mut *self.holding;
        let busy = self.queue.busy();
        match fail(&mut self.reader, holding, retry, (&task, &error, &busy), true, gave_up).await? {
            Failed::Again(until) => self.queue.failed(task, until),
            Failed::Held => {
                self.queue.ended(&task);
                self.queue.forget_key(&task.key);
            }
            Failed::Ended => self.queue.ended(&task),
            Failed::Lost => self.lost(),
        }
        Ok(())
    }
}

/// What has become of a task that failed.
pub(crate) enum Failed {
    /// It waits for another attempt.
    Again(Instant),
    /// Its key is held, or may be.
    Held,
    /// It has ended, one way or another.
    Ended,
    /// It is somebody else's.
    Lost,
}

/// Stores that a task has failed; of the slots `busy` something is in work. `is_streak` if nothing has worked at
/// the same time.
pub(crate) async fn fail(
    reader: &mut Reader,
    holding: &mut Holding,
    retry: &Retry,
    (task, error, busy): (&Task, &HandlerError, &SlotSet),
    is_streak: bool,
    gave_up: impl Fn() -> TaskGaveUp,
) -> Result<Failed, RunError> {
    let (id, key, pool) = (task.id, task.key(), reader.pool.clone());
    let said = format!("task {id} of key `{key}` failed: {error}");
    let (mut is_broken, mut is_said) = (None, false);
    loop {
        let (verdict, statements) = ending::failed(
            &reader.tables,
            (holding.log(), &pool, holding.events()),
            retry,
            (task, error),
            &gave_up,
        );
        let mut is_stopped = *is_broken.get_or_insert_with(|| {
            let is_given_up = !matches!(verdict, Verdict::Again(_));
            // What has worked says nothing for a handler that cannot run here.
            (is_streak || error.is_unable())
                && holding.fails((key, task.slot), is_given_up, (error, &said))
        });
        if !is_stopped && matches!(verdict, Verdict::Stop) {
            let remedy = "its policy is to stop: correct it, and it goes on with this task";
            holding.stop_at(task.slot, (&said, error.again()), remedy);
            is_stopped = true;
        }
        let becomes = if is_stopped { &Verdict::Stop } else { &verdict };
        if !std::mem::replace(&mut is_said, true) {
            let retry_in = match becomes {
                Verdict::Again(wait) => Some(*wait),
                _ => None,
            };
            holding.events().emit(Happening::task_failed(
                key.to_owned(),
                id,
                task.attempts + 1,
                error.to_string(),
                retry_in,
                becomes.to_string(),
            ));
        }
        if is_stopped {
            // It stays as it is in the table, and is read again when the pool goes on.
            reader.sight.hold(key);
            reader.sight.look_again();
            return Ok(Failed::Held);
        }
        holding.is_failing(&error.to_string());
        let mut tx = holding.begin();
        for statement in statements {
            if tx.push(statement).await.is_err() {
                break; // The commit says why.
            }
        }
        let tenure = holding.tenure();
        let of = [task.slot].into_iter().collect();
        match holding.commit(tx, &of, busy).await? {
            Commit::Done => {
                holding.has_failed(task.slot, (error, &said));
                if !matches!(verdict, Verdict::Again(_)) {
                    let is_held = matches!(verdict, Verdict::Park);
                    let (key, error) = (key.to_owned(), error.to_string());
                    holding.events().emit(Happening::task_died(key, id, error, is_held));
                }
                return Ok(match verdict {
                    Verdict::Again(wait) => {
                        // Also after this commit: it is not what has failed.
                        holding.is_failing(&error.to_string());
                        Failed::Again(Instant::now() + holding.database().clock().wait(wait))
                    }
                    Verdict::Park => {
                        reader.sight.hold(key);
                        Failed::Held
                    }
                    Verdict::GoOn | Verdict::Stop => Failed::Ended,
                });
            }
            Commit::Lost => return Ok(Failed::Lost),
            Commit::Away(error) => {
                holding.wait_out(error).await?;
                if holding.tenure() != tenure || holding.is_stopping() {
                    return Ok(Failed::Lost);
                }
            }
            // Somebody has cancelled it; or it is dead since before an answer that was lost, and its key
            // held. The tables know.
            Commit::Refused { .. } => {
                reader.sight.hold(key);
                reader.sight.look_again();
                return Ok(Failed::Held);
            }
        }
    }
}

/// Those of some tasks that are open.
pub(crate) async fn open(
    reader: &Reader,
    holding: &Holding,
    tasks: impl Iterator<Item = Uuid>,
) -> Result<HashSet<Uuid>, StoreError> {
    let (database, select) = (holding.database(), reader.tables.open(tasks));
    let answers = database.begin().run(vec![select], End::Commit).await;
    let answers = answers.map_err(|failed| failed.into_store_error(database.at()))?;
    let rows = answers.iter().flat_map(|answer| &answer.rows);
    rows.map(|row| column(database.at(), row, "id")).collect()
}

/// Forgets tasks that ended long ago, and says when to do so again. The lane that holds slot 0 does it.
pub(crate) async fn prune(reader: &Reader, holding: &Holding, settings: &PoolSettings) -> Instant {
    let mut pause = PRUNE;
    if holding.slots().contains(anabranch_core::Slot::ZERO) {
        // If it cannot be done there are more rows to add up until the next time, and no harm is done.
        if let Some(fold) = reader.tables.fold_counts() {
            let _ = holding.database().begin().run(vec![fold], End::Commit).await;
        }
        let prune = reader.tables.prune(&reader.pool, settings.keep, PRUNED);
        match holding.database().begin().run(vec![prune], End::Commit).await {
            Ok(answers) if answers.iter().any(|answer| answer.changed >= PRUNED as u64) => {
                pause = PRUNE_ON;
            }
            Ok(_) => {}
            Err(error) => {
                holding.events().emit(Happening::failed(Notice::CannotPrune, &error));
            }
        }
    }
    Instant::now() + pause
}

/// A result as it is stored.
pub(crate) fn json(output: &impl Serialize) -> anabranch_runtime::HandlerResult<String> {
    serde_json::to_string(output).map_err(|error| {
        let said = format!("the result cannot be JSON: {error}");
        HandlerError::with_code(ErrorCode::PayloadDoesNotFit, said)
    })
}

/// What a task that panicked has said.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> HandlerError {
    let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    let said = format!("the task panicked: {}", said.unwrap_or_default());
    HandlerError::with_code(ErrorCode::HandlerPanicked, said)
}

//! A lane of a pool whose effects are outside: tasks of different keys at the same time, their ends
//! stored together.

use crate::ending::{self, Done};
use crate::inside::{Failed, PRUNE, fail, json, open, panicked, prune};
use crate::pool::{OutsidePool, PoolSettings};
use crate::queue::Queue;
use crate::reader::Reader;
use crate::run::{Run, Save};
use crate::task::Task;
use crate::turns::{Turn, Turns};
use anabranch_core::{Happening, Notice, Retry, SlotSet};
use anabranch_runtime::{Commit, HandlerError, Holding, RawTx, RowConsumer, RunError};
use anabranch_store::trace::{self, Work};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// How many checkpoints wait to be stored together. A task waits until its own is stored, so it makes no difference
/// to it if it waits for room first.
const SAVES: usize = 1_000;

/// An [`OutsidePool`] as a replica set runs it.
pub(crate) struct Outside<P> {
    pool: Arc<P>,
    settings: PoolSettings,
    retry: Retry,
    /// The turns of this process.
    turns: Arc<Semaphore>,
}

impl<P: OutsidePool> Outside<P> {
    pub(crate) fn new(pool: P) -> Self {
        let settings = pool.settings();
        let turns = Arc::new(Semaphore::new(settings.in_flight_per_process));
        let retry = settings.retry.unwrap_or_else(Retry::outside);
        Self { pool: Arc::new(pool), settings, retry, turns }
    }
}

impl<P: OutsidePool> RowConsumer for Outside<P> {
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
        let (reader, queue) = (Reader::new(self.pool.name(), holding), Queue::new(false));
        let (saver, saves) = mpsc::channel(SAVES);
        let (running, ended) = (JoinSet::new(), Vec::new());
        let turns = Turns::new(&self.turns, holding);
        let mut lane = Lane { outside: self, reader, queue, turns, running, ended, saver, saves };
        lane.run(holding).await
    }
}

/// A task that was run: its result as JSON, or what it said.
struct Ended {
    task: Task,
    run: Run,
    outcome: Result<String, HandlerError>,
    traced: Option<Work>,
}

struct Lane<'a, P> {
    outside: &'a Outside<P>,
    reader: Reader,
    queue: Queue,
    turns: Turns,
    running: JoinSet<Ended>,
    ended: Vec<Ended>,
    saver: mpsc::Sender<Save>,
    saves: mpsc::Receiver<Save>,
}

impl<P: OutsidePool> Lane<'_, P> {
    async fn run(&mut self, holding: &mut Holding) -> Result<(), RunError> {
        let mut prune_at = Instant::now() + PRUNE;
        loop {
            holding.let_go(&self.queue.busy()).await?;
            if self.reader.follow(holding, &mut self.queue).await? {
                self.forget().await;
            }
            if Instant::now() >= prune_at {
                prune_at = prune(&self.reader, holding, &self.outside.settings).await;
            }
            while let Some(Ok(ended)) = self.running.try_join_next() {
                self.ended.push(ended);
            }
            let mut saves = Vec::new();
            while let Ok(save) = self.saves.try_recv() {
                saves.push(save);
            }
            if !self.ended.is_empty() || !saves.is_empty() {
                self.store(holding, saves).await?;
                holding.news().now_or_never();
                continue;
            }
            if holding.is_stopping() && self.running.is_empty() {
                return Ok(());
            }
            let waits_for_turn = self.start(holding);
            let next = tokio::select! {
                Some(ended) = self.running.join_next() => {
                    self.ended.extend(ended.ok());
                    None
                }
                Some(save) = self.saves.recv() => {
                    self.store(holding, vec![save]).await?;
                    None
                }
                () = holding.news() => None,
                () = self.reader.wake(&self.queue) => None,
                turn = self.turns.next(), if waits_for_turn => Some(turn),
            };
            if let Some(turn) = next {
                self.begin(turn, holding);
            }
        }
    }

    /// Starts what can be started. Says whether more could if there were more turns.
    fn start(&mut self, holding: &Holding) -> bool {
        loop {
            // One at a time, while it is tried.
            let room = match holding.is_trying() {
                true => usize::from(self.running.is_empty()),
                false => usize::MAX,
            };
            let more = self.queue.turns().min(room);
            self.turns.wants(more);
            if more == 0 {
                return false;
            }
            match self.turns.try_next() {
                Some(turn) => self.begin(turn, holding),
                None => return true,
            }
        }
    }

    fn begin(&mut self, turn: Turn, holding: &Holding) {
        let limit = holding.log().limits().data_bytes;
        let mut taken = match holding.is_trying() {
            true => self.queue.take_untried(),
            false => self.queue.take(1),
        };
        if let Some(task) = taken.pop() {
            self.spawn(task, turn, holding, limit);
        }
    }

    fn spawn(&mut self, task: Task, turn: Turn, holding: &Holding, limit: usize) {
        let (calls, events) = (holding.calls(), holding.events().clone());
        let pool = Arc::clone(&self.outside.pool);
        let (checkpoint, saves) = (task.checkpoint.clone(), self.saver.clone());
        let mut run = Run { task: task.id, checkpoint, saves, then: Vec::new() };
        self.running.spawn(async move {
            calls.begin(std::iter::once(task.item())).await;
            let began = Instant::now();
            let ran = async { json(&pool.run(&task, &mut run).await?) };
            let ran = calls.around(task.item(), ran);
            let traced = Work::task(task.trace, &events);
            let ran = AssertUnwindSafe(trace::run(traced.as_ref(), ran)).catch_unwind().await;
            let ran = ran.unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
            let result = ran.and_then(|json| Ok(ending::check(&run.then, limit).map(|()| json)?));
            drop(turn);
            events.emit(Happening::task_ran(began.elapsed()));
            if let (Some(traced), Err(error)) = (&traced, &result) {
                traced.failed(error);
            }
            Ended { task, run, outcome: result, traced }
        });
    }

    /// Somebody else has what it had: what runs is given up.
    async fn forget(&mut self) {
        self.running.shutdown().await;
        for work in self.ended.drain(..).filter_map(|ended| ended.traced) {
            work.failed(&ending::LOST);
        }
        // Those who wait for a checkpoint learn that it was not saved.
        while self.saves.try_recv().is_ok() {}
    }

    /// Stores the ends of tasks, and checkpoints.
    async fn store(&mut self, holding: &mut Holding, mut saves: Vec<Save>) -> Result<(), RunError> {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for Ended { mut task, run, outcome, traced } in self.ended.drain(..) {
            match outcome {
                Ok(result) => {
                    done.push(Done { then: run.then, ..Done::new(task, result, traced) });
                }
                Err(error) => {
                    // The next attempt begins where this one came to.
                    task.checkpoint = run.checkpoint;
                    failed.push((task, error));
                }
            }
        }
        let rule = holding.log().hash_rule();
        // They ran side by side: what failed among them has not failed one after the other.
        let is_streak = done.is_empty();
        let mut count = done.len();
        let tenure = holding.tenure();
        while !done.is_empty() || !saves.is_empty() {
            let mut tx = holding.begin();
            let mut statements = ending::done(&self.reader.tables, rule, &done[..count]);
            statements.extend(
                saves
                    .iter()
                    .map(|save| self.reader.tables.checkpoint(save.task, save.checkpoint.clone())),
            );
            for statement in statements {
                if tx.push(statement).await.is_err() {
                    break; // The commit says why.
                }
            }
            let of: SlotSet = done[..count].iter().map(|done| done.task.slot).collect();
            let (busy, traced) = (self.queue.busy(), ending::commit(&done[..count]));
            let commit = Box::pin(holding.commit(tx, &of, &busy));
            let outcome = trace::run(traced.as_ref(), commit).await?;
            // They are run, and may yet be stored in another commit, unless somebody else has them or it is the one.
            let over = match &outcome {
                Commit::Done | Commit::Away(_) => 0,
                Commit::Lost => done.len(),
                Commit::Refused { .. } => usize::from(count == 1),
            };
            let ends = done[..over].iter().map(|done| done.traced.as_ref());
            ending::mark_unstored(traced.as_ref(), ends, &outcome);
            trace::end([traced]);
            match outcome {
                Commit::Done => {
                    if count > 0 {
                        holding.events().emit(Happening::tasks_done(count));
                    }
                    for done in done.drain(..count) {
                        holding.is_done(done.task.key(), done.task.slot);
                        self.queue.ended(&done.task);
                    }
                    for save in saves.drain(..) {
                        let _ = save.saved.send(());
                    }
                    count = done.len();
                }
                Commit::Lost => {
                    self.lost().await;
                    return Ok(());
                }
                Commit::Away(error) => {
                    holding.wait_out(error).await?;
                    if holding.tenure() != tenure {
                        for work in done.iter().filter_map(|done| done.traced.as_ref()) {
                            work.failed(&ending::LOST);
                        }
                        return Ok(());
                    }
                    self.drop_ended(holding, &mut done, &mut saves).await?;
                    count = done.len();
                }
                Commit::Refused { error, .. } => {
                    if self.drop_ended(holding, &mut done, &mut saves).await? {
                        count = done.len();
                    } else if count > 1 {
                        // One of them cannot be stored: whichever it is, the others can.
                        count /= 2;
                    } else if count == 1 {
                        failed.push((done.remove(0).task, error));
                        count = done.len();
                    } else {
                        // Checkpoints that the database refuses: tasks that wait for them get an error.
                        let what = Happening::failed(Notice::CheckpointNotSaved, &error);
                        holding.events().emit(what);
                        saves.clear();
                        count = done.len();
                    }
                }
            }
        }
        for (task, error) in failed {
            let (pool, retry) = (&self.outside.pool, &self.outside.retry);
            let gave_up = || pool.gave_up(&task, &error.to_string());
            let (busy, reader) = (self.queue.busy(), &mut self.reader);
            match fail(reader, holding, retry, (&task, &error, &busy), is_streak, gave_up).await? {
                Failed::Again(until) => self.queue.failed(task, until),
                Failed::Held => {
                    self.queue.ended(&task);
                    self.queue.forget_key(&task.key);
                }
                Failed::Ended => self.queue.ended(&task),
                Failed::Lost => {
                    self.lost().await;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn lost(&mut self) {
        self.forget().await;
        self.queue.clear();
        self.reader.sight.forget();
    }

    /// Removes tasks that have ended meanwhile: they were cancelled. Says whether there were any.
    async fn drop_ended(
        &mut self,
        holding: &mut Holding,
        done: &mut Vec<Done>,
        saves: &mut Vec<Save>,
    ) -> Result<bool, RunError> {
        let ids = done.iter().map(|done| done.task.id).chain(saves.iter().map(|save| save.task));
        let open = match open(&self.reader, holding, ids).await {
            Ok(open) => open,
            Err(error) => {
                holding.wait_out(error).await?;
                return Ok(false);
            }
        };
        let before = done.len() + saves.len();
        done.retain(|done| {
            let is_open = open.contains(&done.task.id);
            if !is_open {
                self.queue.ended(&done.task);
                if let Some(work) = &done.traced {
                    work.failed(&"it was cancelled while it ran");
                }
            }
            is_open
        });
        saves.retain(|save| open.contains(&save.task));
        Ok(before > done.len() + saves.len())
    }
}

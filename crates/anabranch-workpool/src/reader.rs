//! How a lane finds its tasks: it asks the tables for what its [`Sight`] says.

use crate::queue::Queue;
use crate::sight::{Found, Sight};
use crate::tables::{Look, Tables, corrupt};
use crate::task::Task;
use anabranch_core::{Slot, SlotSet, StoreError};
use anabranch_runtime::{Commit, Holding, RawTx, RunError};
use anabranch_store::database::{Answer, End, Statement, Topic, column};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::watch;

pub(crate) struct Reader {
    pub(crate) tables: Tables,
    pub(crate) pool: String,
    pub(crate) sight: Sight,
    at: String,
    tenure: u64,
    signals: watch::Receiver<u64>,
}

impl Reader {
    pub(crate) fn new(pool: &str, holding: &Holding) -> Self {
        let database = holding.database();
        Self {
            tables: Tables::of(database),
            pool: pool.to_owned(),
            sight: Sight::default(),
            at: database.at().to_owned(),
            tenure: holding.tenure(),
            signals: database.signals(Topic::Tasks),
        }
    }

    /// Forgets what is not the lane's any more, and reads what it needs. Says whether the lane has lost
    /// all it had.
    pub(crate) async fn follow(
        &mut self,
        holding: &mut Holding,
        queue: &mut Queue,
    ) -> Result<bool, RunError> {
        let is_lost = self.tenure != holding.tenure();
        if is_lost {
            self.tenure = holding.tenure();
            self.sight.forget();
            queue.clear();
        }
        self.sight.keep(holding.keep(), queue);
        if self.wants_look(queue) {
            match self.look(holding, queue).await {
                Ok(()) => {
                    holding.is_back();
                    self.put_behind(holding, queue).await?;
                }
                Err(error) => {
                    self.sight.look_again();
                    holding.wait_out(error).await?;
                }
            }
        }
        queue.end_waits(Instant::now());
        let is_ready = queue.has_turn() || queue.is_busy() || !self.sight.is_whole();
        // What waits for a clock that stands still is no work of this run.
        let waits = queue.len() > 0 && !holding.database().clock().is_by_hand();
        let has_work = waits || is_ready;
        holding.stands((has_work, is_ready), queue.waiting(), self.sight.held());
        Ok(is_lost)
    }

    /// Resolves when there may be something to read, or a task's wait is over.
    pub(crate) async fn wake(&mut self, queue: &Queue) {
        if self.sight.slots().is_empty() {
            return std::future::pending().await;
        }
        if self.wants_look(queue) {
            return;
        }
        let due = self.sight.wake_at(queue).unwrap_or_else(Instant::now);
        tokio::select! {
            // Without room it is not heard, and stays a signal.
            _ = self.signals.changed(), if queue.room() > 0 => self.signals.mark_changed(),
            () = tokio::time::sleep_until(due.into()) => {}
        }
    }

    fn wants_look(&self, queue: &Queue) -> bool {
        let is_signalled = self.signals.has_changed().unwrap_or(false);
        self.sight.wants_look(queue, is_signalled, Instant::now())
    }

    async fn look(&mut self, holding: &Holding, queue: &mut Queue) -> Result<(), StoreError> {
        self.signals.mark_unchanged();
        let started = Instant::now();
        let ask = self.sight.ask(queue, started);
        let look = Look {
            pool: &self.pool,
            slots: self.sight.slots(),
            after: 0,
            up_to: ask.after,
            limit: ask.limit,
            known: &ask.known,
            apart: &ask.apart,
        };
        let mut statements: Vec<Statement> = self.tables.plan().into_iter().collect();
        let planned = statements.len();
        statements.push(self.tables.held(&self.pool));
        if !ask.apart.is_empty() {
            statements.push(self.tables.last(&self.pool, ask.after));
        }
        if ask.full {
            statements.push(self.tables.ready(&look));
        }
        let known_on: &[uuid::Uuid] = if ask.after == 0 { &ask.known } else { &[] };
        let on = Look { after: ask.after, up_to: i64::MAX, known: known_on, ..look };
        statements.push(self.tables.ready(&on));
        statements.push(self.tables.hurried(&look));
        statements.extend(self.tables.scheduled(&look));
        let refills = ask.refill.iter();
        statements.extend(refills.map(|of| self.tables.ready_of(&self.pool, &of.key, of.count)));
        let answers = holding.database().begin().run(statements, End::Commit).await;
        let answers = answers.map_err(|failed| failed.into_store_error(&self.at))?;
        let mut answers = answers.into_iter().skip(planned);
        let mut next = || answers.next().unwrap_or_default();
        let held = self.keys_of(&next())?;
        let last = if ask.apart.is_empty() { Answer::default() } else { next() };
        let last = last.rows.first().map(|row| column(&self.at, row, "seq"));
        let last = last.transpose()?.flatten();
        let full = if ask.full { self.tasks(&next())? } else { Vec::new() };
        let (on, hurried) = (self.tasks(&next())?, self.tasks(&next())?);
        let due = self.tasks(&next())?;
        let wait = next().rows.first().map(|row| column::<u64>(&self.at, row, "wait_us"));
        let clock = holding.database().clock();
        let next_due = wait.transpose()?.map(|wait| clock.wait(Duration::from_micros(wait)));
        let refills = ask.refill.iter().map(|_| self.tasks(&next())).collect::<Result<_, _>>()?;
        let took = started.elapsed();
        let found = Found { held, last, full, on, hurried, due, next_due, refills, took };
        self.sight.found(&ask, found, queue, Instant::now());
        Ok(())
    }

    /// The held keys of the lane's slots.
    fn keys_of(&self, answer: &Answer) -> Result<HashSet<String>, StoreError> {
        let mut keys = HashSet::new();
        for row in &answer.rows {
            let slot: u16 = column(&self.at, row, "slot")?;
            if Slot::new(slot).is_some_and(|slot| self.sight.slots().contains(slot)) {
                keys.insert(column(&self.at, row, "key")?);
            }
        }
        Ok(keys)
    }

    fn tasks(&self, answer: &Answer) -> Result<Vec<Task>, StoreError> {
        let task = |row| self.tables.task(row).map_err(|error| corrupt(&self.at, error));
        answer.rows.iter().map(task).collect()
    }

    /// What was read of held keys waits behind them, in the table.
    async fn put_behind(
        &mut self,
        holding: &mut Holding,
        queue: &mut Queue,
    ) -> Result<(), RunError> {
        let held = self.sight.take_held(queue);
        if held.is_empty() {
            return Ok(());
        }
        let mut tx = holding.begin();
        // A process that releases a key waits for this lock, and finds what is put behind it here.
        let lock = tx.query_statement(self.tables.lock_held(&self.pool, &held)).await;
        if let Ok(rows) = lock {
            let still: HashSet<String> =
                rows.iter().filter_map(|row| row.get("key").ok()).collect();
            if still.len() < held.len() {
                // Released since: what is forgotten here is there to be run.
                self.sight.look_again();
            }
            if !still.is_empty() {
                let still: Vec<String> = still.into_iter().collect();
                let _ = tx.push(self.tables.put_behind(&self.pool, &still)).await;
            }
        }
        match holding.commit(tx, &SlotSet::empty(), &queue.busy()).await? {
            Commit::Done | Commit::Lost => Ok(()),
            Commit::Away(error) => {
                self.sight.look_again();
                holding.wait_out(error).await
            }
            Commit::Refused { error, .. } => Err(holding.refuse(error.to_string())),
        }
    }
}

//! How a lane finds its tasks.
//!
//! Looking on from the last task that was read finds what was enqueued since. What became visible late
//! (an enqueueing transaction may commit after a later one), what was retried or released stands before
//! that: a full look finds it, whenever the lane has nothing else to do, or once a second. In a look the
//! held keys come first, so of a key that is not among them all that is open can be read.

use crate::queue::{LINE, Queue};
use crate::tables::{Look, Tables, column, corrupt};
use crate::task::Task;
use anabranch_core::{SlotSet, StoreError};
use anabranch_runtime::{Commit, Holding, RunError};
use anabranch_store::database::{Answer, End, Statement, Topic};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How many tasks are read at a time.
const PAGE: usize = 2_000;
/// How few tasks are left when more are read.
const LOW: usize = 2_000;
/// How many keys with more tasks than are kept are read on at a time.
const REFILLS: usize = 16;
/// How soon to look at everything again while there is work.
const FULL: Duration = Duration::from_secs(1);
/// How soon to look when nobody signals: timers are due within a second.
const POLL: Duration = Duration::from_secs(1);

pub(crate) struct Reader {
    pub(crate) tables: Tables,
    pub(crate) pool: String,
    at: String,
    /// Everything of the kept slots up to here has been read.
    after: i64,
    /// The slots that this holds for.
    slots: SlotSet,
    /// There is more after it.
    more: bool,
    tenure: u64,
    full_at: Option<Instant>,
    looked_at: Option<Instant>,
    signals: watch::Receiver<u64>,
    /// When the next scheduled task is due.
    next_due: Option<Instant>,
    /// Keys of which nothing is run.
    held: HashSet<String>,
}

impl Reader {
    pub(crate) fn new(pool: &str, holding: &Holding) -> Self {
        let database = holding.database();
        Self {
            tables: Tables::of(database.dialect()),
            pool: pool.to_owned(),
            at: database.at().to_owned(),
            after: 0,
            slots: SlotSet::empty(),
            more: false,
            tenure: holding.tenure(),
            full_at: None,
            looked_at: None,
            signals: database.signals(Topic::Tasks),
            next_due: None,
            held: HashSet::new(),
        }
    }

    /// Forgets what is not the lane's any more, and reads what it needs. Says whether the lane has lost
    /// all it had.
    pub(crate) async fn follow(
        &mut self,
        holding: &mut Holding,
        queue: &mut Queue,
    ) -> Result<bool, RunError> {
        let keep = holding.keep();
        let is_lost = self.tenure != holding.tenure();
        if is_lost {
            self.tenure = holding.tenure();
            queue.clear();
        }
        if keep != self.slots || is_lost {
            queue.keep(&keep);
            if !keep.is_subset(&self.slots) || is_lost {
                // Of the new ones nothing has been read.
                (self.after, self.looked_at) = (0, None);
            }
            self.slots = keep;
        }
        if !self.slots.is_empty() && self.wants_look(queue) {
            match self.look(holding, queue).await {
                Ok(()) => self.put_behind(holding, queue).await?,
                Err(error) => holding.wait_out(error).await?,
            }
        }
        queue.end_waits(Instant::now());
        holding.stands(queue.len() > 0, queue.waiting(), self.held.len());
        Ok(is_lost)
    }

    /// Resolves when there may be something to read, or a task's wait is over.
    pub(crate) async fn wake(&mut self, queue: &Queue) {
        if self.slots.is_empty() {
            return std::future::pending().await;
        }
        let poll = self.looked_at.map(|at| at + POLL);
        let due = [poll, self.next_due, queue.next_due()].into_iter().flatten().min();
        let due = due.unwrap_or_else(Instant::now);
        tokio::select! {
            // Without room for them, new tasks are no news.
            _ = self.signals.changed(), if queue.has_room() => self.signals.mark_changed(),
            () = tokio::time::sleep_until(due.into()) => {}
        }
    }

    fn wants_look(&self, queue: &Queue) -> bool {
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let polls = self.looked_at.is_none_or(|at| at + POLL <= now);
        let wants_more = self.more && queue.len() < LOW;
        let signalled = self.signals.has_changed().unwrap_or(false) && queue.has_room();
        polls || wants_more || signalled || is_due(self.next_due) || !queue.to_refill().is_empty()
    }

    async fn look(&mut self, holding: &Holding, queue: &mut Queue) -> Result<(), StoreError> {
        self.signals.mark_unchanged();
        let now = Instant::now();
        let is_full = !queue.has_turn() || self.full_at.is_none_or(|at| at + FULL <= now);
        let is_full = is_full && self.after > 0;
        let known = queue.known();
        let room = PAGE.min(crate::queue::ROOM.saturating_sub(queue.len()));
        let look = Look {
            pool: &self.pool,
            slots: &self.slots,
            after: 0,
            up_to: self.after,
            known: &known,
            limit: PAGE,
        };
        let mut statements: Vec<Statement> = self.tables.plan().into_iter().collect();
        let planned = statements.len();
        statements.push(self.tables.held(&self.pool));
        // Before the others: what those read on of such a key comes after it.
        let refill: Vec<_> = queue.to_refill().into_iter().take(REFILLS).collect();
        for (key, after) in &refill {
            statements.push(self.tables.ready_of(&self.pool, key, *after, self.after));
        }
        if is_full {
            statements.push(self.tables.ready(&look));
        }
        let known_on: &[uuid::Uuid] = if self.after == 0 { &known } else { &[] };
        let on = Look { after: self.after, up_to: i64::MAX, limit: room, known: known_on, ..look };
        statements.push(self.tables.ready(&on));
        statements.extend(self.tables.scheduled(&look));
        let answers = holding.database().begin().run(statements, End::Commit).await;
        let answers = answers.map_err(|failed| failed.into_store_error(&self.at))?;
        let mut answers = answers.into_iter().skip(planned);
        let mut next = || answers.next().unwrap_or_default();
        let now = Instant::now();
        self.looked_at = Some(now);
        let held = self.keys_of(&next())?;
        if is_full || self.after == 0 {
            self.held = held;
            self.full_at = Some(now);
        } else {
            // Released ones are so from a full look on: it finds what waited behind them.
            self.held.extend(held);
        }
        for (key, _) in &refill {
            let found = next();
            let tasks: Vec<Task> = self.tasks(&found)?;
            queue.refilled(key, tasks, found.rows.len() >= LINE, now);
        }
        let mut is_whole = true;
        if is_full {
            let found = next();
            is_whole = found.rows.len() < PAGE;
            self.add(&found, queue, now)?;
            if let Some(last) = found.rows.last().filter(|_| !is_whole) {
                // There is more before what was read already: read on from here.
                self.after = column(&self.at, last, "seq")?;
                self.more = true;
            }
        }
        let found = next();
        if is_whole {
            self.add(&found, queue, now)?;
            self.more = found.rows.len() >= room;
            if let Some(last) = found.rows.last() {
                self.after = column(&self.at, last, "seq")?;
            }
        }
        self.add(&next(), queue, now)?;
        let wait = next();
        let wait = wait.rows.first().map(|row| column::<u64>(&self.at, row, "wait_us"));
        self.next_due = wait.transpose()?.map(|wait| now + Duration::from_micros(wait));
        Ok(())
    }

    fn keys_of(&self, answer: &Answer) -> Result<HashSet<String>, StoreError> {
        answer.rows.iter().map(|row| column(&self.at, row, "key")).collect()
    }

    fn tasks(&self, answer: &Answer) -> Result<Vec<Task>, StoreError> {
        let task = |row| self.tables.task(row).map_err(|error| corrupt(&self.at, error));
        answer.rows.iter().map(task).collect()
    }

    fn add(&self, answer: &Answer, queue: &mut Queue, now: Instant) -> Result<(), StoreError> {
        for task in self.tasks(answer)? {
            if self.slots.contains(task.slot) {
                queue.add(task, now);
            }
        }
        Ok(())
    }

    /// Nothing that was read counts.
    pub(crate) fn forget(&mut self) {
        (self.after, self.looked_at, self.slots) = (0, None, SlotSet::empty());
    }

    /// Nothing of this key is run from now on.
    pub(crate) fn hold(&mut self, key: &str) {
        self.held.insert(key.to_owned());
    }

    /// What was read of held keys waits behind them, in the table.
    async fn put_behind(
        &mut self,
        holding: &mut Holding,
        queue: &mut Queue,
    ) -> Result<(), RunError> {
        let held: Vec<&str> =
            self.held.iter().map(String::as_str).filter(|key| queue.has(key)).collect();
        if held.is_empty() {
            return Ok(());
        }
        held.iter().for_each(|key| queue.forget_key(key));
        let mut tx = holding.begin();
        // Whoever releases a key waits for this lock, and finds what is put behind it here.
        let lock = tx.query_statement(self.tables.lock_held(&self.pool, &held)).await;
        if let Ok(rows) = lock {
            let still: Vec<String> = rows.iter().filter_map(|row| row.get("key").ok()).collect();
            if !still.is_empty() {
                let _ = tx.push(self.tables.put_behind(&self.pool, &still)).await;
            }
        }
        match holding.commit(tx, &SlotSet::empty(), &queue.busy()).await? {
            Commit::Done | Commit::Lost => Ok(()),
            Commit::Away(error) => holding.wait_out(error).await,
            Commit::Refused { error, .. } => Err(holding.refuse(error)),
        }
    }
}

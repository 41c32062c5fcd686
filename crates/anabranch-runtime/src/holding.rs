//! The slots that a lane holds, for a consumer that runs rows instead of events.

mod commit;
mod failing;

pub use commit::Commit;

use crate::consumer::Consumer;
use crate::feed::FeedStats;
use crate::lane::{self, LaneStats, Order, Probed, Report, Reporter, Streak};
use crate::permits::{Leased, Permits};
use crate::report::Doing;
use crate::rows::RowsCode;
use crate::run_error::RunError;
use crate::tables::Tables;
use crate::too_busy::TooBusy;
use crate::tx::{Ended, Origin, Tx};
use anabranch_core::cursor::{Move, Parts};
use anabranch_core::{Happening, Notice, Slot, SlotSet, StoreError};
use anabranch_store::database::{Statement, Topic, Who};
use anabranch_store::{Backoff, Database, Emitter, Log};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use uuid::Uuid;

/// How long a lane that is to stop waits at the most for a database that is away, each time.
const STOPPING_WAIT: Duration = Duration::from_millis(100);

/// The slots that a lane of a [`RowConsumer`](crate::RowConsumer) holds, and how it commits.
///
/// The rules: begin nothing for a slot that is not in [`keep`](Self::keep); commit everything by
/// [`commit`](Self::commit), which fails if the slots have another owner by now; wait for nothing
/// without hearing [`news`](Self::news); and forget what was begun under another
/// [`tenure`](Self::tenure).
pub struct Holding {
    pub(crate) setup: HoldingSetup,
    parts: Parts,
    paused: bool,
    /// Its rows fail, here or everywhere, and none is begun.
    halted: bool,
    /// One row is to be tried although.
    trying: bool,
    /// Only if it can be run now.
    only_if_ready: bool,
    stopping: bool,
    outage: Backoff,
    too_busy: TooBusy,
}

/// What a lane of rows is made of.
pub(crate) struct HoldingSetup {
    pub(crate) number: usize,
    pub(crate) log: Log,
    pub(crate) tables: Tables,
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    /// The slots that it should hold, of those that it does.
    pub(crate) keep: watch::Receiver<Arc<SlotSet>>,
    /// Whose transactions its are.
    pub(crate) who: Who,
    /// Says what happens in the lane.
    pub(crate) events: Emitter,
    pub(crate) reporter: Reporter,
    pub(crate) stats: Arc<LaneStats>,
    /// Of all lanes of the consumer here.
    pub(crate) streak: Arc<Streak>,
    /// What this process may have in work, if there is a limit for all of them.
    pub(crate) permits: Option<Arc<Leased>>,
    /// How heavy each slot is.
    pub(crate) counts: Arc<FeedStats>,
    /// How long a transaction may be open without a statement.
    pub(crate) idle: Duration,
    /// Whether somebody waits for its end.
    pub(crate) catches_up: bool,
    /// How soon to look for new rows when no signal comes.
    pub(crate) poll: Duration,
    /// Told whenever the lane has come further.
    pub(crate) moved: Arc<Notify>,
}

/// Runs a lane of rows.
pub(crate) async fn run(code: Arc<dyn RowsCode>, setup: HoldingSetup) {
    let (reporter, consumer) = (setup.reporter.clone(), setup.consumer.name.clone());
    let mut holding = Holding {
        setup,
        parts: Parts::default(),
        paused: false,
        halted: false,
        trying: false,
        only_if_ready: false,
        stopping: false,
        outage: Backoff::default(),
        too_busy: TooBusy::default(),
    };
    let ended = AssertUnwindSafe(code.look_after(&mut holding)).catch_unwind().await;
    let ended = ended.unwrap_or_else(|_| Err(RunError::panicked(&consumer)));
    reporter.say(ended.map_or_else(Report::Failed, |()| Report::Ended));
}

impl Holding {
    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.setup.log
    }

    /// The database, on the connections of this replica set.
    #[must_use]
    pub fn database(&self) -> &Arc<dyn Database> {
        &self.setup.tables.database
    }

    /// Says what happens in this lane.
    #[must_use]
    pub fn events(&self) -> &Emitter {
        &self.setup.events
    }

    /// The number of the lane.
    #[must_use]
    pub fn lane(&self) -> usize {
        self.setup.number
    }

    /// How soon to look for new rows when no signal comes.
    #[must_use]
    pub fn poll(&self) -> Duration {
        self.setup.poll
    }

    /// The slots that it holds.
    #[must_use]
    pub fn slots(&self) -> SlotSet {
        self.parts.slots()
    }

    /// Those of them for which something may be begun: the others are about to be released. None while the
    /// consumer is paused, or told to stop.
    #[must_use]
    pub fn keep(&self) -> SlotSet {
        match self.paused || self.stopping || (self.halted && !self.trying) {
            true => SlotSet::empty(),
            false => self.parts.slots().intersection(&self.setup.keep.borrow()),
        }
    }

    /// The permits of this lane: whatever it has in work needs one, where all processes share a
    /// [limit](crate::RowConsumer::max_parallelism).
    #[must_use]
    pub fn permits(&self) -> Permits {
        Permits::new(self.setup.permits.clone())
    }

    /// Whether it is to find out if rows can be done again: then one is begun, of a key that was not tried yet if
    /// there is one.
    #[must_use]
    pub fn is_trying(&self) -> bool {
        self.trying
    }

    /// Raised whenever everything that it held is lost: what was begun before is not to be committed.
    #[must_use]
    pub fn tenure(&self) -> u64 {
        self.parts.tenure()
    }

    /// Whether it should finish what it has begun, and return.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Resolves when something has changed: the slots that it holds or should keep, a pause, the order
    /// to stop. May be dropped and called again at any time.
    pub async fn news(&mut self) {
        tokio::select! {
            biased;
            order = self.setup.orders.recv() => self.obey(order),
            Ok(()) = self.setup.keep.changed() => {}
        }
        while let Ok(order) = self.setup.orders.try_recv() {
            self.obey(Some(order));
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Take { cursors, losses, since, .. }) => {
                if losses != self.setup.stats.losses.load(Ordering::Relaxed) {
                    return;
                }
                if self.parts.has_lost(&cursors) {
                    self.forget();
                }
                let mut numbers = self.parts.numbers();
                let mut claimed = SlotSet::empty();
                for cursor in self.parts.unknown(cursors) {
                    claimed = claimed.union(&cursor.slots);
                    numbers.push(self.parts.add(cursor));
                }
                self.parts.merge(&numbers);
                if !claimed.is_empty() {
                    let what = Happening::slots_claimed(claimed, since.elapsed());
                    self.setup.events.emit(what);
                }
                self.publish();
            }
            Some(Order::Forget) => self.forget(),
            Some(Order::Serve(who)) => {
                self.setup.events = self.setup.events.clone().by_worker(&who.worker);
                self.setup.who = who;
            }
            Some(Order::Pause(paused)) => self.paused = paused,
            Some(Order::Halt) => self.halted = true,
            Some(Order::GoOn { patience }) => {
                if std::mem::take(&mut self.halted) {
                    self.setup.streak.begin(patience);
                }
                self.trying = false;
            }
            Some(Order::Probe { is_owner, .. }) => {
                (self.trying, self.only_if_ready) = (self.halted, !is_owner);
            }
            // What is wanted of single rows is written into them.
            Some(Order::Asked { .. }) => {}
            Some(Order::Stop) | None => self.stopping = true,
        }
    }

    /// A transaction of this lane.
    #[must_use]
    pub fn begin(&self) -> Tx {
        let (tables, suffix) = (&self.setup.tables, self.setup.consumer.suffix);
        self.setup.stats.does(Doing::Handling, false);
        Tx::begin_as(&tables.database, suffix, self.setup.idle, &self.setup.who)
    }

    /// A transaction of this lane that runs these rows, in order: what [`Tx::for_event`] counts, and what the ids of
    /// events follow from that it appends.
    #[must_use]
    pub fn begin_for(&self, rows: impl Iterator<Item = Uuid>) -> Tx {
        let mut tx = self.begin();
        let name = self.setup.consumer.own_name().to_owned();
        tx.stands_for(Origin { name, items: rows.collect() });
        tx
    }

    /// Commits a transaction that writes rows of the slots `of`, if the lane still owns them. Slots that
    /// others should own are released with it, unless they are in `busy`: something of them is in work.
    pub async fn commit(
        &mut self,
        tx: Tx,
        of: &SlotSet,
        busy: &SlotSet,
    ) -> Result<Commit, RunError> {
        let tables = self.setup.tables.clone();
        let numbers = self.parts.numbers();
        if numbers.is_empty() || !of.is_subset(&self.parts.slots()) {
            // Without a row there is no fence.
            return Ok(Commit::Lost);
        }
        let keep = self.setup.keep.borrow().union(busy);
        let moves = self.parts.moves(&numbers, self.parts.reached(&numbers), Some(&keep));
        let name = &self.setup.consumer.name;
        let mut fence: Vec<Statement> =
            moves.iter().flat_map(|step| tables.move_cursor(name, step, None)).collect();
        let is_moved = |part: &usize| moves.iter().any(|step| step.part == *part);
        let held: Vec<usize> = numbers.into_iter().filter(|part| !is_moved(part)).collect();
        fence.extend(self.parts.holds(&held).map(|(id, epoch)| tables.hold(id, epoch)));
        let lets_go = moves.iter().any(Move::lets_go);
        if lets_go {
            fence.push(Statement::signal(Topic::Workers));
        }
        let (appends, stats) = (tx.has_appends(), &self.setup.stats);
        let failed = match stats.while_committing(appends, tx.commit(fence)).await {
            Ended::Committed => {
                self.too_busy.has_worked();
                self.goes_on();
                self.setup.stats.does(Doing::Idle, true);
                self.setup.stats.batches.fetch_add(1, Ordering::Relaxed);
                let before = self.parts.slots();
                self.parts.moved(&moves);
                if lets_go {
                    let released = before.difference(&self.parts.slots());
                    self.setup.events.emit(Happening::slots_released(released));
                }
                self.parts.compact();
                self.publish();
                return Ok(Commit::Done);
            }
            Ended::Fenced => {
                self.lost();
                return Ok(Commit::Lost);
            }
            Ended::Broken(failed) => {
                let error = failed.into_store_error(tables.at());
                if !error.is_worth_waiting() {
                    return Err(error.into());
                }
                Commit::Away(error)
            }
            Ended::Failed(failure) => Commit::of(self.too_busy.judge(failure)),
        };
        if let Commit::Away(error) = &failed
            && lets_go
        {
            // It may be stored, and then others own those slots: only the tables know.
            self.setup.events.emit(Happening::failed(Notice::ReleaseUnknown, error));
            self.lost();
            return Ok(Commit::Lost);
        }
        Ok(failed)
    }

    /// What the database has said to a statement of a transaction that is not committed yet, if it has
    /// refused one: that counts, whatever the code that got the error has made of it.
    pub fn refusal(&mut self, tx: &mut Tx) -> Option<Commit> {
        tx.failure().map(|failure| Commit::of(self.too_busy.judge(failure)))
    }

    /// Releases the slots that others should own, unless they are in `busy`.
    pub async fn let_go(&mut self, busy: &SlotSet) -> Result<(), RunError> {
        loop {
            let keep = self.setup.keep.borrow_and_update().union(busy);
            if self.parts.beyond(&keep).is_empty() {
                return Ok(());
            }
            let tx = self.begin();
            match self.commit(tx, &SlotSet::empty(), busy).await? {
                Commit::Done | Commit::Lost => {}
                Commit::Away(error) if self.stopping => {
                    self.setup.events.emit(Happening::failed(Notice::ReleasedByLease, &error));
                    return Ok(());
                }
                Commit::Away(error) => self.wait_out(error).await?,
                Commit::Refused { error, .. } => {
                    self.setup.events.emit(Happening::failed(Notice::CannotRelease, &error));
                    return Ok(());
                }
            }
        }
    }

    /// Waits a while for a database that is away, or fails if it never will be back.
    pub async fn wait_out(&mut self, error: StoreError) -> Result<(), RunError> {
        if !lane::is_waited_for(&error, self.setup.catches_up) {
            return Err(error.into());
        }
        let wait = self.setup.stats.waits(&self.setup.events, &mut self.outage, &error);
        if self.stopping {
            // It has something to store before it stops, and asks again and again.
            tokio::time::sleep(wait.min(STOPPING_WAIT)).await;
        }
        let _ = tokio::time::timeout(wait, async {
            while !self.stopping {
                self.news().await;
            }
        })
        .await;
        Ok(())
    }

    fn goes_on(&mut self) {
        self.setup.stats.goes_on(&self.setup.events, &mut self.outage);
    }

    /// Says that the database answers, if it was away.
    pub fn is_back(&mut self) {
        self.goes_on();
        if matches!(self.setup.stats.state().doing, Doing::Waiting { .. }) {
            self.setup.stats.does(Doing::Idle, true);
        }
    }

    /// A stop because of what a row is or does.
    #[must_use]
    pub fn refuse(&self, problem: impl Into<String>) -> RunError {
        RunError::refused(&self.setup.consumer.name, problem.into())
    }

    /// A row of this key is done; rows that are done say how heavy a slot is.
    pub fn is_done(&mut self, key: &str, slot: Slot) {
        self.setup.streak.works(std::iter::once(key));
        self.works_again();
        self.setup.stats.handled.fetch_add(1, Ordering::Relaxed);
        self.setup.counts.count(slot, 1);
    }

    /// Says how its rows stand: whether there is something to do, now or later, and whether now; how many wait to
    /// be tried again by themselves, and how many keys wait for somebody.
    pub fn stands(&mut self, (has_work, is_ready): (bool, bool), retrying: usize, parked: usize) {
        let stats = &self.setup.stats;
        let can_try = if self.only_if_ready { is_ready } else { has_work };
        if !can_try && self.trying && !self.keep().is_empty() {
            self.trying = false;
            self.setup.reporter.say(Report::Probed(Probed::Nothing));
        }
        stats.retrying.store(retrying, Ordering::Relaxed);
        stats.parked.store(parked, Ordering::Relaxed);
        // A lane that has stopped by itself sees nothing to do, and has not done it: the worker may not have heard yet
        // that it has stopped.
        let is_done = !has_work && !self.halted;
        let position = if is_done { u64::MAX } else { 0 };
        if stats.position.swap(position, Ordering::Relaxed) != position {
            self.setup.moved.notify_one();
        }
    }

    /// Says that a row fails; it is shown until something works.
    pub fn is_failing(&self, error: &str) {
        self.setup.stats.does(Doing::Failing { error: Doing::cut(error) }, false);
    }

    /// Everything is lost: somebody else may have it now.
    fn forget(&mut self) {
        self.parts.clear();
        self.publish();
    }

    /// It was fenced: nothing that it did since its last commit is stored.
    fn lost(&mut self) {
        self.forget();
        self.setup.stats.fenced(&self.setup.events);
        self.setup.reporter.say(Report::Lost);
    }

    fn publish(&self) {
        // Not before it has looked at the rows of these slots.
        self.setup.stats.position.store(0, Ordering::Relaxed);
        self.setup.stats.holds(&self.parts);
        self.setup.moved.notify_one();
    }
}

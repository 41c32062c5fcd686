//! One transaction: handler, parked events, fence.

use super::aside::Parked;
use super::{Batch, Lane};
use crate::consumer::PROJECTION;
use crate::handler::{HandlerError, HandlerResult};
use crate::report::Doing;
use crate::tables::audit::Entry;
use crate::tx::{Ended, Failure, Origin, Tx};
use anabranch_core::cursor::Move;
use anabranch_core::{ErrorCode, Event, Happening, Notice, Position, Slot, StoreError, Strategy};
use anabranch_store::database::{Reason, Statement, Topic};
use anabranch_store::trace::{self, Work};
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Why an event of a new version fails that would be written to the tables of the old one.
const OLD_TABLES: &str = "a new version is built beside the old one, and this handler writes tables \
                          without asking for their names (Tx::table): it would write those of the \
                          old version, which is in use; write to tx.table(\"NAME\")";

/// What is stored with all of the events of a transaction, and what becomes of the event behind them.
#[derive(Clone, Default)]
pub(super) struct Extra {
    pub(super) statements: Vec<Statement>,
    /// It is set aside.
    pub(super) aside: Option<(Slot, Position)>,
    /// It is left out on purpose.
    pub(super) skipped: Option<(Slot, Position)>,
}

/// How a transaction went.
pub(crate) enum Outcome {
    /// So many events are handled.
    Committed { events: usize },
    /// Somebody else owns the cursor now; nothing is stored.
    Fenced,
    /// The database is away or busy; nothing is stored, as far as anybody knows.
    Away(StoreError),
    /// A statement of our own was refused; nothing is stored.
    Broken(StoreError),
    /// An event failed; nothing is stored.
    Failed { event: Option<usize>, error: HandlerError },
}

impl Outcome {
    /// What is traced of it says why nothing of it is stored.
    fn mark_unstored(&self, traced: &[Option<Work>]) {
        let why: &dyn fmt::Display = match self {
            Self::Committed { .. } => return,
            Self::Fenced => &"another lane owns its slots by now, so nothing of it is stored",
            Self::Away(error) | Self::Broken(error) => error,
            Self::Failed { error, .. } => error,
        };
        traced.iter().flatten().for_each(|work| work.failed(why));
    }
}

impl Lane {
    /// A transaction for the handler.
    pub(super) fn begin(&self) -> Tx {
        let (database, suffix) = (&self.setup.tables.database, self.setup.consumer.suffix);
        Tx::begin_as(database, suffix, self.setup.idle, &self.setup.who)
    }

    /// Handles the first `count` events of a batch and commits, with what is `extra` and a fence that moves the
    /// cursor behind them.
    pub(super) async fn transact(&mut self, batch: &Batch, count: usize, extra: Extra) -> Outcome {
        let (tables, name) = (self.setup.tables.clone(), self.setup.consumer.name.clone());
        let events = &batch.events[..count];
        let holds = self.parts.holds(&batch.parts).map(|(id, epoch)| tables.hold(id, epoch));
        if let Err(outcome) = self.prepare(events, holds.collect()).await {
            return outcome;
        }
        let mut tx = self.begin();
        let events = match self.call_handler(events, &mut tx).await {
            Ok(handled) => &batch.events[..handled],
            Err(outcome) => {
                self.room.learn(&outcome, count);
                return outcome;
            }
        };
        let is_all = events.len() == batch.events.len();
        let up_to = match events.last() {
            Some(last) if !is_all => self.point_of(last),
            _ if is_all => batch.up_to,
            _ => self.parts.reached(&batch.parts),
        };
        // What is to be stored with all of the events is not stored with some.
        let mut extra = if events.len() == count { extra } else { Extra::default() };
        let mut fence = std::mem::take(&mut extra.statements);
        // Those behind the cursor are stored already.
        let reached = self.parts.stored(&batch.parts);
        let aside = batch.aside.iter().filter(|aside| aside.position <= up_to.position);
        let aside: Vec<_> = aside.filter(|aside| aside.position > reached).collect();
        let tried = aside.iter().filter(|aside| self.parking.may_be_done(&aside.key));
        let tried: BTreeMap<_, _> = tried.map(|aside| (aside.key.clone(), aside.slot)).collect();
        fence.extend(tried.iter().map(|(key, slot)| tables.park_again(&name, key, *slot)));
        if !aside.is_empty() {
            let aside = aside.iter().map(|aside| (aside.key.as_str(), aside.position));
            fence.push(tables.park_events(&name, aside));
        }
        let samples = self.sampler.take(&self.setup.consumer.partition, events);
        if !samples.is_empty() {
            fence.push(tables.keep_keys(&name, samples));
        }
        // What others should own is let go in this same transaction, if the batch ends with it.
        let lets_go = is_all && batch.is_last;
        let keep = lets_go.then(|| Arc::clone(&self.setup.keep.borrow()));
        let moves = self.parts.moves(&batch.parts, up_to, keep.as_deref());
        for step in &moves {
            let entry =
                step.is_recorded().then(|| self.entry(batch, (&moves, step), events, &extra));
            fence.extend(tables.move_cursor(&name, step, entry.as_ref()));
        }
        if moves.iter().any(Move::lets_go) {
            fence.push(Statement::signal(Topic::Workers));
        }
        if self.parts.slots_of(&batch.parts).is_empty() {
            // Nothing of it is this lane's: without a row there is no fence.
            self.handler.settled(false);
            Outcome::Fenced.mark_unstored(&[self.traced.take()]);
            return Outcome::Fenced;
        }
        if moves.is_empty() {
            fence.extend(self.parts.holds(&batch.parts).map(|(id, epoch)| tables.hold(id, epoch)));
        }
        let outcome = self.finish(tx, fence, events).await;
        self.room.learn(&outcome, events.len());
        if let Outcome::Away(error) = &outcome
            && moves.iter().any(Move::lets_go)
            && !is_before_anything(error)
        {
            // It may be stored, and then others own those slots: only the tables know.
            self.notice(Notice::ReleaseUnknown, error);
            return Outcome::Fenced;
        }
        if matches!(outcome, Outcome::Committed { .. }) {
            if !events.is_empty() {
                self.sampler.committed();
            }
            // What was let go while the batch was under way has events again.
            for (key, slot) in tried {
                if !self.parking.contains(&key) {
                    self.parking.put(&key, Parked::afresh(slot));
                }
            }
            self.moved(&moves);
            self.setup.stats.batches.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// What a step of an audited cursor does with events: with those of a batch, up to its position, of which the
    /// handler received `events` in this transaction.
    fn entry(
        &self,
        batch: &Batch,
        (moves, step): (&[Move], &Move),
        events: &[Event],
        extra: &Extra,
    ) -> Entry {
        // Of several cursors each has its own events. With one, what it received is recorded whatever its slot.
        let (slots, is_one) = (step.slots(), moves.len() == 1);
        let partition = &self.setup.consumer.partition;
        let is_its_own =
            |event: &&Event| is_one || slots.contains(partition.slot(event, self.rule));
        let handed = batch.delivered.iter().chain(events).filter(is_its_own);
        let mut entry = Entry::of(handed, partition.strategy() == Strategy::Custom);
        let (from, to) = (step.from.0, step.cursor.position);
        let is_here = |(slot, position): &(Slot, Position)| {
            (is_one || slots.contains(*slot)) && *position > from && *position <= to
        };
        let aside = batch.aside.iter().map(|aside| (aside.slot, aside.position));
        let aside = aside.chain(extra.aside).filter(is_here);
        entry.aside = aside.map(|(_, position)| position).collect();
        entry.aside.sort_unstable();
        entry.aside.dedup();
        entry.skipped = extra.skipped.filter(is_here).map(|(_, at)| at).into_iter().collect();
        entry
    }

    /// Lets the handler store what must be stored before it is called, while the lane holds the slots.
    pub(super) async fn prepare(
        &mut self,
        events: &[Event],
        holds: Vec<Statement>,
    ) -> Result<(), Outcome> {
        if events.is_empty() || !self.handler.prepares(events) {
            return Ok(());
        }
        if holds.is_empty() {
            return Err(Outcome::Fenced);
        }
        let mut tx = self.begin();
        let prepared = self.handler.prepare(events, &mut tx).await;
        if let Some(failure) = tx.failure() {
            return Err(self.failed(failure));
        }
        if let Err(error) = prepared {
            return Err(Outcome::Failed { event: Some(0), error });
        }
        let ended = self.setup.stats.while_committing(false, tx.commit(holds)).await;
        match ended {
            Ended::Committed => Ok(()),
            ended => {
                self.handler.settled(false);
                Err(self.not_committed(ended))
            }
        }
    }

    /// Calls the handler; says how many events it took.
    pub(super) async fn call_handler(
        &mut self,
        events: &[Event],
        tx: &mut Tx,
    ) -> Result<usize, Outcome> {
        if events.is_empty() {
            return Ok(0);
        }
        self.setup.stats.does(Doing::Handling, false);
        let name = self.setup.consumer.own_name().to_owned();
        tx.stands_for(Origin { name, items: events.iter().map(Event::id).collect() });
        let began = Instant::now();
        // It lasts until the commit, which is part of it.
        let traced = Work::handle(events, &self.setup.events);
        let batch = traced.as_ref().and_then(Work::context);
        tx.goes_on(batch, events.iter().map(Event::trace));
        let handled = AssertUnwindSafe(self.handler.handle(events, tx)).catch_unwind();
        let handled = trace::run(traced.as_ref(), handled).await;
        self.handling = began.elapsed();
        // A handler that panics has failed like any other.
        let handled = handled.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
            let said = format!("the handler panicked: {}", said.unwrap_or_default());
            Err(HandlerError::with_code(ErrorCode::HandlerPanicked, said))
        });
        let taken = self.taken(handled, events.len(), tx);
        match &taken {
            Ok(_) => self.traced = traced,
            Err(outcome) => {
                self.handler.settled(false);
                outcome.mark_unstored(&[traced]);
            }
        }
        taken
    }

    /// How many of so many events a handler took, by what it and the database said.
    fn taken(
        &mut self,
        handled: HandlerResult,
        events: usize,
        tx: &mut Tx,
    ) -> Result<usize, Outcome> {
        if let Some(failure) = tx.failure() {
            // What the database said counts, whatever the handler made of it.
            return Err(self.failed(failure));
        }
        let is_named = self.setup.consumer.kind != PROJECTION || !tx.writes_the_old_version();
        match handled {
            Ok(()) if !is_named => {
                Err(Outcome::Failed { event: tx.current(), error: HandlerError::new(OLD_TABLES) })
            }
            Ok(()) => Ok(tx.handled(events)),
            Err(error) if self.handler.tells_whose_fault() && is_of_database(&error) => {
                let (at, source) = (self.setup.tables.at().to_owned(), error.to_string().into());
                Err(Outcome::Away(StoreError::Busy { at, source }))
            }
            Err(error) => {
                let doing = Doing::Failing { error: Doing::cut(&error.to_string()) };
                self.setup.stats.does(doing, false);
                Err(Outcome::Failed { event: tx.current(), error })
            }
        }
    }

    /// Commits, and tells the handler how it went.
    pub(super) async fn finish(
        &mut self,
        tx: Tx,
        fence: Vec<Statement>,
        events: &[Event],
    ) -> Outcome {
        let (appends, stats, began) = (tx.has_appends(), &self.setup.stats, Instant::now());
        let traced = self.traced.take();
        let commit = traced.as_ref().and_then(Work::commit);
        let ended = trace::run(commit.as_ref(), tx.commit(fence));
        let ended = stats.while_committing(appends, ended).await;
        let committed = matches!(ended, Ended::Committed);
        self.handler.settled(committed);
        match ended {
            Ended::Committed => {
                trace::end([commit, traced]);
                self.too_busy.has_worked();
                let commit = began.elapsed();
                self.setup.stats.goes_on(&self.setup.events, &mut self.outage);
                self.setup.stats.does(Doing::Idle, !events.is_empty());
                self.has_handled(events, (self.handling, commit));
                for (position, error) in self.handler.after_commit(events).await {
                    let failed = Happening::delivery_failed(position, error.to_string());
                    self.setup.events.emit(failed);
                }
                Outcome::Committed { events: events.len() }
            }
            ended => {
                let outcome = self.not_committed(ended);
                outcome.mark_unstored(&[commit, traced]);
                outcome
            }
        }
    }

    fn not_committed(&mut self, ended: Ended) -> Outcome {
        match ended {
            Ended::Committed => Outcome::Committed { events: 0 },
            Ended::Fenced => Outcome::Fenced,
            Ended::Broken(failed) => {
                let error = failed.into_store_error(self.setup.tables.at());
                if error.is_worth_waiting() { Outcome::Away(error) } else { Outcome::Broken(error) }
            }
            Ended::Failed(failure) => self.failed(failure),
        }
    }

    /// Counts events that are handled for good, and says so.
    pub(super) fn has_handled(&self, events: &[Event], (handler, commit): (Duration, Duration)) {
        let Some(last) = events.last() else { return };
        self.setup.stats.handled.fetch_add(events.len() as u64, Ordering::Relaxed);
        let (count, last) = (events.len(), Some(last.position()));
        self.setup.events.emit(Happening::batch_handled(count, last, handler, commit));
    }

    pub(super) fn failed(&mut self, failure: Failure) -> Outcome {
        let failure = self.too_busy.judge(failure);
        match failure.failed.reason {
            Reason::Store(error) if error.is_worth_waiting() => Outcome::Away(error),
            reason => {
                let error = HandlerError::of(&reason);
                let said = Doing::cut(&error.to_string());
                self.setup.stats.does(Doing::Failing { error: said }, false);
                Outcome::Failed { event: failure.event, error }
            }
        }
    }
}

/// Whether a handler could not ask the database, beside its transaction: then that is waited for, and no event is to
/// blame.
fn is_of_database(error: &HandlerError) -> bool {
    error.downcast_ref::<StoreError>().is_some_and(StoreError::is_worth_waiting)
}

/// Whether an error says that nothing was sent: there was no session to send it over.
fn is_before_anything(error: &StoreError) -> bool {
    matches!(error, StoreError::TooManyConnections { .. } | StoreError::NoSession { .. })
}

//! What keeps one consumer from running here, while the others of the set go on.
//!
//! A consumer that is refused, or whose lanes or feed have met an error that waiting does not cure, is
//! *broken* here: its lanes end, others may own its slots, and it is registered anew after growing pauses,
//! so that what somebody cures goes on without a restart. The run ends only if all of them are broken.
//! A consumer whose handler fails keeps its lanes; what becomes of it is the subject of `outage`.

use super::exchange::Exchanged;
use super::running::Start;
use super::{Keeper, Outage};
use crate::consumer::Consumer;
use crate::lane::{Halt, Order, Report, Said};
use crate::run_error::RunError;
use crate::tables::Tables;
use anabranch_core::{Happening, Notice};
use anabranch_core::{SlotSet, StoreError, Weights};
use anabranch_store::Log;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinHandle;

/// What keeps a consumer from running here.
pub(super) enum Trouble {
    /// Its handler has failed here, and nobody knows yet.
    Halted(Halt),
    /// Its handler fails here, and others run it; it is tried here again at this time.
    HandedOver { halt: Halt, again: Instant },
    /// It fails wherever it runs.
    Outage(Outage),
    /// It cannot run here as it is.
    Broken(Broken),
    /// It has taken the place of the old version, and goes on under its own name in a moment.
    Moving,
    /// Something else takes its place, or it is removed.
    Exchanged(Exchanged),
}

/// A consumer that cannot run here as it is.
pub(super) struct Broken {
    error: RunError,
    since: Instant,
    /// When it is registered again.
    again: Instant,
    /// Whether its lanes have ended, and nothing is owned any more.
    is_released: bool,
    /// When its permits are given back, unless they are.
    gives_back: Option<Instant>,
    registering: Option<JoinHandle<Result<Arc<Consumer>, RunError>>>,
}

impl Trouble {
    /// In words, for those who watch.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Halted(halt) | Self::HandedOver { halt, .. } => halt.error.reason(),
            Self::Outage(outage) => outage.reason.clone(),
            Self::Broken(broken) => broken.error.to_string(),
            Self::Exchanged(exchanged) => exchanged.reason(),
            Self::Moving => "it is about to serve under its own name".to_owned(),
        }
    }
}

impl super::Running {
    /// Whether another code of it is the accepted one: it begins when its own is.
    fn waits_to_be_accepted(&self) -> bool {
        matches!(&self.trouble, Some(Trouble::Broken(broken)) if broken.error.is_waited_for())
    }

    /// Its code is the accepted one now: it need not wait for its next try.
    pub(super) fn is_accepted(&mut self) {
        if let Some(Trouble::Broken(broken)) = &mut self.trouble
            && broken.error.is_waited_for()
        {
            broken.again = Instant::now();
        }
    }
}

impl Keeper {
    /// What a lane or a feed has said.
    pub(super) async fn hear(&mut self, said: Said) -> Result<(), RunError> {
        let Said { of, life, report } = said;
        let is_it = |running: &super::Running| running.number == of && running.life == life;
        let Some(of) = self.running.iter().position(is_it) else { return Ok(()) };
        match report {
            Report::Lost => {
                self.running[of].claim = true;
                self.running[of].lost = Some(Instant::now());
            }
            // It was told to, and whoever told it looks at the tasks.
            Report::Ended => self.lane_has_ended(of).await?,
            Report::Failed(error) => self.is_broken(of, error)?,
            Report::FeedFailed(error) => self.is_broken(of, error.into())?,
            Report::Halted(halt) => self.has_halted(of, halt).await?,
            Report::Probed(probed) => self.has_probed(of, probed).await?,
        }
        Ok(())
    }

    /// A consumer cannot run here: it stops, and the others go on. An error if there are none.
    pub(super) fn is_broken(&mut self, number: usize, error: RunError) -> Result<(), RunError> {
        if let RunError::Store(StoreError::Gone { .. } | StoreError::Unsuitable { .. }) = error {
            // That concerns whoever runs here.
            return Err(error);
        }
        let (tuning, running) = (self.plan.tuning, &mut self.running[number]);
        let error = error.of(&running.consumer.name);
        if self.plan.fail_fast {
            return Err(error);
        }
        if !running.is_up() {
            // The first reason counts.
            return Ok(());
        }
        let events = self.tables.events.of(&running.consumer.name);
        events.emit(Happening::failed(Notice::Broken, &error));
        if running.begun.elapsed() > tuning.probes.1 {
            running.tries = 0;
        }
        let since = Instant::now();
        let again = since + tuning.pause_after(running.tries);
        let (is_released, registering) = (false, None);
        let gives_back = running.consumer.max_parallelism().map(|_| since);
        // Others are told in a moment, or when it joins.
        let broken = Broken { error, since, again, is_released, gives_back, registering };
        running.trouble = Some(Trouble::Broken(broken));
        running.tries = running.tries.saturating_add(1);
        running.want(&SlotSet::empty(), &Weights::even(), false);
        running.claim = false;
        running.waiting_for.clear();
        running.tell_all(|_| Order::Stop);
        let may_go_on = |run: &super::Running| {
            run.goes_on() || (run.waits_to_be_accepted() && !self.plan.catch_up)
        };
        match self.running.iter().any(may_go_on) {
            true => Ok(()),
            false => self.first_error().map_or(Ok(()), Err),
        }
    }

    /// The error of the consumer that broke first, if one has.
    pub(super) fn first_error(&mut self) -> Option<RunError> {
        let broken = self.running.iter_mut().filter_map(|running| match running.trouble.take() {
            Some(Trouble::Broken(broken)) => Some(broken),
            trouble => {
                running.trouble = trouble;
                None
            }
        });
        broken.min_by_key(|broken| broken.since).map(|broken| broken.error)
    }

    /// Does what can be done about consumers that do not run, a little at a time.
    pub(super) async fn see_to_troubles(&mut self) -> Result<(), RunError> {
        for number in 0..self.running.len() {
            // One may make room for another meanwhile.
            let Some(running) = self.running.get_mut(number) else { break };
            match &running.trouble {
                None => {
                    running.end_probation();
                    // What could not be said at the time.
                    self.say_able(number).await?;
                }
                Some(Trouble::Halted(_)) => self.write_down_halt(number).await?,
                Some(Trouble::HandedOver { again, .. }) => {
                    let is_due = *again <= Instant::now() && !self.plan.catch_up;
                    if self.say_able(number).await? && is_due {
                        self.try_here(number).await?;
                    }
                }
                Some(Trouble::Outage(_)) => {
                    if self.say_able(number).await? {
                        self.see_to_outage(number).await?;
                    }
                }
                Some(Trouble::Broken(_)) => self.see_to_broken(number).await?,
                Some(Trouble::Moving) => self.see_to_move(number).await?,
                Some(Trouble::Exchanged(_)) => self.see_to_exchange(number).await?,
            }
        }
        Ok(())
    }

    /// Waits for its lanes to end, and then for its turn to be registered anew.
    pub(super) async fn see_to_broken(&mut self, number: usize) -> Result<(), RunError> {
        if !self.say_able(number).await? {
            return Ok(());
        }
        let (worker, tables, log) = (&self.worker.id, &self.tables, &self.log);
        let running = &mut self.running[number];
        while running.lane_tasks.try_join_next().is_some() {}
        let (consumer, is_known) = (Arc::clone(&running.consumer), running.is_known);
        let Some(Trouble::Broken(broken)) = &mut running.trouble else { return Ok(()) };
        if !running.lane_tasks.is_empty() {
            // A handler is still at work.
            return Ok(());
        }
        if !broken.is_released {
            running.feed_task.shutdown().await;
            // What a lane that failed has left behind.
            match tables.release(&consumer.name, worker).await {
                Err(error) if error.is_worth_waiting() => return Ok(()),
                Err(error) => {
                    let what = Happening::failed(Notice::OwnsNothing, &error);
                    tables.events.of(&consumer.name).emit(what);
                }
                Ok(()) => {}
            }
            broken.is_released = true;
            running.stats.iter().for_each(|lane| lane.ended());
        }
        if broken.gives_back.is_some_and(|at| at <= Instant::now()) {
            match tables.give_back_permits(&consumer.name, worker).await {
                Ok(()) => broken.gives_back = None,
                Err(error) if error.is_worth_waiting() => return Ok(()),
                Err(error) => {
                    // It goes on meanwhile: if it runs again, it begins with what it left behind.
                    let what = Happening::failed(Notice::CannotGiveBackPermits, &error);
                    tables.events.of(&consumer.name).emit(what);
                    let pause = self.plan.tuning.pause_after(running.tries);
                    broken.gives_back = Some(Instant::now() + pause);
                }
            }
        }
        if self.plan.catch_up {
            // What it was to do is not done: its error is the answer.
            return Ok(());
        }
        let registered = match broken.registering.take() {
            None if broken.again > Instant::now() => return Ok(()),
            None => {
                let again = register_again(consumer, log.clone(), tables.clone(), is_known);
                broken.registering = Some(tokio::spawn(again));
                return Ok(());
            }
            Some(task) if !task.is_finished() => {
                broken.registering = Some(task);
                return Ok(());
            }
            Some(task) => task.await.unwrap_or_else(|_| Err(RunError::panicked(&consumer.name))),
        };
        match registered {
            Ok(placed) => match self.is_called(number, placed).await? {
                Some(number) => {
                    // Under the name by which it was said to be broken.
                    let events = self.tables.events.of(&consumer.name);
                    events.emit(Happening::noticed(Notice::RunsAgain, None));
                    self.starts_again(number).await
                }
                None => Ok(()),
            },
            Err(error) => {
                broken.again = Instant::now() + self.plan.tuning.pause_after(running.tries);
                running.tries = running.tries.saturating_add(1);
                let what = Happening::failed(Notice::StillBroken, &error);
                self.tables.events.of(&consumer.name).emit(what);
                if !matches!(&error, RunError::Store(error) if error.is_worth_waiting()) {
                    broken.error = error.of(&consumer.name);
                }
                Ok(())
            }
        }
    }

    /// It is as it should be again: new lanes take over.
    async fn starts_again(&mut self, number: usize) -> Result<(), RunError> {
        self.running[number].trouble = None;
        // It was not handed over: it did not run at all.
        self.running[number].lost = Some(Instant::now());
        self.start_lanes(number);
        self.say_able(number).await?;
        self.reconcile();
        Ok(())
    }

    /// Starts the lanes of a consumer that is registered.
    pub(super) fn start_lanes(&mut self, number: usize) {
        let (log, tables, plan) = (&self.log, &self.tables, &self.plan);
        let (worker, moved, reports) = (&self.worker.id, &self.moved, &self.reporter);
        let number_of = self.running[number].number;
        let start = Start { number: number_of, log, tables, plan, worker, moved, reports };
        let running = &mut self.running[number];
        running.is_known = true;
        start.lanes_of(running);
    }
}

/// Registers a consumer again. One that was there and is not any more was forgotten, unless it has taken the
/// place of an older version: it is not to begin anew by itself.
async fn register_again(
    consumer: Arc<Consumer>,
    log: Log,
    tables: Tables,
    is_known: bool,
) -> Result<Arc<Consumer>, RunError> {
    if is_known && tables.registered(Some(&consumer.name)).await?.is_empty() {
        let own = tables.registered(Some(consumer.own_name())).await?;
        if !own.iter().any(|own| own.version >= consumer.settings.version) {
            consumer.still_is(log.hash_rule(), None)?;
        }
    }
    consumer.take_place(&log, &tables).await
}

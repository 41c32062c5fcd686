//! Consumers that are replaced, added or removed while the worker runs; the others never notice.
//!
//! One that is replaced ends its lanes as at the end of a run, releases what it owns, is registered as what it is now,
//! and gets new lanes. One that is removed is left to those who still run it.

use super::Keeper;
use super::running::Running;
use super::trouble::Trouble;
use crate::consumer::Consumer;
use crate::lane::Order;
use crate::replica_set::Exchange;
use crate::run_error::RunError;
use crate::tables::runners::Runner;
use anabranch_core::{Happening, Notice};
use anabranch_core::{SlotSet, Weights};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Most are registered within this, and begin without another turn.
const MOMENT: Duration = Duration::from_millis(100);

/// What becomes of a consumer whose lanes end.
pub(super) struct Exchanged {
    /// What takes its place; nothing if it is removed.
    next: Option<Arc<Consumer>>,
    /// Whether its lanes have ended, and nothing is owned any more.
    is_released: bool,
    /// Registers what takes its place: that may take long, since it makes tables, and the worker goes on meanwhile. Given
    /// up where something else is to take the place.
    placing: JoinSet<Result<Arc<Consumer>, RunError>>,
}

impl Exchanged {
    fn new(next: Option<Arc<Consumer>>, is_released: bool) -> Self {
        Self { next, is_released, placing: JoinSet::new() }
    }

    /// In words, for those who watch.
    pub(super) fn reason(&self) -> String {
        match self.next {
            Some(_) => "it is about to run as it is now".to_owned(),
            None => "it is about to be run by others".to_owned(),
        }
    }
}

impl Keeper {
    /// Waits for the next exchange of consumers.
    pub(super) async fn next_exchange(
        handle: Option<Arc<crate::replica_set::Exchanges>>,
    ) -> Exchange {
        match handle {
            Some(handle) => handle.next().await,
            None => std::future::pending().await,
        }
    }

    /// Has other consumers from now on.
    pub(super) async fn exchange(&mut self, exchange: Exchange) -> Result<(), RunError> {
        let Exchange { consumers, keeps } = exchange;
        for running in &mut self.running {
            let (name, is_rebuild) = (running.consumer.own_name(), running.consumer.is_rebuild);
            let is_it = |consumer: &&Arc<Consumer>| {
                consumer.own_name() == name && consumer.is_rebuild == is_rebuild
            };
            let next = consumers.iter().find(is_it);
            if next.is_some() && keeps.iter().any(|kept| kept == name) {
                continue;
            }
            let next = next.cloned();
            // Under the name by which it may have been said to be broken.
            self.tables.events.of(&running.consumer.name).emit(match next {
                Some(_) => Happening::noticed(Notice::Replaced, None),
                None => Happening::noticed(Notice::Removed, None),
            });
            running.trouble = Some(Trouble::Exchanged(Exchanged::new(next, false)));
            running.want(&SlotSet::empty(), &Weights::even(), false);
            running.claim = false;
            running.waiting_for.clear();
            running.lost = Some(Instant::now());
            running.tell_all(|_| Order::Stop);
        }
        for consumer in consumers {
            let is_it = |run: &Running| {
                run.consumer.own_name() == consumer.own_name()
                    && run.consumer.is_rebuild == consumer.is_rebuild
            };
            if self.running.iter().any(is_it) {
                continue;
            }
            self.tables.events.of(&consumer.name).emit(Happening::noticed(Notice::Added, None));
            let number = self.running.iter().map(|run| run.number + 1).max().unwrap_or_default();
            let mut running = Running::of(number, &consumer, &self.plan);
            running.trouble = Some(Trouble::Exchanged(Exchanged::new(Some(consumer), true)));
            self.running.push(running);
        }
        // From the last on: one may be removed meanwhile.
        for number in (0..self.running.len()).rev() {
            self.see_to_exchange(number).await?;
        }
        Ok(())
    }

    /// Goes on with an exchange when the lanes have ended, a little at a time.
    pub(super) async fn see_to_exchange(&mut self, number: usize) -> Result<(), RunError> {
        let (tables, worker) = (&self.tables, &self.worker.id);
        let running = &mut self.running[number];
        while running.lane_tasks.try_join_next().is_some() {}
        let Some(Trouble::Exchanged(exchanged)) = &mut running.trouble else { return Ok(()) };
        if !running.lane_tasks.is_empty() {
            // A handler is still at work.
            return Ok(());
        }
        let name = running.consumer.name.clone();
        if !exchanged.is_released {
            running.feed_task.shutdown().await;
            if running.is_known {
                match tables.release(&name, worker).await {
                    Err(error) if error.is_worth_waiting() => return Ok(()),
                    Err(error) => {
                        let what = Happening::failed(Notice::OwnsNothing, &error);
                        tables.events.of(&name).emit(what);
                    }
                    Ok(()) => {}
                }
                if running.consumer.max_parallelism().is_some()
                    && let Err(error) = tables.give_back_permits(&name, worker).await
                {
                    // What it left behind is dealt out anew when its lease ends.
                    let what = Happening::failed(Notice::CannotGiveBackPermits, &error);
                    tables.events.of(&name).emit(what);
                }
            }
            exchanged.is_released = true;
            running.stats.iter().for_each(|lane| lane.ended());
        }
        match exchanged.next.clone() {
            Some(next) => self.takes_over(number, &name, next).await,
            None => self.is_removed(number, &name).await,
        }
    }

    /// What it is now is registered, and runs.
    async fn takes_over(
        &mut self,
        number: usize,
        was: &str,
        next: Arc<Consumer>,
    ) -> Result<(), RunError> {
        let running = &mut self.running[number];
        let Some(Trouble::Exchanged(Exchanged { placing, .. })) = &mut running.trouble else {
            return Ok(());
        };
        if placing.is_empty() {
            let (next, log, tables) = (Arc::clone(&next), self.log.clone(), self.tables.clone());
            placing.spawn(async move { next.take_place(&log, &tables).await });
        }
        let Ok(Some(placed)) = tokio::time::timeout(MOMENT, placing.join_next()).await else {
            // It is looked at again soon.
            return Ok(());
        };
        let placed = placed.unwrap_or_else(|_| Err(RunError::panicked(&next.name)));
        if matches!(&placed, Err(RunError::Store(error)) if error.is_worth_waiting()) {
            // Tried again in a moment.
            return Ok(());
        }
        let consumer = placed.as_ref().map_or(&next, |placed| placed);
        let (name, version) = (consumer.name.clone(), Some(consumer.settings.version));
        let runner = Runner { consumer: name, version, unable: None };
        let (set, worker) = (&self.plan.name, &self.worker.id);
        match self.tables.set_runner(set, worker, was, &runner).await {
            Ok(made) => made.into_iter().for_each(|made| self.tables.events.emit(made)),
            Err(error) if error.is_worth_waiting() => {
                self.notice_of(was, Notice::CannotSayName, &error);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        let mut fresh = Running::of(self.running[number].number, consumer, &self.plan);
        let running = &mut self.running[number];
        // Whoever watches sees one consumer that goes on counting, and lanes of a former life stay former.
        std::mem::swap(&mut fresh.stats, &mut running.stats);
        (fresh.life, fresh.paused, fresh.lost) = (running.life, running.paused, running.lost);
        *running = fresh;
        self.consumers_have_changed();
        match placed {
            Ok(_) => {
                self.start_lanes(number);
                self.follow_patiently().await
            }
            Err(error) => self.is_broken(number, error),
        }
    }

    /// It is run by others, or by nobody.
    async fn is_removed(&mut self, number: usize, name: &str) -> Result<(), RunError> {
        let (set, worker) = (&self.plan.name, &self.worker.id);
        match self.tables.remove_runner(set, worker, name).await {
            Ok(made) => made.into_iter().for_each(|made| self.tables.events.emit(made)),
            Err(error) if error.is_worth_waiting() => {
                self.notice_of(name, Notice::CannotSayName, &error);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        self.running.remove(number);
        self.consumers_have_changed();
        self.follow_patiently().await
    }

    fn consumers_have_changed(&mut self) {
        self.plan.consumers = self.running.iter().map(|run| Arc::clone(&run.consumer)).collect();
        self.tell_heartbeat();
    }

    async fn follow_patiently(&mut self) -> Result<(), RunError> {
        match self.follow().await {
            // The next heartbeat tells of the new generation.
            Err(RunError::Store(error)) if error.is_worth_waiting() => Ok(()),
            done => done,
        }
    }
}
